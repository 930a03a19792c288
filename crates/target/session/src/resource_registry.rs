//! The register of ways into the library: each is written down when it is opened and checked off when it is closed.
//!
//! Detach may only be asked for when the register is empty (contract DET-04): the runtime counts its own callbacks, but of
//! threads, timers and signal handlers it knows nothing.

use std::sync::atomic::{AtomicU32, Ordering};

/// A kind of way in, other than the profiling API itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ResourceKind {
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

impl ResourceKind {
    const ALL: [ResourceKind; 5] = [
        ResourceKind::Thread,
        ResourceKind::Timer,
        ResourceKind::SignalHandler,
        ResourceKind::EventPipeSession,
        ResourceKind::Child,
    ];
}

/// What is open at this moment.
#[derive(Debug, Default)]
pub struct ResourceRegistry {
    held: [AtomicU32; ResourceKind::ALL.len()],
}

impl ResourceRegistry {
    /// Writes an entrance down, before it is opened.
    pub fn acquire(&self, kind: ResourceKind) {
        self.held[kind as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// Checks an entrance off, after it has verifiably been closed.
    pub fn release(&self, kind: ResourceKind) {
        // One that was never opened must not wrap around and hide the others.
        let _ = self.held[kind as usize].fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }

    /// How many of a kind are open.
    pub fn count(&self, kind: ResourceKind) -> u32 {
        self.held[kind as usize].load(Ordering::SeqCst)
    }

    /// What is open apart from the agent's own two threads, which end by themselves right before and after detach is asked for.
    pub fn held_besides_own_threads(&self) -> Option<ResourceKind> {
        ResourceKind::ALL.into_iter().find(|kind| *kind != ResourceKind::Thread && self.count(*kind) > 0)
    }

    /// What is open, if anything is.
    pub fn held(&self) -> Option<ResourceKind> {
        ResourceKind::ALL.into_iter().find(|kind| self.count(*kind) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn det_04_the_register_is_empty_only_when_everything_opened_was_closed() {
        let resources = ResourceRegistry::default();
        assert_eq!(resources.held(), None);
        resources.acquire(ResourceKind::Timer);
        resources.acquire(ResourceKind::Timer);
        resources.acquire(ResourceKind::SignalHandler);
        resources.release(ResourceKind::Timer);
        assert_eq!(resources.held(), Some(ResourceKind::Timer));
        resources.release(ResourceKind::Timer);
        assert_eq!(resources.held(), Some(ResourceKind::SignalHandler));
        resources.release(ResourceKind::SignalHandler);
        resources.release(ResourceKind::SignalHandler);
        assert_eq!(resources.held(), None);
    }
}
