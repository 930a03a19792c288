//! How many signals the sampler may send.

use remora_agent_hot::Random;

/// Waking a thread counts as this many signals: it interrupts a running thread, and the sleeper goes back to sleep.
pub const WAKE: u64 = 4;

/// Reading a blocked thread's stack counts like a signal. It wakes nobody.
pub const READ: u64 = 1;

/// The instants over which demand is averaged.
const AVERAGED: u64 = 16;

/// Of the budget, nine tenths are planned for: demand varies.
const PLANNED: (u64, u64) = (9, 10);

/// Signals that may be sent, as tokens: they come evenly, and are saved up for a tenth of a second at most.
pub struct Budget {
    per_second: u64,
    tokens: u64,
    refilled: u64,
    /// Tokens a second that would be spent if each thread off the CPU were looked at, on average.
    demand: u64,
}

impl Budget {
    /// A budget of `per_second` signals. `now` is in monotonic nanoseconds.
    pub fn new(per_second: u64, now: u64) -> Self {
        let per_second = per_second.max(1);
        Budget { per_second, tokens: most(per_second), refilled: now, demand: 0 }
    }

    /// Adds the tokens that have come since the last time.
    pub fn refill(&mut self, now: u64) {
        let gained = now.saturating_sub(self.refilled).saturating_mul(self.per_second) / 1_000_000_000;
        if gained > 0 {
            self.tokens = (self.tokens + gained).min(most(self.per_second));
            self.refilled = now;
        }
    }

    /// Notes the tokens that one instant would have spent. `interval` is the distance of instants, nanoseconds.
    pub fn note(&mut self, wanted: u64, interval: u64) {
        let rate = wanted.saturating_mul(1_000_000_000) / interval.max(1);
        self.demand = (self.demand * (AVERAGED - 1) + rate) / AVERAGED;
    }

    /// Whether a thread off the CPU may be looked at: always, or with the probability that fits the demand.
    pub fn allows(&self, random: &mut Random) -> bool {
        let planned = self.per_second * PLANNED.0 / PLANNED.1;
        self.demand <= planned || random.below(self.demand) < planned
    }

    /// Whether so many tokens are there.
    pub fn has(&self, tokens: u64) -> bool {
        self.tokens >= tokens
    }

    /// Takes tokens, as far as there are any.
    pub fn spend(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_sub(tokens);
    }
}

fn most(per_second: u64) -> u64 {
    (per_second / 10).max(WAKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn tokens_come_evenly_and_are_saved_for_a_tenth_of_a_second() {
        let mut budget = Budget::new(1_000, 0);
        assert!(budget.has(100) && !budget.has(101));
        budget.spend(100);
        budget.refill(SECOND / 100);
        assert!(budget.has(10) && !budget.has(11));
        budget.refill(10 * SECOND);
        assert!(budget.has(100) && !budget.has(101));
        budget.spend(1_000);
        assert!(!budget.has(1));
    }

    #[test]
    fn looks_are_allowed_as_the_demand_is_to_the_budget() {
        let (mut budget, mut random) = (Budget::new(1_000, 0), Random::new(7));
        (0..100).for_each(|_| budget.note(8, SECOND / 100));
        assert!((0..1_000).all(|_| budget.allows(&mut random)), "800 a second");
        (0..200).for_each(|_| budget.note(36, SECOND / 100));
        let allowed = (0..10_000).filter(|_| budget.allows(&mut random)).count();
        assert!((2_300..2_700).contains(&allowed), "900 of 3,600 a second, not {allowed} of 10,000");
    }
}
