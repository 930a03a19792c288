//! The agent while it is in the target, as it is seen from outside, until it has left.

use crate::Error;
use crate::agent_error::words;
use crate::control::{Control, Heard};
use crate::limits::MemoryLimit;
use crate::shared_memory::SharedMemory;
use crate::target::Target;
use remora_attach::Placed;
use remora_receipt::{Facts, ProfilerSlot};
use remora_wire::{FromAgent, ToAgent};
use std::time::{Duration, Instant};

/// How long the agent may take to close everything, and the runtime to detach it.
const DETACH_PATIENCE: Duration = Duration::from_secs(30);

/// The same where somebody is in a hurry: how long nothing may come from it before it says that it leaves, and then until it has left.
const HURRIED_PATIENCE: Duration = Duration::from_secs(3);
const HURRIED_LEAVING: Duration = Duration::from_secs(10);

/// Messages that are heard at one go.
const MOST_MESSAGES: usize = 256;

/// Between two looks whether the library is still mapped.
const UNMAPPED_LOOK: Duration = Duration::from_millis(1);

/// An agent that has arrived.
pub(crate) struct Presence {
    pub(crate) control: Control,
    pub(crate) memory: SharedMemory,
    pub(crate) target: Target,
    pub(crate) facts: Facts,
    /// The name of the library's file.
    pub(crate) library: String,
    /// That file, if the next attach can use it again: it goes unless the agent leaves as it should.
    pub(crate) reusable: Option<Placed>,
    /// When the attach was asked for, monotonic, nanoseconds.
    pub(crate) requested: u64,
    pub(crate) begun: Instant,
    /// When it was asked to leave.
    pub(crate) asked: Option<Instant>,
    /// What it said when it had closed everything of its own.
    pub(crate) leaving: Option<Leaving>,
    /// Whether the runtime has let it go.
    pub(crate) detached: bool,
    /// Why nothing more comes, if so.
    pub(crate) ended: Option<String>,
    /// How much memory this process may take, if there is a limit.
    pub(crate) limit: Option<MemoryLimit>,
    /// Why nothing more is taken, if so.
    pub(crate) cut: Option<String>,
    /// Whether the program that was attached to is no more.
    pub(crate) target_ended: bool,
}

/// What the agent says of itself when it leaves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leaving {
    /// Callbacks of unloads that it let go before it had looked up what they took away.
    pub(crate) impatient_unloads: u64,
}

/// How long an agent that is to leave is waited for.
struct Patience {
    /// When it was asked to.
    asked: Instant,
    /// Since when it must hurry.
    hurried: Option<Instant>,
}

impl Patience {
    /// Whether it has had its time; `says_it_leaves` once it has closed everything of its own.
    fn is_over(&mut self, now: Instant, is_hurried: bool, says_it_leaves: bool) -> bool {
        let patience = if says_it_leaves { HURRIED_LEAVING } else { HURRIED_PATIENCE };
        self.hurried = self.hurried.or_else(|| is_hurried.then_some(now));
        now >= self.asked + DETACH_PATIENCE || self.hurried.is_some_and(|since| now >= since + patience)
    }
}

impl Presence {
    /// Hears what the agent has said. What is about its task, and not about its coming and going, `task` is told.
    pub(crate) fn listen(&mut self, mut task: impl FnMut(FromAgent)) {
        for _ in 0..MOST_MESSAGES {
            match self.control.hear() {
                Heard::Message(FromAgent::Leaving { impatient_unloads, .. }) => {
                    self.leaving = Some(Leaving { impatient_unloads });
                }
                Heard::Message(FromAgent::Detached) => self.detached = true,
                Heard::Message(FromAgent::Inert(reason)) => self.facts.inert = Some(words(reason)),
                Heard::Message(FromAgent::DetachRefused { code }) => {
                    let code = remora_attach::HResult(code);
                    self.facts.inert = Some(format!("the runtime refused the detach with {code}"));
                }
                Heard::Message(FromAgent::Hello { .. } | FromAgent::Started { .. }) => {}
                Heard::Message(about_the_task) => task(about_the_task),
                Heard::Nothing => return,
                Heard::HungUp => return self.hung_up(),
            }
        }
    }

    /// Whether what it sends is still taken. It is not any more once this process has grown too large by it.
    pub(crate) fn is_taken_from(&mut self) -> bool {
        if self.cut.is_none() {
            self.cut = self.limit.as_ref().and_then(MemoryLimit::exceeded);
        }
        self.cut.is_none()
    }

    /// Why nothing more comes or is taken, if so.
    pub(crate) fn reason_to_end(&self) -> Option<&str> {
        self.ended.as_deref().or(self.cut.as_deref())
    }

    fn hung_up(&mut self) {
        if self.ended.is_none() {
            let leaving = self.leaving.is_some();
            self.target_ended = !leaving && self.target.program_has_ended(&self.library);
            self.ended = Some(self.target.why_gone(leaving));
        }
    }

    /// Asks the agent to leave, once; when that was.
    pub(crate) fn ask_to_leave(&mut self) -> Instant {
        if let Some(asked) = self.asked {
            return asked;
        }
        let asked = Instant::now();
        self.asked = Some(asked);
        self.facts.recording = self.begun.elapsed().as_nanos() as u64;
        self.control.say(&ToAgent::Detach);
        asked
    }

    /// Asks the agent to leave, and waits until the library is unmapped: bounded, soon over where somebody is `hurried`, and meanwhile
    /// `drain` takes what comes. It returns how much there was; nothing means that there is time for a pause. What breaks meanwhile is
    /// returned, and hinders nothing.
    pub(crate) fn leave(
        &mut self,
        pause: Duration,
        mut drain: impl FnMut(&mut SharedMemory) -> usize,
        mut task: impl FnMut(FromAgent),
        hurried: impl Fn() -> bool,
    ) -> Option<Error> {
        let asked = self.ask_to_leave();
        let mut patience = Patience { asked, hurried: None };
        let mut is_over = |presence: &Presence| {
            // A main profiler that left unseen would leave the runtime's count wrong.
            let may_hurry = presence.facts.slot != ProfilerSlot::Main;
            // Nothing is taken any more from one that was cut off: there is nothing to wait for but its end.
            let is_hurried = may_hurry && (presence.cut.is_some() || hurried());
            patience.is_over(Instant::now(), is_hurried, presence.leaving.is_some())
        };
        let mut failure = None;
        while !self.has_left() && failure.is_none() && !is_over(self) {
            if !self.is_taken_from() || drain(&mut self.memory) == 0 {
                failure = self.control.wait(pause).err();
            }
            self.listen(&mut task);
        }
        // All that it has left: one look may not take it all. Where it goes on all the same, the rest counts as lost.
        while self.is_taken_from() && drain(&mut self.memory) > 0 && !is_over(self) {}
        // What broke may have been broken by the target's end.
        self.target_ended |= failure.is_some() && self.target.program_has_ended(&self.library);
        while self.goes_on_leaving() && !is_over(self) {
            std::thread::sleep(UNMAPPED_LOOK);
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

    /// Whether something of the agent is still about to go: the library; or, under musl, which never unmaps it, all that it holds. The
    /// connection is the last of that.
    fn goes_on_leaving(&self) -> bool {
        match self.facts.inert {
            Some(_) => false,
            None if self.facts.musl && self.detached => self.ended.is_none(),
            None => self.target.maps(&self.library),
        }
    }

    /// Whether nothing more comes from the agent.
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

    /// After how many seconds it is over, if `is_hurried` and `says_it_leaves` begin to hold after so many.
    fn lasts(hurried: u64, leaving: u64) -> Option<u64> {
        let asked = Instant::now();
        let mut patience = Patience { asked, hurried: None };
        let mut seconds = 0..100;
        seconds.find(|now| patience.is_over(asked + Duration::from_secs(*now), *now >= hurried, *now >= leaving))
    }

    #[test]
    fn an_agent_that_must_hurry_has_three_seconds_and_ten_once_it_says_that_it_leaves() {
        assert_eq!([lasts(100, 100), lasts(100, 1)], [Some(30); 2]);
        assert_eq!([lasts(0, 100), lasts(5, 100), lasts(29, 100)], [3, 8, 30].map(Some));
        assert_eq!([lasts(0, 1), lasts(5, 7)], [10, 15].map(Some));
    }
}
