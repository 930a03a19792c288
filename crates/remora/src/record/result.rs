//! The summary printed at the end of a recording.

use super::engine_step::EndReason;
use super::without_lines::{AssemblyJson, WithoutLines};
use crate::baseline::{receipt_json, receipt_text};
use crate::console::{Page, line, note_all, out};
use crate::failure::Failure;
use crate::output::{Destination, Output};
use crate::report::{ExceptionsJson, Part, Summed, exceptions, head, hottest, in_short, notes, tables};
use remora_profile::{ApplicationRule, ApplicationTime, Event, Profile, Summary};
use remora_receipt::Receipt;
use serde::Serialize;
use serde_json::json;

/// Methods in the summary.
const TOP: usize = 10;
/// Rows of each table in the summary's text.
const ROWS: usize = 5;

/// The result.
pub(crate) struct Outcome<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) rule: &'a ApplicationRule,
    pub(crate) receipt: &'a Receipt,
    /// The output, if it could be written.
    pub(crate) output: Option<&'a Output>,
    /// The receipt's file, if it could be written.
    pub(crate) receipt_file: Option<&'a Destination>,
    pub(crate) why: &'a EndReason,
    /// Managed frames in all samples, and how many of them have a name.
    pub(crate) managed_frames: Option<(u64, u64)>,
    /// The application's assemblies without lines.
    pub(crate) without_lines: &'a WithoutLines,
    /// From the attach request to the first sample, nanoseconds.
    pub(crate) first_sample: Option<u64>,
}

/// JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Json<'a> {
    clean: bool,
    ended: &'static str,
    files: Vec<String>,
    first_sample_nanoseconds: Option<u64>,
    managed_frames: Option<u64>,
    managed_frames_named: Option<u64>,
    assemblies_without_lines: Vec<AssemblyJson<'a>>,
    recording: Summed<'a>,
    exceptions: Option<ExceptionsJson<'a>>,
    hottest: Part<'a>,
    receipt: serde_json::Value,
}

/// Reports the receipt of a recording that did not start.
pub(crate) fn tell_of_nothing(
    receipt: &Receipt,
    failure: &Failure,
    receipt_file: Option<&Destination>,
    (json, output): (bool, &Output),
) -> Result<(), Failure> {
    let files = written(receipt_file.into_iter());
    let text = if json {
        Page::json(&json!({
            "clean": receipt.clean(),
            "ended": "not-begun",
            "error": failure.json_value(),
            "files": files,
            "receipt": receipt_json(receipt),
        }))
    } else {
        receipt_text(receipt) + wrote(&files)
    };
    print(&text, output, receipt_file)
}

/// Prints on standard output, unless the recording or the receipt itself goes there.
fn print(text: &Page, output: &Output, receipt_file: Option<&Destination>) -> Result<(), Failure> {
    let taken = |place: &Destination| *place == Destination::Stdout;
    if taken(&output.destination) || receipt_file.is_some_and(taken) {
        note_all(text);
        Ok(())
    } else {
        out(text)
    }
}

/// Paths of the written files.
fn written<'a>(places: impl Iterator<Item = &'a Destination>) -> Vec<String> {
    places.filter_map(|place| Some(place.path()?.display().to_string())).collect()
}

fn wrote(files: &[String]) -> Page {
    files.iter().map(|file| line(format!("wrote {file}"))).sum()
}

impl Outcome<'_> {
    /// Prints the summary: on standard output, unless the recording itself went there.
    pub(crate) fn tell(&self, json: bool, output: &Output) -> Result<(), Failure> {
        let summary = Summary::of(self.profile, None);
        let text = if json { self.json(&summary) } else { self.text(&summary) };
        print(&text, output, self.receipt_file)
    }

    fn json(&self, summary: &Summary) -> Page {
        Page::json(&Json {
            clean: self.receipt.clean(),
            ended: self.why.into(),
            files: self.files(),
            first_sample_nanoseconds: self.first_sample,
            managed_frames: self.managed_frames.map(|(all, _)| all),
            managed_frames_named: self.managed_frames.map(|(_, named)| named),
            assemblies_without_lines: self.without_lines.json(),
            recording: Summed::of(self.profile),
            exceptions: ExceptionsJson::of(self.profile, self.rule, TOP),
            hottest: Part::of(self.profile, None, summary, (self.rule, TOP)),
            receipt: receipt_json(self.receipt),
        })
    }

    fn text(&self, summary: &Summary) -> Page {
        let mut text = head(self.profile) + line("");
        let thrown = exceptions(self.profile, self.rule, ROWS);
        if !thrown.is_empty() {
            text += thrown + line("");
        }
        let time = ApplicationTime::of(self.profile, self.rule, None);
        if summary.samples > 0 {
            text += tables(self.profile, &time, self.rule, ROWS) + line("");
        }
        // Where application methods have most of the time, the leaves say less: they are functions of the runtime and the C library. Those of
        // wall-clock time wait, most of them in idle threads.
        let is_explained = time.elsewhere.saturating_sub(time.idle).saturating_mul(2) < time.busy();
        if time.methods.is_empty() || self.profile.meta.event == Event::Cpu && !is_explained {
            text += hottest(self.profile, summary, ROWS) + line("");
        }
        let notes = notes(self.profile);
        if !notes.is_empty() {
            text += notes + line("");
        }
        // The lines above the prompt. On a small terminal the tables have scrolled away.
        let in_short = in_short(self.profile, &time, self.rule).map(|words| line(format!("in short: {words}")));
        text + receipt_text(self.receipt) + wrote(&self.files()) + in_short.into_iter().sum()
    }

    fn files(&self) -> Vec<String> {
        written(self.output.map(|output| &output.destination).into_iter().chain(self.receipt_file))
    }
}
