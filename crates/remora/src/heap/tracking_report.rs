//! The report of a watch, as text or JSON.

use super::next_steps::kept;
use super::renewal::MOST_IN_A_ROW;
use crate::args::HeapTakeArgs;
use crate::baseline::{receipt_json, receipt_text};
use crate::console::{Page, counted, grouped, line, out, titled};
use crate::failure::Failure;
use remora_attach::{Process, TargetText};
use remora_collector::{Called, Classes, NamingBudget, WatchFinished};
use remora_heap_report::Columns;
use remora_heap_tracking::{Difference, Tally, Watch};
use remora_receipt::Receipt;
use remora_terminal::duration::show;
use remora_terminal::signed;
use remora_terminal::size::shown;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The outcome of the last snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastSnapshot {
    /// Differences between the mirror and the last snapshot; `None` if nothing could be compared.
    pub(crate) difference: Option<Difference>,
    /// Whether there was a last snapshot at all.
    pub(crate) was_taken: bool,
    /// Whether the watch gave up early, since no mirror stayed valid.
    pub(crate) was_given_up: bool,
}

/// JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct TrackingJson {
    process_id: u32,
    application: String,
    runtime: String,
    /// From the first snapshot to the last.
    seconds: f64,
    collections: CollectionsJson,
    mirror: MirrorJson,
    types: Vec<TypeJson>,
    notes: Vec<String>,
    /// The files of the first and the last snapshot.
    files: Vec<PathBuf>,
    receipt: serde_json::Value,
}

#[derive(Debug, Serialize)]
struct CollectionsJson {
    generation_0: u64,
    generation_1: u64,
    generation_2: u64,
    nanoseconds: u64,
    /// Time that the watch added to these GCs.
    extra_nanoseconds: u64,
    /// Pauses for the watch's own snapshots: a full GC and the copy.
    snapshot_nanoseconds: u64,
}

#[derive(Debug, Serialize)]
struct MirrorJson {
    /// Whether the mirror equals the last snapshot, and no events were lost.
    is_true: bool,
    /// How often events were lost, so that the mirror was rebuilt.
    lost: u64,
    /// Whether the watch gave up, since several mirrors in a row lost events at once.
    given_up: bool,
    /// Whether there was a last snapshot at all.
    #[serde(skip)]
    has_last: bool,
    /// Objects that are the same in the mirror and in the last snapshot; null if they could not be compared.
    same: Option<u64>,
    /// Objects in the mirror only.
    missing: Option<u64>,
    /// Objects in the snapshot only.
    unknown: Option<u64>,
    /// Of those, objects in frozen segments: the runtime reports no event for their allocation.
    unknown_frozen: Option<u64>,
    /// Objects that differ between the two.
    other: Option<u64>,
    /// Contradictory events.
    contradictions: u64,
    /// Bytes that survived without a known object.
    unexplained_bytes: u64,
}

/// One type. Classes with the same name and assembly are merged.
#[derive(Debug, Serialize)]
struct TypeJson {
    r#type: String,
    assembly: String,
    objects_at_start: u64,
    bytes_at_start: u64,
    objects: u64,
    bytes: u64,
    /// Objects allocated, as the runtime counts them: without large and pinned ones.
    allocated: u64,
    /// Objects that survived their first GC.
    born: u64,
    /// Of these, large objects, which `allocated` does not count.
    born_large: u64,
    /// Of these, objects still alive.
    born_and_there: u64,
    /// Objects of the first snapshot that have died.
    died_of_start: u64,
    /// GCs survived by objects that were allocated and died during the watch.
    died_after: AgesJson,
    bytes_per_minute: f64,
}

impl TypeJson {
    /// Objects allocated, as far as known.
    fn made(&self) -> u64 {
        self.allocated.saturating_add(self.born_large).max(self.born)
    }
}

#[derive(Debug, Default, Serialize)]
struct AgesJson {
    none: u64,
    one: u64,
    two_to_five: u64,
    more: u64,
}

/// The report's data.
pub(crate) struct TrackingReport {
    json: TrackingJson,
    /// For each snapshot the pause with its GC, and the fork's part of it.
    pauses: Vec<(u64, u64)>,
}

impl TrackingReport {
    /// Computes the report.
    pub(crate) fn new(
        process: &Process,
        mut watch: Watch,
        mut finished: WatchFinished,
        end: LastSnapshot,
        (lasted, mut budget): (Duration, NamingBudget),
    ) -> TrackingReport {
        let mut notes = notes(&watch, &finished, end);
        let (types, otherwise) = types(&mut watch, &mut finished.classes, (&mut budget, lasted));
        notes.extend(budget.note());
        notes.extend((otherwise > 0).then(|| {
            format!(
                "{} cannot be distinguished from later ones with the same id, and have no names",
                counted(otherwise, "type")
            )
        }));
        let all = watch.collections();
        let [generation_0, generation_1, generation_2] = all.by_generation;
        let (nanoseconds, extra_nanoseconds) = (all.time, all.extra);
        let snapshot_nanoseconds = saturating_sum(finished.pauses.iter().map(|(pause, _)| *pause));
        let json = TrackingJson {
            process_id: process.pid,
            application: process.name().within(TargetText::LONGEST),
            runtime: finished.facts.runtime.clone(),
            seconds: lasted.as_secs_f64(),
            collections: CollectionsJson {
                generation_0,
                generation_1,
                generation_2,
                nanoseconds,
                extra_nanoseconds,
                snapshot_nanoseconds,
            },
            mirror: mirror_json(&watch, end),
            types,
            notes,
            files: Vec::new(),
            receipt: serde_json::Value::Null,
        };
        TrackingReport { json, pauses: finished.pauses }
    }

    /// Prints the report; fails if it is not reliable.
    pub(crate) fn print(mut self, args: &HeapTakeArgs, files: &[PathBuf], receipt: &Receipt) -> Result<(), Failure> {
        self.json.files = files.to_vec();
        out(&if args.shown.json {
            self.json.receipt = receipt_json(receipt);
            Page::json(&self.json)
        } else {
            self.text(args.shown.top()) + line("") + receipt_text(receipt) + line("") + kept(files, None)
        })?;
        match self.json.mirror.why_not() {
            None => Ok(()),
            Some(why) => Err(Failure::NotTrue(why)),
        }
    }

    fn text(&self, top: usize) -> Page {
        let json = &self.json;
        let (all, mut text) = (&json.collections, self.head());
        text += line(format!(
            "{} of generation 0, {} of 1, {} of 2; they took {}",
            counted(all.generation_0, "collection"),
            grouped(all.generation_1),
            grouped(all.generation_2),
            show(all.nanoseconds),
        ));
        text += line(format!(
            "the watch paused the application for {} for {} with a full GC, and made collections {} longer",
            show(all.snapshot_nanoseconds),
            counted(self.pauses.len() as u64, "snapshot"),
            show(all.extra_nanoseconds),
        ));
        for (collection, copy) in self.pauses.iter() {
            text += line(format!("one snapshot: {} (fork: {})", show(*collection), show(*copy)));
        }
        text += line(json.mirror.sentence());
        text += titled("types, by how much they have grown") + self.growth(top);
        text += titled("types, by how many objects were made") + self.lives(top);
        text + json.notes.iter().map(|note| line(format!("note: {note}"))).sum()
    }

    fn head(&self) -> Page {
        let json = &self.json;
        let sum = |of: fn(&TypeJson) -> u64| saturating_sum(json.types.iter().map(of));
        let watched =
            format!("{} ({}), {}, watched for {:.1} s", json.application, json.process_id, json.runtime, json.seconds);
        let sizes = format!(
            "from {} in {} to {} in {}",
            shown(sum(|one| one.bytes_at_start)),
            counted(sum(|one| one.objects_at_start), "object"),
            shown(sum(|one| one.bytes)),
            counted(sum(|one| one.objects), "object"),
        );
        line(watched) + line(sizes)
    }

    fn growth(&self, top: usize) -> Page {
        let changed: Vec<&TypeJson> = self.json.types.iter().filter(|one| one.bytes != one.bytes_at_start).collect();
        if changed.is_empty() {
            return line("none: each takes as much at the end as at the beginning");
        }
        let numbers = &["a minute", "grown", "now", "objects", "new there", "old died"];
        Columns { numbers, texts: &["type"] }.top(&changed, top, |one| {
            [
                signed(one.bytes_per_minute as i128, shown),
                signed(i128::from(one.bytes) - i128::from(one.bytes_at_start), shown),
                shown(one.bytes),
                grouped(one.objects),
                grouped(one.born_and_there),
                grouped(one.died_of_start),
                one.r#type.clone(),
            ]
        })
    }

    fn lives(&self, top: usize) -> Page {
        let mut types: Vec<&TypeJson> = self.json.types.iter().filter(|one| one.made() > 0).collect();
        if types.is_empty() {
            return line("none, as far as the GCs report");
        }
        types.sort_by_key(|one| std::cmp::Reverse(one.made()));
        let numbers = &["made", "died after 0", "1", "2-5", "more", "still there"];
        Columns { numbers, texts: &["type"] }.top(&types, top, |one| {
            let AgesJson { none, one: first, two_to_five, more } = &one.died_after;
            [
                grouped(one.made()),
                grouped(*none),
                grouped(*first),
                grouped(*two_to_five),
                grouped(*more),
                grouped(one.born_and_there),
                one.r#type.clone(),
            ]
        })
    }
}

impl MirrorJson {
    fn why_not(&self) -> Option<String> {
        match (self.is_true, self.same) {
            (true, _) => None,
            (_, _) if self.given_up => Some(format!(
                "{MOST_IN_A_ROW} heap mirrors in a row lasted less than ten seconds, since GC reports found no room or could not be relied \
                 on; so the watch ended early"
            )),
            (_, _) if !self.has_last => Some("there was no last snapshot to compare it with".to_owned()),
            (_, _) if self.lost > 0 => {
                Some(format!("GC reports found no room {}, and the heap mirror was rebuilt", times(self.lost)))
            }
            (_, None) => Some("the last snapshot could not be compared with it".to_owned()),
            _ => Some(format!(
                "{} of it are not in the last snapshot, {} of the snapshot are not in it, {} are others",
                counted(self.missing.unwrap_or(0), "object"),
                grouped(self.unknown.unwrap_or(0)),
                grouped(self.other.unwrap_or(0)),
            )),
        }
    }

    fn sentence(&self) -> String {
        match (self.why_not(), self.same) {
            (None, same) => {
                format!("the heap mirror equals the last snapshot: {}", counted(same.unwrap_or(0), "object"))
            }
            (Some(why), _) => format!("heap tracking lost events: {why}"),
        }
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) }
}

fn mirror_json(watch: &Watch, end: LastSnapshot) -> MirrorJson {
    let difference = end.difference;
    let is_same = difference.is_some_and(|difference| difference.is_none());
    MirrorJson {
        is_true: is_same && watch.stales() == 0 && watch.sum().contradictions == 0 && watch.is_complete(),
        lost: watch.stales(),
        given_up: end.was_given_up,
        has_last: end.was_taken,
        same: difference.map(|one| one.same),
        missing: difference.map(|one| one.missing),
        unknown: difference.map(|one| one.unknown),
        unknown_frozen: difference.map(|one| one.unknown_frozen),
        other: difference.map(|one| one.other),
        contradictions: watch.sum().contradictions,
        unexplained_bytes: watch.sum().unexplained,
    }
}

fn notes(watch: &Watch, finished: &WatchFinished, end: LastSnapshot) -> Vec<String> {
    let mut notes = finished.notes.clone();
    let frozen = end.difference.map_or(0, |difference| difference.unknown_frozen);
    let counted = [
        (finished.lost, "pieces of GC reports found no room"),
        (watch.sum().contradictions, "objects did not fit to what was known of them"),
        (frozen, "objects are new in parts that are never collected: they are not in the tables"),
    ];
    notes.extend(
        counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", grouped(*count))),
    );
    notes
}

/// All types that had an object, fastest growth first; and the number of objects that changed their type.
fn types(
    watch: &mut Watch,
    names: &mut Classes,
    (budget, lasted): (&mut NamingBudget, Duration),
) -> (Vec<TypeJson>, u64) {
    let tallies = watch.account().tallies().to_vec();
    let mut otherwise = 0;
    let mut by_name: BTreeMap<(String, String), Tally> = BTreeMap::new();
    for ((id, facts), tally) in watch.classes().all().iter().zip(&tallies) {
        if *tally == Tally::default() {
            continue;
        }
        let called = names.called(*id, facts, budget);
        otherwise += u64::from(called == Called::Otherwise);
        let (name, file) = match called {
            Called::As(name, file) => (name, file),
            Called::Unknown | Called::Otherwise => ("[unnamed type]".to_owned(), None),
        };
        let assembly = file.as_deref().map(super::take::simple_name).unwrap_or_default().to_owned();
        by_name.entry((name, assembly)).or_default().add(tally);
    }
    let minutes = (lasted.as_secs_f64() / 60.0).max(f64::MIN_POSITIVE);
    let mut types: Vec<TypeJson> = by_name.into_iter().map(|(name, tally)| type_json(name, &tally, minutes)).collect();
    types.sort_by_key(|one| std::cmp::Reverse(i128::from(one.bytes) - i128::from(one.bytes_at_start)));
    (types, otherwise)
}

/// A sum of numbers that a target claims.
fn saturating_sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn type_json((name, assembly): (String, String), tally: &Tally, minutes: f64) -> TypeJson {
    let grown = tally.bytes as f64 - tally.bytes_at_start as f64;
    TypeJson {
        r#type: name,
        assembly,
        objects_at_start: tally.objects_at_start,
        bytes_at_start: tally.bytes_at_start,
        objects: tally.objects,
        bytes: tally.bytes,
        allocated: tally.allocated,
        born: tally.born,
        born_large: tally.born_large,
        born_and_there: tally.born.saturating_sub(tally.born_died),
        died_of_start: tally.start_died,
        died_after: AgesJson {
            none: tally.ages.none,
            one: tally.ages.one,
            two_to_five: tally.ages.some,
            more: tally.ages.more,
        },
        bytes_per_minute: grown / minutes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_what_a_target_claims_do_not_overflow() {
        assert_eq!(saturating_sum([u64::MAX, 5].into_iter()), u64::MAX);
        assert_eq!(saturating_sum([2, 3].into_iter()), 5);
    }
}
