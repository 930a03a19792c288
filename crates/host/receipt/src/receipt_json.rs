//! The receipt as JSON: the boundary types. Field names are permanent; fields may be added.

use crate::{Kind, Left, Receipt, Totals, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the layout, for readers.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct ReceiptJson<'a> {
    clean: bool,
    left: Vec<LeftJson<'a>>,
    allowed: Vec<LeftJson<'a>>,
    timings: TimingsJson,
    before: TotalsJson,
    after: TotalsJson,
    /// Verdict for each kind: `clean`, `left`, `allowed` or `not-looked-at`.
    kinds: BTreeMap<&'static str, &'static str>,
    /// The reason for each unchecked kind.
    not_looked_at: BTreeMap<&'static str, &'static str>,
    process_id: u32,
    runtime: &'a str,
    /// `recording`, `snapshot` or `watch`.
    task: &'static str,
    process: &'static str,
    version: u32,
}

#[derive(Serialize)]
struct LeftJson<'a> {
    kind: &'static str,
    what: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct TimingsJson {
    attach_ms: f64,
    /// Duration of the task.
    recording_ms: f64,
    detach_ms: f64,
}

#[derive(Serialize)]
struct TotalsJson {
    mappings: usize,
    threads: usize,
    descriptors: usize,
    children: usize,
    timers: usize,
    resident_bytes: u64,
    virtual_bytes: u64,
    /// Null if reading it was not cheap.
    proportional_bytes: Option<u64>,
    signals_ignored: String,
    signals_caught: String,
}

impl Receipt {
    /// The receipt as JSON, indented, with a final newline.
    pub fn to_json(&self) -> String {
        let json = ReceiptJson {
            clean: self.clean(),
            left: self.left.iter().map(LeftJson::from).collect(),
            allowed: self.allowed.iter().map(LeftJson::from).collect(),
            timings: TimingsJson {
                attach_ms: milliseconds(self.attach),
                recording_ms: milliseconds(self.recording),
                detach_ms: milliseconds(self.detach),
            },
            before: TotalsJson::from(&self.before),
            after: TotalsJson::from(&self.after),
            kinds: Kind::ALL.iter().map(|kind| (kind.name(), self.verdict(*kind).into())).collect(),
            not_looked_at: self.passed_over().map(|(kind, why)| (kind.name(), why)).collect(),
            process_id: self.process_id,
            runtime: &self.runtime,
            task: self.task.name(),
            process: self.outcome.into(),
            version: VERSION,
        };
        let mut text = serde_json::to_string_pretty(&json).expect("texts and numbers always serialise");
        text.push('\n');
        text
    }

    /// Unchecked kinds, with the reason.
    pub(crate) fn passed_over(&self) -> impl Iterator<Item = (Kind, &'static str)> {
        Kind::ALL.iter().filter_map(|kind| match self.verdict(*kind) {
            Verdict::NotLookedAt(why) => Some((*kind, why)),
            _ => None,
        })
    }
}

impl<'a> From<&'a Left> for LeftJson<'a> {
    fn from(left: &'a Left) -> Self {
        LeftJson { kind: left.kind.name(), what: &left.what, why: &left.why }
    }
}

impl From<&Totals> for TotalsJson {
    fn from(totals: &Totals) -> Self {
        TotalsJson {
            mappings: totals.mappings,
            threads: totals.threads,
            descriptors: totals.descriptors,
            children: totals.children,
            timers: totals.timers,
            resident_bytes: totals.memory.resident,
            virtual_bytes: totals.memory.virtual_size,
            proportional_bytes: totals.memory.proportional,
            signals_ignored: format!("{:016x}", totals.signals.ignored),
            signals_caught: format!("{:016x}", totals.signals.caught),
        }
    }
}

/// Milliseconds with three places.
fn milliseconds(nanoseconds: u64) -> f64 {
    (nanoseconds / 1000) as f64 / 1000.0
}
