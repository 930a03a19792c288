//! Chooses the next step: at random from a seed, from a list, or every possibility in turn.

/// Chooses the next step. Every choice is a number. 0 is the default: the running task continues. Others are the alternatives in task
/// order. The list of a run's choices is enough to repeat it.
#[derive(Debug)]
pub enum Chooser {
    /// One seed, one schedule.
    Random(Random),
    /// The choices of a run; 0 beyond its end.
    Replay(Vec<u16>),
    /// Every schedule with at most this many preemptions.
    Exhaustive(Exhaustive),
}

/// See [`Chooser::Random`].
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
    /// Of 256 points with alternatives, this many continue the same task.
    stays: u8,
    /// Of 256 choices of a task, this many let time pass, although a task could run.
    passes: u8,
}

impl Random {
    /// The schedule of a seed. Seeds also differ in how often tasks are preempted: some races need many preemptions, some need few.
    pub fn new(seed: u64) -> Random {
        let mut random = Random { state: seed ^ 0x9e37_79b9_7f4a_7c15, stays: 0, passes: 0 };
        random.draw();
        random.stays = [128, 192, 224, 240, 250][random.below(5)];
        random.passes = [0, 2, 8, 24][random.below(4)];
        random
    }

    /// The next 64 bits (splitmix64).
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound.max(1) as u64) as usize
    }

    /// True once in `often` times.
    pub fn once_in(&mut self, often: usize) -> bool {
        self.below(often) == 0
    }
}

/// See [`Chooser::Exhaustive`]: a depth-first walk over all lists of choices.
#[derive(Debug, Default, Clone)]
pub struct Exhaustive {
    preemptions: u32,
    /// Choice and number of alternatives at each place of the current run.
    path: Vec<(u16, u16)>,
    at: usize,
    spent: u32,
}

impl Exhaustive {
    /// A walk that begins with the schedule without preemptions.
    pub fn new(preemptions: u32) -> Exhaustive {
        Exhaustive { preemptions, ..Exhaustive::default() }
    }

    /// Goes to the next schedule. False when all have been seen.
    pub fn advance(&mut self) -> bool {
        self.at = 0;
        self.spent = 0;
        while let Some((choice, options)) = self.path.pop() {
            if choice + 1 < options {
                self.path.push((choice + 1, options));
                return true;
            }
        }
        false
    }

    fn choose(&mut self, options: usize, is_preemption: bool) -> u16 {
        let options = if is_preemption && self.spent >= self.preemptions { 1 } else { options as u16 };
        if self.at == self.path.len() {
            self.path.push((0, options));
        }
        let choice = self.path.get(self.at).map_or(0, |(choice, _)| *choice);
        self.at += 1;
        self.spent += u32::from(is_preemption && choice > 0);
        choice
    }
}

impl Chooser {
    /// The choice at a point: 0 to continue, otherwise the number of one of `others`, from 1 on. `others` is counted only if necessary.
    /// `at` is the number of the choice.
    pub(super) fn preempt(&mut self, at: usize, others: impl FnOnce() -> usize) -> u16 {
        match self {
            Chooser::Random(random) => {
                if (random.draw() & 0xff) < u64::from(random.stays) {
                    return 0;
                }
                match others() {
                    0 => 0,
                    others => 1 + random.below(others) as u16,
                }
            }
            Chooser::Replay(choices) => {
                let choice = choices.get(at).copied().unwrap_or(0);
                if choice == 0 { 0 } else { choice.min(others() as u16) }
            }
            Chooser::Exhaustive(walk) => walk.choose(1 + others(), true),
        }
    }

    /// The choice among `ready` tasks. The number `ready` itself lets time pass, if `time_can_pass`.
    pub(super) fn pick(&mut self, at: usize, ready: usize, time_can_pass: bool) -> u16 {
        match self {
            Chooser::Random(random) => {
                if ready == 0 || (time_can_pass && (random.draw() & 0xff) < u64::from(random.passes)) {
                    ready as u16
                } else {
                    random.below(ready) as u16
                }
            }
            Chooser::Replay(choices) => {
                let most = if time_can_pass { ready } else { ready.saturating_sub(1) };
                choices.get(at).copied().unwrap_or(0).min(most as u16)
            }
            Chooser::Exhaustive(walk) => {
                if ready == 0 {
                    return 0;
                }
                walk.choose(ready, false)
            }
        }
    }
}
