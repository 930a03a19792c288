//! A profiler that is loaded with the process: Initialize instead of InitializeForAttach, and everything is allowed.

use super::{Profiler, Runtime, load};
use crate::library::Library;
use corprof::{Guid, HResult};
use std::sync::Arc;

impl Runtime {
    /// Loads a profiler before the program runs. What Initialize answers if it fails: the process then runs without it.
    pub fn load_at_start(self: &Arc<Self>, library: &Arc<Library>, class: &Guid) -> HResult {
        self.begin_detach_thread();
        load(library);
        let object = match self.create(library, class) {
            Ok(object) => object,
            Err(code) => {
                library.release();
                return code;
            }
        };
        let profiler = Arc::new(Profiler::new(library.clone(), object, false, false));
        self.initialize_for_startup(&profiler).err().unwrap_or(HResult::S_OK)
    }
}
