//! The threads of the SDK. Each has its own reference on the library, and releases it after the last of the library's code.

use crate::detach::{LibraryReference, OwnThread, is_part_of_the_program};

/// Starts a thread with this name.
///
/// # Errors
/// No reference on the library, or no thread; as text.
pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<OwnThread, String> {
    let reference = match is_part_of_the_program() {
        true => None,
        false => Some(LibraryReference::take().ok_or("the library cannot take a reference on itself")?),
    };
    let main = move || {
        // Before anything else: a thread's destructors run last to first, so the library's reference goes last.
        if let Some(reference) = reference {
            reference.give_back_at_thread_end();
        }
        work();
    };
    OwnThread::start(name, Box::new(main)).map_err(|error| format!("the system makes no thread: error {error}"))
}
