//! Random numbers for the instants of sampling, without floating point and without the C library's mathematics.

/// A generator, seeded once (xorshift64: any state but 0 runs through all others).
#[derive(Debug, Clone)]
pub struct Random(u64);

/// The largest whole part of an exponential number. No program lives to see a larger one.
const MOST_WHOLE: u64 = 60;

impl Random {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// A number below `bound`; 0 if `bound` is 0. `bound` is below 2^48.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// An exponentially distributed distance with this mean: instants at such distances are independent.
    ///
    /// Von Neumann's method: draw uniform numbers while they fall. If their number is odd, the first one is the fraction. If it is even, the
    /// whole part rises by one.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.next();
            let (mut last, mut drawn) = (first, 1_u32);
            loop {
                let next = self.next();
                if next >= last {
                    break;
                }
                (last, drawn) = (next, drawn + 1);
            }
            if drawn % 2 == 1 || whole == MOST_WHOLE {
                let fraction = ((u128::from(first) * u128::from(mean)) >> 64) as u64;
                return mean.saturating_mul(whole).saturating_add(fraction);
            }
            whole += 1;
        }
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The plain state's low bits are weak: the multiplication carries them up (xorshift64*).
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_exponential() {
        let mut random = Random::new(7);
        let drawn: std::vec::Vec<u64> = (0..200_000).map(|_| random.exponential(1_000_000)).collect();
        let mean = drawn.iter().sum::<u64>() / 200_000;
        assert!((990_000..1_010_000).contains(&mean), "{mean}");
        // The part beyond one, two and four means: e^-1, e^-2, e^-4.
        for (means, wanted) in [(1, 0.3679), (2, 0.1353), (4, 0.0183)] {
            let part = drawn.iter().filter(|distance| **distance > means * 1_000_000).count() as f64 / 200_000.0;
            assert!((part - wanted).abs() < 0.004, "beyond {means}: {part}");
        }
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(3);
        let mut counts = [0; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }
}
