//! Methods that were exchanged while they ran (on-stack replacement, .NET 7 and later): where their caller really is.
//!
//! A long loop in unoptimised code goes on in an optimised body. That body lies on top of the frame of the first one: its return
//! address is the word that the first body's call for help left behind, and its saved frame pointer is already that of the caller.
//! So a plain walk meets the method twice and its caller never.
//! The caller's return address is in the first body's frame, whose place follows from that body's own prolog.
//! (Read off the stacks and the code of .NET 8.0.4, 9.0.7 and 10.0.12 with `DOTNET_OSR_HitLimit=1`.)

/// The first bodies of such methods as `start, end, distance`, sorted by start, not overlapping. The distance is from the body's lowest
/// stack address to its frame, bytes.
#[derive(Clone, Copy, Default)]
pub struct Replaced<'a> {
    bodies: &'a [u64],
}

/// Words of one entry.
const ENTRY: usize = 3;

impl<'a> Replaced<'a> {
    /// A view of `start, end, distance, start, end, distance, ...` in ascending order.
    pub fn new(bodies: &'a [u64]) -> Self {
        Replaced { bodies }
    }

    /// The distance of the body that holds the address `at`, if it is one.
    pub(crate) fn distance(&self, at: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.bodies.len() / ENTRY);
        while low < high {
            let middle = low.midpoint(high);
            let Some(&[start, end, distance]) = self.bodies.get(middle * ENTRY..middle * ENTRY + ENTRY) else { break };
            if at < start {
                high = middle;
            } else if at >= end {
                low = middle + 1;
            } else {
                return Some(distance);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_by_any_address_in_it() {
        let replaced = Replaced::new(&[10, 20, 64, 30, 40, 128, 50, 60, 32]);
        for (at, distance) in
            [(9, None), (10, Some(64)), (19, Some(64)), (20, None), (35, Some(128)), (59, Some(32)), (60, None)]
        {
            assert_eq!(replaced.distance(at), distance, "{at}");
        }
        assert_eq!(Replaced::default().distance(10), None);
    }
}
