//! The budget of signals that the sampler may send.

use remora_sampler::Random;

/// Waking a thread counts as this many signals: it interrupts a running thread, and the sleeper goes back to sleep.
pub const WAKE: u64 = 4;

/// Reading a blocked thread's stack counts like a signal. It wakes nobody.
pub const READ: u64 = 1;

/// The instants over which demand is averaged.
const AVERAGED: u64 = 16;

/// The planned part of the budget, nine tenths: demand varies.
const PLANNED: (u64, u64) = (9, 10);

/// The signals that may be sent, as tokens. They arrive evenly, and are saved up for a tenth of a second at most.
pub struct Budget {
    per_second: u64,
    tokens: u64,
    refilled: u64,
    /// Average tokens a second if the sampler looked at each thread off the CPU.
    demand: u64,
    /// Average tokens a second if the sampler asked each running thread.
    running: u64,
}

impl Budget {
    /// A budget of `per_second` signals. `now` is in monotonic nanoseconds.
    pub fn new(per_second: u64, now: u64) -> Self {
        let per_second = per_second.max(1);
        Budget { per_second, tokens: most(per_second), refilled: now, demand: 0, running: 0 }
    }

    /// Adds the tokens since the last refill.
    pub fn refill(&mut self, now: u64) {
        let gained = now.saturating_sub(self.refilled).saturating_mul(self.per_second) / 1_000_000_000;
        if gained > 0 {
            self.tokens = (self.tokens + gained).min(most(self.per_second));
            self.refilled = now;
        }
    }

    /// Notes the tokens that one instant would have spent, on threads off the CPU and on running ones. `interval` is the distance of
    /// instants, nanoseconds.
    pub fn note(&mut self, wanted: u64, running: u64, interval: u64) {
        let average = |old: u64, tokens| (old * (AVERAGED - 1) + rate(tokens, interval)) / AVERAGED;
        self.demand = average(self.demand, wanted);
        self.running = average(self.running, running);
    }

    /// Whether the sampler may look at a thread off the CPU: always, or with the probability that fits the demand.
    pub fn allows(&self, random: &mut Random) -> bool {
        let left = self.per_second - self.running.min(self.for_running());
        let planned = (left * PLANNED.0 / PLANNED.1).max(1);
        self.demand <= planned || random.below(self.demand) < planned
    }

    /// The demand of running threads and their share of the budget, tokens a second. `running` threads run now.
    pub fn running(&self, running: u64, interval: u64) -> (u64, u64) {
        (rate(running, interval).max(self.running), self.for_running())
    }

    /// Threads off the CPU get up to half of the tokens if they need them.
    fn for_running(&self) -> u64 {
        self.per_second - self.demand.min(self.per_second / 2)
    }

    /// Whether this many tokens are left.
    pub fn has(&self, tokens: u64) -> bool {
        self.tokens >= tokens
    }

    /// Spends tokens, as far as there are any.
    pub fn spend(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_sub(tokens);
    }
}

fn rate(tokens: u64, interval: u64) -> u64 {
    tokens.saturating_mul(1_000_000_000) / interval.max(1)
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
        (0..100).for_each(|_| budget.note(8, 0, SECOND / 100));
        assert!((0..1_000).all(|_| budget.allows(&mut random)), "800 a second");
        (0..200).for_each(|_| budget.note(36, 0, SECOND / 100));
        let allowed = (0..10_000).filter(|_| budget.allows(&mut random)).count();
        assert!((2_300..2_700).contains(&allowed), "900 of 3,600 a second, not {allowed} of 10,000");
    }

    #[test]
    fn running_threads_leave_half_of_the_budget_if_the_others_need_it() {
        let (mut budget, mut random) = (Budget::new(1_000, 0), Random::new(7));
        (0..200).for_each(|_| budget.note(0, 50, SECOND / 100));
        let (wanted, most) = budget.running(0, SECOND / 100);
        assert!((4_900..=5_000).contains(&wanted) && most == 1_000, "{wanted} {most}");
        (0..200).for_each(|_| budget.note(36, 50, SECOND / 100));
        assert_eq!(budget.running(80, SECOND / 100), (8_000, 500));
        let allowed = (0..10_000).filter(|_| budget.allows(&mut random)).count();
        assert!((1_100..1_400).contains(&allowed), "450 of 3,600 a second, not {allowed} of 10,000");
    }

    #[test]
    fn the_smallest_budget_allows_some_looks() {
        let (mut budget, mut random) = (Budget::new(1, 0), Random::new(7));
        (0..200).for_each(|_| budget.note(36, 5, SECOND / 100));
        let allowed = (0..100_000).filter(|_| budget.allows(&mut random)).count();
        assert!((10..60).contains(&allowed), "1 of 3,600 a second, not {allowed} of 100,000");
    }
}
