//! The register of ways into the library: each is written down when it is opened and checked off when it is closed.
//!
//! Detach may only be asked for when the register is empty (contract DET-04): the runtime counts its own callbacks, but of
//! threads, timers and signal handlers it knows nothing.

use std::sync::atomic::{AtomicU32, Ordering};

/// A kind of way in, other than the profiling API itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum EntranceKind {
    /// A thread of our own.
    Thread,
    /// A POSIX timer.
    Timer,
    /// A signal handler.
    SignalHandler,
    /// An EventPipe session.
    EventPipeSession,
    /// A forked child that still executes our code.
    Child,
}

impl EntranceKind {
    const ALL: [EntranceKind; 5] = [
        EntranceKind::Thread,
        EntranceKind::Timer,
        EntranceKind::SignalHandler,
        EntranceKind::EventPipeSession,
        EntranceKind::Child,
    ];
}

/// What is open at this moment.
#[derive(Debug, Default)]
pub struct Entrances {
    open: [AtomicU32; EntranceKind::ALL.len()],
}

impl Entrances {
    /// Writes an entrance down, before it is opened.
    pub fn open(&self, kind: EntranceKind) {
        self.open[kind as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// Checks an entrance off, after it has verifiably been closed.
    pub fn close(&self, kind: EntranceKind) {
        // One that was never opened must not wrap around and hide the others.
        let _ = self.open[kind as usize].fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }

    /// How many of a kind are open.
    pub fn count(&self, kind: EntranceKind) -> u32 {
        self.open[kind as usize].load(Ordering::SeqCst)
    }

    /// What is open apart from the agent's own two threads, which end by themselves right before and after detach is asked for.
    pub fn still_open_besides_own_threads(&self) -> Option<EntranceKind> {
        EntranceKind::ALL.into_iter().find(|kind| *kind != EntranceKind::Thread && self.count(*kind) > 0)
    }

    /// What is open, if anything is.
    pub fn still_open(&self) -> Option<EntranceKind> {
        EntranceKind::ALL.into_iter().find(|kind| self.count(*kind) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn det_04_the_register_is_empty_only_when_everything_opened_was_closed() {
        let entrances = Entrances::default();
        assert_eq!(entrances.still_open(), None);
        entrances.open(EntranceKind::Timer);
        entrances.open(EntranceKind::Timer);
        entrances.open(EntranceKind::SignalHandler);
        entrances.close(EntranceKind::Timer);
        assert_eq!(entrances.still_open(), Some(EntranceKind::Timer));
        entrances.close(EntranceKind::Timer);
        assert_eq!(entrances.still_open(), Some(EntranceKind::SignalHandler));
        entrances.close(EntranceKind::SignalHandler);
        entrances.close(EntranceKind::SignalHandler);
        assert_eq!(entrances.still_open(), None);
    }
}
