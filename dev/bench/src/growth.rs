//! Growth of one process over many rounds.

use crate::statistics::{median, slope};
use remora_receipt::Totals;
use serde::Serialize;

/// Warm-up rounds: the allocator keeps the memory that the first few needed.
const WARM: usize = 20;
/// Allowed growth of resident memory in each round, KiB: one page, and less than any possible leftover of ours.
const GROWTH_BAR: f64 = 4.0;

/// The difference between the end and the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// KiB a round.
    pub resident: f64,
    /// In total, as the following.
    pub threads: f64,
    /// See [`Growth::threads`].
    pub descriptors: f64,
    /// See [`Growth::threads`].
    pub mappings: f64,
    /// See [`Growth::threads`].
    pub timers: f64,
}

impl Growth {
    /// Growth over the rounds after the warm-up: memory by linear regression, the rest by the medians of the first and the last quarter.
    pub fn over(totals: &[Totals]) -> Option<Growth> {
        let steady = totals.get(WARM.min(totals.len() / 4)..)?;
        let quarter = (steady.len() / 4).max(1);
        let counted = |of: fn(&Totals) -> usize| {
            let counts: Vec<f64> = steady.iter().map(|totals| of(totals) as f64).collect();
            Some(median(&counts[counts.len() - quarter..])? - median(&counts[..quarter])?)
        };
        let resident: Vec<f64> = steady.iter().map(|totals| totals.memory.resident as f64 / 1024.0).collect();
        Some(Growth {
            resident: slope(&resident)?,
            threads: counted(|totals| totals.threads)?,
            descriptors: counted(|totals| totals.descriptors)?,
            mappings: counted(|totals| totals.mappings)?,
            timers: counted(|totals| totals.timers)?,
        })
    }

    /// Whether there is no growth.
    pub fn is_none(&self) -> bool {
        self.resident <= GROWTH_BAR
            && [self.threads, self.descriptors, self.mappings, self.timers].iter().all(|more| *more <= 0.0)
    }

    /// Growth beyond `alone`, the growth of the process without recordings.
    pub fn beyond(&self, alone: &Growth) -> Growth {
        // If the process alone shrinks, that does not count in our favour.
        let less = |own: f64, alone: f64| own - alone.max(0.0);
        Growth {
            resident: less(self.resident, alone.resident),
            threads: less(self.threads, alone.threads),
            descriptors: less(self.descriptors, alone.descriptors),
            mappings: less(self.mappings, alone.mappings),
            timers: less(self.timers, alone.timers),
        }
    }

    /// The growth as text.
    pub fn text(&self) -> String {
        format!(
            "memory {:+.2} KiB a round; threads {:+}, descriptors {:+}, mappings {:+}, timers {:+}",
            self.resident, self.threads, self.descriptors, self.mappings, self.timers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(round: usize, leak: impl Fn(usize, &mut Totals)) -> Totals {
        let mut totals = Totals { mappings: 300, threads: 12, descriptors: 40, ..Totals::default() };
        // The process's own behaviour: noise, and permanent growth in its first rounds.
        totals.memory.resident = 60 << 20;
        totals.memory.resident += (round.min(15) * 200 * 1024 + round % 3 * 8192) as u64;
        leak(round, &mut totals);
        totals
    }

    fn growth(leak: impl Fn(usize, &mut Totals)) -> Growth {
        Growth::over(&(0..200).map(|round| totals(round, &leak)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_comes_once_is_no_growth() {
        assert!(growth(|_, _| {}).is_none());
        assert_eq!(Growth::over(&[]), None);
    }

    #[test]
    fn what_a_process_grows_by_itself_is_not_ours_and_what_it_loses_no_credit() {
        let own = growth(|round, totals| totals.memory.resident += (round * 8 * 1024) as u64);
        assert!(own.beyond(&own).is_none());
        let shrinks = growth(|round, totals| totals.memory.resident -= (round * 8 * 1024) as u64);
        assert!(!own.beyond(&shrinks).is_none());
    }

    #[test]
    fn each_kind_of_growth_is_seen() {
        let leaks: [fn(usize, &mut Totals); 4] = [
            |round, totals| totals.memory.resident += (round * 8 * 1024) as u64,
            |round, totals| totals.threads += round / 50,
            |round, totals| totals.descriptors += round / 50,
            |round, totals| totals.mappings += round / 50,
        ];
        for leak in leaks {
            let growth = growth(leak);
            assert!(!growth.is_none(), "{growth:?}");
        }
    }
}
