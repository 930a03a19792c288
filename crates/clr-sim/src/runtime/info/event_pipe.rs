//! Sessions, providers and events of EventPipe, from inside.

use super::{INSUFFICIENT_BUFFER, Server, answer_text, code, has_place, stale, tell, text};
use crate::runtime::event_pipe::Defined;
use corprof::{HResult, sys};

/// EP_PARAMETER_TYPE_OBJECT: what an event of a profiler must not have in it (source: ep-types.h; proftoeeinterfaceimpl.cpp,
/// EventPipeDefineEvent).
const OBJECT: u32 = 1;

impl Server {
    pub(super) unsafe fn event_pipe_start_session(
        &self,
        cProviderConfigs: sys::UINT32,
        pProviderConfigs: *const sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
        _requestRundown: sys::BOOL,
        pSession: *mut sys::EVENTPIPE_SESSION,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        if cProviderConfigs == 0 || pProviderConfigs.is_null() || pSession.is_null() {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: the profiler's list, as long as it says.
        let configs = unsafe { std::slice::from_raw_parts(pProviderConfigs, cProviderConfigs as usize) };
        // SAFETY: texts that end.
        let names = configs.iter().map(|config| unsafe { text(config.providerName) }).collect();
        code(runtime.start_session(&profiler, names).map(|session| {
            tell! { pSession => session }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn event_pipe_add_provider_to_session(
        &self,
        session: sys::EVENTPIPE_SESSION,
        providerConfig: sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if providerConfig.providerName.is_null() {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: a text that ends.
        runtime.listen_to(session, unsafe { text(providerConfig.providerName) })
    }

    pub(super) unsafe fn event_pipe_stop_session(&self, session: sys::EVENTPIPE_SESSION) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.stop_session(session)
    }

    pub(super) unsafe fn event_pipe_create_provider(
        &self,
        providerName: *const sys::WCHAR,
        pProvider: *mut sys::EVENTPIPE_PROVIDER,
    ) -> HResult {
        // SAFETY: passed on.
        unsafe { self.event_pipe_create_provider2(providerName, None, pProvider) }
    }

    pub(super) unsafe fn event_pipe_create_provider2(
        &self,
        providerName: *const sys::WCHAR,
        pCallback: Option<sys::EventPipeProviderCallback>,
        pProvider: *mut sys::EVENTPIPE_PROVIDER,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        if providerName.is_null() || pProvider.is_null() {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: a text that ends.
        let name = unsafe { text(providerName) };
        tell! { pProvider => runtime.create_provider(&profiler, name, pCallback) }
        HResult::S_OK
    }

    /// No room is too little room (live: questions.rs).
    pub(super) unsafe fn event_pipe_get_provider_info(
        &self,
        provider: sys::EVENTPIPE_PROVIDER,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        providerName: *mut sys::WCHAR,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if provider == 0 || !has_place(cchName, providerName) {
            return HResult::E_INVALIDARG;
        }
        let Some(name) = runtime.provider_name(provider) else { return stale(&runtime, "EventPipeGetProviderInfo") };
        if (cchName as usize) <= name.encode_utf16().count() {
            tell! { pcchName => name.encode_utf16().count() as u32 + 1 }
            return INSUFFICIENT_BUFFER;
        }
        // SAFETY: the profiler's room.
        unsafe { answer_text(&name, cchName, pcchName, providerName) }
    }

    pub(super) unsafe fn event_pipe_define_event(
        &self,
        provider: sys::EVENTPIPE_PROVIDER,
        eventName: *const sys::WCHAR,
        eventID: sys::UINT32,
        _keywords: sys::UINT64,
        eventVersion: sys::UINT32,
        _level: sys::UINT32,
        _opcode: sys::UINT8,
        _needStack: sys::BOOL,
        cParamDescs: sys::UINT32,
        pParamDescs: *const sys::COR_PRF_EVENTPIPE_PARAM_DESC,
        pEvent: *mut sys::EVENTPIPE_EVENT,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let has_parameters = cParamDescs == 0 || !pParamDescs.is_null();
        if provider == 0 || eventName.is_null() || pEvent.is_null() || !has_parameters {
            return HResult::E_INVALIDARG;
        }
        let parameters = match cParamDescs {
            0 => &[][..],
            // SAFETY: the profiler's list, as long as it says.
            count => unsafe { std::slice::from_raw_parts(pParamDescs, count as usize) },
        };
        if parameters.iter().any(|parameter| parameter.r#type == OBJECT) {
            return HResult::E_INVALIDARG;
        }
        let defined = Defined { provider, id: eventID, version: eventVersion };
        let Some(event) = runtime.define_event(defined) else { return stale(&runtime, "EventPipeDefineEvent") };
        tell! { pEvent => event }
        HResult::S_OK
    }

    pub(super) unsafe fn event_pipe_write_event(
        &self,
        event: sys::EVENTPIPE_EVENT,
        cData: sys::UINT32,
        data: *const sys::COR_PRF_EVENT_DATA,
        _pActivityId: sys::LPCGUID,
        _pRelatedActivityId: sys::LPCGUID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if event == 0 {
            return HResult::E_INVALIDARG;
        }
        let Some(defined) = runtime.defined_event(event) else { return stale(&runtime, "EventPipeWriteEvent") };
        let mut bytes = Vec::new();
        if !data.is_null() {
            // SAFETY: the profiler's list, as long as it says.
            for part in unsafe { std::slice::from_raw_parts(data, cData as usize) } {
                // SAFETY: the profiler's bytes, as many as it says.
                bytes.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(part.ptr as *const u8, part.size as usize)
                });
            }
        }
        runtime.deliver_to_listeners(&defined, &bytes);
        HResult::S_OK
    }
}
