//! The event mask: the bits that a profiler may set, and when.

use super::{Answer, DONE, Server, answered, args, invalid_if, refuse_if};
use crate::lab::monitor;
use crate::mutation;
use crate::runtime::Status;
use crate::schedule;
use corprof::{HResult, sys};

impl Server {
    pub(super) unsafe fn set_event_mask(&self, args: args::SetEventMask) -> Answer {
        monitor::mask(args.dwEvents, None, self.set_mask(args.dwEvents, None))
    }

    pub(super) unsafe fn set_event_mask2(&self, args: args::SetEventMask2) -> Answer {
        let (low, high) = (args.dwEventsLow, Some(args.dwEventsHigh));
        monitor::mask(low, high, self.set_mask(low, high))
    }

    pub(super) unsafe fn get_event_mask(&self, args: args::GetEventMask) -> Answer {
        invalid_if(args.pdwEvents.is_null())?;
        answered! { args.pdwEvents => self.both()?.1.mask().0 }
    }

    pub(super) unsafe fn get_event_mask2(&self, args: args::GetEventMask2) -> Answer {
        invalid_if(args.pdwEventsLow.is_null() || args.pdwEventsHigh.is_null())?;
        let (low, high) = self.both()?.1.mask();
        answered! { args.pdwEventsLow => low, args.pdwEventsHigh => high }
    }

    fn set_mask(&self, low: u32, high: Option<u32>) -> Answer {
        let (runtime, profiler) = self.both()?;
        let differences = runtime.differences();
        let (old_low, old_high) = profiler.mask();
        let high = high.unwrap_or(old_high);
        let is_allowed = low & !sys::COR_PRF_ALLOWABLE_NOTIFICATION_PROFILER == 0
            && high & !sys::COR_PRF_HIGH_ALLOWABLE_NOTIFICATION_PROFILER == 0;
        invalid_if(profiler.notification_only && !is_allowed)?;
        let changes = ((low ^ old_low) & differences.immutable, (high ^ old_high) & differences.immutable_high);
        let is_plain_failure = changes != (0, 0)
            && profiler.status() != Status::InitializingForStartup
            && (differences.immutable_is_plain_failure || !profiler.attached)
            && !mutation::is("ATT-12/2")
            && !mutation::is("ATT-19");
        refuse_if(is_plain_failure, HResult::E_FAIL)?;
        let is_limited = profiler.attached && !mutation::is("ATT-12") || mutation::is("ATT-17/2");
        if is_limited && (low & !differences.allowable != 0 || high & !differences.allowable_high != 0) {
            // Drops the forbidden bits and reports success.
            if mutation::is("ATT-19") {
                profiler.lock().mask = (low & differences.allowable, high & differences.allowable_high);
                return DONE;
            }
            return Err(HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER);
        }
        if low & sys::COR_PRF_MONITOR_GC & !old_low != 0 {
            runtime.admit_monitor_gc(&profiler)?;
        }
        let is_refused = low & sys::COR_PRF_ENABLE_REJIT != 0
            && profiler.status() != Status::InitializingForStartup
            && !runtime.may_enable_rejit();
        refuse_if(is_refused, HResult::CORPROF_E_REJIT_NOT_ENABLED)?;
        if low & sys::COR_PRF_ENABLE_REJIT != 0 && differences.rejit_forbids_detach && !mutation::is("RJT-01") {
            profiler.lock().irreversible = true;
        }
        // Who reports it must be able to (source: eetoprofinterfaceimpl.cpp, SetEventMask).
        let lacks = |bit: u32, version: u8| high & bit != 0 && profiler.callback_version < version;
        let needs_6 = lacks(sys::COR_PRF_HIGH_ADD_ASSEMBLY_REFERENCES, 6) && !mutation::is("ATT-19/2");
        refuse_if(needs_6, HResult::CORPROF_E_CALLBACK6_REQUIRED)?;
        let needs_7 = lacks(sys::COR_PRF_HIGH_IN_MEMORY_SYMBOLS_UPDATED, 7) && !mutation::is("ATT-19/2");
        refuse_if(needs_7, HResult::CORPROF_E_CALLBACK7_REQUIRED)?;
        profiler.lock().mask = (low, high);
        schedule::note("The mask is now {}", u64::from(low) | u64::from(high) << 32);
        DONE
    }
}
