//! Which runtimes of a process a profiler takes, and in which role it is loaded (contract SBS-02).

use crate::RuntimeInformation;
use core::sync::atomic::{AtomicU32, Ordering};

/// The profiler's role in the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The main profiler; a runtime has one. It may request `AttachMask::GC`.
    ///
    /// After its detach, every later notification-only profiler in that process gets no callbacks (measured on .NET 8 to 10).
    Main,
    /// Notification-only, beside others, from .NET 6 on. Older runtimes do not ask, and load it as their only profiler.
    Notification,
}

/// Which runtimes of a process the profiler takes. The library is loaded into each of them.
#[derive(Debug, Clone, Copy)]
pub enum SideBySide {
    /// The first to attach; it keeps the slot until the profiler has detached from it.
    First,
    /// The first that fits.
    One(fn(&RuntimeInformation) -> bool),
    /// All that fit.
    Many(fn(&RuntimeInformation) -> bool),
    /// All.
    All,
}

/// The runtime slots of one class of the library: [`export_profiler!`](crate::export_profiler) makes one for each class.
#[derive(Debug, Default)]
pub struct RuntimeSlots {
    taken: AtomicU32,
}

/// A taken slot, freed on drop.
#[derive(Debug)]
pub(super) struct RuntimeSlot(&'static RuntimeSlots);

impl RuntimeSlots {
    /// All slots are free.
    pub const fn new() -> RuntimeSlots {
        RuntimeSlots { taken: AtomicU32::new(0) }
    }

    /// Whether any further runtime is refused. It takes no slot, because the attach may still be refused after this.
    pub(super) fn is_full(&self, policy: SideBySide) -> bool {
        matches!(policy, SideBySide::First | SideBySide::One(_)) && self.taken.load(Ordering::Acquire) != 0
    }

    /// Takes a slot for this runtime, if the policy has one for it.
    pub(super) fn take(&'static self, policy: SideBySide, runtime: &RuntimeInformation) -> Option<RuntimeSlot> {
        let (fits, at_most) = match policy {
            SideBySide::First => (true, 1),
            SideBySide::One(fits) => (fits(runtime), 1),
            SideBySide::Many(fits) => (fits(runtime), u32::MAX),
            SideBySide::All => (true, u32::MAX),
        };
        let next = |taken: u32| (fits && taken < at_most).then(|| taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok().map(|_| RuntimeSlot(self))
    }
}

impl Drop for RuntimeSlot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuntimeKind;
    use remora_holds::holds;

    fn runtime(major: u16) -> RuntimeInformation {
        let version = format!("{major}.0.0");
        RuntimeInformation { instance: 9, kind: RuntimeKind::CORE_CLR, major, minor: 0, build: 0, update: 0, version }
    }

    #[track_caller]
    fn check(policy: SideBySide, takes: [bool; 3]) {
        let places: &'static RuntimeSlots = Box::leak(Box::default());
        // They attach in this order and stay.
        let taken: Vec<_> = [8, 9, 9].map(|major| places.take(policy, &runtime(major))).into();
        holds!(SBS_02 rem, taken.iter().map(Option::is_some).collect::<Vec<_>>() == takes, "{policy:?}");
        drop(taken);
        assert!(!places.is_full(policy) && places.take(policy, &runtime(9)).is_some(), "a place is given back");
    }

    #[test]
    fn sbs_02_each_policy_takes_its_runtimes_and_refuses_the_others() {
        let is_nine: fn(&RuntimeInformation) -> bool = |runtime| runtime.major == 9;
        check(SideBySide::First, [true, false, false]);
        check(SideBySide::One(is_nine), [false, true, false]);
        check(SideBySide::Many(is_nine), [false, true, true]);
        check(SideBySide::All, [true, true, true]);
    }
}
