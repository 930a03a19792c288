//! Sessions and providers of EventPipe, from inside.

use super::{Server, answer, code};
use corprof::{HResult, sys};

impl Server {
    pub(super) unsafe fn event_pipe_start_session(
        &self,
        _cProviderConfigs: sys::UINT32,
        _pProviderConfigs: *const sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
        _requestRundown: sys::BOOL,
        pSession: *mut sys::EVENTPIPE_SESSION,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.start_session(&profiler).map(|session| {
            // SAFETY: as above.
            unsafe { answer(pSession, session) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn event_pipe_stop_session(&self, session: sys::EVENTPIPE_SESSION) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.stop_session(session)
    }

    pub(super) unsafe fn event_pipe_create_provider(
        &self,
        _providerName: *const sys::WCHAR,
        pProvider: *mut sys::EVENTPIPE_PROVIDER,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: as above.
        unsafe { answer(pProvider, runtime.create_provider(&profiler)) };
        HResult::S_OK
    }
}
