//! How Info writes an answer where the profiler wants one.

use corprof::HResult;

/// Writes an answer where the profiler wants one.
///
/// # Safety
/// Null, or a place for it.
pub(super) unsafe fn answer<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Answers a list by the convention of the API: how many there are, and as many as fit.
///
/// # Safety
/// `count` is null or a place; `places` is null or has room for `room`.
pub(super) unsafe fn answer_list<T: Copy>(values: &[T], room: u32, count: *mut u32, places: *mut T) -> HResult {
    // SAFETY: the caller's promise.
    unsafe { answer(count, values.len() as u32) };
    if !places.is_null() {
        for (index, value) in values.iter().take(room as usize).enumerate() {
            // SAFETY: inside the room that the profiler has given.
            unsafe { places.add(index).write(*value) };
        }
    }
    HResult::S_OK
}

/// Answers a text by the convention of the API: its length with the final zero, and as much as fits.
///
/// # Safety
/// As for [`answer_list`].
pub(super) unsafe fn answer_text(text: &str, room: u32, count: *mut u32, places: *mut u16) -> HResult {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    // SAFETY: the caller's promise.
    unsafe { answer_list(&units, room, count, places) }
}
