//! A target's resources: before the first attach, and after the last round.
//!
//! Each window is some hundreds of milliseconds of the target's CPU time. Medians are compared, since a busy GC heap grows and shrinks;
//! swings that also occur without Remora are not growth.

use remora_e2e::{Facts, Target, until_used};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Measurements in a window.
const CHECKS: usize = 9;
/// The target's CPU time between two measurements.
const BETWEEN: Duration = Duration::from_millis(60);

/// The measured kinds, and the allowed growth of each.
///
/// The first attach loads a part of the runtime and creates its detach thread. Each round on a stopped GC heap changes its pools a
/// little.
/// A leaked ring would be 8 MiB and one mapping a round, a leaked stack 8 MiB of addresses and two.
/// The measured maximum (docs/internals/soak.md) is 19 MiB, 97 mappings, 2 descriptors and 2 threads in all. Since the third round it is
/// 12 MiB, 70 mappings, 2 descriptors and 2 threads. The bounds add a third or more, and one or two for small counts.
/// .NET Core 3.1 opens two ends of a pipe for each thread that it creates, until that thread runs (`strace -e pipe2`); the agent opens
/// none. A leaked descriptor would be one for each of some 17 rounds.
pub const KINDS: [Kind; 4] = [
    Kind { name: "resident", unit: "KiB", once: 24 * 1024, later: 18 * 1024, each: 1024 },
    Kind { name: "mappings", unit: "", once: 128, later: 96, each: 8 },
    Kind { name: "descriptors", unit: "", once: 4, later: 2, each: 0 },
    Kind { name: "threads", unit: "", once: 4, later: 3, each: 0 },
];

/// One of [`KINDS`].
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its unit, if it is no count.
    pub unit: &'static str,
    /// Allowed permanent growth since before the first round, for any number of rounds.
    once: u64,
    /// The same since the target had settled.
    later: u64,
    /// Growth for each library that stays.
    each: u64,
}

/// The measurements of one window.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Minimum, median and maximum, in the order of [`KINDS`].
    pub kinds: [[u64; 3]; KINDS.len()],
    /// Libraries that stay on purpose.
    pub staying: u64,
    /// The targets of its descriptors, with their number.
    pub leads_to: BTreeMap<String, u64>,
}

impl Window {
    /// Measures a running target.
    pub fn of(target: &Target) -> Window {
        let mut looks = [[0; CHECKS]; KINDS.len()];
        let (mut libraries, mut leads_to) = (0, BTreeMap::new());
        for look in 0..CHECKS {
            until_used(target.pid(), BETWEEN);
            let facts = Facts::of(target.pid());
            // An assembly that the program or the runtime loads later keeps two descriptors, and is loaded once.
            let links = || facts.descriptors.values().filter(|link| !link.ends_with(".dll"));
            let counts = [facts.maps.len(), links().count(), facts.threads.len()].map(|count| count as u64);
            let [mappings, descriptors, threads] = counts;
            for (kind, value) in looks.iter_mut().zip([facts.resident, mappings, descriptors, threads]) {
                kind[look] = value;
            }
            libraries = staying(&facts).len() as u64;
            leads_to = BTreeMap::new();
            for link in links() {
                *leads_to.entry(link.split(['[', ' ']).next().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        let kinds = looks.map(|mut looks| {
            looks.sort_unstable();
            [looks[0], looks[CHECKS / 2], looks[CHECKS - 1]]
        });
        Window { kinds, staying: libraries, leads_to }
    }
}

/// Growth beyond the bounds since before the first round, one line each.
pub fn since_control(control: &Window, end: &Window) -> Vec<String> {
    beyond(control, end, |kind| kind.once)
}

/// The same since the target had settled.
pub fn since_settled(settled: &Window, end: &Window) -> Vec<String> {
    beyond(settled, end, |kind| kind.later)
}

fn beyond(earlier: &Window, end: &Window, may_come: impl Fn(&Kind) -> u64) -> Vec<String> {
    let staying = end.staying.saturating_sub(earlier.staying);
    let judged = KINDS.iter().zip(earlier.kinds.iter().zip(&end.kinds));
    let grown = judged.filter_map(|(kind, ([least, before, most], [_, after, _]))| {
        let bound = before + (most - least) + may_come(kind) + kind.each * staying;
        let unit = kind.unit;
        (*after > bound).then(|| {
            format!(
                "{} has grown from {before} to {after} {unit}, beyond {bound}; {staying} libraries more stay; \
                 descriptors {:?}, before {:?}",
                kind.name, end.leads_to, earlier.leads_to
            )
        })
    });
    grown.collect()
}

/// The mapped libraries that stay on purpose.
pub fn staying(facts: &Facts) -> BTreeSet<&str> {
    facts.maps.iter().map(|map| map.name.as_str()).filter(|name| name.contains("-stays.so")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_what_goes_beyond_the_swing_and_what_may_come() {
        let window = |resident, staying| Window {
            kinds: [resident, [100; 3], [30; 3], [12; 3]],
            staying,
            leads_to: BTreeMap::new(),
        };
        let control = window([90_000, 100_000, 110_000], 2);
        assert_eq!(since_control(&control, &window([0, 144_000, 0], 2)), Vec::<String>::new());
        assert_eq!(since_control(&control, &window([0, 145_000, 0], 2)).len(), 1);
        assert_eq!(since_control(&control, &window([0, 145_000, 0], 3)), Vec::<String>::new());
        assert_eq!(since_settled(&control, &window([0, 139_000, 0], 2)).len(), 1, "less may come later");
        let mut more = control.clone();
        more.kinds[1] = [229; 3];
        assert!(since_control(&control, &more)[0].starts_with("mappings has grown from 100 to 229"));
    }
}
