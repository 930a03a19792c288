//! pprof's `profile.proto`, compressed. Samples are summed by thread, stack and state, with two values each: `samples/count`, and `cpu` or
//! `wall` in nanoseconds, exact.
//!
//! A module is a mapping without addresses, the application's own first, since pprof takes the first for the main program.
//! All mappings claim functions, files and lines, so that pprof does not look for the binaries itself.
//! Labels: `thread` (its name), `thread_id`, `state`. The account of samples and all notes are comments (`pprof -comments`).
//!
//! The system name of a function is `module!name`: if the two names are equal, pprof takes the name for C++ and drops `<T>` and `(int)`.
//! Beyond [`SYSTEM_NAMES`], it is [`NO_SYSTEM_NAME`].
//!
//! A weight beyond `i64` (292 years) is clamped.

mod message;

use crate::sums::{self, Sum};
use crate::{Format, account, size};
use flate2::{Compression, write::GzEncoder};
use message::{Function, Label, Line, Location, Mapping, Profile as File, Sample, ValueType};
use prost::Message;
use remora_profile::{Frame, Profile, State, StringIx, Unit};
use std::collections::HashMap;
use std::io::{self, Write};

/// Samples encoded at a time, so that a profile of a million is not in memory twice.
const BATCH: usize = 1_000;

/// Bytes of system names: some 300,000 functions. A short recording may combine each of its long names with each of its modules.
const SYSTEM_NAMES: usize = 64 << 20;
/// The system name of further functions.
const NO_SYSTEM_NAME: &str = "?!";

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let sums = sums::of(profile);
    // A location is a number of seven bits a byte.
    let sizes = size::of_stacks(profile, |frame| u64::from(38 - frame.0.leading_zeros().min(31)) / 7);
    size::check(Format::Pprof, sums.iter().map(|sum| sizes[sum.stack.0 as usize]))?;
    let mut packed = GzEncoder::new(out, Compression::default());
    let mut texts = Texts::new();
    let mut encoded = Vec::new();
    let mut put = |piece: &File| {
        encoded.clear();
        piece.encode(&mut encoded).map_err(io::Error::other)?;
        packed.write_all(&encoded)
    };
    put(&head(profile, &mut texts))?;
    put(&places(profile, &mut texts))?;
    let labels = Labels::of(profile, &mut texts);
    for batch in sums.chunks(BATCH) {
        put(&File { sample: batch.iter().map(|sum| labels.sample(profile, sum)).collect(), ..File::default() })?;
    }
    put(&File { string_table: texts.all, ..File::default() })?;
    packed.finish()?;
    Ok(())
}

/// Everything but the samples and the tables.
fn head(profile: &Profile, texts: &mut Texts) -> File {
    let meta = &profile.meta;
    // `alloc_space` is Go's name for it, which readers of pprof files know.
    let (count, kind, unit) = match meta.unit {
        Unit::Nanoseconds => ("samples", meta.name(), "nanoseconds"),
        Unit::Bytes => ("paths", "alloc_space", "bytes"),
    };
    let count = ValueType { kind: texts.index(count), unit: texts.index("count") };
    let time = ValueType { kind: texts.index(kind), unit: texts.index(unit) };
    File {
        sample_type: vec![count, time],
        default_sample_type: time.kind,
        period_type: Some(time),
        period: 1_000_000_000 / i64::from(meta.frequency.max(1)),
        time_nanos: signed(meta.started_unix_nanoseconds),
        duration_nanos: signed(meta.duration),
        comment: account::lines(profile).iter().map(|line| texts.index(line)).collect(),
        ..File::default()
    }
}

/// Mappings, functions, and a location for each frame: frame `n` is location `n + 1`, since 0 means none.
fn places(profile: &Profile, texts: &mut Texts) -> File {
    let mut places = Places::default();
    places.mapping_of_application(profile, texts);
    for frame in profile.frames() {
        places.add(profile, frame, texts);
    }
    File { mapping: places.mappings, location: places.locations, function: places.functions, ..File::default() }
}

#[derive(Default)]
struct Places {
    mappings: Vec<Mapping>,
    mapping_ids: HashMap<StringIx, u64>,
    functions: Vec<Function>,
    function_ids: HashMap<(StringIx, Option<StringIx>, Option<StringIx>), u64>,
    /// Bytes of system names.
    system_names: usize,
    locations: Vec<Location>,
}

impl Places {
    fn mapping_of_application(&mut self, profile: &Profile, texts: &mut Texts) {
        let own = |module: &StringIx| {
            let file = profile.text(*module);
            file == profile.meta.application || file.strip_suffix(".dll") == Some(&profile.meta.application)
        };
        match profile.frames().iter().filter_map(|frame| frame.module).find(own) {
            Some(module) => {
                self.mapping(profile, Some(module), texts);
            }
            None => self.mappings.push(mapping(1, texts.index(&profile.meta.application))),
        }
    }

    fn add(&mut self, profile: &Profile, frame: &Frame, texts: &mut Texts) {
        let line = Line { function_id: self.function(profile, frame, texts), line: frame.line.map_or(0, i64::from) };
        let mapping_id = self.mapping(profile, frame.module, texts);
        self.locations.push(Location { id: self.locations.len() as u64 + 1, mapping_id, line: vec![line] });
    }

    /// 0, none, for frames without a module.
    fn mapping(&mut self, profile: &Profile, module: Option<StringIx>, texts: &mut Texts) -> u64 {
        let Some(module) = module else { return 0 };
        *self.mapping_ids.entry(module).or_insert_with(|| {
            let id = self.mappings.len() as u64 + 1;
            self.mappings.push(mapping(id, texts.index(profile.text(module))));
            id
        })
    }

    fn function(&mut self, profile: &Profile, frame: &Frame, texts: &mut Texts) -> u64 {
        *self.function_ids.entry((frame.name, frame.module, frame.file)).or_insert_with(|| {
            let id = self.functions.len() as u64 + 1;
            let name = texts.index(profile.text(frame.name));
            let filename = frame.file.map_or(0, |file| texts.index(profile.text(file)));
            let system_name = match self.system_names < SYSTEM_NAMES {
                true => texts.index(&system_name(profile, frame)),
                false => texts.index(NO_SYSTEM_NAME),
            };
            self.system_names += texts.all[system_name as usize].len();
            self.functions.push(Function { id, name, system_name, filename });
            id
        })
    }
}

fn system_name(profile: &Profile, frame: &Frame) -> String {
    let module = frame.module.map_or("?", |module| profile.text(module));
    format!("{module}!{}", profile.text(frame.name))
}

fn mapping(id: u64, filename: i64) -> Mapping {
    Mapping { id, filename, has_functions: true, has_filenames: true, has_line_numbers: true }
}

/// Text indexes of labels.
struct Labels {
    thread: i64,
    thread_id: i64,
    state: i64,
    running: i64,
    blocked: i64,
    /// By thread.
    names: Vec<i64>,
}

impl Labels {
    fn of(profile: &Profile, texts: &mut Texts) -> Labels {
        Labels {
            thread: texts.index("thread"),
            thread_id: texts.index("thread_id"),
            state: texts.index("state"),
            running: texts.index("running"),
            blocked: texts.index("blocked"),
            names: profile.threads().iter().map(|thread| texts.index(&thread.label())).collect(),
        }
    }

    fn sample(&self, profile: &Profile, sum: &Sum) -> Sample {
        let thread = sum.thread.0 as usize;
        let state = if sum.state == State::Blocked { self.blocked } else { self.running };
        Sample {
            location_id: profile.walk(sum.stack).map(|frame| u64::from(frame.0) + 1).collect(),
            value: vec![signed(sum.samples), signed(sum.weight)],
            label: vec![
                Label { key: self.thread, text: self.names[thread], number: 0 },
                Label { key: self.thread_id, text: 0, number: i64::from(profile.threads()[thread].id) },
                Label { key: self.state, text: state, number: 0 },
            ],
        }
    }
}

/// The string table; its first text is empty, as the format demands.
struct Texts {
    all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Texts {
    fn new() -> Texts {
        Texts { all: vec![String::new()], known: HashMap::from([(String::new(), 0)]) }
    }

    fn index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.known.get(text) {
            return index;
        }
        let index = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), index);
        index
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{FrameKind, Meta};

    #[test]
    fn regression_each_long_name_was_joined_with_each_module() {
        let mut profile = Profile::new(Meta::default());
        let long = |profile: &mut Profile, number| profile.string(&format!("{number:016384}"));
        let modules: Vec<StringIx> = (0..50).map(|number| long(&mut profile, number)).collect();
        let names: Vec<StringIx> = (50..100).map(|number| long(&mut profile, number)).collect();
        for (module, name) in modules.iter().flat_map(|module| names.iter().map(move |name| (*module, *name))) {
            profile.frame(Frame { kind: FrameKind::Managed, name, module: Some(module), file: None, line: None });
        }
        let mut texts = Texts::new();
        let file = places(&profile, &mut texts);
        assert_eq!(file.function.len(), 2500);
        let length: usize = texts.all.iter().map(String::len).sum();
        assert!(length <= SYSTEM_NAMES + 103 * (16 << 10), "{} MiB", length >> 20);
        let last = file.function.last().map(|last| texts.all[last.system_name as usize].as_str());
        assert_eq!(last, Some(NO_SYSTEM_NAME));
    }
}
