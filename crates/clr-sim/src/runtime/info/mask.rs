//! What a profiler is told of: the event mask, and who may set what of it when.

use super::{Server, tell};
use crate::lab::witness;
use crate::mutation;
use crate::runtime::Status;
use crate::runtime::collector::MONITOR_GC;
use crate::schedule;
use corprof::{HResult, sys};
use std::sync::atomic::Ordering;

/// COR_PRF_ENABLE_REJIT.
const ENABLE_REJIT: u32 = 0x0004_0000;
/// What a notification-only profiler may set (source: corprof.idl, COR_PRF_ALLOWABLE_NOTIFICATION_PROFILER and its high half).
const NOTIFICATION: (u32, u32) = (0xB1E3_2B7F, 0xFE);

impl Server {
    pub(super) unsafe fn set_event_mask(&self, dwEvents: sys::DWORD) -> HResult {
        witness::mask(dwEvents, None, self.set_mask(dwEvents, None))
    }

    pub(super) unsafe fn set_event_mask2(&self, dwEventsLow: sys::DWORD, dwEventsHigh: sys::DWORD) -> HResult {
        witness::mask(dwEventsLow, Some(dwEventsHigh), self.set_mask(dwEventsLow, Some(dwEventsHigh)))
    }

    pub(super) unsafe fn get_event_mask(&self, pdwEvents: *mut sys::DWORD) -> HResult {
        let Some((_, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        if pdwEvents.is_null() {
            return HResult::E_INVALIDARG;
        }
        tell! { pdwEvents => profiler.mask().0 }
        HResult::S_OK
    }

    pub(super) unsafe fn get_event_mask2(
        &self,
        pdwEventsLow: *mut sys::DWORD,
        pdwEventsHigh: *mut sys::DWORD,
    ) -> HResult {
        let Some((_, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        if pdwEventsLow.is_null() || pdwEventsHigh.is_null() {
            return HResult::E_INVALIDARG;
        }
        let (low, high) = profiler.mask();
        tell! { pdwEventsLow => low, pdwEventsHigh => high }
        HResult::S_OK
    }

    fn set_mask(&self, low: u32, high: Option<u32>) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        let differences = runtime.differences();
        let (old_low, old_high) = profiler.mask();
        let high = high.unwrap_or(old_high);
        if profiler.notification_only && (low & !NOTIFICATION.0 != 0 || high & !NOTIFICATION.1 != 0) {
            return HResult::E_INVALIDARG;
        }
        let changes = ((low ^ old_low) & differences.immutable, (high ^ old_high) & differences.immutable_high);
        if changes != (0, 0)
            && profiler.status() != Status::InitializingForStartup
            && (differences.immutable_is_plain_failure || !profiler.attached)
            && !mutation::is("ATT-12/2")
            && !mutation::is("ATT-19")
        {
            return HResult::E_FAIL;
        }
        let is_limited = profiler.attached && !mutation::is("ATT-12") || mutation::is("ATT-17/2");
        if is_limited && (low & !differences.allowable != 0 || high & !differences.allowable_high != 0) {
            // To leave out what is not allowed, and to say that all went well.
            if mutation::is("ATT-19") {
                profiler.set_mask(low & differences.allowable, high & differences.allowable_high);
                return HResult::S_OK;
            }
            return HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER;
        }
        if low & MONITOR_GC & !old_low != 0
            && let Err(refused) = runtime.admit_monitor_gc(&profiler)
        {
            return refused;
        }
        if low & ENABLE_REJIT != 0 && differences.rejit_forbids_detach && !mutation::is("RJT-01") {
            profiler.irreversible.store(true, Ordering::SeqCst);
        }
        profiler.set_mask(low, high);
        schedule::note("The mask is now {}", u64::from(low) | u64::from(high) << 32);
        HResult::S_OK
    }
}
