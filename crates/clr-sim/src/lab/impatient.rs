//! What the runtime of the laboratory sees around it: nothing, but a setting, so that a detach which is held up is looked at again soon.

use crate::library::Library;
use crate::runtime::{Nowhere, Surroundings};
use corprof::{Guid, HResult};
use std::sync::Arc;

/// See the module's text.
pub struct Impatient;

impl Surroundings for Impatient {
    /// Nobody in the laboratory waits ten minutes until .NET Core 3.1 looks again: it is set to what later versions come with.
    fn variable(&self, name: &str) -> Option<String> {
        (name == "COMPlus_ProfAPI_DetachMaxSleepMs").then(|| "1388".to_owned())
    }

    fn open(&self, path: &str) -> Result<Arc<Library>, HResult> {
        Nowhere.open(path)
    }

    fn registered(&self, class: &Guid) -> Option<String> {
        Nowhere.registered(class)
    }

    fn is_halted(&self) -> bool {
        Nowhere.is_halted()
    }

    fn claim_for_an_old_profiler(&self) -> bool {
        Nowhere.claim_for_an_old_profiler()
    }

    fn give_the_claim_back(&self) {
        Nowhere.give_the_claim_back();
    }
}
