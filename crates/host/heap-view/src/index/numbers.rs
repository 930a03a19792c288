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

/// A record as it is in the file: three 64-bit numbers, then `N` of 32 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<const N: usize> {
    pub(super) sizes: [u64; 3],
    pub(super) numbers: [u32; N],
}

impl<const N: usize> Raw<N> {
    /// Its bytes, `B` of them.
    pub(super) fn bytes<const B: usize>(&self) -> [u8; B] {
        let mut bytes = [0; B];
        let (sizes, numbers) = bytes.split_at_mut(24);
        for (place, size) in sizes.chunks_exact_mut(8).zip(self.sizes) {
            place.copy_from_slice(&size.to_le_bytes());
        }
        for (place, number) in numbers.chunks_exact_mut(4).zip(self.numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Raw<N> {
        let (sizes, rest) = long(bytes);
        let mut numbers = [0; N];
        numbers.iter_mut().zip(all(rest)).for_each(|(number, found)| *number = found);
        Raw { sizes, numbers }
    }
}

/// All 32-bit numbers.
pub(super) fn all(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
}
