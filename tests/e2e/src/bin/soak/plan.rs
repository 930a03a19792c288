//! The plan of a round, made of the seed and the round's number alone, so that both together repeat a round.

/// Longest time before a running command is interfered with, milliseconds: beyond attach, recording and detach.
const LATE: u64 = 1600;
/// Within this time it attaches.
const EARLY: u64 = 120;
/// Size of a small disk, in thousands of bytes. A recording needs at least 16 MiB to start.
const SMALL_DISK: u64 = 24 * 1024;

/// The task of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// `remora record`; the frequency in hertz, the duration in milliseconds.
    Record { engine: &'static str, event: &'static str, frequency: u64, duration: u64 },
    /// `remora heap`.
    Snapshot { roots: bool, values: bool },
    /// `remora heap --watch`, for `duration` milliseconds.
    Watch { duration: u64 },
    /// `remora check`.
    Check,
    /// `remora detach`.
    Detach,
}

impl Task {
    /// Its row in the table at the end.
    pub fn name(self) -> &'static str {
        match self {
            Task::Record { engine: "agent", .. } => "record, agent",
            Task::Record { .. } => "record, eventpipe",
            Task::Snapshot { roots: true, .. } => "heap --roots",
            Task::Snapshot { .. } => "heap",
            Task::Watch { .. } => "heap --watch",
            Task::Check => "check",
            Task::Detach => "detach",
        }
    }

    /// Whether it takes the main profiler's slot.
    pub fn is_main(self) -> bool {
        matches!(self, Task::Snapshot { roots: true, .. } | Task::Watch { .. })
    }
}

/// How one command ends. All times are milliseconds since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// When it is finished.
    ByItself,
    /// By a signal that ends it properly.
    Asked { signal: &'static str, after: u64 },
    /// By a second signal, after `gap`.
    Twice { after: u64, gap: u64 },
    /// By SIGKILL.
    Killed { after: u64 },
    /// When it is finished, after a pause by SIGSTOP.
    Halted { after: u64, pause: u64 },
}

impl End {
    /// Its column in the table at the end.
    pub fn name(self) -> &'static str {
        match self {
            End::ByItself => "by itself",
            End::Asked { .. } => "signal",
            End::Twice { .. } => "twice",
            End::Killed { .. } => "kill -9",
            End::Halted { .. } => "halted",
        }
    }
}

/// One command of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor {
    /// Its task.
    pub task: Task,
    /// How it ends.
    pub end: End,
    /// Milliseconds after the start of the round.
    pub start: u64,
}

/// A nearly full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// KiB free at the beginning.
    pub free: u64,
    /// Milliseconds until the disk is filled.
    pub full_after: Option<u64>,
}

/// A round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The target, as a number for [`crate::fleet`].
    pub seat: u64,
    /// Its commands.
    pub actors: Vec<Actor>,
    /// The small disk for the commands' output, if any.
    pub disk: Option<Disk>,
    /// KiB free in the target's folder for temporary files, if it is nearly full.
    pub place: Option<u64>,
    /// When the target is stopped, and for how long, milliseconds.
    pub halt: Option<(u64, u64)>,
    /// The order that ends a separate target, and when, milliseconds.
    pub death: Option<(&'static str, u64)>,
}

impl Plan {
    /// The plan of a round.
    pub fn of(seed: u64, round: u64) -> Plan {
        let mut numbers = Numbers::of(seed, round);
        let seat = numbers.next();
        let mut plan = Plan { seat, actors: Vec::new(), disk: None, place: None, halt: None, death: None };
        match numbers.below(16) {
            0 => {
                plan.death = Some((numbers.pick(&["kill", "exit", "segfault", "exec"]), numbers.instant()));
                let end = if numbers.one_in(4) { numbers.asked() } else { End::ByItself };
                plan.actors.push(Actor { task: numbers.long_task(), end, start: 0 });
            }
            1 | 2 => plan.actors = (0..2 + numbers.below(3)).map(|_| numbers.rival()).collect(),
            _ => {
                let task = numbers.task();
                plan.actors.push(Actor { task, end: numbers.end(), start: 0 });
                plan.halt = numbers.one_in(16).then(|| (numbers.instant(), 50 + numbers.below(350)));
            }
        }
        if numbers.one_in(8) {
            let full_after = numbers.one_in(2).then(|| numbers.instant());
            plan.disk = Some(Disk { free: numbers.below(SMALL_DISK), full_after });
        }
        plan.place = numbers.one_in(8).then(|| numbers.below(900));
        plan
    }
}

/// Pseudo-random numbers, the same for the same seed: splitmix64.
struct Numbers(u64);

impl Numbers {
    fn of(seed: u64, round: u64) -> Numbers {
        let mut mixed = Numbers(seed);
        Numbers(mixed.next() ^ round.wrapping_mul(0xA24B_AED4_963E_E407))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// An instant that hits the attach as often as any later time.
    fn instant(&mut self) -> u64 {
        let limit = self.pick(&[EARLY, LATE / 2, LATE]);
        self.below(limit)
    }

    fn record(&mut self) -> Task {
        Task::Record {
            engine: self.pick(&["agent", "agent", "agent", "eventpipe"]),
            event: self.pick(&["cpu", "wall"]),
            frequency: self.pick(&[99, 999, 5000, 9999]),
            duration: 100 + self.below(700),
        }
    }

    /// A task that takes a while.
    fn long_task(&mut self) -> Task {
        match self.below(16) {
            0..=10 => self.record(),
            11..=14 => Task::Snapshot { roots: self.one_in(4), values: self.one_in(3) },
            _ => Task::Watch { duration: 200 + self.below(600) },
        }
    }

    fn task(&mut self) -> Task {
        match self.below(16) {
            0 => Task::Check,
            1 => Task::Detach,
            _ => self.long_task(),
        }
    }

    fn asked(&mut self) -> End {
        End::Asked { signal: self.pick(&["INT", "TERM", "HUP"]), after: self.instant() }
    }

    fn end(&mut self) -> End {
        match self.below(16) {
            0..=4 => End::ByItself,
            5..=8 => self.asked(),
            9 => End::Twice { after: self.instant(), gap: self.below(200) },
            10..=14 => End::Killed { after: self.instant() },
            _ => End::Halted { after: self.instant(), pause: 50 + self.below(450) },
        }
    }

    /// One of several commands that want the same target at once.
    fn rival(&mut self) -> Actor {
        let end = match self.below(8) {
            0 => End::Killed { after: self.instant() },
            1 => self.asked(),
            _ => End::ByItself,
        };
        Actor { task: self.task(), end, start: self.below(40) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_bring_a_round_back_and_rounds_differ() {
        let plans: Vec<Plan> = (0..200).map(|round| Plan::of(7, round)).collect();
        assert_eq!(plans, (0..200).map(|round| Plan::of(7, round)).collect::<Vec<_>>());
        assert!(plans.windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(plans[0], Plan::of(8, 0));
    }

    #[test]
    fn the_rounds_of_ci_hold_every_kind() {
        // The seed and the number in dev/xtask/src/soak.rs.
        let plans: Vec<Plan> = (0..300).map(|round| Plan::of(6, round)).collect();
        let actors = || plans.iter().flat_map(|plan| &plan.actors);
        for task in ["record, agent", "record, eventpipe", "heap", "heap --roots", "heap --watch", "check", "detach"] {
            assert!(actors().any(|actor| actor.task.name() == task), "{task}");
        }
        for end in ["by itself", "signal", "twice", "kill -9", "halted"] {
            assert!(actors().any(|actor| actor.end.name() == end), "{end}");
        }
        assert!(plans.iter().any(|plan| plan.disk.is_some()) && plans.iter().any(|plan| plan.place.is_some()));
        assert!(plans.iter().any(|plan| plan.halt.is_some()) && plans.iter().any(|plan| plan.death.is_some()));
        assert!(plans.iter().any(|plan| plan.actors.len() == 4));
    }
}
