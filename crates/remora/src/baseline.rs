//! Compares a process after an attach with its baseline, and writes the receipt.

use crate::console::{Page, harmless_json, line};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Destination;
use remora_attach::proc::Proc;
use remora_attach::{Fate, Process, Target};
use remora_receipt::{Error, EventSession, Facts, Kind, ProfilerCount, ProfilerSlot, Receipt, Snapshot, Unread};
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout for the exit of a process whose socket hung up.
const ENDING_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for the detach of an unused agent.
const DETACH_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a killed copy to exit: it has the lowest priority, so a loaded machine delays it.
const COPY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two checks.
const DETACH_INTERVAL: Duration = Duration::from_millis(20);
/// How long a thread's mask of signals is looked at before a change is reported.
const MASK_TIMEOUT: Duration = Duration::from_secs(5);

/// The baseline: a process before the attach.
pub(crate) struct Baseline {
    snapshot: Snapshot,
    target: Target,
}

/// The receipt as text.
pub(crate) fn receipt_text(receipt: &Receipt) -> Page {
    receipt.lines().iter().map(line).sum()
}

/// The receipt as a part of a larger result in JSON.
pub(crate) fn receipt_json(receipt: &Receipt) -> serde_json::Value {
    serde_json::from_str(&receipt.to_json()).unwrap_or_default()
}

/// Writes the receipt as JSON, where one was requested.
pub(crate) fn write_receipt(receipt: &Receipt, place: Option<&Destination>) -> Result<(), Failure> {
    place.map_or(Ok(()), |place| place.write(|out| out.write_all(harmless_json(&receipt.to_json()).as_bytes())))
}

impl Baseline {
    /// Takes the baseline.
    pub(crate) fn of(process: &Process) -> Result<Baseline, Failure> {
        let target = Target::hold(process)?;
        let snapshot = Snapshot::take(Path::new("/proc"), process.pid).map_err(Failure::Snapshot)?;
        Ok(Baseline { snapshot, target })
    }

    /// Takes the baseline of a process whose runtime has just loaded the agent. Nothing of Remora belongs to it.
    pub(crate) fn of_a_starting(process: &Process) -> Result<Baseline, Failure> {
        let mut baseline = Baseline::of(process)?;
        baseline.snapshot.mappings.ours.clear();
        Ok(baseline)
    }

    /// Compares the process with the baseline.
    pub(crate) fn verify(&self, facts: &Facts, target_ended: bool) -> Receipt {
        if target_ended && self.target.fate() == Fate::Same {
            // The receipt reports its exit, so wait for it.
            self.target.wait(ENDING_TIMEOUT);
        }
        let own = self.of_what_is_there(facts);
        let facts = &own;
        self.wait_for_the_agent(facts);
        self.wait_for_those_that_stay(facts);
        if !facts.children.is_empty() {
            self.wait_for_children(facts);
        }
        if target_ended {
            self.wait_for_signals(facts);
        }
        let process_id = self.snapshot.process_id;
        let look = || {
            let deadline = Instant::now() + MASK_TIMEOUT;
            let pause = || {
                std::thread::sleep(DETACH_INTERVAL);
                Instant::now() < deadline
            };
            unless_momentary(|| self.look(facts), pause)
        };
        settled(look, || is_ending(process_id), || self.target.wait(ENDING_TIMEOUT))
    }

    /// The facts that still apply. A target that replaced its program has a new runtime, without the old count and sessions.
    fn of_what_is_there(&self, facts: &Facts) -> Facts {
        let mut facts = facts.clone();
        if self.target.fate() == Fate::Replaced {
            facts.count = ProfilerCount::Right;
            if facts.event_session != EventSession::None {
                facts.event_session = EventSession::Ended;
            }
        }
        facts
    }

    /// An agent without a recorder detaches by itself. Returns whether it has, or whether there was none.
    pub(crate) fn wait_for_the_agent(&self, facts: &Facts) -> bool {
        if facts.slot == ProfilerSlot::None || facts.attach_completed || facts.inert.is_some() {
            return true;
        }
        let staying = |path: &str| facts.stayed.iter().chain(&facts.staying).any(|name| path.contains(name.as_str()));
        let count = |Snapshot { mappings, .. }: &Snapshot| {
            mappings.more_of_ours + mappings.ours.iter().filter(|one| !staying(&one.path)).count()
        };
        let earlier = count(&self.snapshot);
        self.wait_while(DETACH_TIMEOUT, |now| count(now) > earlier)
    }

    /// An agent that stays reports so, and closes its resources only after that.
    fn wait_for_those_that_stay(&self, facts: &Facts) {
        if !facts.stayed.is_empty() || !facts.staying.is_empty() {
            self.wait_while(DETACH_TIMEOUT, |now| !Receipt::between(&self.snapshot, now, facts).clean());
        }
    }

    /// A child ends with the thread that forked it, and needs a moment to release its memory.
    fn wait_for_children(&self, facts: &Facts) {
        self.wait_while(COPY_TIMEOUT, |now| {
            now.children.iter().any(|child| !child.zombie && facts.children.contains(&child.namespace_id))
        });
    }

    /// A signal sent just before the target replaced its program (exec) is pending until its thread runs.
    fn wait_for_signals(&self, facts: &Facts) {
        let Some(bit) = facts.signal.and_then(|signal| 1_u64.checked_shl(signal.checked_sub(1)?)) else { return };
        self.wait_while(DETACH_TIMEOUT, |now| {
            now.threads.iter().any(|thread| thread.pending & !thread.blocked & bit != 0)
        });
    }

    /// Waits while `there_is` holds, at most `timeout`; returns whether it ended.
    fn wait_while(&self, timeout: Duration, there_is: impl Fn(&Snapshot) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let look = || Snapshot::take(Path::new("/proc"), self.snapshot.process_id);
        while look().is_ok_and(|now| there_is(&now)) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(DETACH_INTERVAL);
        }
        true
    }

    fn look(&self, facts: &Facts) -> Receipt {
        if self.target.fate() == Fate::Ended {
            return Receipt::of_ended(&self.snapshot, facts);
        }
        match Snapshot::take(Path::new("/proc"), self.snapshot.process_id) {
            Ok(mut after) => {
                after.look_for(&facts.placed);
                Receipt::between(&self.snapshot, &after, facts)
            }
            Err(Error::Gone { .. }) => Receipt::of_ended(&self.snapshot, facts),
            // The process exists, but nothing of it could be read.
            Err(error) => Receipt::between(&self.snapshot, &unreadable(&self.snapshot, &error), facts),
        }
    }
}

/// The receipt of a process whose threads may block every signal for a moment: libc has a thread do so while it makes another thread, and
/// the runtime while it starts a child (src/native/libs/System.Native/pal_process.c). A mask is changed for good only if each look says so.
/// `pause` says whether there is time for another look.
fn unless_momentary(look: impl Fn() -> Receipt, pause: impl Fn() -> bool) -> Receipt {
    let is_of_masks_alone =
        |receipt: &Receipt| !receipt.left.is_empty() && receipt.left.iter().all(|left| left.kind == Kind::SignalMask);
    let mut receipt = look();
    while is_of_masks_alone(&receipt) && pause() {
        receipt = look();
    }
    receipt
}

/// The receipt of a process that may be exiting: it looks like an unreadable one, or like one with leftovers.
fn settled(look: impl Fn() -> Receipt, is_ending: impl FnOnce() -> bool, ends: impl FnOnce() -> bool) -> Receipt {
    let receipt = look();
    if !receipt.clean() && is_ending() && ends() { look() } else { receipt }
}

/// Whether a process is exiting or has exited: it has released its memory, or is marked as exiting.
fn is_ending(process_id: u32) -> bool {
    let proc = Proc::default();
    let has_no_memory = || proc.read(process_id, "maps").is_ok_and(|maps| maps.is_empty());
    proc.stat(process_id).map_or(true, |stat| stat.is_ending()) || has_no_memory()
}

/// A snapshot without any readable fact; the receipt does not call it clean.
fn unreadable(before: &Snapshot, error: &Error) -> Snapshot {
    let path = format!("/proc/{}", before.process_id);
    let everything = Unread { kind: Kind::Mapping, path, error: error.to_string() };
    Snapshot {
        process_id: before.process_id,
        start_time: before.start_time,
        unread: vec![everything],
        ..Snapshot::default()
    }
}

/// The exit status of `remora`. Leftovers in the target outrank all other failures, which concern our own files and time.
pub(crate) fn verdict(ended: Result<(), Failure>, clean: bool) -> Result<Exit, Failure> {
    match (ended, clean) {
        (Ok(()), true) => Ok(Exit::Done),
        (Ok(()), false) => Ok(Exit::Unclean),
        (Err(failure), true) => Err(failure),
        (Err(failure), false) => Err(Failure::LeftBehind(Box::new(failure))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_receipt::{Outcome as Became, Thread};
    use std::cell::Cell;
    use std::process::{Command, Stdio};

    /// The receipt of this process, as if it had leftovers or had ended.
    fn receipt(became: Became) -> Receipt {
        let before = Snapshot { process_id: 7, start_time: 7, ..Snapshot::default() };
        match became {
            Became::Running => {
                Receipt::between(&before, &unreadable(&before, &Error::Gone { process_id: 7 }), &Facts::default())
            }
            Became::Ended => Receipt::of_ended(&before, &Facts::default()),
        }
    }

    #[test]
    fn a_process_that_is_just_ending_is_looked_at_again_when_it_has_ended() {
        let has_ended = Cell::new(false);
        let look = || receipt(if has_ended.get() { Became::Ended } else { Became::Running });
        let ends = || {
            has_ended.set(true);
            true
        };
        assert!(!look().clean());
        assert!(!settled(look, || false, ends).clean(), "one that lives is judged as it is");
        assert!(!has_ended.get());
        assert!(!settled(look, || true, || false).clean(), "one that does not end in time, too");
        let receipt = settled(look, || true, ends);
        assert_eq!((receipt.clean(), receipt.outcome), (true, Became::Ended));
    }

    /// The receipt of a process with one thread that blocks these signals.
    fn receipt_of_mask(blocked: u64) -> Receipt {
        let thread =
            |blocked| Thread { id: 8, namespace_id: 8, start_time: 7, name: "worker".to_owned(), blocked, pending: 0 };
        let snapshot =
            |blocked| Snapshot { process_id: 7, start_time: 7, threads: vec![thread(blocked)], ..Snapshot::default() };
        let facts = Facts { signal: Some(23), ..Facts::default() };
        Receipt::between(&snapshot(0), &snapshot(blocked), &facts)
    }

    #[test]
    fn regression_a_thread_that_just_starts_a_child_has_no_mask_that_was_left() {
        let (looks, pauses) = (Cell::new(0), Cell::new(0));
        let pause = || {
            pauses.set(pauses.get() + 1);
            pauses.get() < 10
        };
        let momentary = || {
            looks.set(looks.get() + 1);
            receipt_of_mask(if looks.get() < 3 { !0 } else { 0 })
        };
        let settled = unless_momentary(momentary, pause);
        assert_eq!((settled.left.len(), looks.get(), pauses.get()), (0, 3, 2));
        let lasting = unless_momentary(|| receipt_of_mask(1 << 22), pause);
        assert_eq!(
            (lasting.left.len(), pauses.get()),
            (1, 10),
            "what each look shows is left, once there is no more time"
        );
        let other = unless_momentary(|| receipt(Became::Running), pause);
        assert!(!other.clean());
        assert_eq!(pauses.get(), 10, "anything else is reported at the first look");
    }

    #[test]
    fn a_process_is_ending_from_its_exit_until_it_is_gone() {
        assert!(!is_ending(std::process::id()));
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
        drop(child.stdin.take());
        let id = child.id();
        while !is_ending(id) {
            std::thread::yield_now();
        }
        child.wait().expect("collected");
        assert!(is_ending(id));
    }
}
