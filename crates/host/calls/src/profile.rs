//! A trace as a profile, for flame graphs and the formats of other tools: the weight of a stack is its time.

use crate::model::Calls;
use remora_profile::{Event, Frame, FrameIx, FrameKind, Meta, Profile, Sample, StackIx, State, Thread, Unit};

/// What the profile says about its target.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Wall-clock time of the first instant, nanoseconds since 1970-01-01 UTC.
    pub started_unix_nanoseconds: u64,
    /// Process id as the recorder sees it.
    pub process_id: u32,
    /// The application's name.
    pub application: String,
    /// The command.
    pub command_line: String,
    /// The runtime's displayed name.
    pub runtime: String,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// What a sample is, where it is no sample.
const PATHS: &str = "each sample stands for one path of callers, with the exact time of its calls";
const OBJECTS: &str =
    "each sample stands for the objects of one type on one path of callers, with the exact number of their bytes";

/// One sample for each node of the trees, with its own time; or one for each type below each node, with its bytes.
pub fn profile(calls: &Calls, about: About) -> Profile {
    let (unit, what) = if calls.counts_objects { (Unit::Bytes, OBJECTS) } else { (Unit::Nanoseconds, PATHS) };
    let mut profile = Profile::new(Meta {
        event: Event::Wall,
        unit,
        engine: "enter and leave hooks".to_owned(),
        started_unix_nanoseconds: about.started_unix_nanoseconds,
        duration: calls.duration,
        process_id: about.process_id,
        application: about.application,
        command_line: about.command_line,
        runtime: about.runtime,
        notes: about.notes.into_iter().chain([what.to_owned()]).collect(),
        ..Meta::default()
    });
    let threads: Vec<_> = calls
        .threads
        .iter()
        .map(|thread| profile.add_thread(Thread { id: thread.id, name: thread.name.clone() }))
        .collect();
    let frames: Vec<_> = calls
        .methods
        .iter()
        .map(|method| {
            let file = method.module.rsplit('/').next().unwrap_or_default();
            let frame = Frame {
                kind: FrameKind::Managed,
                name: profile.string(&method.name),
                module: (!file.is_empty()).then(|| profile.string(file)),
                file: None,
                line: None,
            };
            profile.frame(frame)
        })
        .collect();
    let mut stacks: Vec<StackIx> = Vec::with_capacity(calls.nodes.len());
    for node in &calls.nodes {
        let parent = node.parent.map(|parent| stacks[parent.0 as usize]);
        let stack = profile.stack(parent, frames[node.method.0 as usize]);
        stacks.push(stack);
        if unit == Unit::Nanoseconds {
            let thread = threads[node.thread.0 as usize];
            profile.add_sample(Sample { time: 0, thread, stack, weight: node.own, state: State::Running });
        }
    }
    let types = type_frames(calls, &mut profile);
    for one in &calls.allocations {
        let stack = profile.stack(one.by.map(|node| stacks[node.0 as usize]), types[one.ty]);
        let thread = threads[one.thread.0 as usize];
        profile.add_sample(Sample { time: 0, thread, stack, weight: one.bytes, state: State::Running });
    }
    profile
}

/// A frame for each type: `new Shop.Order`.
fn type_frames(calls: &Calls, profile: &mut Profile) -> Vec<FrameIx> {
    let frame = |name| Frame { kind: FrameKind::Synthetic, name, module: None, file: None, line: None };
    let names = calls.types.iter().map(|name| format!("new {name}"));
    names
        .map(|name| profile.string(&name))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|name| profile.frame(frame(name)))
        .collect()
}
