//! How Info writes answers to the profiler's out pointers.
//!
//! There is no single convention for insufficient room. A list is cut; a text is cut or withheld, depending on the method (source:
//! proftoeeinterfaceimpl.cpp, method by method; live: tests/conformance/tests/info_calls.rs).

use corprof::HResult;

/// HRESULT_FROM_WIN32(ERROR_INSUFFICIENT_BUFFER).
pub(super) const INSUFFICIENT_BUFFER: HResult = HResult(0x8007_007A_u32 as i32);

/// Writes an answer to an out pointer, unless it is null. It need not be aligned: the processors of .NET write to any address.
///
/// # Safety
/// `place` is null or valid for writes, except that it may be unaligned.
pub(super) unsafe fn answer<T>(place: *mut T, value: T) {
    if wanted(place) {
        // SAFETY: not null, so the caller guarantees a valid place.
        unsafe { place.write_unaligned(value) };
    }
}

/// Writes each answer to its out pointer, inside a slot of Info whose pointers are null or valid.
macro_rules! write_answers {
    ($($place:expr => $value:expr),+ $(,)?) => {
        $(
            let value = $value;
            // SAFETY: the API requires null or a valid place for each answer.
            unsafe { $crate::runtime::answers::answer($place, value) };
        )+
    };
}
pub(super) use write_answers;

/// The same as the end of a slot that succeeds.
macro_rules! answered {
    ($($answers:tt)+) => {{
        $crate::runtime::answers::write_answers! { $($answers)+ }
        Ok(HResult::S_OK)
    }};
}
pub(super) use answered;

/// Whether the profiler wants this answer.
pub(super) fn wanted<T>(place: *mut T) -> bool {
    !place.is_null()
}

/// Whether a list with room has an address.
pub(super) fn has_place<T>(room: u32, places: *mut T) -> bool {
    room == 0 || wanted(places)
}

/// Answers a list: the count, and as many items as fit.
///
/// # Safety
/// `count` is null or a place; `places` is null or has room for `room`.
pub(super) unsafe fn answer_list<T: Copy>(
    values: &[T],
    room: u32,
    count: *mut u32,
    places: *mut T,
) -> Result<HResult, HResult> {
    // SAFETY: the caller guarantees that `count` is null or a place.
    unsafe { answer(count, values.len() as u32) };
    if wanted(places) {
        for (index, value) in values.iter().take(room as usize).enumerate() {
            // SAFETY: inside the stated room of the profiler's list.
            unsafe { places.add(index).write_unaligned(*value) };
        }
    }
    Ok(HResult::S_OK)
}

/// Answers a text, truncated to the room, with a zero at its end. The length includes the zero.
///
/// # Safety
/// As for [`answer_list`].
pub(super) unsafe fn answer_text(text: &str, room: u32, count: *mut u32, places: *mut u16) -> Result<HResult, HResult> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let fits = units.len().min((room as usize).saturating_sub(1));
    // SAFETY: the caller guarantees that `count` is null or a place.
    unsafe { answer(count, units.len() as u32 + 1) };
    let cut: Vec<u16> = units[..fits].iter().copied().chain([0]).collect();
    // SAFETY: the caller guarantees `count` and the room.
    unsafe { answer_list(&cut, room, std::ptr::null_mut(), places) }
}

/// Answers a text only if it fits; otherwise an error code. Without room, the text was not wanted.
///
/// # Safety
/// As for [`answer_list`].
pub(super) unsafe fn answer_whole_text(
    text: &str,
    room: u32,
    count: *mut u32,
    places: *mut u16,
) -> Result<HResult, HResult> {
    let length = text.encode_utf16().count() + 1;
    if room == 0 || !wanted(places) || room as usize >= length {
        // SAFETY: the caller guarantees `count` and the room.
        return unsafe { answer_text(text, room, count, places) };
    }
    // SAFETY: the caller guarantees the room, which is at least one.
    unsafe { answer(places, 0) };
    // SAFETY: the caller guarantees that `count` is null or a place.
    unsafe { answer(count, length as u32) };
    Err(INSUFFICIENT_BUFFER)
}
