//! Little-endian numbers in bytes.

/// The next 64-bit numbers, and the bytes after them. Missing numbers are 0.
pub(super) fn long<const N: usize>(bytes: &[u8]) -> ([u64; N], &[u8]) {
    let (these, rest) = bytes.split_at(bytes.len().min(N * 8));
    let mut numbers = [0; N];
    for (number, place) in numbers.iter_mut().zip(these.as_chunks::<8>().0) {
        *number = u64::from_le_bytes(*place);
    }
    (numbers, rest)
}

/// The next 32-bit numbers.
pub(super) fn short<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut numbers = [0; N];
    for (number, found) in numbers.iter_mut().zip(all(bytes)) {
        *number = found;
    }
    numbers
}

/// All 32-bit numbers.
pub(super) fn all(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
}
