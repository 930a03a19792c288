//! The last code of the library that ever runs: the linker calls it while it frees the library.

use crate::profiler::Shared;
use crate::seat::Seat;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The name of this seat.
pub const PLACE: &str = "Unloading";

/// The socket of the test that wants to block the unload.
static TEST: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The linker calls this before it unmaps the library.
#[used]
#[unsafe(link_section = ".fini_array")]
static LAST: extern "C" fn() = unload;

/// Makes the unload of the library block.
pub fn hold(shared: &Shared) {
    if let Ok(mut test) = TEST.lock() {
        *test = shared.socket.get().cloned();
    }
}

/// Takes a seat, if requested: the linker blocks, and with it the thread that frees the library.
extern "C" fn unload() {
    let Some(path) = TEST.lock().ok().and_then(|mut test| test.take()) else { return };
    let shared = Shared::default();
    // The first and only value, so this succeeds.
    let _ = shared.socket.set(path);
    Seat::take(&Arc::new(shared), PLACE, &[]).prompt();
}
