//! The modules that stay loaded, for callbacks on many threads: without locks.

use corprof::ModuleId;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Modules that are kept.
const MOST: usize = 4096;

/// Zero where none is yet.
static FIXED: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A module was loaded that cannot unload.
pub(crate) fn add(module: ModuleId) {
    let index = COUNT.fetch_add(1, Ordering::Relaxed);
    if let Some(place) = FIXED.get(index) {
        place.store(module.0, Ordering::Release);
    }
}

/// Those that were added until now, the core library first.
pub(crate) fn fixed() -> Vec<ModuleId> {
    let known = FIXED.iter().take(COUNT.load(Ordering::Relaxed)).map(|place| place.load(Ordering::Acquire));
    known.filter(|module| *module != 0).map(ModuleId).collect()
}
