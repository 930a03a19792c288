//! The last code of the library that ever runs: the linker calls it while it frees the library.

use crate::shared::Shared;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The name of this seat.
pub const PLACE: &str = "Unloading";

/// The code that blocks the unload.
type Block = fn(&Arc<Shared>);

/// The socket of the test that wants to block the unload.
static TEST: Mutex<Option<(PathBuf, Block)>> = Mutex::new(None);

/// The linker calls this before it unmaps the library.
#[used]
#[unsafe(link_section = ".fini_array")]
static LAST: extern "C" fn() = unload;

/// Makes the unload of the library run `block`, in a state that has the test's socket alone.
pub fn hold(shared: &Shared, block: Block) {
    if let Ok(mut test) = TEST.lock() {
        *test = shared.socket.get().map(|socket| (socket.clone(), block));
    }
}

/// Blocks the linker, if requested, and with it the thread that frees the library.
extern "C" fn unload() {
    let Some((path, block)) = TEST.lock().ok().and_then(|mut test| test.take()) else { return };
    let shared = Shared::default();
    // The first and only value, so this succeeds.
    let _ = shared.socket.set(path);
    block(&Arc::new(shared));
}
