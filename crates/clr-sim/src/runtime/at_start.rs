//! A profiler that is loaded with the process: Initialize instead of InitializeForAttach, and everything is allowed.

use super::{Profiler, Runtime, Status, load};
use crate::library::Library;
use crate::schedule;
use corprof::{Guid, HResult};
use remora_clr_sim_abi::InfoObject;
use std::sync::Arc;

impl Runtime {
    /// Loads a profiler before the program runs. What Initialize answers if it fails: the process then runs without it.
    pub fn load_at_start(self: &Arc<Self>, library: &Arc<Library>, class: &Guid) -> HResult {
        load(library);
        let object = match self.create(library, class) {
            Ok(object) => object,
            Err(code) => {
                library.release();
                return code;
            }
        };
        let profiler = Arc::new(Profiler::new(library.clone(), object, false, false));
        let info = InfoObject::create(super::info::Server::new(self, &profiler));
        let unknown = info.as_unknown();
        // The first and only value.
        let _ = profiler.info.set(info);
        {
            let mut state = self.lock();
            state.profilers.push(profiler.clone());
            state.remembered.push(profiler.clone());
        }
        // SAFETY: Info outlives the profiler.
        let answer = self.call_uncounted(&profiler, "Initialize", |object| unsafe { object.initialize(unknown) });
        let code = answer.flatten().unwrap_or(HResult::E_FAIL);
        if !code.is_success() {
            self.lock().profilers.retain(|one| !Arc::ptr_eq(one, &profiler));
            self.discard(&profiler);
            return code;
        }
        self.has_started_with(&profiler);
        profiler.become_(Status::Active);
        schedule::note("A profiler is loaded with the process", 0);
        code
    }
}
