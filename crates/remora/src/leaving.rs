//! An agent of an earlier command that was killed or interrupted twice: it leaves by itself, and takes a moment for that. Before .NET 6 it
//! has the only place for a profiler until then, and whatever the runtime, the receipt of the next command would name it. So the next
//! command waits for it.

use crate::console::StatusLine;
use crate::failure::Failure;
use crate::holder;
use crate::stop::{Stop, Wish};
use remora_attach::Process;
use remora_attach::proc::Proc;
use remora_receipt::{Kind, Left, find_left_overs};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long it may take, from a collection that it has asked for to the runtime's last step.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same once no thread of it runs: the runtime looks after a third of a second, and again, whether it may unload it (vm/profdetach.cpp,
/// `SleepWhileProfilerEvacuates`). What is there still then does nothing and stays.
const PATIENCE_WITHOUT_THREADS: Duration = Duration::from_secs(2);
/// How a library of ours is called, wherever it lies.
const LIBRARY: &str = "libremora_agent";
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until it has left, as long as that may take; not for one that records, or that has come to stay.
///
/// # Errors
/// [`Failure::Interrupted`].
pub(crate) fn wait_for_an_earlier_one(process: &Process, stop: &mut Stop) -> Result<(), Failure> {
    let look = || find_left_overs(Path::new("/proc"), process.pid);
    // Most processes have no library of ours, which is seen without a look at their threads and descriptors.
    if !has_a_library(process.pid) || state(&look()) == State::NotThere || holder::of(process).is_some() {
        return Ok(());
    }
    let mut line = StatusLine::new();
    let (begun, mut silent_since) = (Instant::now(), None);
    while begun.elapsed() < PATIENCE {
        match state(&look()) {
            State::NotThere => break,
            State::Running => silent_since = None,
            State::Mapped => {
                let since = *silent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE_WITHOUT_THREADS {
                    break;
                }
            }
        }
        if stop.wish() == Some(Wish::End) {
            return Err(Failure::Interrupted);
        }
        line.show("an earlier agent is leaving · Ctrl-C gives up");
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn has_a_library(process_id: u32) -> bool {
    let maps = Proc::default().maps(process_id).unwrap_or_default();
    maps.iter().any(|mapping| mapping.path.to_string().contains(LIBRARY))
}

/// How far an earlier one has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NotThere,
    /// A library is there, and nothing of it runs.
    Mapped,
    Running,
}

/// What stays on purpose is not among what is left, but for what is in memory: that cannot be told from one that is leaving.
fn state(left: &[Left]) -> State {
    let library = |left: &&Left| left.kind == Kind::Mapping && left.what.contains(LIBRARY);
    match left.iter().find(library) {
        Some(_) if left.iter().any(|left| left.kind == Kind::Thread) => State::Running,
        Some(library) if !library.may_stay_on_purpose() => State::Mapped,
        _ => State::NotThere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_is_told_from_what_stays() {
        let left = |kind, what: &str| Left { kind, what: what.to_owned(), why: "a recording left it".to_owned() };
        let library = || left(Kind::Mapping, "/tmp/libremora_agent-8ac7829723a02bb7.so (deleted)");
        let thread = || left(Kind::Thread, "thread 7 \"remora\"");
        assert_eq!(state(&[]), State::NotThere);
        assert_eq!(state(&[library()]), State::Mapped);
        assert_eq!(state(&[thread(), library()]), State::Running);
        let unread = left(Kind::Mapping, "process 7");
        assert_eq!(state(&[unread]), State::NotThere, "who may not look is told so by others");
    }
}
