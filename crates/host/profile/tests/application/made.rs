//! Profiles made of stacks in text.

use remora_profile::{
    ApplicationRule, ApplicationTime, Finding, Frame, FrameIx, FrameKind, Meta, Profile, Sample, State, Thread,
    ThreadIx,
};

pub const DISPATCH: &str = "System.Threading.ThreadPoolWorkQueue.Dispatch()|System.Private.CoreLib.dll";
pub const CORE: &str = "System.Private.CoreLib.dll";

pub struct Made {
    pub profile: Profile,
    pub thread: ThreadIx,
}

impl Made {
    pub fn new() -> Made {
        let mut profile = Profile::new(Meta::default());
        let thread = profile.add_thread(Thread { id: 7, name: ".NET TP Worker".into() });
        Made { profile, thread }
    }

    /// A frame: `name|module`, `name|module|line`, `[mark]`, or the name of a dynamic method. A module without `.dll` is native.
    pub fn frame(&mut self, text: &str) -> FrameIx {
        let mut parts = text.split('|');
        let name = self.profile.string(parts.next().unwrap());
        let module = parts.next();
        let kind = match module {
            None if text.starts_with("lambda_method") => FrameKind::Managed,
            None => FrameKind::Synthetic,
            Some(module) if module.ends_with(".dll") => FrameKind::Managed,
            Some(_) => FrameKind::Native,
        };
        let module = module.map(|module| self.profile.string(module));
        let line = parts.next().map(|line| line.parse().unwrap());
        let file = line.map(|_| self.profile.string("Orders.cs"));
        self.profile.frame(Frame { kind, name, module, file, line })
    }

    /// Adds a sample: frames from the root to the leaf.
    pub fn sample(&mut self, weight: u64, state: State, frames: &[&str]) {
        self.sample_at(0, weight, state, frames);
    }

    pub fn sample_at(&mut self, time: u64, weight: u64, state: State, frames: &[&str]) {
        let frames: Vec<FrameIx> = frames.iter().map(|frame| self.frame(frame)).collect();
        let stack = self.profile.stack_from_root(frames).unwrap();
        self.profile.add_sample(Sample { time, thread: self.thread, stack, weight, state });
    }

    pub fn times(&self) -> ApplicationTime {
        ApplicationTime::of(&self.profile, &ApplicationRule::default(), None)
    }

    pub fn name(&self, frame: FrameIx) -> &str {
        self.profile.text(self.profile.frame_at(frame).name)
    }

    /// Another thread of the pool: all following samples are its.
    pub fn another(&mut self, id: u32) {
        self.thread = self.profile.add_thread(Thread { id, name: ".NET TP Worker".into() });
    }

    /// The problems: code, method, threads, extent in percent.
    pub fn problems(&self) -> Vec<(&'static str, &str, usize, u64)> {
        let found = Finding::all(&self.profile, &self.times());
        let row = |finding: Finding| {
            let method = finding.frame.map(|frame| self.name(frame)).unwrap_or_default();
            (finding.problem.code(), method, finding.threads, (finding.extent * 100.0).round() as u64)
        };
        found.into_iter().map(row).collect()
    }
}
