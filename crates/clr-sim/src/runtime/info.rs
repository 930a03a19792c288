//! ICorProfilerInfo as the model serves it: what is refused when, and what is a crime.

#![allow(non_snake_case, reason = "the names of corprof.idl")]

use super::code::{BODY_SIZE, FunctionId, ModuleId};
use super::{Profiler, Runtime, Status};
use crate::lab::witness;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Functions, Modules, Threads, enumerator};
use remora_clr_sim_abi::{InfoServer, Slot};
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// COR_PRF_ENABLE_REJIT.
const ENABLE_REJIT: u32 = 0x0004_0000;
/// COR_PRF_MONITOR_SUSPENDS.
const SUSPENDS: u32 = 0x0001_0000;
/// What a notification-only profiler may set (source: corprof.idl, COR_PRF_ALLOWABLE_NOTIFICATION_PROFILER and its high half).
const NOTIFICATION: (u32, u32) = (0xB1E3_2B7F, 0xFE);
/// COR_PRF_MODULE_DISK.
const DISK: u32 = 0x1;

/// What the library's account calls a session: what it delivers escapes the seal.
const SESSION: &str = "an EventPipe session that is open";

/// The server behind one profiler's Info.
pub struct Server {
    runtime: Weak<Runtime>,
    profiler: Weak<Profiler>,
    version: u8,
}

impl Server {
    pub(super) fn new(runtime: &Arc<Runtime>, profiler: &Arc<Profiler>) -> Server {
        let version = runtime.differences().info_version;
        Server { runtime: Arc::downgrade(runtime), profiler: Arc::downgrade(profiler), version }
    }

    fn both(&self) -> Option<(Arc<Runtime>, Arc<Profiler>)> {
        Some((self.runtime.upgrade()?, self.profiler.upgrade()?))
    }

    /// Asks about an entity: it must live when the question is begun, and still when it is answered; in a real process the runtime
    /// follows the id meanwhile.
    fn about<T>(&self, what: &str, look: impl Fn(&Runtime) -> Option<T>) -> Result<T, HResult> {
        let (runtime, _) = self.both().ok_or(HResult::E_UNEXPECTED)?;
        let begun = runtime.call_begun();
        look(&runtime).ok_or_else(|| stale(&runtime, what, begun))?;
        schedule::point();
        look(&runtime).ok_or_else(|| stale(&runtime, what, begun))
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
            && differences.immutable_is_plain_failure
        {
            return HResult::E_FAIL;
        }
        if profiler.attached && (low & !differences.allowable != 0 || high & !differences.allowable_high != 0) {
            return HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER;
        }
        if low & ENABLE_REJIT != 0 && differences.rejit_forbids_detach {
            profiler.irreversible.store(true, Ordering::SeqCst);
        }
        profiler.set_mask(low, high);
        schedule::note("The mask is now {}", u64::from(low) | u64::from(high) << 32);
        HResult::S_OK
    }
}

/// A question that takes longer than this may outlive what it asks about (`agent-core/src/gate.rs`): nobody can wait for it for ever, since
/// it may itself wait for who unloads. Nanoseconds.
const LONGEST_QUESTION: u64 = 400_000_000;

fn stale(runtime: &Runtime, what: &str, begun: u64) -> HResult {
    let is_excused = schedule::now() - begun >= LONGEST_QUESTION;
    // Nor can anybody know who is not told of unloads.
    if !is_excused && !runtime.has_lost_track() {
        let what = format!("the runtime was asked about a stale id ({what}): an access violation");
        runtime.court.convict("CAT-09", what);
    }
    HResult::E_INVALIDARG
}

/// Writes an answer where the profiler wants one.
///
/// # Safety
/// Null, or a place for it.
unsafe fn answer<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Answers a list by the convention of the API: how many there are, and as many as fit.
///
/// # Safety
/// `count` is null or a place; `places` is null or has room for `room`.
unsafe fn answer_list<T: Copy>(values: &[T], room: u32, count: *mut u32, places: *mut T) -> HResult {
    // SAFETY: the caller's promise.
    unsafe { answer(count, values.len() as u32) };
    if !places.is_null() {
        for (index, value) in values.iter().take(room as usize).enumerate() {
            // SAFETY: inside the room that the profiler has given.
            unsafe { places.add(index).write(*value) };
        }
    }
    HResult::S_OK
}

/// Answers a text by the convention of the API: its length with the final zero, and as much as fits.
///
/// # Safety
/// As for [`answer_list`].
unsafe fn answer_text(text: &str, room: u32, count: *mut u32, places: *mut u16) -> HResult {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    // SAFETY: the caller's promise.
    unsafe { answer_list(&units, room, count, places) }
}

fn code(result: Result<HResult, HResult>) -> HResult {
    result.unwrap_or_else(|refused| refused)
}

impl InfoServer for Server {
    fn version(&self) -> u8 {
        self.version
    }

    fn enter(&self, slot: Slot) -> Result<(), HResult> {
        witness::question(slot.name);
        let Some((runtime, profiler)) = self.both() else { return Err(HResult::E_UNEXPECTED) };
        runtime.begin_call();
        schedule::point();
        let inside_callback = profiler.runs_on(schedule::current());
        match profiler.status() {
            Status::Gone => {
                runtime
                    .court
                    .convict("DET-20", format!("{} was called on an Info that is freed: a use after free", slot.name));
                Err(HResult::CORPROF_E_PROFILER_DETACHING)
            }
            Status::Detaching => {
                if !inside_callback {
                    runtime.court.convict(
                        "DET-20",
                        format!("{} was called after the detach was accepted, outside of a callback", slot.name),
                    );
                }
                Err(HResult::CORPROF_E_PROFILER_DETACHING)
            }
            Status::InitializingForAttach if slot.name.starts_with("Enum") => {
                runtime.court.convict(
                    "CAT-02",
                    format!("{} was called before events were enabled: what loads meanwhile is missed", slot.name),
                );
                Ok(())
            }
            _ if runtime.is_exiting() => {
                if profiler.told_of_exit.load(Ordering::SeqCst) && runtime.calls_too_late() {
                    runtime.court.convict("DET-17", format!("{} was called after Shutdown", slot.name));
                }
                Err(HResult::CORPROF_E_RUNTIME_UNINITIALIZED)
            }
            _ => Ok(()),
        }
    }

    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
        if let Some((runtime, _)) = self.both() {
            let words = payload.downcast_ref::<String>().cloned().unwrap_or_default();
            runtime.court.convict("MODEL", format!("the model panicked in {}: {words}", slot.name));
        }
    }

    unsafe fn set_event_mask(&self, dwEvents: sys::DWORD) -> HResult {
        witness::mask(dwEvents, None, self.set_mask(dwEvents, None))
    }

    unsafe fn set_event_mask2(&self, dwEventsLow: sys::DWORD, dwEventsHigh: sys::DWORD) -> HResult {
        witness::mask(dwEventsLow, Some(dwEventsHigh), self.set_mask(dwEventsLow, Some(dwEventsHigh)))
    }

    unsafe fn get_event_mask(&self, pdwEvents: *mut sys::DWORD) -> HResult {
        let Some((_, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's place. The same for each answer below.
        unsafe { answer(pdwEvents, profiler.mask().0) };
        HResult::S_OK
    }

    unsafe fn get_event_mask2(&self, pdwEventsLow: *mut sys::DWORD, pdwEventsHigh: *mut sys::DWORD) -> HResult {
        let Some((_, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        let (low, high) = profiler.mask();
        // SAFETY: as above.
        unsafe { answer(pdwEventsLow, low) };
        // SAFETY: as above.
        unsafe { answer(pdwEventsHigh, high) };
        HResult::S_OK
    }

    unsafe fn request_profiler_detach(&self, dwExpectedCompletionMilliseconds: sys::DWORD) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        witness::detach(&profiler.library, || runtime.request_detach(&profiler, dwExpectedCompletionMilliseconds))
    }

    unsafe fn event_pipe_start_session(
        &self,
        _cProviderConfigs: sys::UINT32,
        _pProviderConfigs: *const sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
        _requestRundown: sys::BOOL,
        pSession: *mut sys::EVENTPIPE_SESSION,
    ) -> HResult {
        let Some((_, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        let mut sessions = profiler.sessions.lock().expect("no panic while locked");
        let session = sessions.last().map_or(1, |last| last + 1);
        sessions.insert(session);
        profiler.library.open(SESSION);
        // SAFETY: the profiler's place.
        unsafe { answer(pSession, session) };
        HResult::S_OK
    }

    unsafe fn event_pipe_stop_session(&self, session: sys::EVENTPIPE_SESSION) -> HResult {
        let Some((_, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        let was_open = profiler.sessions.lock().expect("no panic while locked").remove(&session);
        if !was_open {
            return HResult::E_INVALIDARG;
        }
        profiler.library.close(SESSION);
        HResult::S_OK
    }

    unsafe fn enum_modules(&self, ppEnum: *mut *mut sys::ICorProfilerModuleEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let modules = {
            let state = runtime.lock();
            state.code.modules.iter().filter(|(_, module)| module.enumerable).map(|(id, _)| id.0).collect()
        };
        schedule::note("Profiler calls EnumModules", 0);
        // SAFETY: as above.
        unsafe { answer(ppEnum, enumerator::<Modules>(modules, &runtime.enumerators)) };
        HResult::S_OK
    }

    unsafe fn enum_jited_functions2(&self, ppEnum: *mut *mut sys::ICorProfilerFunctionEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let functions = {
            let state = runtime.lock();
            let jitted = state.code.functions.iter().filter(|(_, function)| function.enumerable && function.jitted);
            jitted.map(|(id, _)| sys::COR_PRF_FUNCTION { functionId: id.0, reJitId: 0 }).collect()
        };
        schedule::note("Profiler calls EnumJITedFunctions", 0);
        // SAFETY: as above.
        unsafe { answer(ppEnum, enumerator::<Functions>(functions, &runtime.enumerators)) };
        HResult::S_OK
    }

    unsafe fn enum_threads(&self, ppEnum: *mut *mut sys::ICorProfilerThreadEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let threads = runtime.lock().threads.known.keys().map(|thread| thread.0).collect();
        // SAFETY: as above.
        unsafe { answer(ppEnum, enumerator::<Threads>(threads, &runtime.enumerators)) };
        HResult::S_OK
    }

    unsafe fn get_function_from_ip3(
        &self,
        ip: sys::LPCBYTE,
        functionId: *mut sys::FunctionID,
        pReJitId: *mut sys::ReJITID,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let Some(function) = runtime.lock().code.function_at(ip as u64) else { return HResult::E_FAIL };
        // SAFETY: as above.
        unsafe { answer(functionId, function.0) };
        // SAFETY: as above.
        unsafe { answer(pReJitId, 0) };
        schedule::point();
        HResult::S_OK
    }

    unsafe fn is_function_dynamic(&self, functionId: sys::FunctionID, isDynamic: *mut sys::BOOL) -> HResult {
        let looked_up = self.about("IsFunctionDynamic", |runtime| {
            runtime.lock().code.functions.get(&FunctionId(functionId)).map(|function| function.module.is_none())
        });
        code(looked_up.map(|dynamic| {
            // SAFETY: as above.
            unsafe { answer(isDynamic, sys::BOOL::from(dynamic)) };
            HResult::S_OK
        }))
    }

    unsafe fn get_dynamic_function_info(
        &self,
        functionId: sys::FunctionID,
        moduleId: *mut sys::ModuleID,
        _ppvSig: *mut sys::PCCOR_SIGNATURE,
        _pbSig: *mut sys::ULONG,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        wszName: *mut sys::WCHAR,
    ) -> HResult {
        let token = |runtime: &Runtime| {
            runtime.lock().code.functions.get(&FunctionId(functionId)).map(|function| function.token)
        };
        code(self.about("GetDynamicFunctionInfo", token).map(|token| {
            // SAFETY: as above.
            unsafe { answer(moduleId, 0) };
            // SAFETY: as above.
            unsafe { answer_text(&format!("dynamic{token:#x}"), cchName, pcchName, wszName) }
        }))
    }

    unsafe fn get_function_info2(
        &self,
        funcId: sys::FunctionID,
        _frameInfo: sys::COR_PRF_FRAME_INFO,
        pClassId: *mut sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pToken: *mut sys::mdToken,
        _cTypeArgs: sys::ULONG32,
        pcTypeArgs: *mut sys::ULONG32,
        _typeArgs: *mut sys::ClassID,
    ) -> HResult {
        let facts = |runtime: &Runtime| {
            let state = runtime.lock();
            let function = state.code.functions.get(&FunctionId(funcId))?;
            Some((function.module?, function.token))
        };
        code(self.about("GetFunctionInfo2", facts).map(|(module, token)| {
            // SAFETY: as above, four times.
            unsafe { answer(pClassId, 0) };
            // SAFETY: as above.
            unsafe { answer(pModuleId, module.0) };
            // SAFETY: as above.
            unsafe { answer(pToken, token) };
            // SAFETY: as above.
            unsafe { answer(pcTypeArgs, 0) };
            HResult::S_OK
        }))
    }

    unsafe fn get_module_info2(
        &self,
        moduleId: sys::ModuleID,
        ppBaseLoadAddress: *mut sys::LPCBYTE,
        cchName: sys::ULONG,
        pcchName: *mut sys::ULONG,
        szName: *mut sys::WCHAR,
        pAssemblyId: *mut sys::AssemblyID,
        pdwModuleFlags: *mut sys::DWORD,
    ) -> HResult {
        let known = |runtime: &Runtime| runtime.lock().code.modules.contains_key(&ModuleId(moduleId)).then_some(());
        code(self.about("GetModuleInfo2", known).map(|()| {
            // SAFETY: as above.
            unsafe { answer(ppBaseLoadAddress, std::ptr::null()) };
            // SAFETY: as above.
            unsafe { answer(pAssemblyId, moduleId + 1) };
            // SAFETY: as above.
            unsafe { answer(pdwModuleFlags, DISK) };
            // SAFETY: as above.
            unsafe { answer_text(&format!("/app/module{moduleId:#x}.dll"), cchName, pcchName, szName) }
        }))
    }

    unsafe fn get_native_code_start_addresses(
        &self,
        functionID: sys::FunctionID,
        _reJitId: sys::ReJITID,
        cCodeStartAddresses: sys::ULONG32,
        pcCodeStartAddresses: *mut sys::ULONG32,
        codeStartAddresses: *mut sys::UINT_PTR,
    ) -> HResult {
        let start = |runtime: &Runtime| {
            runtime.lock().code.functions.get(&FunctionId(functionID)).map(|function| function.start)
        };
        code(self.about("GetNativeCodeStartAddresses", start).map(|start| {
            // SAFETY: as above.
            unsafe { answer_list(&[start as usize], cCodeStartAddresses, pcCodeStartAddresses, codeStartAddresses) }
        }))
    }

    unsafe fn get_code_info4(
        &self,
        pNativeCodeStartAddress: sys::UINT_PTR,
        cCodeInfos: sys::ULONG32,
        pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        if !runtime.is_code(pNativeCodeStartAddress as u64) {
            return HResult::E_INVALIDARG;
        }
        let body = sys::COR_PRF_CODE_INFO { startAddress: pNativeCodeStartAddress, size: BODY_SIZE as usize };
        // SAFETY: as above.
        unsafe { answer_list(&[body], cCodeInfos, pcCodeInfos, codeInfos) }
    }

    unsafe fn get_il_to_native_mapping3(
        &self,
        _pNativeCodeStartAddress: sys::UINT_PTR,
        cMap: sys::ULONG32,
        pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP,
    ) -> HResult {
        let whole =
            sys::COR_DEBUG_IL_TO_NATIVE_MAP { ilOffset: 0, nativeStartOffset: 0, nativeEndOffset: BODY_SIZE as u32 };
        // SAFETY: as above.
        unsafe { answer_list(&[whole], cMap, pcMap, map) }
    }

    unsafe fn suspend_runtime(&self) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        if profiler.runs_on(schedule::current()) {
            return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
        }
        {
            let mut state = runtime.lock();
            if state.suspended_by.is_some() {
                return HResult::CORPROF_E_SUSPENSION_IN_PROGRESS;
            }
            state.suspended_by = Some(schedule::current());
        }
        let before = profiler.heard.load(Ordering::SeqCst);
        runtime.call_all(
            "RuntimeSuspendStarted",
            |mask| mask.0 & SUSPENDS != 0,
            |object| {
                // SAFETY: the object is held while it is called.
                unsafe { object.runtime_suspend_started(9) };
            },
        );
        profiler.proved.store(profiler.heard.load(Ordering::SeqCst) > before, Ordering::SeqCst);
        HResult::S_OK
    }

    unsafe fn resume_runtime(&self) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let mut state = runtime.lock();
        if state.suspended_by != Some(schedule::current()) {
            return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
        }
        state.suspended_by = None;
        HResult::S_OK
    }
}
