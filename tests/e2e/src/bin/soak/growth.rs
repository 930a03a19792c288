//! What a target takes from the machine: before Remora came, and after the last round.
//!
//! Each window is some hundreds of milliseconds of the target's own CPU time. Medians are compared, since a collector at work grows and
//! shrinks; what it swings by without Remora is not called growth.

use remora_e2e::{Facts, Target, until_used};
use std::collections::BTreeSet;
use std::time::Duration;

/// Looks in a window.
const LOOKS: usize = 9;
/// The target's CPU time between two looks.
const BETWEEN: Duration = Duration::from_millis(60);

/// What is measured: its name, what may come once for good however many rounds there are, and what a library that stays takes.
///
/// The first attach loads a part of the runtime that was not needed before and makes its detach thread; each round of a collector that
/// was stopped leaves its pools a little different. A ring is 8 MiB and one mapping a round, a stack 8 MiB of addresses and two.
pub const KINDS: [Kind; 4] = [
    Kind { name: "resident", unit: "KiB", once: 32 * 1024, each: 1024 },
    Kind { name: "mappings", unit: "", once: 160, each: 8 },
    Kind { name: "descriptors", unit: "", once: 8, each: 0 },
    Kind { name: "threads", unit: "", once: 6, each: 0 },
];

/// One of [`KINDS`].
pub struct Kind {
    /// How it is called.
    pub name: &'static str,
    /// Its unit, if it is no count.
    pub unit: &'static str,
    once: u64,
    each: u64,
}

/// What was measured in one window: the least, the median, and the most of each kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    /// In the order of [`KINDS`].
    pub kinds: [[u64; 3]; KINDS.len()],
}

impl Window {
    /// Looks at a target that works.
    pub fn of(target: &Target) -> Window {
        let mut looks = [[0; LOOKS]; KINDS.len()];
        for look in 0..LOOKS {
            until_used(target.pid(), BETWEEN);
            let facts = Facts::of(target.pid());
            let counts = [facts.maps.len(), facts.descriptors.len(), facts.threads.len()].map(|count| count as u64);
            let [mappings, descriptors, threads] = counts;
            for (kind, value) in looks.iter_mut().zip([facts.resident, mappings, descriptors, threads]) {
                kind[look] = value;
            }
        }
        let kinds = looks.map(|mut looks| {
            looks.sort_unstable();
            [looks[0], looks[LOOKS / 2], looks[LOOKS - 1]]
        });
        Window { kinds }
    }
}

/// What has grown beyond its bound, a line each; `staying` libraries are there as was said beforehand.
pub fn beyond(control: &Window, end: &Window, staying: u64) -> Vec<String> {
    let judged = KINDS.iter().zip(control.kinds.iter().zip(&end.kinds));
    let grown = judged.filter_map(|(kind, ([least, before, most], [_, after, _]))| {
        let bound = before + (most - least) + kind.once + kind.each * staying;
        let unit = kind.unit;
        (*after > bound).then(|| {
            format!("{} has grown from {before} to {after} {unit}, beyond {bound}; {staying} libraries stay", kind.name)
        })
    });
    grown.collect()
}

/// The libraries that stay on purpose, as they are mapped.
pub fn staying(facts: &Facts) -> BTreeSet<&str> {
    facts.maps.iter().map(|map| map.name.as_str()).filter(|name| name.contains("-stays.so")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_what_goes_beyond_the_swing_and_what_may_come() {
        let window = |resident| Window { kinds: [resident, [100; 3], [30; 3], [12; 3]] };
        let control = window([90_000, 100_000, 110_000]);
        assert_eq!(beyond(&control, &window([0, 152_000, 0]), 0), Vec::<String>::new());
        assert_eq!(beyond(&control, &window([0, 153_000, 0]), 0).len(), 1);
        assert_eq!(beyond(&control, &window([0, 153_000, 0]), 1), Vec::<String>::new());
        let mut more = control;
        more.kinds[1] = [261; 3];
        assert!(beyond(&control, &more, 0)[0].starts_with("mappings has grown from 100 to 261"));
    }
}
