//! Counts the resources that keep code of this library running: add each before it is opened, remove it after it is closed.
//!
//! The detach may be requested only when nothing is registered (contract DET-04). The runtime counts its own callbacks, but knows nothing
//! of threads, timers and signal handlers.

use std::sync::atomic::{AtomicU32, Ordering};

/// A resource through which code of this library can run, other than the profiling API itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ResourceKind {
    /// One of our threads.
    Thread,
    /// A POSIX timer.
    Timer,
    /// A signal handler.
    SignalHandler,
    /// An EventPipe session.
    EventPipeSession,
    /// A forked copy that still executes our code.
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

/// The open resources.
#[derive(Debug, Default)]
pub struct ResourceRegistry {
    held: [AtomicU32; ResourceKind::ALL.len()],
}

impl ResourceRegistry {
    /// Registers a resource, before it is opened.
    pub fn acquire(&self, kind: ResourceKind) {
        self.held[kind as usize].fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a resource, after it has verifiably been closed.
    pub fn release(&self, kind: ResourceKind) {
        // A release without an acquire must not wrap around and hide other resources.
        let _ = self.held[kind as usize].fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }

    /// How many of a kind are open.
    pub fn count(&self, kind: ResourceKind) -> u32 {
        self.held[kind as usize].load(Ordering::SeqCst)
    }

    /// An open resource, apart from the agent's two threads: they end by themselves right before and after the detach request.
    pub fn held_besides_own_threads(&self) -> Option<ResourceKind> {
        ResourceKind::ALL.into_iter().find(|kind| *kind != ResourceKind::Thread && self.count(*kind) > 0)
    }

    /// An open resource, if there is one.
    pub fn held(&self) -> Option<ResourceKind> {
        ResourceKind::ALL.into_iter().find(|kind| self.count(*kind) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;

    #[test]
    fn det_04_the_register_is_empty_only_when_everything_opened_was_closed() {
        let resources = ResourceRegistry::default();
        assert_eq!(resources.held(), None);
        resources.acquire(ResourceKind::Timer);
        resources.acquire(ResourceKind::Timer);
        resources.acquire(ResourceKind::SignalHandler);
        resources.release(ResourceKind::Timer);
        holds!(DET_04 rem, resources.held() == Some(ResourceKind::Timer));
        resources.release(ResourceKind::Timer);
        assert_eq!(resources.held(), Some(ResourceKind::SignalHandler));
        resources.release(ResourceKind::SignalHandler);
        resources.release(ResourceKind::SignalHandler);
        assert_eq!(resources.held(), None);
    }
}
