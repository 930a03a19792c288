//! Event masks of an attached profiler.

use super::{Alive, Attached, Info, Loading};
use crate::mask::{AttachMask, HighAttachMask, IrreversibleMask};
use crate::{HResult, sys};

impl<L: Loading> Info<L, Alive> {
    /// Both halves of the current event mask. The high half of a runtime without one is zero.
    pub fn get_event_mask2(&self) -> Result<(u32, u32), HResult> {
        let Ok(raw) = self.at(5) else { return Ok((self.get_event_mask()?, 0)) };
        let (mut low, mut high) = (0, 0);
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live locals.
        HResult(unsafe { sys::ICorProfilerInfo5::GetEventMask2(raw, &mut low, &mut high) }).ok()?;
        Ok((low, high))
    }

    /// The low half of the current event mask.
    pub fn get_event_mask(&self) -> Result<u32, HResult> {
        let mut low = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo::GetEventMask(self.raw, &mut low) }).ok()?;
        Ok(low)
    }
}

impl Info<Attached, Alive> {
    /// Replaces both halves of the event mask.
    ///
    /// It also takes a [`NotificationMask`](crate::NotificationMask), the right one for a notification-only profiler.
    /// A runtime without a high half takes any mask that has none.
    pub fn set_event_mask2(&self, low: impl Into<AttachMask>, high: HighAttachMask) -> Result<(), HResult> {
        self.set_bits(low.into().bits(), high.bits())
    }

    /// Replaces the low half of the event mask, and leaves the high half as it is.
    pub fn set_event_mask(&self, low: impl Into<AttachMask>) -> Result<(), HResult> {
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo::SetEventMask(self.raw, low.into().bits()) }).ok()
    }

    /// Replaces both halves with a mask that forbids the detach for ever.
    pub fn set_event_mask2_irreversible(&self, low: IrreversibleMask, high: HighAttachMask) -> Result<(), HResult> {
        self.set_bits(low.bits(), high.bits())
    }

    fn set_bits(&self, low: u32, high: u32) -> Result<(), HResult> {
        let raw = match self.at(5) {
            Ok(raw) => raw,
            // Older runtimes have no high half: this is the same mask.
            // SAFETY: this `Info` is `Alive`, so its object is valid.
            Err(_) if high == 0 => return HResult(unsafe { sys::ICorProfilerInfo::SetEventMask(self.raw, low) }).ok(),
            Err(code) => return Err(code),
        };
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo5::SetEventMask2(raw, low, high) }).ok()
    }
}
