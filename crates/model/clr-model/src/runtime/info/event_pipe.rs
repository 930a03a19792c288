//! The profiler's EventPipe calls: sessions, providers and events.

use super::{
    Answer, INSUFFICIENT_BUFFER, Server, answer_text, answered, args, bytes, has_place, invalid_if, list, stale, text,
    write_answers,
};
use crate::mutation;
use crate::runtime::event_pipe::Defined;
use crate::schedule;
use corprof::HResult;

/// EP_PARAMETER_TYPE_OBJECT: not allowed in a profiler's events (source: ep-types.h; proftoeeinterfaceimpl.cpp, EventPipeDefineEvent).
const OBJECT: u32 = 1;

impl Server {
    /// In ExceptionThrown the process aborts (live: .NET 8 and 10; 9 assumed).
    pub(super) unsafe fn event_pipe_start_session(&self, args: args::EventPipeStartSession) -> Answer {
        let (runtime, profiler) = self.both()?;
        invalid_if(args.cProviderConfigs == 0 || args.pProviderConfigs.is_null() || args.pSession.is_null())?;
        let is_in_exception = profiler.innermost_on(schedule::current()) == Some("ExceptionThrown");
        if is_in_exception && runtime.differences().session_adopts_thread && !mutation::is("MOD-01/2") {
            let what = "EventPipeStartSession was called in ExceptionThrown: the runtime would abort the process; call it on a thread of the profiler's own";
            runtime.faults.report("MOD-01", what);
            return Err(HResult::E_FAIL);
        }
        // SAFETY: the API requires a list of the stated length.
        let configs = unsafe { list(args.pProviderConfigs, args.cProviderConfigs) };
        // SAFETY: the API requires a name that is null or ends with a zero.
        let names = configs.iter().map(|config| unsafe { text(config.providerName) }).collect();
        answered! { args.pSession => runtime.start_session(&profiler, names)? }
    }

    pub(super) unsafe fn event_pipe_add_provider_to_session(
        &self,
        args: args::EventPipeAddProviderToSession,
    ) -> Answer {
        invalid_if(args.providerConfig.providerName.is_null())?;
        // SAFETY: the API requires a name that ends with a zero.
        let name = unsafe { text(args.providerConfig.providerName) };
        Ok(self.runtime()?.listen_to(args.session, name))
    }

    pub(super) unsafe fn event_pipe_stop_session(&self, args: args::EventPipeStopSession) -> Answer {
        Ok(self.runtime()?.stop_session(args.session))
    }

    pub(super) unsafe fn event_pipe_create_provider(&self, args: args::EventPipeCreateProvider) -> Answer {
        let args::EventPipeCreateProvider { providerName, pProvider } = args;
        let args = args::EventPipeCreateProvider2 { providerName, pCallback: None, pProvider };
        // SAFETY: the profiler's own arguments; the API has the same rules for both methods.
        unsafe { self.event_pipe_create_provider2(args) }
    }

    pub(super) unsafe fn event_pipe_create_provider2(&self, args: args::EventPipeCreateProvider2) -> Answer {
        let (runtime, profiler) = self.both()?;
        invalid_if(args.providerName.is_null() || args.pProvider.is_null())?;
        // SAFETY: the API requires a name that ends with a zero.
        let name = unsafe { text(args.providerName) };
        answered! { args.pProvider => runtime.create_provider(&profiler, name, args.pCallback) }
    }

    /// A call without room is answered like one with too little (live: info_calls.rs).
    pub(super) unsafe fn event_pipe_get_provider_info(&self, args: args::EventPipeGetProviderInfo) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.provider == 0 || !has_place(args.cchName, args.providerName))?;
        let name = runtime
            .provider_name(args.provider)
            .ok_or_else(|| stale(&runtime, "EventPipe provider", "EventPipeGetProviderInfo"))?;
        if (args.cchName as usize) <= name.encode_utf16().count() {
            write_answers! { args.pcchName => name.encode_utf16().count() as u32 + 1 }
            return Err(INSUFFICIENT_BUFFER);
        }
        // SAFETY: the API requires a buffer that is null or has the stated room.
        unsafe { answer_text(&name, args.cchName, args.pcchName, args.providerName) }
    }

    pub(super) unsafe fn event_pipe_define_event(&self, args: args::EventPipeDefineEvent) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.cParamDescs != 0 && args.pParamDescs.is_null())?;
        invalid_if(args.provider == 0 || args.eventName.is_null() || args.pEvent.is_null())?;
        // SAFETY: the API requires a list of the stated length.
        let parameters = unsafe { list(args.pParamDescs, args.cParamDescs) };
        invalid_if(parameters.iter().any(|parameter| parameter.r#type == OBJECT))?;
        let defined = Defined { provider: args.provider, id: args.eventID, version: args.eventVersion };
        let event = runtime
            .define_event(defined)
            .ok_or_else(|| stale(&runtime, "EventPipe provider", "EventPipeDefineEvent"))?;
        answered! { args.pEvent => event }
    }

    pub(super) unsafe fn event_pipe_write_event(&self, args: args::EventPipeWriteEvent) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.event == 0)?;
        let defined = runtime
            .defined_event(args.event)
            .ok_or_else(|| stale(&runtime, "EventPipe event", "EventPipeWriteEvent"))?;
        // SAFETY: the API requires a list that is null or has the stated length.
        let parts = unsafe { list(args.data, args.cData) };
        // SAFETY: the API requires parts that are null or have the stated length.
        let parts = parts.iter().map(|part| unsafe { bytes(part.ptr as *const u8, part.size) });
        runtime.deliver_to_listeners(&defined, &parts.collect::<Vec<_>>().concat());
        Ok(HResult::S_OK)
    }
}
