//! Texts and lists that the runtime writes into buffers of ours: bounded, and without a panic for any answer.

use crate::HResult;
use crate::sys;

/// The longest text, in UTF-16 units; the rest is cut off.
pub const LONGEST_TEXT: usize = 32 * 1024;

/// The longest list; the rest is cut off.
pub const LONGEST_LIST: usize = 1 << 20;

/// Units of the first try: enough for nearly every name, and on the stack.
const FIRST_TEXT: usize = 512;

/// Elements of the first try.
const FIRST_LIST: usize = 16;

/// How often to ask again for a list that keeps growing.
const TRIES: usize = 4;

/// The text up to the first zero. Invalid UTF-16 becomes U+FFFD.
pub fn text_of(units: &[u16]) -> String {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(&units[..end])
}

/// `text` as UTF-16 for the runtime, zero-terminated. Cut off at the first zero inside.
pub fn units_of(text: &str) -> Vec<u16> {
    text.encode_utf16().take_while(|unit| *unit != 0).take(LONGEST_TEXT).chain([0]).collect()
}

/// Asks for a text: `call(capacity, needed, buffer)`, once more if the first buffer is too small.
pub(crate) fn text(mut call: impl FnMut(u32, &mut u32, *mut sys::WCHAR) -> sys::HRESULT) -> Result<String, HResult> {
    let mut needed = 0;
    let mut first = [0u16; FIRST_TEXT];
    HResult(call(FIRST_TEXT as u32, &mut needed, first.as_mut_ptr())).ok()?;
    if needed as usize <= FIRST_TEXT {
        return Ok(text_of(&first[..needed as usize]));
    }
    let capacity = (needed as usize).min(LONGEST_TEXT);
    let mut buffer = vec![0u16; capacity];
    HResult(call(capacity as u32, &mut needed, buffer.as_mut_ptr())).ok()?;
    Ok(text_of(&buffer[..capacity.min(needed as usize)]))
}

/// Asks for a list: `call(capacity, needed, buffer)`, again while it does not fit.
pub(crate) fn list<T: Copy + Default>(
    mut call: impl FnMut(u32, &mut u32, *mut T) -> sys::HRESULT,
) -> Result<Vec<T>, HResult> {
    let mut buffer = vec![T::default(); FIRST_LIST];
    for _ in 0..TRIES {
        let mut needed = 0;
        HResult(call(buffer.len() as u32, &mut needed, buffer.as_mut_ptr())).ok()?;
        let needed = needed as usize;
        if needed <= buffer.len() || buffer.len() == LONGEST_LIST {
            buffer.truncate(needed);
            return Ok(buffer);
        }
        buffer.resize(needed.min(LONGEST_LIST), T::default());
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_with(source: &[u16]) -> Result<String, HResult> {
        text(|capacity, needed, buffer| {
            *needed = source.len() as u32;
            for (index, unit) in source.iter().take(capacity as usize).enumerate() {
                // SAFETY: `index` is below `capacity`, the size of the buffer.
                unsafe { buffer.add(index).write(*unit) };
            }
            0
        })
    }

    #[test]
    fn texts_of_any_length_and_content_are_taken() {
        assert_eq!(answer_with(&[]), Ok(String::new()));
        assert_eq!(answer_with(&units_of("abc")), Ok("abc".to_owned()));
        assert_eq!(answer_with(&units_of(&"ä".repeat(3000))), Ok("ä".repeat(3000)));
        assert_eq!(answer_with(&[0xD800, 0x41, 0]), Ok("\u{FFFD}A".to_owned()));
        let longer_than_allowed = vec![0x41u16; LONGEST_TEXT + 5];
        assert_eq!(answer_with(&longer_than_allowed), Ok("A".repeat(LONGEST_TEXT)));
    }

    #[test]
    fn a_runtime_that_claims_too_much_is_not_believed() {
        assert_eq!(
            text(|_, needed, _| {
                *needed = u32::MAX;
                0
            }),
            Ok(String::new())
        );
        let mut calls = 0;
        let grown = list::<usize>(|capacity, needed, _| {
            calls += 1;
            *needed = capacity + 1;
            0
        });
        assert_eq!((grown.map(|list| list.len()), calls), (Ok(FIRST_LIST + TRIES), TRIES));
        let list = list::<usize>(|_, needed, _| {
            *needed = u32::MAX;
            0
        });
        assert_eq!(list.map(|list| list.len()), Ok(LONGEST_LIST));
    }

    #[test]
    fn a_zero_inside_ends_a_text_on_its_way_in() {
        assert_eq!(units_of("a\0b"), [0x61, 0]);
    }
}
