//! The two snapshots of a watch as files, for `remora heap diff`.

use super::take::{now, rows, state_of};
use crate::failure::Failure;
use crate::output::{Destination, HeapSpool, Named};
use remora_attach::Process;
use remora_collector::{Classes, EndedSnapshot, LaidOut, NamingBudget};
use remora_heap_file::State;
use remora_heap_stream::Foreign;
use std::path::{Path, PathBuf};

/// The extension of a snapshot file.
const ENDING: &str = ".remora-heap";

/// Noted in both: static fields change during the watch, and it does not read them (`State::has_static_fields`).
const NO_STATIC_FIELDS: &str = "a watch does not ask about static fields: which of them hold objects is not known here, and a snapshot \
                                without --watch says it";

/// Destinations of the first and the last snapshot.
pub(crate) struct SnapshotPair {
    places: [Destination; 2],
    /// The snapshot in progress.
    current: Option<HeapSpool>,
    first: Option<Whole>,
    last: Option<Whole>,
    /// Why storing stopped.
    failed: Option<Failure>,
}

/// A snapshot that is complete except for its names.
struct Whole {
    spool: HeapSpool,
    about: EndedSnapshot,
    taken: u64,
}

impl SnapshotPair {
    /// Beside the requested file: `FILE.before.remora-heap` and `FILE.after.remora-heap`.
    pub(crate) fn beside(file: &Path, force: bool) -> Result<SnapshotPair, Failure> {
        let asked = Destination::of(file, force);
        let is_folder = file.is_dir() || file.as_os_str().as_encoded_bytes().ends_with(b"/");
        let places = ["before", "after"].map(|which| Destination::of(&named(file, which), force));
        if is_folder || !asked.is_regular() || !places.iter().all(Destination::is_regular) {
            let advice = "two snapshots are kept in two files; give -o the name of a regular file";
            return Err(Failure::Usage(advice.to_owned()));
        }
        places.iter().try_for_each(Destination::check)?;
        Ok(SnapshotPair { places, current: None, first: None, last: None, failed: None })
    }

    /// Checks that the receipt takes the place of neither.
    pub(crate) fn check_apart(&self, receipt: Option<&Destination>) -> Result<(), Failure> {
        self.places.iter().try_for_each(|place| place.check_apart(receipt, "the snapshot"))
    }

    /// Stores the next bytes of a snapshot.
    pub(crate) fn stream(&mut self, bytes: Foreign<&[u8]>) {
        if self.failed.is_some() {
            return;
        }
        if self.current.is_none() {
            // Of the snapshots after the first only the last is kept: the previous one makes room for it.
            if let Some(before) = self.last.take() {
                before.spool.discard();
            }
            let place = &self.places[usize::from(self.first.is_some())];
            match HeapSpool::create(place, false) {
                Ok(spool) => self.current = Some(spool),
                Err(failure) => return self.failed = Some(failure),
            }
        }
        if let Some(spool) = &mut self.current {
            spool.stream(bytes);
        }
    }

    /// Whether nothing more can be stored: the disk is full, or nearly.
    pub(crate) fn must_end(&self) -> bool {
        self.failed.is_some() || self.current.as_ref().is_some_and(HeapSpool::must_end)
    }

    /// Ends the current snapshot.
    pub(crate) fn snapshot(&mut self, about: EndedSnapshot) {
        let Some(spool) = self.current.take() else { return };
        let whole = Whole { spool, about, taken: now() };
        if self.first.is_none() {
            self.first = Some(whole);
        } else {
            self.last = Some(whole);
        }
    }

    /// Discards the current snapshot: it cannot serve as the first one.
    pub(crate) fn give_up(&mut self) {
        if let Some(spool) = self.current.take() {
            spool.discard();
        }
    }

    /// Writes names and process facts, and moves both files to their destinations, which it returns.
    pub(crate) fn keep(
        mut self,
        process: &Process,
        runtime: &str,
        classes: &mut Classes,
        mut budget: NamingBudget,
    ) -> Result<Vec<PathBuf>, Failure> {
        self.give_up();
        let mut kept = Vec::new();
        for (whole, destination) in [self.first, self.last].into_iter().zip(&self.places) {
            if let Some(whole) = whole {
                let rows = rows(classes, whole.about.classes.iter().copied(), &mut budget);
                let mut state = state(process, runtime, &whole);
                state.notes.extend(budget.note());
                let named = Named { types: &rows, methods: &[], laid_out: &LaidOut::default() };
                kept.push(whole.spool.finish(&named, &state, destination)?);
            }
        }
        self.failed.map_or(Ok(kept), Err)
    }
}

fn state(process: &Process, runtime: &str, whole: &Whole) -> State {
    let pause = whole.about.pause;
    State {
        collection_nanoseconds: pause.map(|(collection, _)| collection),
        copy_nanoseconds: pause.map(|(_, copy)| copy),
        complete: whole.about.is_whole && whole.spool.is_whole(),
        notes: vec![NO_STATIC_FIELDS.to_owned()],
        ..state_of(process, runtime.to_owned(), whole.taken)
    }
}

/// `orders.remora-heap` becomes `orders.before.remora-heap`.
fn named(file: &Path, which: &str) -> PathBuf {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.strip_suffix(ENDING).unwrap_or(&name);
    file.with_file_name(format!("{stem}.{which}{ENDING}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_files_are_called_after_the_one_that_is_asked_for() {
        for (asked, expected) in [
            ("orders.remora-heap", "orders.before.remora-heap"),
            ("/tmp/orders", "/tmp/orders.before.remora-heap"),
            ("a.b.remora-heap", "a.b.before.remora-heap"),
        ] {
            assert_eq!(named(Path::new(asked), "before"), Path::new(expected));
        }
    }
}
