//! `remora detach`: finds and removes leftovers of an interrupted recording.
//!
//! An agent whose recorder died detaches by itself, and the runtime takes some time to close its library. The command waits for both,
//! then removes files.
//! It reports every leftover with the reason. It also reports libraries that stay on purpose, as announced before they were loaded:
//! nothing removes those.

use crate::args::DetachArgs;
use crate::console::{Page, counted, line, out};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{instance_lock, lock_holder};
use remora_attach::{Error, MUSL_SUFFIX, Reason, STAYING_SUFFIX, Swept, TRACER_SUFFIX, TargetPath, find, sweep};
use remora_receipt::{Left, find_left_overs, find_what_musl_keeps, find_what_stays};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for an agent without a recorder to detach, and for the runtime to close its library.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(50);

/// JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Outcome {
    process_id: u32,
    clean: bool,
    removed: Vec<String>,
    in_use: Vec<String>,
    /// The recorders of those in use, in the same order; of one that cannot be seen, `null`.
    used_by: Vec<Option<u32>>,
    /// How many more are in use.
    more_in_use: usize,
    /// Libraries that do nothing and cannot be removed: said beforehand to stay, or come to set right what was killed.
    stays: Vec<String>,
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
    let mut process = find(args.process_id)?;
    process.library_directory = args.library_directory.clone().map(TargetPath::from);
    if let Err(reason @ (Reason::NotOwner { .. } | Reason::LacksCapability { .. })) = &process.attachable {
        return Err(Error::NotAttachable { pid: process.pid, reason: reason.clone() }.into());
    }
    if let Some(holder) = lock_holder::of(&process) {
        return Err(Failure::Held { process_id: process.pid, holder });
    }
    let left = settled(TIMEOUT, || find_left_overs(Path::new("/proc"), process.pid));
    let mut swept = sweep(&process)?;
    swept.removed.extend(instance_lock::remove_stale(&process).map(TargetPath::from));
    let mut stays = find_what_stays(Path::new("/proc"), process.pid);
    stays.extend(find_what_musl_keeps(Path::new("/proc"), process.pid));
    let (in_memory, left): (Vec<_>, Vec<_>) = left.into_iter().partition(Left::may_stay_on_purpose);
    stays.extend(in_memory.into_iter().map(|left| left.what));
    let outcome = Outcome::of(process.pid, swept, left, stays);
    out(&if args.json { Page::json(&outcome) } else { outcome.text() })?;
    Ok(if outcome.clean { Exit::Done } else { Exit::Unclean })
}

/// Checks until no leftover remains or the timeout is over, and returns the rest.
fn settled<T>(timeout: Duration, mut look: impl FnMut() -> Vec<T>) -> Vec<T> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = look();
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(PAUSE);
    }
}

impl Outcome {
    fn of(process_id: u32, swept: Swept, left: Vec<Left>, stays: Vec<String>) -> Outcome {
        let (in_use, used_by): (Vec<_>, Vec<_>) = swept.in_use.into_iter().unzip();
        let shown = |paths: Vec<TargetPath>| paths.iter().map(TargetPath::to_string).collect();
        let mut rows: Vec<LeftRow> =
            left.into_iter().map(|left| LeftRow { kind: left.kind.name(), what: left.what, why: left.why }).collect();
        let failed = swept.failed.into_iter();
        rows.extend(failed.map(|(path, why)| LeftRow { kind: "file", what: path.to_string(), why }));
        Outcome {
            process_id,
            clean: rows.is_empty(),
            removed: shown(swept.removed),
            in_use: shown(in_use),
            used_by,
            more_in_use: swept.more_in_use,
            stays,
            left: rows,
        }
    }

    fn text(&self) -> Page {
        let mut text = Page::default();
        for path in &self.removed {
            text += line(format!("removed {path}"));
        }
        for (path, user) in self.in_use.iter().zip(&self.used_by) {
            let user = instance_lock::holder_text(user.unwrap_or(0));
            text += line(format!("kept {path}: it belongs to a recording by {user}"));
        }
        if self.more_in_use > 0 {
            text += line(format!("kept {} that seem to be in use", counted(self.more_in_use as u64, "more file")));
        }
        for left in &self.left {
            text += line(format!("left: {} {}: {}", left.kind, left.what, left.why));
        }
        for path in &self.stays {
            text += line(format!("stays: {path}: {}", why_it_stays(path)));
        }
        if self.clean {
            let other = if self.stays.is_empty() { "" } else { "else " };
            text += line(format!("nothing {other}of Remora is in process {}", self.process_id));
        }
        text
    }
}

/// Decided by name alone: a mapped library keeps the name it was loaded with.
fn why_it_stays(path: &str) -> &'static str {
    match () {
        () if path.contains(TRACER_SUFFIX) => STAYS_TO_TRACE,
        () if path.contains(STAYING_SUFFIX) => STAYS,
        () if path.contains(MUSL_SUFFIX) => STAYS_ON_MUSL,
        () => STAYS_IN_MEMORY,
    }
}

/// For a mapped library that no thread runs.
const STAYS_IN_MEMORY: &str = "no thread of it runs, and only the end of the process takes it away; it has no file, so that its name does \
                               not tell why it stays";

/// For a library that musl keeps mapped.
const STAYS_ON_MUSL: &str =
    "it does nothing, and only the end of the process takes it away: musl never unmaps a library";

/// For the tracer.
const STAYS_TO_TRACE: &str = "it does nothing, and only the end of the process takes it away: .NET does not detach a profiler that has \
                              changed methods; the next `remora trace` uses it again";

/// For a library that stays on purpose.
const STAYS: &str = "it does nothing, and only the end of the process takes it away; .NET counts its profilers right with it, \
                     since a main profiler (--roots, --watch) has left";

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(left: Vec<Left>, stays: &[&str]) -> Outcome {
        Outcome::of(7, Swept::default(), left, stays.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn what_stays_on_purpose_is_named_and_nothing_is_said_not_to_be_there_that_is() {
        assert_eq!(&*outcome(vec![], &[]).text(), "nothing of Remora is in process 7\n");
        let stays = outcome(vec![], &["/tmp/libremora_agent-1-stays.so (deleted)"]);
        assert!(stays.clean);
        let text = stays.text();
        let lines: Vec<&str> = text.lines().collect();
        let in_memory = outcome(vec![], &["/memfd:libremora_agent-1.so (deleted), 520 KiB"]).text();
        assert!(
            in_memory.contains("no thread of it runs") && !in_memory.contains("counts its profilers right"),
            "{in_memory}"
        );
        assert!(lines[0].starts_with("stays: /tmp/libremora_agent-1-stays.so (deleted): it does nothing"), "{text}");
        assert_eq!(lines[1..], ["nothing else of Remora is in process 7"]);
    }

    #[test]
    fn a_file_that_is_in_use_was_kept_without_saying_for_whom() {
        let path = |number| TargetPath::from(format!("/tmp/libremora_agent-{number}.so"));
        let mut swept = Swept::default();
        swept.in_use = vec![(path(1), Some(std::process::id())), (path(2), None)];
        swept.more_in_use = 2;
        let text = Outcome::of(7, swept, vec![], vec![]).text();
        assert!(text.contains("\nkept 2 more files that seem to be in use\n"), "{text}");
        let own =
            format!("kept /tmp/libremora_agent-1.so: it belongs to a recording by process {} (", std::process::id());
        assert!(text.starts_with(&own), "{text}");
        assert!(
            text.contains("agent-2.so: it belongs to a recording by a process that cannot be seen from here"),
            "{text}"
        );
    }

    #[test]
    fn what_goes_away_by_itself_is_waited_for() {
        let mut looks = vec![vec![], vec!["the library"], vec!["the library", "a thread"]];
        assert!(settled(Duration::from_secs(3600), || looks.pop().expect("it stopped looking")).is_empty());
        assert!(looks.is_empty());
    }

    #[test]
    fn what_stays_is_reported_when_patience_is_over() {
        assert_eq!(settled(Duration::ZERO, || vec!["the library"]), ["the library"]);
    }
}
