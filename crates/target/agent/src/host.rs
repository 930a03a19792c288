//! The real [`Host`]: this process, its threads, the dynamic linker.

use crate::linux::Linux;
use crate::thread_pair;
use corprof::detach::LibraryReference;
use remora_session::{Host, ResourceRegistry, ThreadRoles, UnpairedThread};
use remora_wire::{AgentError, Config, StartupOrder};
use std::sync::Arc;

/// See the module documentation.
pub struct Process;

impl Host for Process {
    type Platform = Linux;
    type LibraryReference = LibraryReference;

    fn open(&self, config: Config, resources: Arc<ResourceRegistry>) -> Result<Linux, AgentError> {
        // The standard hook would print to the target's standard error. This library has its own copy of the hook.
        std::panic::set_hook(Box::new(|_| {}));
        Linux::new(config, resources)
    }

    fn startup_order(&self) -> Option<StartupOrder> {
        remora_connection::take_order()
    }

    fn reference_library(&self) -> Result<LibraryReference, AgentError> {
        LibraryReference::take().ok_or(AgentError::system(libc::ENOENT))
    }

    fn give_back_at_thread_end(reference: LibraryReference) {
        reference.give_back_at_thread_end();
    }

    fn start_pair<R: ThreadRoles>(&self, roles: Arc<R>) -> Result<(), Option<UnpairedThread>> {
        thread_pair::start(roles).map_err(|alone| alone.map(|thread| Box::new(move || thread.join()) as UnpairedThread))
    }
}
