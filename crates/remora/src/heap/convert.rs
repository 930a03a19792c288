//! `remora heap convert`: exports a snapshot for other tools.

use super::{dominators, fail_if_incomplete, open};
use crate::args::HeapConvertArgs;
use crate::console::note;
use crate::failure::Failure;
use crate::output::{Destination, NamedFormat};
use remora_heap_export::{About, Format, Table};
use remora_heap_file::Snapshot;
use remora_heap_report::notes;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// The output kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file.
    One(Format),
    /// A file for each table, in Parquet.
    Tables,
}

/// Runs the command.
pub(crate) fn run(args: &HeapConvertArgs) -> Result<(), Failure> {
    let destination = Destination::of(&args.output, args.force);
    match Target::resolve(args.format.as_deref(), &destination, Format::HeapSnapshot.name())? {
        Target::One(format) => one(args, &destination, format),
        Target::Tables if destination == Destination::Stdout => Err(Failure::TablesToStdout),
        Target::Tables => tables(args),
    }
}

fn one(args: &HeapConvertArgs, destination: &Destination, format: Format) -> Result<(), Failure> {
    if *destination == Destination::Stdout && format.is_binary() && io::stdout().is_terminal() {
        return Err(Failure::BinaryToTerminal { format: format.ending().to_owned() });
    }
    destination.check()?;
    let snapshot = open(&args.file)?;
    remora_heap_export::check(&snapshot.graph, format)?;
    destination.write(|out| {
        let mut out = BufWriter::with_capacity(BUFFER, out);
        remora_heap_export::write(&snapshot.graph, &about(&snapshot), format, &mut out)?;
        out.flush()
    })?;
    if let Some(path) = destination.path() {
        note(&format!("wrote {}", path.display()));
    }
    fail_if_incomplete(&args.file, &snapshot)
}

/// Checks all files before it writes the first.
fn tables(args: &HeapConvertArgs) -> Result<(), Failure> {
    let places = Table::ALL.map(|table| (table, Destination::of(&place_of(table, &args.output), args.force)));
    places.iter().try_for_each(|(_, place)| place.check())?;
    let snapshot = open(&args.file)?;
    let tree = dominators(&args.file, &snapshot.graph)?;
    for (table, place) in &places {
        place.write(|out| {
            let mut out = BufWriter::with_capacity(BUFFER, out);
            table.write(&snapshot.graph, &tree, &mut out)?;
            out.flush()
        })?;
        note(&format!("wrote {}", place.path().unwrap_or_default().display()));
    }
    fail_if_incomplete(&args.file, &snapshot)
}

/// `a.objects.parquet` for `a.parquet`.
fn place_of(table: Table, path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let is_ending = |at: &usize| name.get(*at..).is_some_and(|end| end.eq_ignore_ascii_case(Target::Tables.ending()));
    let stem = name.len().checked_sub(Target::Tables.ending().len()).filter(is_ending).map_or(&*name, |at| &name[..at]);
    path.with_file_name(format!("{stem}.{}{}", table.name(), Target::Tables.ending()))
}

impl NamedFormat for Target {
    fn all() -> impl Iterator<Item = Target> {
        Format::ALL.into_iter().map(Target::One).chain([Target::Tables])
    }

    fn name(self) -> &'static str {
        match self {
            Target::One(format) => format.name(),
            Target::Tables => "parquet",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Target::One(format) => format.ending(),
            Target::Tables => ".parquet",
        }
    }
}

fn about(snapshot: &Snapshot) -> About {
    About {
        application: snapshot.state.application.clone(),
        process_id: snapshot.state.process_id,
        runtime: snapshot.state.runtime.clone(),
        taken_unix_nanoseconds: snapshot.state.taken_unix_nanoseconds,
        complete: snapshot.is_complete(),
        notes: notes(snapshot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stand_beside_each_other_under_the_name_that_was_given() {
        let cases = [
            ("/a.b/heap.parquet", "/a.b/heap.objects.parquet"),
            ("HEAP.Parquet", "HEAP.objects.parquet"),
            ("heap", "heap.objects.parquet"),
            ("\u{448}\u{448}\u{448}\u{448}\u{448}", "\u{448}\u{448}\u{448}\u{448}\u{448}.objects.parquet"),
        ];
        for (given, made) in cases {
            assert_eq!(place_of(Table::Objects, Path::new(given)), Path::new(made));
        }
    }
}
