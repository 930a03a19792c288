//! The heap as a whole: generation bounds, objects, forced GC, suspension.

use super::{Answer, DONE, Server, answer_list, answered, args, has_place, invalid_if, refuse_if};
use crate::runtime::LARGE;
use crate::runtime::leftovers::address_of;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_abi::enumerators::{Objects, enumerator};

impl Server {
    /// The bounds at the last start or finish of a reported GC. They are unknown before the first one (source: proftoeeinterfaceimpl.cpp,
    /// UpdateGenerationBounds; live: info_calls.rs). The runtime checks neither pointer.
    pub(super) unsafe fn get_generation_bounds(&self, args: args::GetGenerationBounds) -> Answer {
        let known = self.runtime()?.lock().heap.gc.bounds.clone().ok_or(HResult::E_FAIL)?;
        invalid_if(args.pcObjectRanges.is_null() || !has_place(args.cObjectRanges, args.ranges))?;
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&known, args.cObjectRanges, args.pcObjectRanges, args.ranges) }
    }

    /// The runtime looks at no object: it compares the address with ranges. So an old address and one inside an object are answered, too
    /// (live: info_calls.rs).
    pub(super) unsafe fn get_object_generation(&self, args: args::GetObjectGeneration) -> Answer {
        let runtime = self.runtime()?;
        let is_of_gc = runtime.differences().generation_is_of_gc;
        answered! { args.range => runtime.lock().heap.generation_at(args.objectId, is_of_gc)? }
    }

    /// The default.
    pub(super) unsafe fn get_loh_object_size_threshold(&self, args: args::GetLOHObjectSizeThreshold) -> Answer {
        invalid_if(args.pThreshold.is_null())?;
        answered! { args.pThreshold => LARGE as u32 }
    }

    pub(super) unsafe fn enumerate_non_gc_objects(&self, args: args::EnumerateNonGCObjects) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.ppEnum.is_null())?;
        let objects = runtime.lock().heap.frozen.keys().copied().collect();
        answered! { args.ppEnum => enumerator::<Objects>(objects, &runtime.enumerators) }
    }

    pub(super) unsafe fn get_non_gc_heap_bounds(&self, args: args::GetNonGCHeapBounds) -> Answer {
        invalid_if(!has_place(args.cObjectRanges, args.ranges))?;
        let known: Vec<_> = self.runtime()?.lock().heap.frozen_range().into_iter().collect();
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&known, args.cObjectRanges, args.pcObjectRanges, args.ranges) }
    }

    /// Suspends the target unless the calling thread already has. In the meantime objects may be inspected, as in a GC (source:
    /// dotnet/runtime pull request 103735). For a thread unknown to the runtime, the runtime assumes that the thread has already suspended
    /// the target. It refuses the call unless the thread did so with SuspendRuntime (live: info_calls.rs, .NET 9.0.7 and 10.0.12).
    pub(super) unsafe fn enumerate_gc_heap_objects(&self, args: args::EnumerateGCHeapObjects) -> Answer {
        let runtime = self.runtime()?;
        let callback = args.callback.ok_or(HResult::E_INVALIDARG)?;
        let is_unknown = runtime.this_thread().is_none();
        let is_own = {
            let mut state = runtime.lock();
            let is_own = state.suspended_by == Some(schedule::current()) && state.leftovers.suspends.is_some();
            let is_taken = !is_own && (is_unknown || state.suspended_by.is_some());
            refuse_if(is_taken, HResult::CORPROF_E_SUSPENSION_IN_PROGRESS)?;
            state.suspended_by = Some(schedule::current());
            is_own
        };
        if !is_own {
            runtime.tells_suspended(sys::COR_PRF_SUSPEND_FOR_PROFILER);
        }
        let objects: Vec<usize> = {
            let mut state = runtime.lock();
            state.heap.gc.in_progress = true;
            state.heap.at.keys().copied().collect()
        };
        for object in objects {
            // SAFETY: the profiler passed this function to be called with this state.
            if unsafe { callback(object, args.callbackState) } == 0 {
                break;
            }
        }
        runtime.lock().heap.gc.in_progress = false;
        if !is_own {
            runtime.resume();
        }
        DONE
    }

    pub(super) unsafe fn force_gc(&self, _: args::ForceGC) -> Answer {
        self.with_both(|runtime, profiler| runtime.force_gc(profiler))
    }

    pub(super) unsafe fn suspend_runtime(&self, _: args::SuspendRuntime) -> Answer {
        let (runtime, profiler) = self.both()?;
        refuse_if(!runtime.may_trigger(&profiler), HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE)?;
        {
            let mut state = runtime.lock();
            refuse_if(state.suspended_by.is_some(), HResult::CORPROF_E_SUSPENSION_IN_PROGRESS)?;
            state.suspended_by = Some(schedule::current());
            state.leftovers.suspends = Some(address_of(&profiler));
        }
        let before = profiler.lock().callbacks_received;
        runtime.tells_suspended(sys::COR_PRF_SUSPEND_FOR_PROFILER);
        let mut record = profiler.lock();
        record.was_called_while_suspended = record.callbacks_received > before;
        DONE
    }

    pub(super) unsafe fn resume_runtime(&self, _: args::ResumeRuntime) -> Answer {
        let runtime = self.runtime()?;
        {
            let mut state = runtime.lock();
            let is_own = state.suspended_by == Some(schedule::current());
            refuse_if(!is_own, HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE)?;
            state.leftovers.suspends = None;
        }
        runtime.resume();
        DONE
    }
}
