//! The data for the page's script: columns of numbers, so that 200,000 stack nodes are a few megabytes that parse at once.
//!
//! Contains only items that a sample refers to. Times are nanoseconds, exact in JavaScript numbers up to 104 days.

use super::nodes;
use super::packed::Packed;
use super::times::Slots;
use crate::account;
use crate::sums::Sum;
use remora_profile::{
    ApplicationRule, Attribution, CodeKind, Frame, FrameIx, Loss, Profile, StackIx, State, StringIx, Unit,
};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::Hash;

/// "None" in a column.
const NONE: i64 = -1;

#[derive(Serialize)]
pub(super) struct Page<'a> {
    about: About<'a>,
    /// Known problems and hints, see [`crate::write_page`].
    advice: &'a [String],
    loss: Account,
    /// Labels of the kinds that [`Frames::kind`] counts.
    kinds: Vec<&'static str>,
    strings: Vec<&'a str>,
    frames: Frames,
    nodes: Nodes,
    threads: Vec<ThreadName<'a>>,
    /// States which code is the application's.
    rule: String,
    attributions: Attributions,
    /// [`Packed`], how many there are, then for each thread, stack and state:
    /// - twice the distance to the thread before, and 1 if blocked;
    /// - the distance to the node before, of the same thread, and the distance from there to the node with every frame of the runtime:
    ///   both twice their amount, less 1 if they are backwards;
    /// - weight, samples, and index in [`Attributions`].
    values: String,
    slots: Slots,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About<'a> {
    remora: &'static str,
    application: &'a str,
    process_id: u32,
    runtime: &'a str,
    command_line: &'a str,
    event: &'static str,
    event_meaning: &'static str,
    in_bytes: bool,
    /// Whether the samples have times.
    has_times: bool,
    time: &'static str,
    engine: &'a str,
    frequency: u32,
    started_unix_milliseconds: u64,
    duration: u64,
    target_cpu: Option<u64>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Account {
    taken: u64,
    delivered: u64,
    lost: Vec<Lost>,
    unaccounted: i64,
    truncated: u64,
    broken: u64,
    repaired: u64,
    incomplete: u64,
    repeated: u64,
    stray: u64,
}

#[derive(Serialize)]
struct Lost {
    cause: &'static str,
    meaning: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct ThreadName<'a> {
    id: u32,
    name: &'a str,
    /// Whether it ran work of the thread pool.
    pool: bool,
}

/// Columns of text indexes, except `line` and `kind`.
#[derive(Serialize, Default)]
struct Frames {
    name: Vec<i64>,
    module: Vec<i64>,
    file: Vec<i64>,
    line: Vec<i64>,
    kind: Vec<usize>,
}

/// In the order of [`nodes::in_order`].
#[derive(Serialize, Default)]
struct Nodes {
    /// Distance back to the node's parent; 0 for outermost frames.
    up: Vec<u32>,
    frame: Vec<u32>,
}

/// Columns of frames ([`NONE`] without an application method), except `entry` and `wait`. Each combination once.
#[derive(Serialize, Default)]
struct Attributions {
    nearest: Vec<i64>,
    callee: Vec<i64>,
    via: Vec<i64>,
    outermost: Vec<i64>,
    /// Index in `entries`.
    entry: Vec<usize>,
    /// Index in `waits`.
    wait: Vec<usize>,
    /// Index in `costs`, or [`NONE`].
    cost: Vec<i64>,
    /// Whether a blocked thread is idle.
    idle: Vec<bool>,
    entries: Vec<&'static str>,
    waits: Vec<&'static str>,
    costs: Vec<&'static str>,
}

impl<'a> Page<'a> {
    /// The data of `profile`, whose sums are `sums`.
    pub fn of(profile: &'a Profile, rule: &ApplicationRule, advice: &'a [String], sums: &[Sum]) -> Page<'a> {
        let mut pool = vec![false; profile.threads().len()];
        let mut attributions = Distinct::default();
        // The attributions of all stacks take most of the memory here, and are gone before the tables of nodes are made.
        let of_sums = attributions.of_sums(profile, rule, sums, &mut pool);
        let mut used = Used::new(profile);
        for sum in sums {
            used.stack(profile, sum.stack);
            used.stack(profile, sum.expanded);
        }
        let nodes = nodes::in_order(profile, &used.stacks);
        let places = used.number(&nodes);
        let mut values = Packed::default();
        values.number(sums.len() as u64);
        let (mut thread, mut node) = (0, 0);
        for (sum, attribution) in sums.iter().zip(of_sums) {
            if sum.thread.0 != thread {
                node = 0;
            }
            let place = places.stacks[sum.stack.0 as usize];
            values.number(u64::from(sum.thread.0 - thread) << 1 | u64::from(sum.state == State::Blocked));
            values.distance(node, place);
            values.distance(place, places.stacks[sum.expanded.0 as usize]);
            values.number(sum.weight);
            values.number(sum.samples);
            values.number(u64::from(attribution));
            (thread, node) = (sum.thread.0, place);
        }
        Page {
            about: About::of(profile),
            advice,
            loss: Account::of(&profile.loss),
            kinds: CodeKind::ALL.map(CodeKind::label).to_vec(),
            strings: of_used(profile.strings(), &used.strings).map(String::as_str).collect(),
            frames: Frames::of(profile, &used, &places),
            nodes: Nodes::of(profile, &nodes, &places),
            threads: profile
                .threads()
                .iter()
                .zip(pool)
                .map(|(thread, pool)| ThreadName { id: thread.id, name: &thread.name, pool })
                .collect(),
            rule: rule.to_string(),
            attributions: Attributions::of(&attributions.all, &places),
            values: values.base64(),
            slots: Slots::of(profile),
        }
    }
}

impl<'a> About<'a> {
    fn of(profile: &'a Profile) -> About<'a> {
        let meta = &profile.meta;
        About {
            remora: env!("CARGO_PKG_VERSION"),
            application: &meta.application,
            process_id: meta.process_id,
            runtime: &meta.runtime,
            command_line: &meta.command_line,
            event: meta.name(),
            in_bytes: meta.unit == Unit::Bytes,
            // Exact counts have neither a frequency nor times.
            has_times: meta.frequency > 0 || profile.samples().iter().any(|sample| sample.time > 0),
            event_meaning: meta.meaning(),
            time: meta.time(),
            engine: &meta.engine,
            frequency: meta.frequency,
            started_unix_milliseconds: meta.started_unix_nanoseconds / 1_000_000,
            duration: meta.duration,
            target_cpu: meta.target_cpu,
            notes: &meta.notes,
        }
    }
}

impl Account {
    fn of(loss: &Loss) -> Account {
        let lost = loss.lost.iter();
        Account {
            taken: loss.taken,
            delivered: loss.delivered,
            lost: lost.map(|&(cause, count)| Lost { cause: cause.name(), meaning: cause.meaning(), count }).collect(),
            unaccounted: i64::try_from(account::unaccounted(loss)).unwrap_or(i64::MAX),
            truncated: loss.truncated_stacks,
            broken: loss.broken_stacks,
            repaired: loss.repaired_stacks,
            incomplete: loss.incomplete_stacks,
            repeated: loss.repeated_stacks,
            stray: loss.stray_signals,
        }
    }
}

impl Frames {
    fn of(profile: &Profile, used: &Used, places: &Places) -> Frames {
        let text =
            |string: Option<StringIx>| string.map_or(NONE, |string| i64::from(places.strings[string.0 as usize]));
        let mut frames = Frames::default();
        for frame in of_used(profile.frames(), &used.frames) {
            frames.name.push(text(Some(frame.name)));
            frames.module.push(text(frame.module));
            frames.file.push(text(frame.file));
            frames.line.push(frame.line.map_or(NONE, i64::from));
            frames.kind.push(CodeKind::of(profile, frame).index());
        }
        frames
    }
}

impl Nodes {
    fn of(profile: &Profile, stacks: &[StackIx], places: &Places) -> Nodes {
        let mut nodes = Nodes::default();
        for (place, &stack) in (0..).zip(stacks) {
            let node = profile.stack_at(stack);
            nodes.up.push(node.parent.map_or(0, |parent| place - places.stacks[parent.0 as usize]));
            nodes.frame.push(places.frames[node.frame.0 as usize]);
        }
        nodes
    }
}

impl Attributions {
    fn of(all: &[Attribution], places: &Places) -> Attributions {
        let place = |frame: Option<FrameIx>| frame.map_or(NONE, |frame| i64::from(places.frames[frame.0 as usize]));
        let (mut entries, mut waits, mut costs) = (Distinct::default(), Distinct::default(), Distinct::default());
        let mut attributions = Attributions::default();
        for attribution in all {
            attributions.nearest.push(place(attribution.nearest));
            attributions.via.push(place(attribution.via));
            attributions.callee.push(place(attribution.callee));
            attributions.outermost.push(place(attribution.outermost));
            attributions.entry.push(entries.index(attribution.entry.code()));
            attributions.wait.push(waits.index(attribution.wait().code()));
            attributions.cost.push(attribution.cost.map_or(NONE, |cost| costs.index(cost.code()) as i64));
            attributions.idle.push(attribution.is_idle());
        }
        Attributions { entries: entries.all, waits: waits.all, costs: costs.all, ..attributions }
    }
}

impl Distinct<Attribution> {
    /// The index of each sum's attribution; marks the threads of the pool.
    fn of_sums(&mut self, profile: &Profile, rule: &ApplicationRule, sums: &[Sum], pool: &mut [bool]) -> Vec<u32> {
        let of_stacks = Attribution::of_stacks(profile, rule);
        let of_sum = |sum: &Sum| {
            let attribution = of_stacks[sum.stack.0 as usize];
            pool[sum.thread.0 as usize] |= attribution.is_of_pool;
            self.index(attribution) as u32
        };
        sums.iter().map(of_sum).collect()
    }
}

/// Values in the order in which they came first.
#[derive(Default)]
struct Distinct<T> {
    all: Vec<T>,
    known: HashMap<T, usize>,
}

impl<T: Copy + Eq + Hash> Distinct<T> {
    fn index(&mut self, value: T) -> usize {
        *self.known.entry(value).or_insert_with(|| {
            self.all.push(value);
            self.all.len() - 1
        })
    }
}

/// Something about each entry of the profile's tables.
struct Tables<T> {
    strings: Vec<T>,
    frames: Vec<T>,
    stacks: Vec<T>,
}

/// Whether samples refer to an entry.
type Used = Tables<bool>;

/// The index of a used entry in the page's tables.
type Places = Tables<u32>;

impl Used {
    fn new(profile: &Profile) -> Used {
        Used {
            strings: vec![false; profile.strings().len()],
            frames: vec![false; profile.frames().len()],
            stacks: vec![false; profile.stacks().len()],
        }
    }

    /// Marks a stack and its callers, up to the first marked one.
    fn stack(&mut self, profile: &Profile, stack: StackIx) {
        let mut next = Some(stack);
        while let Some(stack) = next.filter(|stack| !self.stacks[stack.0 as usize]) {
            let node = profile.stack_at(stack);
            self.stacks[stack.0 as usize] = true;
            self.frames[node.frame.0 as usize] = true;
            self.texts(profile.frame_at(node.frame));
            next = node.parent;
        }
    }

    fn texts(&mut self, frame: &Frame) {
        for string in [Some(frame.name), frame.module, frame.file].into_iter().flatten() {
            self.strings[string.0 as usize] = true;
        }
    }

    /// The stacks are placed as in `nodes`.
    fn number(&self, nodes: &[StackIx]) -> Places {
        let mut stacks = vec![0; self.stacks.len()];
        (0..).zip(nodes).for_each(|(place, stack)| stacks[stack.0 as usize] = place);
        Places { strings: numbered(&self.strings), frames: numbered(&self.frames), stacks }
    }
}

fn numbered(used: &[bool]) -> Vec<u32> {
    let place = |next: &mut u32, used: &bool| {
        let place = *next;
        *next += u32::from(*used);
        Some(place)
    };
    used.iter().scan(0, place).collect()
}

fn of_used<'a, T>(all: &'a [T], used: &[bool]) -> impl Iterator<Item = &'a T> {
    all.iter().zip(used).filter_map(|(entry, used)| used.then_some(entry))
}
