//! Damage by numbers: the same seed and round make the same bytes, so a failure is identified by a name and a number.

/// Values that break lengths and counts. The last two are two millions and sixty millions with seven bits a byte: plausible counts.
const AWKWARD: [u64; 10] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX, 0x0180_8080, 0x1f80_8080];

/// `input` with the damage of `round`.
pub fn mutate(input: &[u8], round: u64) -> Vec<u8> {
    let mut numbers = Numbers(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bytes = input.to_vec();
    for _ in 0..=numbers.below(4) {
        change(&mut bytes, &mut numbers);
    }
    bytes
}

/// A large count in the encodings of our formats: seven bits a byte, or four bytes. Each is plausible, and trusting it takes much memory.
const COUNTS: [[u8; 4]; 2] = [0x1f80_8080_u32.to_le_bytes(), 0x0180_0000_u32.to_le_bytes()];

/// `input` with a large count at each offset in turn, or at evenly spaced ones, so that there are about `most`. Random damage seldom hits
/// the one offset of a count.
pub fn with_counts(input: &[u8], most: u64) -> impl Iterator<Item = Vec<u8>> {
    let step = (COUNTS.len() * input.len()).div_ceil((most as usize).max(1)).max(1);
    (0..input.len()).step_by(step).flat_map(move |at| {
        COUNTS.map(|count| {
            let mut bytes = input.to_vec();
            bytes[at..].iter_mut().zip(count).for_each(|(byte, new)| *byte = new);
            bytes
        })
    })
}

fn change(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.below(bytes.len() + 1);
    let end = (at + numbers.below(48)).min(bytes.len());
    match numbers.below(7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        3 => bytes[at..end].fill(numbers.next() as u8),
        4 => overwrite(bytes, at, AWKWARD[numbers.below(AWKWARD.len())], 1 << numbers.below(4)),
        5 => overwrite(bytes, at, numbers.next(), 1),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << numbers.below(8);
            }
        }
    }
}

/// Writes a number in a field's width, in little-endian order as in every format here.
fn overwrite(bytes: &mut [u8], at: usize, value: u64, width: usize) {
    for (byte, new) in bytes[at..].iter_mut().zip(&value.to_le_bytes()[..width]) {
        *byte = *new;
    }
}

/// Marsaglia's xorshift.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 8) as usize % limit.max(1)
    }
}
