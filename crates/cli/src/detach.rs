//! `remora detach`: finds and removes what an interrupted recording left.
//!
//! An agent whose recorder died leaves by itself: it is waited for. Files are removed. What then remains is told, with why.

use crate::args::DetachArgs;
use crate::console::{out, plain};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::holder;
use crate::report::pretty;
use remora_receipt::{Left, find_left_overs};
use remora_trigger::{Swept, find, sweep};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an agent without a recorder may take to leave.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What is printed for programs. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Outcome {
    process_id: u32,
    clean: bool,
    removed: Vec<String>,
    in_use: Vec<String>,
    left: Vec<LeftRow>,
}

#[derive(Debug, Serialize)]
struct LeftRow {
    kind: &'static str,
    what: String,
    why: String,
}

/// Runs the command.
pub(crate) fn run(args: &DetachArgs) -> Result<Exit, Failure> {
    let process = find(args.process_id)?;
    if let Some(holder) = holder::of(process.pid) {
        return Err(Failure::Held { process_id: process.pid, holder });
    }
    let deadline = Instant::now() + PATIENCE;
    while holder::agent_lives(process.pid) && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    let swept = sweep(&process)?;
    let outcome = Outcome::of(process.pid, swept, find_left_overs(Path::new("/proc"), process.pid));
    out(&if args.json { pretty(&outcome) } else { outcome.text() })?;
    Ok(if outcome.clean { Exit::Done } else { Exit::Unclean })
}

impl Outcome {
    fn of(process_id: u32, swept: Swept, left: Vec<Left>) -> Outcome {
        let shown = |paths: Vec<std::path::PathBuf>| paths.iter().map(|path| path.display().to_string()).collect();
        let mut rows: Vec<LeftRow> =
            left.into_iter().map(|left| LeftRow { kind: left.kind.name(), what: left.what, why: left.why }).collect();
        let failed = swept.failed.into_iter();
        rows.extend(failed.map(|(path, why)| LeftRow { kind: "file", what: path.display().to_string(), why }));
        Outcome {
            process_id,
            clean: rows.is_empty(),
            removed: shown(swept.removed),
            in_use: shown(swept.in_use),
            left: rows,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for path in &self.removed {
            let _ = writeln!(text, "removed {}", plain(path));
        }
        for path in &self.in_use {
            let _ = writeln!(text, "kept {}: a recording that is alive uses it", plain(path));
        }
        for left in &self.left {
            let _ = writeln!(text, "left: {} {}: {}", left.kind, plain(&left.what), plain(&left.why));
        }
        if self.clean {
            let _ = writeln!(text, "nothing of Remora is in process {}", self.process_id);
        }
        text
    }
}
