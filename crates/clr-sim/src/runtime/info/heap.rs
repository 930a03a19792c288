//! The heap as a whole: where its generations lie, what is in it, to collect it, to stop who changes it.

use super::{Server, answer_list, code, has_place, tell};
use crate::runtime::LARGE;
use crate::runtime::left_behind::address_of;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Objects, enumerator};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

impl Server {
    /// As it was when a collection was last begun or ended for a profiler that is told of those; before the first such one nothing is
    /// known (source: proftoeeinterfaceimpl.cpp, UpdateGenerationBounds; live: questions.rs).
    pub(super) unsafe fn get_generation_bounds(
        &self,
        cObjectRanges: sys::ULONG,
        pcObjectRanges: *mut sys::ULONG,
        ranges: *mut sys::COR_PRF_GC_GENERATION_RANGE,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let Some(known) = runtime.lock().heap.gc.bounds.clone() else { return HResult::E_FAIL };
        // The runtime checks neither place.
        if pcObjectRanges.is_null() || !has_place(cObjectRanges, ranges) {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: the profiler's room.
        unsafe { answer_list(&known, cObjectRanges, pcObjectRanges, ranges) }
    }

    /// Looked up in the same table, which has room for what was born since.
    pub(super) unsafe fn get_object_generation(
        &self,
        objectId: sys::ObjectID,
        range: *mut sys::COR_PRF_GC_GENERATION_RANGE,
    ) -> HResult {
        let found = self.about_object(objectId, "GetObjectGeneration", |state, object| {
            if state.heap.is_frozen(object) {
                return Err(HResult::CORPROF_E_NOT_GC_OBJECT);
            }
            let bounds = state.heap.gc.bounds.as_ref().ok_or(HResult::E_FAIL)?;
            let holds = |one: &&sys::COR_PRF_GC_GENERATION_RANGE| {
                (one.rangeStart..one.rangeStart + one.rangeLengthReserved).contains(&objectId)
            };
            Ok(bounds.iter().find(holds).copied().unwrap_or_else(|| object.own_range()))
        });
        code(found.and_then(|known| known).map(|known| {
            tell! { range => known }
            HResult::S_OK
        }))
    }

    /// As it is by default.
    pub(super) unsafe fn get_loh_object_size_threshold(&self, pThreshold: *mut sys::DWORD) -> HResult {
        if pThreshold.is_null() {
            return HResult::E_INVALIDARG;
        }
        tell! { pThreshold => LARGE as u32 }
        HResult::S_OK
    }

    pub(super) unsafe fn enumerate_non_gc_objects(&self, ppEnum: *mut *mut sys::ICorProfilerObjectEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if ppEnum.is_null() {
            return HResult::E_INVALIDARG;
        }
        let objects = runtime.lock().heap.frozen.keys().copied().collect();
        tell! { ppEnum => enumerator::<Objects>(objects, &runtime.enumerators) }
        HResult::S_OK
    }

    pub(super) unsafe fn get_non_gc_heap_bounds(
        &self,
        cObjectRanges: sys::ULONG,
        pcObjectRanges: *mut sys::ULONG,
        ranges: *mut sys::COR_PRF_NONGC_HEAP_RANGE,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if !has_place(cObjectRanges, ranges) {
            return HResult::E_INVALIDARG;
        }
        let known: Vec<_> = runtime.lock().heap.frozen_range().into_iter().collect();
        // SAFETY: as above.
        unsafe { answer_list(&known, cObjectRanges, pcObjectRanges, ranges) }
    }

    /// Stops the program by itself, unless the asking thread has: and meanwhile objects may be asked about, as in a collection
    /// (source: dotnet/runtime pull request 103735). Of a thread that the runtime does not know it believes that it stops the program
    /// already, and refuses it unless it does by SuspendRuntime (live: questions.rs, .NET 9.0.7 and 10.0.12).
    pub(super) unsafe fn enumerate_gc_heap_objects(
        &self,
        callback: Option<sys::ObjectCallback>,
        callbackState: *mut c_void,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let Some(callback) = callback else { return HResult::E_INVALIDARG };
        let is_unknown = runtime.this_thread().is_none();
        let is_own = {
            let mut state = runtime.lock();
            let is_own = state.suspended_by == Some(schedule::current()) && state.left_behind.suspends.is_some();
            if !is_own && (is_unknown || state.suspended_by.is_some()) {
                return HResult::CORPROF_E_SUSPENSION_IN_PROGRESS;
            }
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
            // SAFETY: the profiler's own callback and data.
            if unsafe { callback(object, callbackState) } == 0 {
                break;
            }
        }
        runtime.lock().heap.gc.in_progress = false;
        if !is_own {
            runtime.resume();
        }
        HResult::S_OK
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
