//! A profiler loaded at startup: Initialize instead of InitializeForAttach, and no restrictions.

use super::{Profiler, Runtime, load};
use crate::library::Library;
use corprof::{Guid, HResult};
use std::sync::Arc;

impl Runtime {
    /// Loads a profiler before the program runs. Returns Initialize's answer. If it fails, the process runs without the profiler.
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
