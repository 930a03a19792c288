//! The file format of <https://www.speedscope.app>: first a sampled profile of all threads, then one a thread, weights in nanoseconds, exact.
//!
//! The first one is summed up by stack. In the others, time order is kept for speedscope's "time order" view.
//! Consecutive samples with the same stack become one with the sum of their weights.
//! A thread that would need more than [`ENTRIES_MAX`] stack entries is summed by stack instead, and its name says so:
//! speedscope cannot open files of gigabytes. If all threads together would be too large, so are all of them.
//! The tooltip has no place for a module, so frames of unknown source file have the module as their file.
//! A blocked sample has a `[blocked]` on top of its leaf.
//! Loss is in the file's name, the only text that speedscope shows, and in full under `remora`, which it ignores.

use crate::sums::{self, Sum};
use crate::{Format, account, size};
use remora_profile::{Frame, Profile, State, ThreadIx, Unit};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use std::io::{self, Write};

/// Maximum stack entries of one thread in time order: some 60 MB of JSON.
const ENTRIES_MAX: usize = 10_000_000;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut file = File::of(profile, ENTRIES_MAX);
    if file.check(profile).is_err() {
        file = File::of(profile, 0);
        file.check(profile)?;
    }
    serde_json::to_writer(out, &file).map_err(io::Error::from)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: String,
    exporter: String,
    active_profile_index: usize,
    shared: Shared<'a>,
    profiles: Vec<Sampled<'a>>,
    remora: Account,
}

/// Data for which speedscope has no place.
#[derive(Serialize)]
struct Account {
    account: Vec<String>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// One thread, or all of them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Stacks<'a>,
    weights: Vec<u64>,
}

/// Stacks from the root to the leaf, built while written: together they would be many times the profile.
struct Stacks<'a> {
    profile: &'a Profile,
    entries: Vec<Sum>,
}

impl<'a> File<'a> {
    /// Refuses a file that is too large.
    fn check(&self, profile: &Profile) -> io::Result<()> {
        let sizes = size::of_stacks(profile, |frame| u64::from(frame.0.checked_ilog10().unwrap_or(0)) + 2);
        let entries = self.profiles.iter().flat_map(|thread| &thread.samples.entries);
        size::check(Format::Speedscope, entries.map(|entry| sizes[entry.stack.0 as usize]))
    }

    fn of(profile: &'a Profile, entries_max: usize) -> File<'a> {
        let mut profiles = by_thread(profile, entries_max);
        profiles.sort_by_key(|thread| std::cmp::Reverse(thread.end_value));
        if !profiles.is_empty() {
            profiles.insert(0, Sampled::of(profile, "All threads".to_owned(), merged(profile)));
        }
        File {
            schema: SCHEMA,
            name: name(profile),
            exporter: format!("remora {}", env!("CARGO_PKG_VERSION")),
            active_profile_index: 0,
            shared: Shared { frames: frames(profile) },
            profiles,
            remora: Account { account: account::lines(profile) },
        }
    }
}

fn name(profile: &Profile) -> String {
    let meta = &profile.meta;
    let base = format!("{} ({}), {}", meta.application, meta.process_id, meta.subject());
    match account::short_loss(&profile.loss) {
        Some(loss) => format!("{base}, {loss}"),
        None => base,
    }
}

/// The profile's frames in order, then the mark of blocked samples.
fn frames(profile: &Profile) -> Vec<Named<'_>> {
    let named = |frame: &Frame| Named {
        name: profile.text(frame.name),
        file: frame.file.or(frame.module).map(|file| profile.text(file)),
        line: frame.file.and(frame.line),
    };
    let blocked = Named { name: crate::BLOCKED, file: None, line: None };
    profile.frames().iter().map(named).chain([blocked]).collect()
}

fn by_thread(profile: &Profile, entries_max: usize) -> Vec<Sampled<'_>> {
    let depths = depths(profile);
    let mut threads = vec![Vec::new(); profile.threads().len()];
    for sample in profile.samples() {
        let thread: &mut Vec<Sum> = &mut threads[sample.thread.0 as usize];
        match thread.last_mut() {
            Some(last) if (last.stack, last.state) == (sample.stack, sample.state) => last.weight += sample.weight,
            _ => thread.push(Sum::of(sample, sample.stack)),
        }
    }
    let (mut made, mut sums) = (Vec::new(), None);
    for (index, mut entries) in threads.into_iter().enumerate().filter(|(_, entries)| !entries.is_empty()) {
        let mut name = profile.threads()[index].label();
        if entries.iter().map(|entry| depths[entry.stack.0 as usize]).sum::<usize>() > entries_max {
            name.push_str(", summed up by stack");
            entries = summed(sums.get_or_insert_with(|| sums::of(profile)), ThreadIx(index as u32));
        }
        made.push(Sampled::of(profile, name, entries));
    }
    made
}

/// Number of frames of each stack.
fn depths(profile: &Profile) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(profile.stacks().len());
    for node in profile.stacks() {
        depths.push(1 + node.parent.map_or(0, |parent| depths[parent.0 as usize]));
    }
    depths
}

/// Those of one thread.
fn summed(sums: &[Sum], thread: ThreadIx) -> Vec<Sum> {
    let begin = sums.partition_point(|sum| sum.thread < thread);
    sums[begin..].iter().take_while(|sum| sum.thread == thread).copied().collect()
}

/// The sums of all threads, by stack, running before blocked.
fn merged(profile: &Profile) -> Vec<Sum> {
    let mut sums = sums::of(profile);
    sums.sort_by_key(|sum| (sum.stack, sum.state == State::Blocked));
    sums.dedup_by(|next, kept| {
        let same = (next.stack, next.state) == (kept.stack, kept.state);
        if same {
            kept.weight += next.weight;
        }
        same
    });
    sums
}

impl<'a> Sampled<'a> {
    fn of(profile: &'a Profile, name: String, entries: Vec<Sum>) -> Sampled<'a> {
        let weights: Vec<u64> = entries.iter().map(|entry| entry.weight).collect();
        Sampled {
            kind: "sampled",
            name,
            unit: match profile.meta.unit {
                Unit::Nanoseconds => "nanoseconds",
                Unit::Bytes => "bytes",
            },
            start_value: 0,
            end_value: weights.iter().sum(),
            samples: Stacks { profile, entries },
            weights,
        }
    }
}

impl Serialize for Stacks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let blocked = self.profile.frames().len();
        let mut seq = serializer.serialize_seq(Some(self.entries.len()))?;
        let mut stack = Vec::new();
        for entry in &self.entries {
            stack.clear();
            stack.extend((entry.state == State::Blocked).then_some(blocked));
            stack.extend(self.profile.walk(entry.stack).map(|frame| frame.0 as usize));
            stack.reverse();
            seq.serialize_element(&stack)?;
        }
        seq.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, Meta, Sample, Thread};

    #[test]
    fn a_thread_that_is_too_long_in_time_is_summed_up_and_keeps_its_weight() {
        let mut profile = Profile::new(Meta::default());
        let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
        let name = profile.string("[unknown]");
        let frame = profile.frame(Frame::unknown(name));
        let (one, two) = (profile.stack(None, frame), profile.stack_from_root([frame, frame]).expect("two frames"));
        for (time, stack) in [one, two, two, one].into_iter().enumerate() {
            profile.add_sample(Sample { time: time as u64, thread, stack, weight: 5, state: State::Running });
        }
        let check = |entries_max, expected_name: &str, expected_weights: &[u64]| {
            let [all, main] = &File::of(&profile, entries_max).profiles[..] else { panic!("all threads, and one") };
            assert_eq!((all.name.as_str(), all.end_value), ("All threads", 20));
            assert_eq!(main.name, expected_name);
            assert_eq!(main.weights, expected_weights);
            assert_eq!(main.end_value, 20);
        };
        check(4, "main (1)", &[5, 10, 5]);
        check(3, "main (1), summed up by stack", &[10, 10]);
    }
}
