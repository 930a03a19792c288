//! The time and memory that names of a snapshot may take. The target decides how many types there are, and how long each name takes.

use crate::limits::MemoryLimit;
use std::time::{Duration, Instant};

/// Maximum time, far beyond that of real heaps.
const LONGEST: Duration = Duration::from_secs(30);
/// Time between two checks of the memory, which reads a file.
const LEAST: Duration = Duration::from_millis(1);

/// What is left of the time and memory for names. Once it is spent, the rest stays without names.
pub struct NamingBudget {
    until: Instant,
    memory: MemoryLimit,
    is_interrupted: Box<dyn Fn() -> bool>,
    next: Instant,
    is_spent: bool,
}

impl std::fmt::Debug for NamingBudget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "NamingBudget(spent: {})", self.is_spent)
    }
}

impl NamingBudget {
    /// The budget of one snapshot, from now on. It is also spent once `is_interrupted`.
    pub fn new(is_interrupted: impl Fn() -> bool + 'static) -> NamingBudget {
        NamingBudget::within(MemoryLimit::eighth(), Box::new(is_interrupted))
    }

    fn within(memory: MemoryLimit, is_interrupted: Box<dyn Fn() -> bool>) -> NamingBudget {
        let now = Instant::now();
        NamingBudget { until: now + LONGEST, memory, is_interrupted, next: now, is_spent: false }
    }

    /// Whether another name may be made.
    pub fn is_left(&mut self) -> bool {
        let now = Instant::now();
        if !self.is_spent && now >= self.next {
            self.is_spent = now >= self.until || (self.is_interrupted)() || self.memory.is_exceeded();
            self.next = now + LEAST;
        }
        !self.is_spent
    }

    /// A note, if names are missing.
    pub fn note(&self) -> Option<String> {
        self.is_spent.then(|| "not all types are named: their names took too much time or memory".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn names_end_with_the_time_the_memory_or_the_users_signal() {
        let enough = || MemoryLimit::of(1 << 40, "half");
        let mut budget = NamingBudget::within(enough(), Box::new(|| false));
        assert!(budget.is_left() && budget.note().is_none());
        (budget.until, budget.next) = (Instant::now(), Instant::now());
        assert!(!budget.is_left() && budget.note().is_some(), "the time");

        let mut budget = NamingBudget::within(MemoryLimit::of(64 << 20, "half"), Box::new(|| false));
        assert!(budget.is_left());
        // Far more than other tests, which run in this process at the same time, can give back.
        let _grown = std::hint::black_box(vec![1_u8; 512 << 20]);
        budget.next = Instant::now();
        assert!(!budget.is_left(), "the memory");

        let has_come = Rc::new(Cell::new(false));
        let seen = Rc::clone(&has_come);
        let mut budget = NamingBudget::within(enough(), Box::new(move || seen.get()));
        assert!(budget.is_left());
        has_come.set(true);
        budget.next = Instant::now();
        assert!(!budget.is_left(), "the signal");
        has_come.set(false);
        assert!(!budget.is_left(), "it stays spent");
    }
}
