//! The real [`Host`]: this process, its threads, the dynamic linker.

use crate::linux::Linux;
use crate::pair;
use crate::threads::LibraryReference;
use remora_session::{Alone, Entrances, Host, Roles};
use remora_wire::Config;
use std::sync::Arc;

/// See the module's text.
pub struct Process;

impl Host for Process {
    type Platform = Linux;
    type LibraryReference = LibraryReference;

    fn open(&self, config: Config, entrances: Arc<Entrances>) -> Result<Linux, String> {
        // The standard hook prints on the target's standard error. This library's copy of the hook is its own.
        std::panic::set_hook(Box::new(|_| {}));
        Linux::new(config, entrances)
    }

    fn reference_library(&self) -> Result<LibraryReference, String> {
        LibraryReference::take()
    }

    fn give_back_at_thread_end(reference: LibraryReference) -> bool {
        reference.give_back_at_thread_end()
    }

    fn start_pair<R: Roles>(&self, roles: Arc<R>) -> Result<(), Option<Alone>> {
        pair::start(roles).map_err(|alone| alone.map(|thread| Box::new(move || thread.join()) as Alone))
    }
}
