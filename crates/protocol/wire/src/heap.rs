//! The stream of a heap snapshot: what a forked copy of the target says of its heap, object by object.
//!
//! Bytes, carried in chunks by a ring of their own. Numbers are LEB128. A record begins with a number: from [`FIRST_CLASS`] on it is an
//! object of the class with this number less [`FIRST_CLASS`], below it says what follows:
//! ```text
//! RANGE   kind of the range, address, length
//! CLASS   the class with the next number: its id, then 0 and a code; or 1, module id, token, id of its parent, count and ids of its type
//!         arguments; or 2, id of the element's class, CorElementType of the element, rank
//!         beside the stream it may also be no new class: the number of one, then 3, bytes of an object as the runtime says, fields that it
//!         declares, how many follow, and of each its token and where it begins. A class with many fields has several of these
//! GAP     bytes without an object
//! BROKEN  the address from which on a range cannot be walked
//! END     objects in all
//! ROOT    what holds an object from outside: its kind, the object's address, and what tells more of it, or 0
//! CONTENT of the last object, where it was asked for: bytes that it has, bytes that follow, these. Of a string its UTF-16 characters
//! VALUES  of the last object, where it was asked for and it is no string: bytes behind its class, bytes that follow, these
//! FORM    of a class by its number, from here on: the size of each of its objects, or 0 where it is told with each; the places for
//!         references in each
//! LENGTHY the next object is told as if its class had no form: its class's number, and what stands behind that
//! object  size in bytes; each reference as the zigzag of its distance in words from the object, plus 1; 0 behind the last
//! object  of a class with a form: its size, if the form does not say it; for each place the reference, or 0 where there is none
//! ```
//! Most objects are of few classes, whose objects are alike: with a form they take two thirds of the bytes, and half of the work.
//!
//! What the reader must know at once, classes and the end, is told a second time beside the stream, in pieces that [`BESIDE`] marks: so
//! the stream itself can be stored unread while it comes. Layouts are told there alone: what they mean is found out while the process is
//! there, and stored as that.
//!
//! What static fields hold is asked for by the reader and told behind the end: [`statics`].
//!
//! Objects lie one behind the other, each at a multiple of eight bytes: no address is told but that of a range.

pub(crate) mod decoder;
pub mod statics;

pub use decoder::{ClassFacts, HeapDecoder, HeapVisitor, Layout};

/// Exit status of a copy that ended itself since a control group had little room left: [`crate::layout::HEAP_ROOM_LEFT`].
pub const ENDED_BY_ROOM: i32 = 3;
/// Exit status of a copy that ended itself since everybody in its control group, or on the machine, stood still for memory.
pub const ENDED_BY_STALLS: i32 = 4;

/// See the module's text.
pub const END: u64 = 0;
/// See the module's text.
pub const RANGE: u64 = 1;
/// See the module's text.
pub const CLASS: u64 = 2;
/// See the module's text.
pub const GAP: u64 = 3;
/// See the module's text.
pub const BROKEN: u64 = 4;
/// See the module's text.
pub const CONTENT: u64 = 5;
/// See the module's text.
pub const ROOT: u64 = 6;
/// See the module's text.
pub const VALUES: u64 = 7;
/// See the module's text.
pub const FORM: u64 = 8;
/// See the module's text.
pub const LENGTHY: u64 = 9;
/// The first number that means an object.
pub const FIRST_CLASS: u64 = 16;

/// The most places for references that a form has.
pub const MOST_PLACES: usize = 16;

/// Kind of a class that the runtime does not describe.
pub const UNKNOWN_CLASS: u64 = 0;
/// Kind of a class or value type.
pub const PLAIN_CLASS: u64 = 1;
/// Kind of an array.
pub const ARRAY_CLASS: u64 = 2;
/// No new class, but how the objects of one are laid out.
pub const LAYOUT: u64 = 3;

/// Kind of a root: a local variable or parameter of a method that runs; FunctionID of the method.
pub const STACK_ROOT: u64 = 1;
/// Kind of a root: a strong handle; its HandleID.
pub const HANDLE_ROOT: u64 = 2;
/// Kind of a root: the queue of objects whose finalizer is to run.
pub const FINALIZER_ROOT: u64 = 4;
/// Kind of a root: a handle, or a local variable, that keeps the object in its place; as for those.
pub const PINNED_ROOT: u64 = 5;
/// Kind of a root: a dependent handle whose other object is alive; that object's address.
pub const DEPENDENT_ROOT: u64 = 6;
/// Kind of a root that the runtime does not name.
pub const OTHER_ROOT: u64 = 7;

/// Kind of a range that is never collected; the others are generations.
pub const FROZEN: u64 = 5;

/// Kind of a range whose generation was not told.
pub const UNTOLD: u64 = 6;

/// In the word that tells a piece's length, bytes: it is not of the stream, but repeats CLASS and END records of it.
pub const BESIDE: u64 = 1 << 63;

/// In the same word: it answers questions about static fields, as [`statics`] has them. Told behind the end of the stream.
pub const ANSWERS: u64 = 1 << 62;

/// The most of a string's content that is told, bytes.
pub const MOST_CONTENT: u64 = 8 << 10;

/// The most of what stands in any other object that is told, bytes.
pub const MOST_VALUES: u64 = 4 << 10;

/// Fields of a class that are told in one record.
pub const LAYOUT_FIELDS: usize = 30;

/// Objects begin at multiples of this.
pub const WORD: u64 = 8;

/// The longest form of a number, bytes.
pub const LONGEST_NUMBER: usize = 10;

/// Writes a number, and returns how many bytes it took: no more than [`LONGEST_NUMBER`], which `into` must have.
#[inline]
pub fn write_number(into: &mut [u8], value: u64) -> usize {
    // Nearly all numbers are short: these are written at once, without a loop.
    match into.first_chunk_mut::<4>() {
        Some(place) if value < BEYOND_SHORT => {
            let (form, length) = short_number(value as u32);
            *place = form;
            length
        }
        _ => write_long(into, value),
    }
}

/// Numbers from this one on take more than four bytes.
pub const BEYOND_SHORT: u64 = 1 << 28;

/// A number of less than [`BEYOND_SHORT`]: the four bytes that it may take, and how many of them it does. Without a branch: which numbers
/// are long follows no pattern that a processor could foresee.
#[inline]
pub fn short_number(value: u32) -> ([u8; 4], usize) {
    // Its upper half two bits further up, then the upper part of each half one bit further up: seven bits in each byte.
    let halves = value + (value & 0xfff_c000) * 3;
    let spread = halves + (halves & 0x3f80_3f80);
    let bits = 31 - (value | 1).leading_zeros();
    let form = SHORT[bits as usize & 31];
    ((spread | form as u32).to_le_bytes(), (form >> 32) as usize)
}

/// By the highest bit of a number of less than 2^28: in the upper half how many bytes it takes, in the lower one the bits that say of all
/// but the last that another one follows.
const SHORT: [u64; 32] = {
    let (mut forms, mut highest) = ([0; 32], 0);
    while highest < 28 {
        let length = highest as u64 / 7 + 1;
        forms[highest] = length << 32 | 0x80_8080 & ((1 << (8 * (length - 1))) - 1);
        highest += 1;
    }
    forms
};

/// The same for any number.
fn write_long(into: &mut [u8], mut value: u64) -> usize {
    let mut length = 0;
    for place in into {
        length += 1;
        if value < 0x80 {
            *place = value as u8;
            break;
        }
        *place = value as u8 | 0x80;
        value >>= 7;
    }
    length
}

/// Numbers one behind the other, for whoever may allocate.
pub fn written(numbers: &[u64]) -> Vec<u8> {
    let mut all = Vec::new();
    for number in numbers {
        let mut place = [0; LONGEST_NUMBER];
        let length = write_number(&mut place, *number);
        all.extend_from_slice(&place[..length]);
    }
    all
}

/// How a reference is written.
#[inline]
pub fn distance(object: u64, target: u64) -> u64 {
    // Both are multiples of a word.
    let words = (target.wrapping_sub(object) as i64) >> WORD.trailing_zeros();
    (((words << 1) ^ (words >> 63)) as u64).wrapping_add(1)
}

/// What [`distance`] wrote, but not its 0.
pub(crate) fn target(object: u64, distance: u64) -> u64 {
    let zigzag = distance - 1;
    let words = ((zigzag >> 1) as i64) ^ -((zigzag & 1) as i64);
    object.wrapping_add((words as u64).wrapping_mul(WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_alike_with_room_and_without() {
        let near = |bits: u32| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1];
        for value in (1..64).flat_map(near).chain([0, u64::MAX]) {
            let (mut roomy, mut long) = ([0; 16], [0; LONGEST_NUMBER]);
            let (length, expected) = (write_number(&mut roomy, value), write_long(&mut long, value));
            assert_eq!((length, &roomy[..length]), (expected, &long[..expected]), "{value:#x}");
            if length < 4 {
                assert_eq!(write_number(&mut roomy[..3], value), length, "{value:#x}");
            }
        }
    }

    #[test]
    fn a_reference_comes_back_whichever_way_it_points() {
        for (object, other) in [(0x7f00_0000_1000, 0x7f00_0000_1018), (0x7f00_0000_1018, 0x7f00_0000_1000), (64, 64)] {
            assert_ne!(distance(object, other), 0);
            assert_eq!(target(object, distance(object, other)), other);
        }
    }
}
