//! Lines about assertions that held, in a file of this process.

use crate::clauses::{Clause, Column};
use crate::place::Place;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The variable that names the folder of the lines. Without it nothing is recorded.
pub const FOLDER: &str = "REMORA_CONTRACT_RESULTS";

/// A clause at a file and line, in a world and a test.
type Key = (String, &'static str, u32, String, String);

/// What this process has recorded: an assertion in a loop makes one line.
static RECORDED: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// An assertion in the sources.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// The clauses that it shows.
    pub clauses: &'static [Clause],
    /// The columns that it shows them in.
    pub columns: &'static [Column],
    /// Its source file.
    pub file: &'static str,
    /// Its line.
    pub line: u32,
}

/// Ends the test: the assertion does not hold.
#[track_caller]
pub fn fail(at: &At, condition: &str, sides: &str, message: String) -> ! {
    let clauses: Vec<String> = at.clauses.iter().map(|clause| clause.id()).collect();
    let colon = if message.is_empty() { "" } else { ": " };
    panic!("{} does not hold: `{condition}`{colon}{message}{sides}", clauses.join(", "))
}

/// Records that the assertion held at the place of this thread.
#[track_caller]
pub fn record(at: &At) {
    let place = Place::current();
    let worlds = worlds(at.columns, &place);
    let Some(folder) = folder() else { return };
    let Some(test) = place.test() else {
        panic!("this thread does not know its test: hand it `Place::current()` of the test's thread")
    };
    for world in worlds {
        for clause in at.clauses.iter().map(|clause| clause.id()) {
            let key = (clause.clone(), at.file, at.line, world.clone(), test.clone());
            if RECORDED.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
                write_line(folder, "holds", &line(&clause, &world, &test, at));
            }
        }
    }
}

/// The folder of the lines, if they are wanted.
fn folder() -> Option<&'static Path> {
    static SET: OnceLock<Option<PathBuf>> = OnceLock::new();
    SET.get_or_init(|| std::env::var_os(FOLDER).map(PathBuf::from)).as_deref()
}

/// Appends a line to the file of this process with this extension.
///
/// # Panics
/// If the file cannot be written.
pub fn write_line(folder: &Path, extension: &str, line: &str) {
    let file = folder.join(format!("{}.{extension}", std::process::id()));
    // In one write: other threads of this process also write.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}

/// The worlds that an assertion counts for: the current one for `clr` and `sim`, if it is of that column.
#[track_caller]
fn worlds(columns: &[Column], place: &Place) -> Vec<String> {
    let mut worlds = Vec::new();
    for column in columns {
        let world = match (column, place.world()) {
            (Column::Rem, _) => Some("rem"),
            (Column::Sim, None) => Some("sim"),
            (Column::Clr, None) => {
                panic!("`clr` where no world is set: run this on runtimes, as with `on_every_runtime`")
            }
            (Column::Sim, Some(world)) => Some(world).filter(|world| world.starts_with("sim ")),
            (Column::Clr, Some(world)) => Some(world).filter(|world| world.starts_with("clr ")),
        };
        worlds.extend(world.map(str::to_owned));
    }
    worlds
}

fn line(clause: &str, world: &str, test: &str, at: &At) -> String {
    let place = format!("{}:{}", at.file, at.line);
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let [clause, world, test, package, binary, place] = [clause, world, test, &package, &binary(), &place].map(quoted);
    format!(
        r#"{{"holds": {clause}, "world": {world}, "test": {test}, "package": {package}, "binary": {binary}, "place": {place}}}"#
    )
}

/// The name of this test program without the hash that cargo appends.
fn binary() -> String {
    let file = std::env::current_exe().ok().and_then(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    let file = file.unwrap_or_default();
    file.rsplit_once('-').map_or(file.as_str(), |(name, _)| name).to_owned()
}

/// A JSON string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(columns: &[Column], world: Option<&str>) -> Vec<String> {
        let place = Place::current();
        worlds(columns, &world.map_or(place.clone(), |world| place.in_world(world)))
    }

    #[test]
    fn an_assertion_counts_for_the_column_of_its_world_and_for_remora_everywhere() {
        let all = [Column::Sim, Column::Clr, Column::Rem];
        assert_eq!(at(&all, Some("clr 8.0.4")), ["clr 8.0.4", "rem"]);
        assert_eq!(at(&all, Some("sim desktop4")), ["sim desktop4", "rem"]);
        assert_eq!(at(&[Column::Sim, Column::Rem], None), ["sim", "rem"]);
        assert!(at(&[Column::Clr], Some("sim 8")).is_empty());
    }

    #[test]
    fn a_live_runtime_without_a_world_is_a_mistake() {
        assert!(std::panic::catch_unwind(|| at(&[Column::Clr], None)).is_err());
    }

    #[test]
    fn a_line_names_clause_world_test_program_and_place() {
        let at = At { clauses: &[], columns: &[], file: "a\\b.rs", line: 7 };
        let line = line("ATT-01", "clr 8.0.4", "tests::att_01_a", &at);
        let start = r#"{"holds": "ATT-01", "world": "clr 8.0.4", "test": "tests::att_01_a", "package": "#;
        assert!(line.starts_with(start) && line.contains(r#""place": "a\\b.rs:7"}"#), "{line}");
        assert!(line.contains(r#""binary": "remora_holds""#), "{line}");
    }
}
