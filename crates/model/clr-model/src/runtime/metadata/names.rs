//! How names of metadata are given where there is too little room. Their length is told with the zero at the end.

use crate::runtime::answers::{answer, answer_text, wanted};
use corprof::HResult;

/// CLDB_S_TRUNCATION, a success (source: corerror.h).
const CUT: HResult = HResult(0x0013_1106);

/// A name as it is kept. Older runtimes end what has no room with a zero and write nothing before it; the code is the same.
///
/// # Safety
/// `count` is null or a place; `places` is null or has room for `room`.
pub(super) unsafe fn answer_name(
    text: &str,
    (places, room): (*mut u16, u32),
    count: *mut u32,
    is_written_as_it_fits: bool,
) -> HResult {
    let length = text.encode_utf16().count() + 1;
    let is_cut = room > 0 && (room as usize) < length && (wanted(places) || wanted(count));
    if is_cut && !is_written_as_it_fits && wanted(places) {
        // SAFETY: the caller guarantees the room: this is its last unit.
        unsafe { places.add(room as usize - 1).write(0) };
        // SAFETY: the caller guarantees that `count` is null or a place.
        unsafe { answer(count, length as u32) };
    } else {
        // SAFETY: the caller guarantees `count` and for the room.
        let _ = unsafe { answer_text(text, room, count, places) };
    }
    if is_cut { CUT } else { HResult::S_OK }
}

/// The name of a type, which is put together of its namespace and its own: what is nowhere is not cut.
///
/// # Safety
/// As for [`answer_name`].
pub(super) unsafe fn answer_type_name(text: &str, (places, room): (*mut u16, u32), count: *mut u32) -> HResult {
    let length = text.encode_utf16().count() + 1;
    // SAFETY: the caller guarantees `count` and for the room.
    let _ = unsafe { answer_text(text, room, count, places) };
    if wanted(places) && (room as usize) < length { CUT } else { HResult::S_OK }
}
