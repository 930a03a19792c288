//! A sorted table of executable address ranges. The worker makes it, and the handlers only read it.

/// Ranges as `start, end` pairs, sorted, not overlapping.
#[derive(Clone, Copy, Default)]
pub struct Ranges<'a> {
    bounds: &'a [u64],
}

impl<'a> Ranges<'a> {
    /// A view of `start, end, start, end, ...` in ascending order.
    pub fn new(bounds: &'a [u64]) -> Self {
        Ranges { bounds }
    }

    /// Whether `address` is inside one of the ranges.
    pub fn contains(&self, address: u64) -> bool {
        // Inside a range, the number of bounds at or below the address is odd.
        self.bounds.partition_point(|bound| *bound <= address) % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_half_open() {
        let ranges = Ranges::new(&[10, 20, 20, 30, 50, 60]);
        for (address, inside) in [(9, false), (10, true), (19, true), (20, true), (30, false), (50, true), (60, false)]
        {
            assert_eq!(ranges.contains(address), inside, "{address}");
        }
        assert!(!Ranges::default().contains(1));
    }
}
