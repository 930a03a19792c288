//! The summary: hottest methods, by self time and total time, and each thread's share.

use crate::{FrameIx, Profile, StackNode, State, ThreadIx};
use std::collections::HashMap;
use std::mem;

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
    /// Summarizes `profile`, or only one `thread`. Takes time in proportion to its samples and stack nodes, however deep the stacks are.
    pub fn of(profile: &Profile, thread: Option<ThreadIx>) -> Summary {
        let mut summary = Summary::default();
        let mut threads: HashMap<ThreadIx, ThreadShare> = HashMap::new();
        let mut nodes = vec![NodeTime::default(); profile.stacks().len()];
        for sample in profile.samples().iter().filter(|sample| thread.is_none_or(|only| only == sample.thread)) {
            summary.total_weight += sample.weight;
            summary.samples += 1;
            add_thread(&mut threads, sample);
            nodes[sample.stack.0 as usize].add(sample.weight, 1);
        }
        summary.methods = methods(profile, nodes);
        summary.methods.sort_by(|a, b| {
            (b.self_weight, b.total_weight)
                .cmp(&(a.self_weight, a.total_weight))
                .then_with(|| profile.order(a.frame).cmp(profile.order(b.frame)))
        });
        summary.threads = threads.into_values().collect();
        summary.threads.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.thread.cmp(&b.thread)));
        summary
    }
}

/// Nanoseconds and samples of a stack node.
#[derive(Debug, Clone, Copy, Default)]
struct NodeTime {
    weight: u64,
    samples: u64,
}

impl NodeTime {
    fn add(&mut self, weight: u64, samples: u64) {
        self.weight = self.weight.saturating_add(weight);
        self.samples += samples;
    }
}

/// No node, or no method.
const NONE: u32 = u32::MAX;

/// The methods of all nodes below which there are samples. `nodes` has the samples with each node as leaf. A recording can have millions of
/// nodes: this takes 29 bytes for each.
fn methods(profile: &Profile, mut nodes: Vec<NodeTime>) -> Vec<HotMethod> {
    let stacks = profile.stacks();
    let mut methods: Vec<HotMethod> = Vec::new();
    let of_nodes = methods_of_nodes(profile, &nodes, &mut methods);
    for (method, own) in of_nodes.iter().zip(&nodes).filter(|(_, own)| own.samples > 0) {
        let method = &mut methods[*method as usize];
        method.self_weight = method.self_weight.saturating_add(own.weight);
        method.self_samples += own.samples;
    }
    // A parent precedes its children. From here on each node has the samples below it, too.
    for index in (0..stacks.len()).rev() {
        if let Some(parent) = stacks[index].parent {
            let NodeTime { weight, samples } = nodes[index];
            nodes[parent.0 as usize].add(weight, samples);
        }
    }
    let mut open = vec![0_u32; methods.len()];
    walk(stacks, |node, step| {
        let method = of_nodes[node] as usize;
        match step {
            _ if of_nodes[node] == NONE => {}
            Step::Enter if open[method] == 0 => {
                methods[method].total_weight = methods[method].total_weight.saturating_add(nodes[node].weight);
                methods[method].total_samples += nodes[node].samples;
                open[method] = 1;
            }
            Step::Enter => open[method] += 1,
            Step::Leave => open[method] -= 1,
        }
    });
    methods
}

/// The index of each node's method, or [`NONE`] without samples; adds the methods.
fn methods_of_nodes(profile: &Profile, nodes: &[NodeTime], methods: &mut Vec<HotMethod>) -> Vec<u32> {
    let stacks = profile.stacks();
    let mut has_samples: Vec<bool> = nodes.iter().map(|own| own.samples > 0).collect();
    for index in (0..stacks.len()).rev() {
        if let Some(parent) = stacks[index].parent {
            has_samples[parent.0 as usize] |= has_samples[index];
        }
    }
    let mut indexes: HashMap<MethodKey, u32> = HashMap::new();
    let mut method_of = |frame| {
        *indexes.entry(MethodKey::of(profile, frame)).or_insert_with(|| {
            methods.push(HotMethod::new(frame));
            methods.len() as u32 - 1
        })
    };
    let of_nodes = stacks.iter().zip(has_samples);
    of_nodes.map(|(node, has_samples)| if has_samples { method_of(node.frame) } else { NONE }).collect()
}

/// A step of [`walk`].
enum Step {
    Enter,
    Leave,
}

/// Visits each node before its children, and again after them.
fn walk(stacks: &[StackNode], mut visit: impl FnMut(usize, Step)) {
    let (mut first_child, mut sibling) = (vec![NONE; stacks.len()], vec![NONE; stacks.len()]);
    let mut next = NONE;
    for (index, stack) in stacks.iter().enumerate().rev() {
        let first = stack.parent.map_or(&mut next, |parent| &mut first_child[parent.0 as usize]);
        sibling[index] = mem::replace(first, index as u32);
    }
    while next != NONE {
        let mut ended = next as usize;
        visit(ended, Step::Enter);
        next = first_child[ended];
        while next == NONE {
            visit(ended, Step::Leave);
            next = sibling[ended];
            match stacks[ended].parent {
                Some(parent) if next == NONE => ended = parent.0 as usize,
                _ => break,
            }
        }
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

    /// What the summary states, computed sample by sample.
    fn plain(profile: &Profile) -> Vec<(FrameIx, [u64; 4])> {
        let mut sums: HashMap<MethodKey, (FrameIx, [u64; 4])> = HashMap::new();
        for sample in profile.samples() {
            let mut seen = Vec::new();
            for (depth, frame) in profile.walk(sample.stack).enumerate() {
                let key = MethodKey::of(profile, frame);
                let (_, sums) = sums.entry(key).or_insert((frame, [0; 4]));
                let counts = [depth == 0, !seen.contains(&key), depth == 0, !seen.contains(&key)];
                let by = [sample.weight, sample.weight, 1, 1];
                (0..4).filter(|at| counts[*at]).for_each(|at| sums[at] += by[at]);
                seen.push(key);
            }
        }
        let mut all: Vec<(FrameIx, [u64; 4])> = sums.into_values().collect();
        all.sort_by_key(|(frame, _)| profile.frame_at(*frame).name);
        all
    }

    fn made(profile: &mut Profile, names: &[u32], thread: ThreadIx, weight: u64) {
        let frames: Vec<FrameIx> = names
            .iter()
            .map(|name| {
                let name = profile.string(&format!("M{name}"));
                profile.frame(Frame::unknown(name))
            })
            .collect();
        let stack = profile.stack_from_root(frames).expect("not empty");
        profile.add_sample(Sample { time: 0, thread, stack, weight, state: State::Running });
    }

    #[test]
    fn sums_by_nodes_are_those_of_single_samples_with_recursion_of_every_kind() {
        let mut profile = Profile::new(Meta::default());
        let thread = profile.add_thread(Thread { id: 7, name: String::new() });
        let mut random = 1_u32;
        for weight in 1..400 {
            let mut names = Vec::new();
            loop {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                names.push(random >> 16 & 3);
                if random >> 24 & 7 == 0 {
                    break;
                }
            }
            made(&mut profile, &names, thread, weight);
        }
        let mut methods = Summary::of(&profile, None).methods;
        methods.sort_by_key(|method| profile.frame_at(method.frame).name);
        let sums = |of: &HotMethod| [of.self_weight, of.total_weight, of.self_samples, of.total_samples];
        assert_eq!(methods.iter().map(|of| (of.frame, sums(of))).collect::<Vec<_>>(), plain(&profile));
    }

    #[test]
    fn regression_a_deep_stack_in_many_samples_was_searched_again_for_each_of_its_frames() {
        let mut profile = Profile::new(Meta::default());
        let thread = profile.add_thread(Thread { id: 7, name: String::new() });
        // Searched frame by frame, this takes hours.
        let names: Vec<u32> = (0..100_000).collect();
        (0..2).for_each(|_| made(&mut profile, &names, thread, 1));
        for _ in 0..1_000_000 {
            let sample = profile.samples()[0];
            profile.add_sample(sample);
        }
        let summary = Summary::of(&profile, None);
        assert_eq!((summary.methods.len(), summary.methods[0].self_weight), (100_000, 1_000_002));
        assert!(summary.methods.iter().all(|method| method.total_weight == 1_000_002));
    }

    #[test]
    fn regression_long_names_were_compared_to_their_ends() {
        let mut profile = Profile::new(Meta::default());
        let thread = profile.add_thread(Thread { id: 7, name: String::new() });
        let long = "n".repeat(16 << 10);
        for end in ["2", "1"] {
            let name = profile.string(&format!("{long}{end}"));
            let frame = profile.frame(Frame::unknown(name));
            let stack = profile.stack(None, frame);
            profile.add_sample(Sample { time: 0, thread, stack, weight: 1, state: State::Running });
        }
        let order: Vec<FrameIx> = Summary::of(&profile, None).methods.iter().map(|method| method.frame).collect();
        assert_eq!(order, [FrameIx(0), FrameIx(1)], "the same beginning: in their own order");
    }

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
