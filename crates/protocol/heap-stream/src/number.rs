//! Numbers of the streams: LEB128, and distances between addresses.

use crate::WORD;

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
    zigzag(object, target).wrapping_add(1)
}

/// Decodes a result of [`distance`], except 0.
pub(crate) fn target(object: u64, distance: u64) -> u64 {
    unzigzag(object, distance - 1)
}

/// A distance in words, in either direction. Both addresses are multiples of a word.
#[inline]
pub(crate) fn zigzag(from: u64, to: u64) -> u64 {
    let words = (to.wrapping_sub(from) as i64) >> WORD.trailing_zeros();
    ((words << 1) ^ (words >> 63)) as u64
}

/// Decodes a result of [`zigzag`].
pub(crate) fn unzigzag(from: u64, distance: u64) -> u64 {
    let words = ((distance >> 1) as i64) ^ -((distance & 1) as i64);
    from.wrapping_add((words as u64).wrapping_mul(WORD))
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
