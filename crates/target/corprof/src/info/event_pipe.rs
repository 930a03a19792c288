//! The profiler's own EventPipe sessions.
//!
//! Events arrive in `event_pipe_event_delivered`, on the thread that writes them.
//! The runtime does not stop a session at a detach. Stop it before, or an event may call into an unmapped library.

use super::{Alive, Info, Loading};
use crate::buffer::{text, units_of};
use crate::ids::{ProviderId, SessionId};
use crate::{HResult, sys};

/// The requested events of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderConfig {
    /// The provider's name.
    pub name: String,
    /// Groups of events: one bit each, defined by the provider.
    pub keywords: u64,
    /// The level of detail: 0 (all) to 5 (verbose).
    pub level: u32,
    /// The provider's filter argument, in its own format; empty for none.
    pub filter: String,
}

/// A [`ProviderConfig`] with UTF-16 texts, for the raw form to point to.
struct Wide {
    name: Vec<u16>,
    filter: Vec<u16>,
    keywords: u64,
    level: u32,
}

impl Wide {
    fn of(config: &ProviderConfig) -> Wide {
        Wide {
            name: units_of(&config.name),
            filter: units_of(&config.filter),
            keywords: config.keywords,
            level: config.level,
        }
    }

    fn raw(&self) -> sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
        let filter = if self.filter.len() > 1 { self.filter.as_ptr() } else { core::ptr::null() };
        sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
            providerName: self.name.as_ptr(),
            keywords: self.keywords,
            loggingLevel: self.level,
            filterData: filter,
        }
    }
}

impl<L: Loading> Info<L, Alive> {
    /// Starts a session. Needs .NET 5. In the SDK use the safe [`Session::start_event_pipe`](crate::sdk::Session::start_event_pipe).
    ///
    /// # Safety
    /// Stop the session before the detach request, and before the library is unloaded in any other way (contract DET-04).
    pub unsafe fn event_pipe_start_session(&self, providers: &[ProviderConfig]) -> Result<SessionId, HResult> {
        let raw = self.at(12)?;
        let wide: Vec<Wide> = providers.iter().map(Wide::of).collect();
        let configs: Vec<_> = wide.iter().map(Wide::raw).collect();
        let mut session = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the configurations and their texts outlive the call.
        let answer = unsafe {
            sys::ICorProfilerInfo12::EventPipeStartSession(raw, configs.len() as u32, configs.as_ptr(), 0, &mut session)
        };
        HResult(answer).ok()?;
        Ok(SessionId(session))
    }

    /// Adds a provider to a session.
    pub fn event_pipe_add_provider_to_session(
        &self,
        session: SessionId,
        provider: &ProviderConfig,
    ) -> Result<(), HResult> {
        let raw = self.at(12)?;
        let wide = Wide::of(provider);
        // SAFETY: this `Info` is `Alive`, so its object is valid; the texts outlive the call.
        HResult(unsafe { sys::ICorProfilerInfo12::EventPipeAddProviderToSession(raw, session.0, wide.raw()) }).ok()
    }

    /// Stops a session and waits for events under way. Not from inside `event_pipe_event_delivered`: it would wait for itself.
    pub fn event_pipe_stop_session(&self, session: SessionId) -> Result<(), HResult> {
        let raw = self.at(12)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo12::EventPipeStopSession(raw, session.0) }).ok()
    }

    /// The name of a provider.
    pub fn event_pipe_get_provider_info(&self, provider: ProviderId) -> Result<String, HResult> {
        let raw = self.at(12)?;
        text(|capacity, needed, buffer| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the buffer has room for `capacity`.
            unsafe { sys::ICorProfilerInfo12::EventPipeGetProviderInfo(raw, provider.0, capacity, needed, buffer) }
        })
    }
}
