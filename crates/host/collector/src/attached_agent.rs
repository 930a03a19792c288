//! The agent from attach to unload, as seen from the host.

use crate::Error;
use crate::agent_error::words;
use crate::control::{Control, Received};
use crate::limits::{Deadlines, MemoryLimit};
use crate::shared_memory::SharedMemory;
use crate::target::Target;
use remora_attach::Placed;
use remora_receipt::{Facts, ProfilerSlot};
use remora_wire::{FromAgent, ToAgent};
use std::time::{Duration, Instant};

/// How long the agent may take to close its resources, and the runtime to detach it.
const DETACH_TIMEOUT: Duration = Duration::from_secs(30);

/// The same if the caller is in a hurry: maximum time without the agent's leaving message, then maximum time until it has detached.
const HURRIED_TIMEOUT: Duration = Duration::from_secs(3);
const HURRIED_DETACH_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages handled at once.
const MOST_MESSAGES: usize = 256;

/// Pause between two checks whether the library is still mapped.
const UNMAPPED_INTERVAL: Duration = Duration::from_millis(1);

/// An attached agent.
pub(crate) struct AttachedAgent {
    pub(crate) control: Control,
    pub(crate) memory: SharedMemory,
    pub(crate) target: Target,
    pub(crate) facts: Facts,
    /// File name of the library.
    pub(crate) library: String,
    /// That file, if the next attach can reuse it: it is deleted unless the agent detaches properly.
    pub(crate) reusable: Option<Placed>,
    /// Time of the attach request, monotonic, nanoseconds.
    pub(crate) requested: u64,
    pub(crate) begun: Instant,
    /// When the host asked it to detach.
    pub(crate) asked: Option<Instant>,
    /// Its report once it had closed all its resources.
    pub(crate) leaving: Option<Leaving>,
    /// Whether the runtime has detached it.
    pub(crate) detached: bool,
    /// Why no more data arrives, if so.
    pub(crate) ended: Option<String>,
    /// The memory limit of this process, if any.
    pub(crate) limit: Option<MemoryLimit>,
    /// Why no more data is taken, if so.
    pub(crate) cut: Option<String>,
    /// Whether the profiled program has ended.
    pub(crate) target_ended: bool,
}

/// The agent's report when it starts to detach.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leaving {
    /// Unload callbacks that it released before it had resolved the unloading methods.
    pub(crate) early_unloads: u64,
}

/// How long to wait for an agent to detach.
struct DetachDeadline {
    /// When it was asked to detach.
    asked: Instant,
    /// Since when the caller is in a hurry.
    hurried: Option<Instant>,
}

impl DetachDeadline {
    /// Whether the wait is over; `says_it_leaves` is true once the agent has closed all its resources.
    fn is_over(&mut self, now: Instant, is_hurried: bool, says_it_leaves: bool) -> bool {
        let timeout = if says_it_leaves { HURRIED_DETACH_TIMEOUT } else { HURRIED_TIMEOUT };
        self.hurried = self.hurried.or_else(|| is_hurried.then_some(now));
        now >= self.asked + DETACH_TIMEOUT || self.hurried.is_some_and(|since| now >= since + timeout)
    }
}

impl AttachedAgent {
    /// Handles the agent's messages. Passes those about its task to `task`, and handles those about attach and detach here.
    pub(crate) fn listen(&mut self, mut task: impl FnMut(FromAgent)) {
        for _ in 0..MOST_MESSAGES {
            match self.control.receive() {
                Received::Message(FromAgent::Leaving { early_unloads, .. }) => {
                    self.leaving = Some(Leaving { early_unloads });
                }
                Received::Message(FromAgent::Detached) => self.detached = true,
                Received::Message(FromAgent::Inert(reason)) => self.facts.inert = Some(words(reason)),
                Received::Message(FromAgent::DetachRefused { code }) => {
                    let code = remora_attach::HResult(code);
                    self.facts.inert = Some(format!("the runtime refused the detach with {code}"));
                }
                Received::Message(FromAgent::Hello { .. } | FromAgent::Started { .. }) => {}
                Received::Message(about_the_task) => task(about_the_task),
                Received::Nothing => return,
                Received::HungUp => return self.hung_up(),
            }
        }
    }

    /// Whether the agent's data is still taken: not after this process has grown beyond its memory limit.
    pub(crate) fn is_taken_from(&mut self) -> bool {
        if self.cut.is_none() {
            self.cut = self.limit.as_ref().and_then(MemoryLimit::exceeded);
        }
        self.cut.is_none()
    }

    /// Why no more data arrives or is taken, if so.
    pub(crate) fn reason_to_end(&self) -> Option<&str> {
        self.ended.as_deref().or(self.cut.as_deref())
    }

    /// Gives up if a snapshot sent nothing for long, or not everything for very long. `came` is whether something came since the last call.
    pub(crate) fn keep_deadlines(&mut self, deadlines: &mut Deadlines, came: bool) {
        let now = Instant::now();
        if came {
            deadlines.something_came(now);
        }
        if self.reason_to_end().is_none() {
            self.cut = deadlines.exceeded(now);
        }
    }

    fn hung_up(&mut self) {
        if self.ended.is_none() {
            let leaving = self.leaving.is_some();
            self.target_ended = !leaving && self.target.program_has_ended(&self.library);
            self.ended = Some(self.target.why_gone(leaving));
        }
    }

    /// Asks the agent to detach, once. Returns the time of the request.
    pub(crate) fn ask_to_leave(&mut self) -> Instant {
        if let Some(asked) = self.asked {
            return asked;
        }
        let asked = Instant::now();
        self.asked = Some(asked);
        self.facts.recording = self.begun.elapsed().as_nanos() as u64;
        self.control.send(&ToAgent::Detach);
        asked
    }

    /// Asks the agent to detach, and waits until the library is unmapped. The wait is bounded, and short if the caller is `hurried`.
    /// Meanwhile `drain` takes new data and returns its amount; 0 leaves time for a pause. An error on the way is returned, and stops
    /// nothing.
    pub(crate) fn leave(
        &mut self,
        pause: Duration,
        mut drain: impl FnMut(&mut SharedMemory) -> usize,
        mut task: impl FnMut(FromAgent),
        hurried: impl Fn() -> bool,
    ) -> Option<Error> {
        let asked = self.ask_to_leave();
        let mut deadline = DetachDeadline { asked, hurried: None };
        let mut is_over = |presence: &AttachedAgent| {
            // A main profiler whose detach is missed would leave the runtime's count wrong.
            let may_hurry = presence.facts.slot != ProfilerSlot::Main;
            // This takes no more data from a cut-off agent: only its end matters.
            let is_hurried = may_hurry && (presence.cut.is_some() || hurried());
            deadline.is_over(Instant::now(), is_hurried, presence.leaving.is_some())
        };
        let mut failure = None;
        while !self.has_left() && failure.is_none() && !is_over(self) {
            if !self.is_taken_from() || drain(&mut self.memory) == 0 {
                failure = self.control.wait(pause).err();
            }
            self.listen(&mut task);
        }
        // Take the rest: one pass may not take everything. If an agent never stops sending, the rest counts as lost.
        while self.is_taken_from() && drain(&mut self.memory) > 0 && !is_over(self) {}
        // The target's end may have caused the error.
        self.target_ended |= failure.is_some() && self.target.program_has_ended(&self.library);
        while self.goes_on_leaving() && !is_over(self) {
            std::thread::sleep(UNMAPPED_INTERVAL);
            if self.facts.musl {
                self.listen(&mut task);
            }
        }
        self.facts.detach = asked.elapsed().as_nanos() as u64;
        self.facts.detach_confirmed = self.detached;
        if self.detached && self.facts.inert.is_none() {
            self.facts.kept = self.reusable.take().map(Placed::keep);
        }
        self.reusable = None;
        failure
    }

    /// Whether the target still holds something of the agent: the library, or its resources on musl, which never unmaps a library. The
    /// connection is the last of these resources.
    fn goes_on_leaving(&self) -> bool {
        match self.facts.inert {
            Some(_) => false,
            None if self.facts.musl && self.detached => self.ended.is_none(),
            None => self.target.maps(&self.library),
        }
    }

    /// Whether the agent sends no more data.
    fn has_left(&self) -> bool {
        self.detached || self.ended.is_some() || self.facts.inert.is_some()
    }

    /// Why it ended before it was asked to, if so.
    pub(crate) fn ended_before_its_time(&self) -> Option<&str> {
        self.cut.as_deref().or(self.ended.as_deref().filter(|_| self.leaving.is_none()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second in which the wait ends, if `is_hurried` and `says_it_leaves` are true from these seconds on.
    fn lasts(hurried: u64, leaving: u64) -> Option<u64> {
        let asked = Instant::now();
        let mut deadline = DetachDeadline { asked, hurried: None };
        let mut seconds = 0..100;
        seconds.find(|now| deadline.is_over(asked + Duration::from_secs(*now), *now >= hurried, *now >= leaving))
    }

    #[test]
    fn an_agent_that_must_hurry_has_three_seconds_and_ten_once_it_says_that_it_leaves() {
        assert_eq!([lasts(100, 100), lasts(100, 1)], [Some(30); 2]);
        assert_eq!([lasts(0, 100), lasts(5, 100), lasts(29, 100)], [3, 8, 30].map(Some));
        assert_eq!([lasts(0, 1), lasts(5, 7)], [10, 15].map(Some));
    }
}
