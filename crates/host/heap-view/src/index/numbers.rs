//! Little-endian numbers in bytes.

/// The next numbers of 64 bits, and what stands behind them. What is missing is 0.
pub(super) fn long<const N: usize>(bytes: &[u8]) -> ([u64; N], &[u8]) {
    let (these, rest) = bytes.split_at(bytes.len().min(N * 8));
    let mut numbers = [0; N];
    for (number, place) in numbers.iter_mut().zip(these.as_chunks::<8>().0) {
        *number = u64::from_le_bytes(*place);
    }
    (numbers, rest)
}

/// The next numbers of 32 bits.
pub(super) fn short<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut numbers = [0; N];
    for (number, found) in numbers.iter_mut().zip(all(bytes)) {
        *number = found;
    }
    numbers
}

/// All numbers of 32 bits that there are.
pub(super) fn all(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
}
