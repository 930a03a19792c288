//! Waits for the agent of an earlier command that was killed or interrupted twice. That agent detaches by itself, which takes a moment.
//! Until then it occupies the only profiler slot before .NET 6, and on every runtime the next command's receipt would list it.

use crate::console::StatusLine;
use crate::failure::Failure;
use crate::lock_holder;
use crate::stop::{Stop, StopRequest};
use remora_attach::Process;
use remora_attach::proc::Proc;
use remora_receipt::{Kind, Left, find_left_overs};
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout for the detach: from the GC that the agent requests to the runtime's last step. An agent that the runtime never calls ends its
/// threads after 10 s.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout once no agent thread runs. The runtime checks after a third of a second, and again, whether it may unload the library
/// (vm/profdetach.cpp, `SleepWhileProfilerEvacuates`). A library that is still mapped then is inert and stays.
const TIMEOUT_WITHOUT_THREADS: Duration = Duration::from_secs(2);
/// The start of our libraries' file name, in any directory.
const LIBRARY: &str = "libremora_agent";
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until the earlier agent has detached, up to the timeout. Does not wait for an agent that records, or that stays on purpose.
///
/// # Errors
/// [`Failure::Interrupted`].
pub(crate) fn wait_for_an_earlier_one(process: &Process, stop: &mut Stop) -> Result<(), Failure> {
    let look = || find_left_overs(Path::new("/proc"), process.pid);
    // Most processes have no library of ours. Their mappings show that without a look at threads and descriptors.
    if !has_a_library(process.pid) || state(&look()) == State::NotThere || lock_holder::of(process).is_some() {
        return Ok(());
    }
    let mut line = StatusLine::new();
    let (begun, mut silent_since) = (Instant::now(), None);
    while begun.elapsed() < TIMEOUT {
        match state(&look()) {
            State::NotThere => break,
            State::Running => silent_since = None,
            State::Mapped => {
                let since = *silent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= TIMEOUT_WITHOUT_THREADS {
                    break;
                }
            }
        }
        if stop.wish() == Some(StopRequest::End) {
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

/// The progress of an earlier agent's detach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NotThere,
    /// The library is mapped, and no agent thread runs.
    Mapped,
    Running,
}

/// Ignores leftovers that stay on purpose, except mappings: those cannot be distinguished from a detaching agent's.
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
    fn what_leaves_is_distinguished_from_what_stays() {
        let left = |kind, what: &str| Left { kind, what: what.to_owned(), why: "a recording left it".to_owned() };
        let library = || left(Kind::Mapping, "/tmp/libremora_agent-8ac7829723a02bb7.so (deleted)");
        let thread = || left(Kind::Thread, "thread 7 \"remora\"");
        assert_eq!(state(&[]), State::NotThere);
        assert_eq!(state(&[library()]), State::Mapped);
        assert_eq!(state(&[thread(), library()]), State::Running);
        let unread = left(Kind::Mapping, "process 7");
        assert_eq!(state(&[unread]), State::NotThere, "others report who may not look");
    }
}
