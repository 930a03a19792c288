//! The last code of the library that ever runs: what the linker calls while it frees it.

use crate::profiler::Shared;
use crate::seat::Seat;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The place that the test is told.
pub const PLACE: &str = "Unloading";

/// The socket of the test that wants to see the library freed.
static TEST: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The linker calls what stands here before it unmaps the library.
#[used]
#[unsafe(link_section = ".fini_array")]
static LAST: extern "C" fn() = unload;

/// The library is to be held when it is freed.
pub fn hold(shared: &Shared) {
    if let Ok(mut test) = TEST.lock() {
        *test = shared.socket.get().cloned();
    }
}

/// Takes a seat, if it was asked for: the linker waits, and with it whoever frees the library.
extern "C" fn unload() {
    let Some(path) = TEST.lock().ok().and_then(|mut test| test.take()) else { return };
    let shared = Shared::default();
    // The first and only value.
    let _ = shared.socket.set(path);
    Seat::take(&Arc::new(shared), PLACE, &[]).prompt();
}
