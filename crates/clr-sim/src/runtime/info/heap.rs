//! The heap as a whole: where its generations lie, to collect it, to stop who changes it.

use super::{Server, answer, code};
use crate::runtime::heap::Object;
use crate::runtime::left_behind::address_of;
use crate::schedule;
use corprof::{HResult, sys};
use std::sync::atomic::Ordering;

impl Server {
    pub(super) unsafe fn get_object_generation(
        &self,
        objectId: sys::ObjectID,
        range: *mut sys::COR_PRF_GC_GENERATION_RANGE,
    ) -> HResult {
        let of = |object: &Object| sys::COR_PRF_GC_GENERATION_RANGE {
            generation: i32::from(object.generation),
            rangeStart: object.address,
            rangeLength: object.size,
            rangeLengthReserved: object.size,
        };
        code(self.about_object(objectId, "GetObjectGeneration", |_, object| of(object)).map(|known| {
            // SAFETY: as above.
            unsafe { answer(range, known) };
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn force_gc(&self) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.force_gc(&profiler)
    }

    pub(super) unsafe fn suspend_runtime(&self) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        if !runtime.may_trigger(&profiler) {
            return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
        }
        {
            let mut state = runtime.lock();
            if state.suspended_by.is_some() {
                return HResult::CORPROF_E_SUSPENSION_IN_PROGRESS;
            }
            state.suspended_by = Some(schedule::current());
            state.left_behind.suspends = Some(address_of(&profiler));
        }
        let before = profiler.heard.load(Ordering::SeqCst);
        runtime.tells_suspended(sys::COR_PRF_SUSPEND_FOR_PROFILER);
        profiler.proved.store(profiler.heard.load(Ordering::SeqCst) > before, Ordering::SeqCst);
        HResult::S_OK
    }

    pub(super) unsafe fn resume_runtime(&self) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        {
            let mut state = runtime.lock();
            if state.suspended_by != Some(schedule::current()) {
                return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
            }
            state.left_behind.suspends = None;
        }
        runtime.resume();
        HResult::S_OK
    }
}
