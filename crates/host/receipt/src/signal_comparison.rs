//! Checks of signals and timers: only for the recording's signal, since an application has its own.

use crate::comparison::{Case, named};
use crate::{Kind, Left, Timer};
use std::collections::HashSet;

/// Signals 34 to 64. A thread that blocks all of them does not block one of them on purpose.
const ALL_REAL_TIME: u64 = !0 << 33;

impl Case<'_> {
    pub(crate) fn timers(&mut self) {
        let Some(signal) = self.facts.signal else { return };
        let before: HashSet<&Timer> = self.before.timers.iter().collect();
        for timer in self.after.timers.iter().filter(|timer| timer.signal == Some(signal)) {
            if !before.contains(timer) {
                let what = format!("timer {} of signal {signal}, {}", timer.id, timer.notify);
                self.left.push(Left::new(Kind::Timer, what, "the agent did not delete it"));
            }
        }
    }

    pub(crate) fn dispositions(&mut self) {
        let Some((signal, bit)) = self.signal_bit() else { return };
        let (before, after) = (self.before.signals, self.after.signals);
        let disposition = |ignored: u64, caught: u64| match (ignored & bit != 0, caught & bit != 0) {
            (_, true) => "handled",
            (true, false) => "ignored",
            (false, false) => "left to the system",
        };
        let was = disposition(before.ignored, before.caught);
        let is = disposition(after.ignored, after.caught);
        if was != is {
            let what = format!("signal {signal} is {is}");
            let why = format!("it was {was} before, and the agent did not put that back");
            self.left.push(Left::new(Kind::SignalDisposition, what, why));
        }
    }

    pub(crate) fn pending(&mut self) {
        let Some((signal, bit)) = self.signal_bit() else { return };
        let why = "sent by the recording and not delivered yet";
        if self.after.signals.pending & bit & !self.before.signals.pending != 0 {
            let what = format!("signal {signal} is pending for the process");
            self.left.push(Left::new(Kind::SignalDisposition, what, why));
        }
        for thread in &self.after.threads {
            let before = self.before.same_thread(thread).map_or(0, |known| known.pending);
            if thread.pending & bit & !before != 0 {
                let what = format!("signal {signal} is pending for {}", named(thread));
                self.left.push(Left::new(Kind::SignalDisposition, what, why));
            }
        }
    }

    pub(crate) fn masks(&mut self) {
        let Some((signal, bit)) = self.signal_bit() else { return };
        for thread in &self.after.threads {
            let Some(known) = self.before.same_thread(thread) else { continue };
            if (thread.blocked ^ known.blocked) & bit == 0 {
                continue;
            }
            if known.blocked & ALL_REAL_TIME == ALL_REAL_TIME {
                // It was inside libc, which blocks all signals while it starts a thread, or it no longer blocks all of them.
                continue;
            }
            let what = match thread.blocked & bit {
                0 => format!("{} no longer blocks signal {signal}", named(thread)),
                _ => format!("{} blocks signal {signal}", named(thread)),
            };
            self.left.push(Left::new(Kind::SignalMask, what, "it was the other way round before the recording"));
        }
    }

    /// The recording's signal and its bit in a mask.
    fn signal_bit(&self) -> Option<(u32, u64)> {
        let signal = self.facts.signal?;
        let bit = 1u64.checked_shl(signal.checked_sub(1)?)?;
        Some((signal, bit))
    }
}
