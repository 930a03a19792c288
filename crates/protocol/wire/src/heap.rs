//! The stream of a heap snapshot: the forked copy describes its heap object by object.
//!
//! Bytes, carried in chunks by their own ring. Numbers are LEB128. Each record begins with a number. From [`FIRST_CLASS`] on the record is
//! an object: its class number is that number minus [`FIRST_CLASS`]. A lower number is the kind of the record:
//! ```text
//! RANGE   kind of the range, address, length
//! CLASS   the class with the next number: its id, then
//!           0 and an HRESULT; or
//!           1, ModuleID, token, ClassID of the parent, count and ClassIDs of the type arguments; or
//!           2, ClassID of the element, CorElementType of the element, rank
//!         in BESIDE pieces also the layout of an earlier class: its number, then
//!           3, bytes of an object as the runtime reports them, number of declared fields, how many of them follow here, token and
//!           offset of each; a class with many fields has several of these
//! GAP     bytes without an object
//! BROKEN  the address from which on a range cannot be walked
//! END     number of objects in all
//! ROOT    a root outside the heap: its kind, the object's address, and a detail of that kind or 0
//! CONTENT of the last object, if requested: its bytes, bytes that follow, those bytes; for a string its UTF-16 characters
//! VALUES  of the last object, if requested and not a string: bytes after its class, bytes that follow, those bytes
//! FORM    of a class by its number, from here on: the size of its objects, or 0 if each object states its own; how many
//!         reference slots each object has
//! LENGTHY the next object is written as if its class had no form: its class number, then the rest
//! object  size in bytes; each reference as the zigzag of its distance in words from the object, plus 1; 0 after the last one
//! object  of a class with a form: its size, unless the form states it; for each slot the reference, or 0 for none
//! ```
//! Most objects belong to a few classes with uniform objects. A form reduces them to two thirds of the bytes, and half of the work.
//!
//! The reader needs classes and the end at once. So the copy repeats them outside the stream, in pieces marked by [`BESIDE`], and the
//! reader can store the incoming stream unread. Layouts are sent only there: the reader resolves them while the process exists, and stores
//! the result.
//!
//! The reader asks for the contents of static fields, and gets the answers after the end of the stream: [`statics`].
//!
//! Objects follow each other, each at a multiple of eight bytes: only ranges have an address.

pub(crate) mod decoder;
pub mod statics;

pub use decoder::{ClassFacts, HeapDecoder, HeapVisitor, Layout};

/// Exit status of a copy that ended itself because a control group was low on memory: [`crate::layout::HEAP_ROOM_LEFT`].
pub const ENDED_BY_ROOM: i32 = 3;
/// Exit status of a copy that ended itself because all tasks in its control group, or on the machine, were stalled for memory.
pub const ENDED_BY_STALLS: i32 = 4;

/// Record kind.
pub const END: u64 = 0;
/// Record kind.
pub const RANGE: u64 = 1;
/// Record kind.
pub const CLASS: u64 = 2;
/// Record kind.
pub const GAP: u64 = 3;
/// Record kind.
pub const BROKEN: u64 = 4;
/// Record kind.
pub const CONTENT: u64 = 5;
/// Record kind.
pub const ROOT: u64 = 6;
/// Record kind.
pub const VALUES: u64 = 7;
/// Record kind.
pub const FORM: u64 = 8;
/// Record kind.
pub const LENGTHY: u64 = 9;
/// The first number that means an object.
pub const FIRST_CLASS: u64 = 16;

/// Reference slots of a form, at most.
pub const MOST_PLACES: usize = 16;

/// Kind of a class without a description by the runtime.
pub const UNKNOWN_CLASS: u64 = 0;
/// Kind of a class or value type.
pub const PLAIN_CLASS: u64 = 1;
/// Kind of an array.
pub const ARRAY_CLASS: u64 = 2;
/// Kind of a CLASS record with the layout of an earlier class.
pub const LAYOUT: u64 = 3;

/// Kind of a root: a local variable or parameter of a running method; the detail is its FunctionID.
pub const STACK_ROOT: u64 = 1;
/// Kind of a root: a strong handle; the detail is its HandleID.
pub const HANDLE_ROOT: u64 = 2;
/// Kind of a root: the finalizer queue.
pub const FINALIZER_ROOT: u64 = 4;
/// Kind of a root: a pinning handle or local variable; the detail is the same as without pinning.
pub const PINNED_ROOT: u64 = 5;
/// Kind of a root: a dependent handle whose other object is alive; the detail is that object's address.
pub const DEPENDENT_ROOT: u64 = 6;
/// Kind of any other root.
pub const OTHER_ROOT: u64 = 7;

/// Kind of a range that is never collected. The other kinds are generations.
pub const FROZEN: u64 = 5;

/// Kind of a range whose generation the runtime did not report.
pub const UNTOLD: u64 = 6;

/// Flag in the length word of a piece: it is not part of the stream, but repeats CLASS and END records of it.
pub const BESIDE: u64 = 1 << 63;

/// Flag in the same word: the piece answers questions about static fields ([`statics`]), after the end of the stream.
pub const ANSWERS: u64 = 1 << 62;

/// Bytes of a string's content, at most.
pub const MOST_CONTENT: u64 = 8 << 10;

/// Bytes of another object's content, at most.
pub const MOST_VALUES: u64 = 4 << 10;

/// Fields of a class in one record, at most.
pub const LAYOUT_FIELDS: usize = 30;

/// Objects begin at multiples of this.
pub const WORD: u64 = 8;

/// The longest form of a number, bytes.
pub const LONGEST_NUMBER: usize = 10;

/// Writes a number, and returns its length in bytes: at most [`LONGEST_NUMBER`], which `into` must have.
#[inline]
pub fn write_number(into: &mut [u8], value: u64) -> usize {
    // Nearly all numbers are short: write them at once, without a loop.
    match into.first_chunk_mut::<4>() {
        Some(place) if value < BEYOND_SHORT => {
            let (form, length) = short_number(value as u32);
            *place = form;
            length
        }
        _ => write_long(into, value),
    }
}

/// Numbers from here on take more than four bytes.
pub const BEYOND_SHORT: u64 = 1 << 28;

/// A number less than [`BEYOND_SHORT`] in four bytes, and how many of these it needs. Branch-free: the lengths follow no pattern that a CPU
/// could predict.
#[inline]
pub fn short_number(value: u32) -> ([u8; 4], usize) {
    // Moves the upper half two bits up, then the upper part of each half one bit up: seven bits in each byte.
    let halves = value + (value & 0xfff_c000) * 3;
    let spread = halves + (halves & 0x3f80_3f80);
    let bits = 31 - (value | 1).leading_zeros();
    let form = SHORT[bits as usize & 31];
    ((spread | form as u32).to_le_bytes(), (form >> 32) as usize)
}

/// Indexed by the highest bit of a number less than 2^28. The upper half is its length in bytes. The lower half has the continuation bit of
/// each byte but the last.
const SHORT: [u64; 32] = {
    let (mut forms, mut highest) = ([0; 32], 0);
    while highest < 28 {
        let length = highest as u64 / 7 + 1;
        forms[highest] = length << 32 | 0x80_8080 & ((1 << (8 * (length - 1))) - 1);
        highest += 1;
    }
    forms
};

/// Writes any number.
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

/// Numbers in sequence, for callers that may allocate.
pub fn written(numbers: &[u64]) -> Vec<u8> {
    let mut all = Vec::new();
    for number in numbers {
        let mut place = [0; LONGEST_NUMBER];
        let length = write_number(&mut place, *number);
        all.extend_from_slice(&place[..length]);
    }
    all
}

/// Encodes a reference.
#[inline]
pub fn distance(object: u64, target: u64) -> u64 {
    // Both are multiples of a word.
    let words = (target.wrapping_sub(object) as i64) >> WORD.trailing_zeros();
    (((words << 1) ^ (words >> 63)) as u64).wrapping_add(1)
}

/// Decodes a result of [`distance`], except 0.
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
