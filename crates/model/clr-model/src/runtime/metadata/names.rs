//! Metadata names with too little room. Their length includes the final zero.

use crate::runtime::answers::{answer, answer_text, wanted};
use corprof::HResult;

/// CLDB_S_TRUNCATION, a success (source: corerror.h).
const CUT: HResult = HResult(0x0013_1106);

/// A stored name. Older runtimes write only a zero at the end of insufficient room; the code is the same.
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
    // Room without a place is never enough.
    let is_cut = room > 0 && if wanted(places) { (room as usize) < length } else { wanted(count) };
    if is_cut && !is_written_as_it_fits && wanted(places) {
        // SAFETY: the caller guarantees the room: this is its last unit.
        unsafe { places.add(room as usize - 1).write_unaligned(0) };
        // SAFETY: the caller guarantees that `count` is null or a place.
        unsafe { answer(count, length as u32) };
    } else {
        // SAFETY: the caller guarantees `count` and the room.
        let _ = unsafe { answer_text(text, room, count, places) };
    }
    if is_cut { CUT } else { HResult::S_OK }
}

/// The name of a type, joined from its namespace and its own name. Without a buffer it is not truncated.
///
/// # Safety
/// As for [`answer_name`].
pub(super) unsafe fn answer_type_name(text: &str, (places, room): (*mut u16, u32), count: *mut u32) -> HResult {
    let length = text.encode_utf16().count() + 1;
    // SAFETY: the caller guarantees `count` and the room.
    let _ = unsafe { answer_text(text, room, count, places) };
    if wanted(places) && (room as usize) < length { CUT } else { HResult::S_OK }
}
