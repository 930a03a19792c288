//! Seeded numbers, profiles and mutations: one seed, one run.

use remora_profile::{
    Event, Frame, FrameKind, LossCause, Profile, Sample, StackIx, State, StringIx, Thread, ThreadIx, Thrown,
};

/// A generator (xorshift64*), for tests only.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    /// Adds some of everything.
    pub fn grow(&mut self, profile: &mut Profile) {
        let texts = ["", "Main", "Größe.Berechnen(å)", "[lost]", "/src/a b.cs"];
        let text = texts[self.below(texts.len())];
        profile.meta.event = if self.below(2) == 0 { Event::Cpu } else { Event::Wall };
        profile.meta.application = text.to_owned();
        profile.meta.duration += self.next() >> 30;
        profile.meta.target_cpu = (self.below(2) == 0).then(|| self.next());
        profile.meta.notes.push(text.to_owned());
        profile.add_thread(Thread { id: self.next() as u32, name: text.to_owned() });
        for _ in 0..self.below(20) {
            self.frame_and_stack(profile);
        }
        if self.below(3) == 0 {
            let thread = ThreadIx(self.below(profile.threads().len()) as u32);
            profile.thread_mut(thread).name = format!("{text} {}", self.next());
        }
        self.samples(profile);
        self.exceptions(profile);
        let cause = LossCause::ALL[self.below(LossCause::ALL.len())];
        let lost = self.next() >> 40;
        profile.loss.lose(cause, lost);
        profile.loss.delivered = profile.samples().len() as u64;
        profile.loss.taken = profile.loss.delivered + profile.loss.total_lost();
        profile.loss.broken_stacks += self.next() >> 50;
        profile.loss.incomplete_stacks += self.next() >> 50;
    }

    fn frame_and_stack(&mut self, profile: &mut Profile) {
        let kinds = [FrameKind::Managed, FrameKind::Native, FrameKind::Unknown, FrameKind::Synthetic];
        let name = profile.string(&format!("N.T.M{}()", self.below(50)));
        let module = (self.below(2) == 0).then(|| profile.string("N.dll"));
        let line = (self.below(2) == 0).then(|| self.next() as u32);
        let frame = Frame { kind: kinds[self.below(4)], name, module, file: module, line };
        let frame = profile.frame(frame);
        let nodes = profile.stacks().len();
        let parent = (nodes > 0 && self.below(4) > 0).then(|| StackIx(self.below(nodes) as u32));
        profile.stack(parent, frame);
    }

    fn samples(&mut self, profile: &mut Profile) {
        if profile.stacks().is_empty() {
            return;
        }
        for _ in 0..self.below(300) {
            let sample = Sample {
                time: self.next() >> 2,
                thread: ThreadIx(self.below(profile.threads().len()) as u32),
                stack: StackIx(self.below(profile.stacks().len()) as u32),
                weight: self.next() >> 32,
                state: if self.below(2) == 0 { State::Running } else { State::Blocked },
            };
            profile.add_sample(sample);
        }
    }

    fn exceptions(&mut self, profile: &mut Profile) {
        profile.meta.exceptions = (self.below(2) == 0).then(|| self.next());
        if profile.stacks().is_empty() {
            return;
        }
        for _ in 0..self.below(30) {
            let thrown = Thrown {
                time: self.next() >> 2,
                thread: ThreadIx(self.below(profile.threads().len()) as u32),
                exception: StringIx(self.below(profile.strings().len()) as u32),
                stack: StackIx(self.below(profile.stacks().len()) as u32),
            };
            profile.add_thrown(thrown);
        }
    }

    /// Changes, takes out, puts in or cuts off some bytes.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.below(bytes.len());
        match self.below(5) {
            0 => bytes[at] = self.next() as u8,
            1 => bytes[at] ^= 1 << self.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, self.next() as u8),
            _ => {
                bytes.remove(at);
            }
        }
    }
}
