//! The summary: hottest methods, by self time and total time, and each thread's share.

use crate::{FrameIx, Profile, State, ThreadIx};
use std::collections::HashMap;

/// A method and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotMethod {
    /// A frame of that method (methods that differ only by line are one).
    pub frame: FrameIx,
    /// Nanoseconds in the method itself.
    pub self_weight: u64,
    /// Nanoseconds in the method and its callees, recursion counted once.
    pub total_weight: u64,
    /// Samples with it as leaf.
    pub self_samples: u64,
    /// Samples that contain it.
    pub total_samples: u64,
}

/// A thread and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadShare {
    /// The thread.
    pub thread: ThreadIx,
    /// Nanoseconds of its samples.
    pub weight: u64,
    /// The part of them from blocked samples.
    pub blocked_weight: u64,
    /// Its samples.
    pub samples: u64,
}

/// The hottest methods and threads of a profile, or of one of its threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Sum of the summarized weights, nanoseconds.
    pub total_weight: u64,
    /// Summarized samples.
    pub samples: u64,
    /// All methods, hottest by self time first; ties by total, then by name.
    pub methods: Vec<HotMethod>,
    /// All threads with samples, busiest first.
    pub threads: Vec<ThreadShare>,
}

impl Summary {
    /// Summarizes `profile`, or only one `thread`.
    pub fn of(profile: &Profile, thread: Option<ThreadIx>) -> Summary {
        let mut summary = Summary::default();
        let mut methods: HashMap<MethodKey, HotMethod> = HashMap::new();
        let mut threads: HashMap<ThreadIx, ThreadShare> = HashMap::new();
        let mut seen = Vec::new();
        for sample in profile.samples().iter().filter(|sample| thread.is_none_or(|only| only == sample.thread)) {
            summary.total_weight += sample.weight;
            summary.samples += 1;
            add_thread(&mut threads, sample);
            seen.clear();
            for (depth, frame) in profile.walk(sample.stack).enumerate() {
                let key = MethodKey::of(profile, frame);
                let method = methods.entry(key).or_insert_with(|| HotMethod::new(frame));
                if depth == 0 {
                    method.self_weight += sample.weight;
                    method.self_samples += 1;
                }
                if !seen.contains(&key) {
                    seen.push(key);
                    method.total_weight += sample.weight;
                    method.total_samples += 1;
                }
            }
        }
        summary.methods = methods.into_values().collect();
        summary.methods.sort_by(|a, b| {
            (b.self_weight, b.total_weight).cmp(&(a.self_weight, a.total_weight)).then_with(|| {
                profile.text(profile.frame_at(a.frame).name).cmp(profile.text(profile.frame_at(b.frame).name))
            })
        });
        summary.threads = threads.into_values().collect();
        summary.threads.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.thread.cmp(&b.thread)));
        summary
    }
}

/// The identity of a method: name and module, not the line.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct MethodKey {
    name: crate::StringIx,
    module: Option<crate::StringIx>,
}

impl MethodKey {
    fn of(profile: &Profile, frame: FrameIx) -> MethodKey {
        let frame = profile.frame_at(frame);
        MethodKey { name: frame.name, module: frame.module }
    }
}

impl HotMethod {
    fn new(frame: FrameIx) -> HotMethod {
        HotMethod { frame, self_weight: 0, total_weight: 0, self_samples: 0, total_samples: 0 }
    }
}

fn add_thread(threads: &mut HashMap<ThreadIx, ThreadShare>, sample: &crate::Sample) {
    let share = threads.entry(sample.thread).or_insert(ThreadShare {
        thread: sample.thread,
        weight: 0,
        blocked_weight: 0,
        samples: 0,
    });
    share.weight += sample.weight;
    share.samples += 1;
    if sample.state == State::Blocked {
        share.blocked_weight += sample.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, FrameKind, Meta, Sample, Thread};

    #[test]
    fn recursion_counts_once_and_lines_do_not_split_a_method() {
        let mut profile = Profile::new(Meta::default());
        let name = profile.string("A");
        let at = |line| Frame { kind: FrameKind::Managed, name, module: None, file: None, line: Some(line) };
        let (first, second) = (profile.frame(at(1)), profile.frame(at(2)));
        let thread = profile.add_thread(Thread { id: 7, name: "main".into() });
        let stack = profile.stack_from_root([first, second, first]).expect("not empty");
        profile.add_sample(Sample { time: 0, thread, stack, weight: 10, state: State::Blocked });
        let summary = Summary::of(&profile, None);
        assert_eq!(summary.methods.len(), 1);
        assert_eq!((summary.methods[0].self_weight, summary.methods[0].total_weight), (10, 10));
        assert_eq!(summary.threads[0].blocked_weight, 10);
    }
}
