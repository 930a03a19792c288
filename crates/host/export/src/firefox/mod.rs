//! The processed format of <https://profiler.firefox.com>, version 55, compressed. Newer profilers upgrade it when they load it.
//!
//! Written by hand, as the crate `fxprof-processed-profile` has neither source lines nor fractional weights (tests compare its structure).
//! Every sample is written, in time order. Weights are milliseconds with a fraction, each exact to the nanosecond, so their sum is the
//! total weight within the precision of a double. `threadCPUDelta` is the weight for CPU time samples and for running threads, and 0 for
//! blocked ones.
//! The account of samples and all notes are in the "extra" section, which the profiler shows with the profile's information.

mod table;

use crate::{Format, account, size};
use flate2::{Compression, write::GzEncoder};
use remora_profile::{CodeKind, Profile, Sample};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use std::io::{self, BufWriter, IntoInnerError, Write};
use table::Tables;

const VERSION: u32 = 55;
/// The version of Gecko's own format, which the profiler ignores in processed profiles.
const GECKO_VERSION: u32 = 24;

/// Bytes of JSON compressed at a time.
const BUFFER: usize = 1 << 16;

const NANOSECONDS_A_MILLISECOND: f64 = 1e6;

pub(crate) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let file = File::of(profile);
    size::check(Format::Firefox, table::sizes(profile, &file.threads.samples))?;
    // JSON is written a few bytes at a time, which is slow for the compressor. A higher level than `fast` takes three times as long and
    // saves a tenth.
    let mut packed = BufWriter::with_capacity(BUFFER, GzEncoder::new(out, Compression::fast()));
    serde_json::to_writer(&mut packed, &file).map_err(io::Error::from)?;
    packed.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
    Ok(())
}

/// Nanoseconds as milliseconds, the format's unit.
fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / NANOSECONDS_A_MILLISECOND
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    meta: Meta<'a>,
    libs: Vec<Lib<'a>>,
    pages: [(); 0],
    profiler_overhead: [(); 0],
    counters: [(); 0],
    threads: Threads<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    categories: Vec<Category>,
    debug: bool,
    extensions: Extensions,
    interval: f64,
    preprocessed_profile_version: u32,
    process_type: u32,
    product: &'a str,
    imported_from: &'static str,
    sample_units: Units,
    start_time: f64,
    profiling_start_time: f64,
    profiling_end_time: f64,
    symbolicated: bool,
    paused_ranges: [(); 0],
    version: u32,
    uses_only_one_stack_type: bool,
    source_code_is_not_on_searchfox: bool,
    marker_schema: [(); 0],
    initial_selected_threads: Vec<usize>,
    extra: [Section; 1],
}

#[derive(Serialize)]
struct Category {
    name: &'static str,
    color: &'static str,
    subcategories: [&'static str; 1],
}

#[derive(Serialize, Default)]
struct Extensions {
    length: usize,
    #[serde(rename = "baseURL")]
    base_url: [(); 0],
    id: [(); 0],
    name: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Units {
    time: &'static str,
    event_delay: &'static str,
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: &'static str,
}

#[derive(Serialize)]
struct Section {
    label: &'static str,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    label: String,
    format: &'static str,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Lib<'a> {
    arch: Option<&'a str>,
    name: &'a str,
    path: &'a str,
    debug_name: &'a str,
    debug_path: &'a str,
    breakpad_id: &'a str,
    code_id: Option<&'a str>,
}

/// The threads with samples; each one's tables are built while it is written.
struct Threads<'a> {
    profile: &'a Profile,
    samples: Vec<(usize, Vec<&'a Sample>)>,
    modules: table::Modules<'a>,
}

impl<'a> File<'a> {
    fn of(profile: &'a Profile) -> File<'a> {
        let samples = by_thread(profile);
        let weight = |samples: &[&Sample]| samples.iter().map(|sample| sample.weight).sum::<u64>();
        let busiest = (0..samples.len()).max_by_key(|&at| (weight(&samples[at].1), std::cmp::Reverse(at)));
        let modules = table::Modules::of(profile);
        File {
            meta: Meta::of(profile, busiest),
            libs: modules.names.iter().copied().map(Lib::called).collect(),
            pages: [],
            profiler_overhead: [],
            counters: [],
            threads: Threads { profile, samples, modules },
        }
    }
}

/// The samples of each thread with samples, in time order.
fn by_thread(profile: &Profile) -> Vec<(usize, Vec<&Sample>)> {
    let mut threads: Vec<Vec<&Sample>> = vec![Vec::new(); profile.threads().len()];
    for sample in profile.samples() {
        threads[sample.thread.0 as usize].push(sample);
    }
    for samples in &mut threads {
        samples.sort_by_key(|sample| sample.time);
    }
    threads.into_iter().enumerate().filter(|(_, samples)| !samples.is_empty()).collect()
}

impl<'a> Meta<'a> {
    fn of(profile: &'a Profile, busiest: Option<usize>) -> Meta<'a> {
        let meta = &profile.meta;
        Meta {
            categories: CodeKind::ALL.map(Category::of).into(),
            debug: false,
            extensions: Extensions::default(),
            interval: 1_000.0 / f64::from(meta.frequency.max(1)),
            preprocessed_profile_version: VERSION,
            process_type: 0,
            product: &meta.application,
            imported_from: "Remora",
            sample_units: Units { time: "ms", event_delay: "ms", thread_cpu_delta: "µs" },
            start_time: milliseconds(meta.started_unix_nanoseconds),
            profiling_start_time: 0.0,
            profiling_end_time: milliseconds(meta.duration),
            symbolicated: true,
            paused_ranges: [],
            version: GECKO_VERSION,
            uses_only_one_stack_type: true,
            source_code_is_not_on_searchfox: true,
            marker_schema: [],
            initial_selected_threads: busiest.into_iter().collect(),
            extra: [Section { label: "Remora", entries: entries(profile) }],
        }
    }
}

/// The account's lines are `label: value`.
fn entries(profile: &Profile) -> Vec<Entry> {
    let entry = |line: String| {
        let (label, value) = line.split_once(": ").unwrap_or(("note", &line));
        Entry { label: label.to_owned(), format: "string", value: value.to_owned() }
    };
    account::lines(profile).into_iter().map(entry).collect()
}

impl Category {
    /// The profiler's default category is the grey one, which must be called "Other".
    fn of(kind: CodeKind) -> Category {
        let (name, color) = match kind {
            CodeKind::Application => (kind.label(), "orange"),
            CodeKind::Framework => (kind.label(), "green"),
            CodeKind::Native => (kind.label(), "blue"),
            CodeKind::Runtime => (kind.label(), "purple"),
            CodeKind::Marker => ("Other", "grey"),
        };
        Category { name, color, subcategories: ["Other"] }
    }
}

impl<'a> Lib<'a> {
    fn called(name: &'a str) -> Lib<'a> {
        Lib { arch: None, name, path: name, debug_name: name, debug_path: name, breakpad_id: "", code_id: None }
    }
}

impl Serialize for Threads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.samples.len()))?;
        for (index, samples) in &self.samples {
            seq.serialize_element(&Tables::of(self.profile, &self.modules, *index, samples))?;
        }
        seq.end()
    }
}
