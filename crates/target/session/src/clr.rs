//! The real [`Runtime`]: CoreCLR through its profiling API, called on the worker thread.

use crate::gc_monitor::GcMonitor;
use crate::guarded_runtime::NOT_ASKED;
use crate::heap_tracker::HeapTracker;
use crate::host::HostedPlatform;
use crate::retry::{Progress, retry};
use crate::runtime::{CodeBody, FunctionFacts, ModuleFacts, Runtime, TypeFacts};
use crate::shared::Shared;
use corprof::{
    Alive, AttachMask, Attached, ClassId, FunctionId, Guid, HResult, HighAttachMask, IlMapping, Info, MethodToken,
    ModuleFlags, ModuleId, RejitId,
};
use remora_wire::Roots;
use std::sync::atomic::Ordering;

/// Enclosing types in a name, at most.
const MAXIMUM_NESTING: usize = 16;

/// The callbacks of a recording: unloads, to delay them; threads, to follow them; suspensions, to know which thread collects.
/// A heap snapshot needs suspensions, too, to see when the application resumes.
pub const LOW_MASK: AttachMask = AttachMask::MODULE_LOADS.with(AttachMask::THREADS).with(AttachMask::SUSPENDS);
/// Also exceptions. The runtime allows this after an attach, and clears it again (docs of ICorProfilerInfo5::SetEventMask2).
const LOW_MASK_OF_EXCEPTIONS: AttachMask = LOW_MASK.with(AttachMask::EXCEPTIONS);

/// The high half of [`LOW_MASK`].
pub const HIGH_MASK: HighAttachMask = HighAttachMask::DYNAMIC_FUNCTION_UNLOADS;

/// Also roots and survivors. The runtime accepts this as a new flag only while it attaches the profiler. It then disables concurrent GC
/// until the profiler detaches. Later the flag may be cleared and set (measured). It makes every GC slower, so it is set only inside our
/// own (`gc_monitor.rs`).
pub const LOW_MASK_OF_COLLECTIONS: AttachMask = LOW_MASK.with(AttachMask::GC);

/// The high half for a heap snapshot: GC start and end, without details.
pub const HIGH_MASK_OF_HEAP: HighAttachMask = HighAttachMask::BASIC_GC;

/// The same until the methods of roots are described: a dynamic method may unload before, and the runtime must report it.
const HIGH_MASK_OF_ROOTS: HighAttachMask = HIGH_MASK_OF_HEAP.with(HighAttachMask::DYNAMIC_FUNCTION_UNLOADS);

/// Between two checks whether a callback has finished its change, nanoseconds.
const A_MOMENT: u64 = 100_000;

/// The runtime, for one attach.
pub struct Clr<'a, P: HostedPlatform> {
    info: &'a Info<Attached, Alive>,
    shared: &'a Shared<P>,
    notification_only: bool,
}

impl<'a, P: HostedPlatform> Clr<'a, P> {
    /// The runtime behind `info`.
    pub fn new(info: &'a Info<Attached, Alive>, shared: &'a Shared<P>, notification_only: bool) -> Clr<'a, P> {
        Clr { info, shared, notification_only }
    }

    /// Requests MONITOR_GC for our next GC, with this high half of the event mask.
    fn request_gc_monitoring(&self, high: HighAttachMask) -> Result<(), u32> {
        if self.shared.gc_monitor.get().is_none() {
            let words = |count| self.shared.platform.words(count);
            let monitor = GcMonitor::new(high, words).ok_or(HResult::E_OUTOFMEMORY.0 as u32)?;
            // Always the first and only value.
            let _ = self.shared.gc_monitor.set(monitor);
        }
        if let Some(monitor) = self.shared.gc_monitor.get() {
            monitor.request();
        }
        Ok(())
    }

    /// After this, no callback changes the event mask.
    fn stop_mask_changes_in_callbacks(&self) {
        let pause = || self.shared.platform.pause(A_MOMENT);
        if let Some(monitor) = self.shared.gc_monitor.get() {
            monitor.stop(&pause);
        }
        if let Some(watch) = self.shared.heap_tracker.get() {
            watch.is_over(&pause);
        }
    }

    /// A question may take several calls. Before each but the first, checks that no unload has timed out.
    fn check_unloads(&self) -> Result<(), u32> {
        if self.shared.unload_barrier.has_timed_out() { Err(NOT_ASKED) } else { Ok(()) }
    }

    /// Suspends the managed threads for an instant. False if the runtime refuses.
    fn suspend_and_resume(&self) -> bool {
        retry(&self.shared.platform, || match self.info.suspend_runtime().map(drop) {
            Ok(()) => Progress::Done,
            // Another suspension is in progress, usually a GC.
            Err(HResult::CORPROF_E_SUSPENSION_IN_PROGRESS) => Progress::Busy,
            Err(_) => Progress::Refused,
        })
    }
}

/// Reads the bytes from `from` to `end`, as many as fit, in reads of eight that may fail. Returns how many were read.
fn read_code(read: impl Fn(u64) -> Option<[u8; 8]>, from: u64, end: u64, into: &mut [u8]) -> usize {
    let length = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX).min(into.len());
    let mut done = 0;
    while done < length {
        let at = from + done as u64;
        // The last read ends at the end of the code: memory beyond it may be unmapped.
        let back = 8_u64.saturating_sub(end - at);
        let Some(bytes) = at.checked_sub(back).and_then(&read) else { break };
        let fresh = bytes.get(back as usize..).unwrap_or_default();
        let taken = fresh.len().min(length - done);
        let (Some(place), Some(fresh)) = (into.get_mut(done..done + taken), fresh.get(..taken)) else { break };
        place.copy_from_slice(fresh);
        done += taken;
    }
    done
}

impl<P: HostedPlatform> Runtime for Clr<'_, P> {
    fn function_at(&self, address: u64) -> Result<Option<usize>, u32> {
        match self.info.get_function_from_ip3(address as usize) {
            Ok((function, _)) if function.0 != 0 => Ok(Some(function.0)),
            Ok(_) | Err(HResult::E_FAIL) => Ok(None),
            Err(code) => Err(code.0 as u32),
        }
    }

    fn describe_function(&self, function: usize) -> Result<FunctionFacts, u32> {
        let id = FunctionId(function);
        if self.info.is_function_dynamic(id).map_err(|code| code.0 as u32)? {
            self.check_unloads()?;
            let dynamic = self.info.get_dynamic_function_info(id).map_err(|code| code.0 as u32)?;
            let module = (dynamic.module.0 != 0).then_some(dynamic.module.0);
            return Ok(FunctionFacts::Dynamic { name: dynamic.name, module });
        }
        self.check_unloads()?;
        let facts = self.info.get_function_info2(id).map_err(|code| code.0 as u32)?;
        Ok(FunctionFacts::Token {
            module: facts.module.0,
            token: facts.token.0,
            class: (facts.class.0 != 0).then_some(facts.class.0),
            arguments: facts.type_arguments.iter().map(|class| class.0).collect(),
        })
    }

    fn names_of(&self, function: usize, on_disk: bool, token: u32) -> Option<(String, String)> {
        if on_disk {
            return None;
        }
        let module = self.info.get_function_info2(FunctionId(function)).ok()?.module;
        self.check_unloads().ok()?;
        let metadata = self.info.get_module_metadata(module).ok()??;
        let method = metadata.method(MethodToken(token)).ok()?;
        let mut type_name = metadata.type_definition(method.class).ok()?.name;
        let mut class = method.class;
        for _ in 0..MAXIMUM_NESTING {
            self.check_unloads().ok()?;
            let Ok(Some(outer)) = metadata.enclosing_type(class) else { break };
            type_name = format!("{}+{type_name}", metadata.type_definition(outer).ok()?.name);
            class = outer;
        }
        Some((type_name, method.name))
    }

    fn describe_type(&self, class: usize) -> Result<TypeFacts, u32> {
        if let Ok(Some(array)) = self.info.is_array_class(ClassId(class)) {
            return Ok(TypeFacts::Array {
                element: (array.class.0 != 0).then_some(array.class.0),
                rank: array.rank,
                element_kind: array.element,
            });
        }
        self.check_unloads()?;
        match self.info.get_class_id_info2(ClassId(class)) {
            Ok(facts) if facts.module.0 != 0 => Ok(TypeFacts::Class {
                module: facts.module.0,
                token: facts.token.0,
                arguments: facts.type_arguments.iter().map(|class| class.0).collect(),
            }),
            // A pointer, a reference or another type without a token: this never changes.
            Ok(_) | Err(HResult::CORPROF_E_CLASSID_IS_COMPOSITE | HResult::CORPROF_E_CLASSID_IS_ARRAY) => {
                Ok(TypeFacts::Unknown)
            }
            Err(code) => Err(code.0 as u32),
        }
    }

    fn describe_module(&self, module: usize) -> Result<ModuleFacts, u32> {
        let module = ModuleId(module);
        let facts = self.info.get_module_info2(module).map_err(|code| code.0 as u32)?;
        // In a single-file application a module's path is a bare name. A file with that name in the working directory is another one.
        let path = std::path::Path::new(&facts.path);
        let on_disk =
            facts.flags.contains(ModuleFlags::DISK) && path.is_absolute() && self.shared.platform.is_file(&facts.path);
        let mvid = || {
            self.check_unloads().ok()?;
            self.info.get_module_metadata(module).ok()??.mvid().ok().map(Guid::to_bytes)
        };
        Ok(ModuleFacts { path: facts.path, mvid: (!on_disk).then(|| mvid().unwrap_or_default()) })
    }

    fn bodies(&self, function: usize) -> Vec<CodeBody> {
        let starts = self.info.get_native_code_start_addresses(FunctionId(function), RejitId(0)).unwrap_or_default();
        let body = |start: usize| {
            self.check_unloads().ok()?;
            let ranges = self.info.get_code_info4(start).ok()?;
            let hot = ranges.first()?;
            Some(CodeBody { start: hot.start as u64, end: (hot.start + hot.size) as u64 })
        };
        starts.into_iter().filter_map(body).collect()
    }

    fn il_offset(&self, _function: usize, body: CodeBody, native_offset: u32) -> Option<u32> {
        let mapping = self.info.get_il_to_native_mapping3(body.start as usize).ok()?;
        let special = [IlMapping::NO_MAPPING, IlMapping::PROLOG, IlMapping::EPILOG];
        mapping
            .iter()
            .filter(|entry| !special.contains(&entry.il_offset) && entry.native_start <= native_offset)
            .max_by_key(|entry| entry.native_start)
            .map(|entry| entry.il_offset)
    }

    fn code<'b>(&self, body: CodeBody, from: u64, into: &'b mut [u8]) -> &'b [u8] {
        if from < body.start {
            return &[];
        }
        // The kernel reads: if the code is gone, this read fails. A plain copy would crash the process.
        let length = read_code(|at| self.shared.platform.read_checked(at), from, body.end, into);
        into.get(..length).unwrap_or_default()
    }

    fn modules(&self) -> Result<Vec<usize>, u32> {
        let all = self.info.enum_modules().map_err(|code| code.0 as u32)?;
        Ok(all.flatten().map(|module| module.0).collect())
    }

    fn app_domain_of(&self, module: usize) -> Option<usize> {
        self.info.app_domain_of(ModuleId(module)).ok().map(|domain| domain.0)
    }

    fn collect(&self) -> Result<(), u32> {
        match self.shared.roots_refused.load(Ordering::SeqCst) {
            0 => {}
            code => return Err(code),
        }
        let sees_roots = self.shared.platform.task().snapshot().is_some_and(|wanted| wanted.roots == Roots::Seen);
        if sees_roots {
            self.request_gc_monitoring(HIGH_MASK_OF_ROOTS)?;
            self.info.set_event_mask2(LOW_MASK, HIGH_MASK_OF_ROOTS).map_err(|code| code.0 as u32)?;
        }
        self.shared.snapshot.arm(self.info.heap_view());
        let answer = self.info.force_gc();
        self.shared.snapshot.disarm();
        if sees_roots {
            self.stop_mask_changes_in_callbacks();
            // Ignore a refusal: the agent detaches soon.
            let _ = self.info.set_event_mask2(LOW_MASK, HIGH_MASK_OF_ROOTS);
        }
        answer.map_err(|code| code.0 as u32)
    }

    fn methods_described(&self) {
        let _ = self.info.set_event_mask2(LOW_MASK, HIGH_MASK_OF_HEAP);
    }

    fn track_heap(&self, keeps: bool) -> Result<(), u32> {
        if keeps {
            match self.shared.roots_refused.load(Ordering::SeqCst) {
                0 => {}
                code => return Err(code),
            }
            let view = Some(self.info.heap_view());
            let watch = HeapTracker::new(view, |count| self.shared.platform.words(count))
                .ok_or(HResult::E_OUTOFMEMORY.0 as u32)?;
            // Always the first and only value.
            let _ = self.shared.heap_tracker.set(watch);
            return self.request_gc_monitoring(HIGH_MASK_OF_HEAP);
        }
        self.stop_mask_changes_in_callbacks();
        self.info.set_event_mask2(LOW_MASK, HIGH_MASK_OF_HEAP).map_err(|code| code.0 as u32)
    }

    fn suspend_and_fork(&self) -> Result<(), u32> {
        let mut answer = Err(HResult::CORPROF_E_SUSPENSION_IN_PROGRESS.0 as u32);
        retry(&self.shared.platform, || match self.info.suspend_runtime() {
            Ok(_stopped) => {
                answer = self.shared.platform.suspend_and_fork(self.info.heap_view());
                Progress::Done
            }
            // Another suspension is in progress, usually a GC.
            Err(HResult::CORPROF_E_SUSPENSION_IN_PROGRESS) => Progress::Busy,
            Err(code) => {
                answer = Err(code.0 as u32);
                Progress::Refused
            }
        });
        answer
    }

    fn watch_exceptions(&self, watches: bool) -> Result<(), u32> {
        self.shared.exceptions.get_or_init(|| self.info.heap_view());
        let low = if watches { LOW_MASK_OF_EXCEPTIONS } else { LOW_MASK };
        self.info.set_event_mask2(low, HIGH_MASK).map_err(|code| code.0 as u32)
    }

    fn callbacks_arrive(&self) -> bool {
        if !self.notification_only {
            // A main profiler's detach does not depend on the profiler count, which may be wrong.
            return true;
        }
        if self.info.set_event_mask2(LOW_MASK, HIGH_MASK).is_err() {
            return false;
        }
        let thread = self.shared.platform.this_thread();
        let (has_suspended, is_reported) = self.shared.callback_proof.listen(thread, || self.suspend_and_resume());
        has_suspended && is_reported
    }

    fn clear_event_mask(&self) {
        self.stop_mask_changes_in_callbacks();
        // Ignore a refusal: nothing more can be done.
        let _ = self.info.set_event_mask2(AttachMask::NONE, HighAttachMask::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;

    /// Bytes 0, 1, 2, ... at 0x1000; unmapped from `end` on.
    fn mapped(end: u64) -> impl Fn(u64) -> Option<[u8; 8]> {
        move |at| {
            (at >= 0x1000 && at + 8 <= end).then(|| std::array::from_fn(|index| (at - 0x1000) as u8 + index as u8))
        }
    }

    #[test]
    fn cat_09_code_is_read_up_to_its_end_and_never_beyond() {
        let mut into = [0; 16];
        for (from, end, expected) in
            [(0x1000, 0x1100, 16), (0x1003, 0x1010, 13), (0x100e, 0x1010, 2), (0x1010, 0x1010, 0)]
        {
            let read = read_code(mapped(end), from, end, &mut into);
            let bytes: Vec<u8> = (0..expected).map(|index| (from - 0x1000) as u8 + index).collect();
            holds!(CAT_09 rem, into[..read] == bytes, "{from:#x}..{end:#x}");
        }
    }

    #[test]
    fn cat_09_code_that_is_gone_is_no_fault() {
        assert_eq!(read_code(|_| None, 0x1000, 0x1100, &mut [0; 16]), 0);
        holds!(CAT_09 rem, read_code(remora_sampler::read_checked, 0x1000, 0x1100, &mut [0; 16]) == 0);
        assert_eq!(read_code(mapped(0x1008), 0x1000, 0x1100, &mut [0; 16]), 8);
    }
}
