//! ICorProfilerInfo as the model serves it: what is refused when, and what is a crime.
//! One short method for each slot that is served; what it does is in the other files.
//!
//! tidy: catalogue

#![allow(non_snake_case, reason = "the names of corprof.idl")]

use super::answers::{answer, answer_list, answer_text};
use super::code::{BODY_SIZE, FunctionId, ModuleId};
use super::collector::MONITOR_GC;
use super::hooks::{ARGUMENTS, Mapper, RETURN_VALUE};
use super::left_behind::address_of;
use super::objects::class_of;
use super::{ObjectId, Profiler, Runtime, Status};
use crate::lab::witness;
use crate::mutation;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_sim_abi::enumerators::{Functions, Modules, Threads, enumerator};
use remora_clr_sim_abi::{InfoServer, Slot};
use std::any::Any;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// COR_PRF_ENABLE_REJIT.
const ENABLE_REJIT: u32 = 0x0004_0000;
/// What a notification-only profiler may set (source: corprof.idl, COR_PRF_ALLOWABLE_NOTIFICATION_PROFILER and its high half).
const NOTIFICATION: (u32, u32) = (0xB1E3_2B7F, 0xFE);
/// COR_PRF_MODULE_DISK.
const DISK: u32 = 0x1;

/// Calls that may begin a collection: refused in callbacks that may not, and on the runtime's threads outside of callbacks (facts 5).
const NEEDS_TRIGGER: [&str; 8] = [
    "EnumModules",
    "EnumJITedFunctions2",
    "GetFunctionFromIP2",
    "GetFunctionFromIP3",
    "SuspendRuntime",
    "ResumeRuntime",
    "RequestReJIT",
    "RequestReJITWithInliners",
];

/// The server behind one profiler's Info.
pub struct Server {
    runtime: Weak<Runtime>,
    profiler: Weak<Profiler>,
    version: u8,
}

impl Server {
    pub(super) fn new(runtime: &Arc<Runtime>, profiler: &Arc<Profiler>) -> Server {
        let version = runtime.info_version();
        Server { runtime: Arc::downgrade(runtime), profiler: Arc::downgrade(profiler), version }
    }

    pub(super) fn both(&self) -> Option<(Arc<Runtime>, Arc<Profiler>)> {
        Some((self.runtime.upgrade()?, self.profiler.upgrade()?))
    }

    /// Asks about an entity: it must live when the question is begun, and still when it is answered; in a real process the runtime
    /// follows the id meanwhile.
    pub(super) fn about<T>(&self, what: &str, look: impl Fn(&Runtime) -> Option<T>) -> Result<T, HResult> {
        let (runtime, _) = self.both().ok_or(HResult::E_UNEXPECTED)?;
        look(&runtime).ok_or_else(|| stale(&runtime, what))?;
        schedule::point();
        look(&runtime).ok_or_else(|| stale(&runtime, what))
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

/// A question that takes longer than this may outlive what it asks about (`agent-core/src/gate.rs`): nobody can wait for it for ever, since
/// it may itself wait for who unloads. Nanoseconds.
const LONGEST_QUESTION: u64 = 400_000_000;

pub(super) fn stale(runtime: &Runtime, what: &str) -> HResult {
    let is_excused = schedule::now() - runtime.call_begun() >= LONGEST_QUESTION;
    // Nor can anybody know who is not told of unloads.
    if !is_excused && !runtime.has_lost_track() && !mutation::is("CAT-09") {
        let what = format!("the runtime was asked about a stale id ({what}): an access violation");
        runtime.court.convict("CAT-09", what);
    }
    HResult::E_INVALIDARG
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
                if !mutation::is("DET-20/2") {
                    runtime.court.convict(
                        "DET-20",
                        format!("{} was called on an Info that is freed: a use after free", slot.name),
                    );
                }
                Err(HResult::CORPROF_E_PROFILER_DETACHING)
            }
            Status::Detaching if mutation::is("DET-06/2") => Ok(()),
            Status::Detaching if mutation::is("DET-13/2") && slot.name == "RequestProfilerDetach" => Ok(()),
            Status::Detaching => {
                if !inside_callback && !mutation::is("DET-20") {
                    runtime.court.convict(
                        "DET-20",
                        format!("{} was called after the detach was accepted, outside of a callback", slot.name),
                    );
                }
                Err(HResult::CORPROF_E_PROFILER_DETACHING)
            }
            Status::InitializingForAttach if slot.name.starts_with("Enum") && !slot.name.contains("Ngen") => {
                if !mutation::is("CAT-02") {
                    runtime.court.convict(
                        "CAT-02",
                        format!("{} was called before events were enabled: what loads meanwhile is missed", slot.name),
                    );
                }
                Ok(())
            }
            _ if runtime.is_exiting() => {
                let is_told = profiler.told_of_exit.load(Ordering::SeqCst) && !mutation::is("DET-17");
                if is_told && runtime.calls_too_late() {
                    runtime.court.convict("DET-17", format!("{} was called after Shutdown", slot.name));
                }
                Err(HResult::CORPROF_E_RUNTIME_UNINITIALIZED)
            }
            _ if mutation::is("ATT-13") || mutation::is("ELT-02/3") => Ok(()),
            _ if profiler.attached && runtime.differences().refused_after_attach.contains(&slot.name) => {
                Err(HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER)
            }
            _ if mutation::is("DET-19/3") => Ok(()),
            _ if NEEDS_TRIGGER.contains(&slot.name) && !runtime.may_trigger(&profiler) => {
                Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE)
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

    unsafe fn get_runtime_information(
        &self,
        pClrInstanceId: *mut sys::USHORT,
        pRuntimeType: *mut sys::COR_PRF_RUNTIME_TYPE,
        pMajorVersion: *mut sys::USHORT,
        pMinorVersion: *mut sys::USHORT,
        pBuildNumber: *mut sys::USHORT,
        pQFEVersion: *mut sys::USHORT,
        cchVersionString: sys::ULONG,
        pcchVersionString: *mut sys::ULONG,
        szVersionString: *mut sys::WCHAR,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let (number, kind, release) = runtime.identity();
        // SAFETY: as above.
        unsafe { answer(pClrInstanceId, number) };
        // SAFETY: as above.
        unsafe { answer(pRuntimeType, kind) };
        for (place, value) in
            [(pMajorVersion, release.0), (pMinorVersion, release.1), (pBuildNumber, release.2), (pQFEVersion, 0)]
        {
            // SAFETY: as above.
            unsafe { answer(place, value) };
        }
        // SAFETY: as above.
        unsafe { answer_text(&release.to_string(), cchVersionString, pcchVersionString, szVersionString) }
    }

    unsafe fn enum_modules(&self, ppEnum: *mut *mut sys::ICorProfilerModuleEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        // It holds the lock that would be needed.
        if runtime.lock().suspended_by == Some(schedule::current()) {
            return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
        }
        let modules = {
            let state = runtime.lock();
            state.code.modules.iter().filter(|(_, module)| module.enumerable).map(|(id, _)| id.0).collect()
        };
        schedule::note("Profiler calls EnumModules", 0);
        if mutation::is("DET-14/2") {
            enumerator::<Modules>(Vec::new(), &runtime.enumerators);
        }
        // SAFETY: as above.
        unsafe { answer(ppEnum, enumerator::<Modules>(modules, &runtime.enumerators)) };
        HResult::S_OK
    }

    unsafe fn enum_jited_functions(&self, ppEnum: *mut *mut sys::ICorProfilerFunctionEnum) -> HResult {
        // SAFETY: as above.
        unsafe { self.enum_jited_functions2(ppEnum) }
    }

    unsafe fn enum_jited_functions2(&self, ppEnum: *mut *mut sys::ICorProfilerFunctionEnum) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let entry = |id: FunctionId| sys::COR_PRF_FUNCTION { functionId: id.0, reJitId: 0 };
        let functions = runtime.jitted_functions().into_iter().map(entry).collect();
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

    unsafe fn get_function_from_ip(&self, ip: sys::LPCBYTE, pFunctionId: *mut sys::FunctionID) -> HResult {
        code(self.function_from(ip as u64, false).map(|(function, _)| {
            // SAFETY: as above.
            unsafe { answer(pFunctionId, function) };
            HResult::S_OK
        }))
    }

    unsafe fn get_function_from_ip2(
        &self,
        ip: sys::LPCBYTE,
        pFunctionId: *mut sys::FunctionID,
        pReJitId: *mut sys::ReJITID,
    ) -> HResult {
        code(self.function_from(ip as u64, false).map(|(function, version)| {
            // SAFETY: as above, twice.
            unsafe { answer(pFunctionId, function) };
            // SAFETY: as above.
            unsafe { answer(pReJitId, version) };
            HResult::S_OK
        }))
    }

    unsafe fn get_function_from_ip3(
        &self,
        ip: sys::LPCBYTE,
        functionId: *mut sys::FunctionID,
        pReJitId: *mut sys::ReJITID,
    ) -> HResult {
        code(self.function_from(ip as u64, true).map(|(function, version)| {
            // SAFETY: as above, twice.
            unsafe { answer(functionId, function) };
            // SAFETY: as above.
            unsafe { answer(pReJitId, version) };
            HResult::S_OK
        }))
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
        let known = |runtime: &Runtime| {
            let state = runtime.lock();
            let function = state.code.functions.get(&FunctionId(functionId))?;
            Some((function.module, function.token, function.name))
        };
        code(self.about("GetDynamicFunctionInfo", known).map(|(module, token, name)| {
            // Of one with metadata it tells nothing (source: proftoeeinterfaceimpl.cpp, GetDynamicFunctionInfo; live: cat_08).
            if module.is_some() {
                return HResult::E_INVALIDARG;
            }
            let name = name.map_or_else(|| format!("dynamic{token:#x}"), str::to_owned);
            // SAFETY: as above.
            unsafe { answer(moduleId, 0) };
            // SAFETY: as above.
            unsafe { answer_text(&name, cchName, pcchName, wszName) }
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
            let module = if mutation::is("CAT-08/2") { Some(ModuleId(0)) } else { function.module };
            Some((module, function.token))
        };
        code(self.about("GetFunctionInfo2", facts).map(|(module, token)| {
            // A dynamic function has neither.
            let Some(module) = module else { return HResult::E_INVALIDARG };
            // SAFETY: as above, four times.
            unsafe { answer(pClassId, class_of(module).0) };
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
        let base = |runtime: &Runtime| {
            let state = runtime.lock();
            let module = state.code.modules.get(&ModuleId(moduleId))?;
            Some(module.image.map_or(0, |image| image.start))
        };
        code(self.about("GetModuleInfo2", base).map(|base| {
            // SAFETY: as above.
            unsafe { answer(ppBaseLoadAddress, base as sys::LPCBYTE) };
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

    unsafe fn resume_runtime(&self) -> HResult {
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

    unsafe fn get_class_from_object(&self, objectId: sys::ObjectID, pClassId: *mut sys::ClassID) -> HResult {
        code(self.about_object(objectId, "GetClassFromObject", |_, object| object.class.0).map(|class| {
            // SAFETY: as above.
            unsafe { answer(pClassId, class) };
            HResult::S_OK
        }))
    }

    unsafe fn get_object_size(&self, objectId: sys::ObjectID, pcSize: *mut sys::ULONG) -> HResult {
        code(self.about_object(objectId, "GetObjectSize", |_, object| object.size as u32).map(|size| {
            // SAFETY: as above.
            unsafe { answer(pcSize, size) };
            HResult::S_OK
        }))
    }

    unsafe fn get_object_size2(&self, objectId: sys::ObjectID, pcSize: *mut sys::SIZE_T) -> HResult {
        code(self.about_object(objectId, "GetObjectSize2", |_, object| object.size).map(|size| {
            // SAFETY: as above.
            unsafe { answer(pcSize, size) };
            HResult::S_OK
        }))
    }

    unsafe fn enumerate_object_references(
        &self,
        objectId: sys::ObjectID,
        callback: Option<sys::ObjectReferenceCallback>,
        clientData: *mut c_void,
    ) -> HResult {
        let Some(callback) = callback else { return HResult::E_INVALIDARG };
        code(self.references_of(objectId).map(|references| {
            for mut reference in references {
                // SAFETY: the profiler's own callback and data, and a place that lives.
                if unsafe { callback(objectId, &raw mut reference, clientData) } == 0 {
                    break;
                }
            }
            HResult::S_OK
        }))
    }

    unsafe fn get_object_generation(
        &self,
        objectId: sys::ObjectID,
        range: *mut sys::COR_PRF_GC_GENERATION_RANGE,
    ) -> HResult {
        let of = |object: &super::heap::Object| sys::COR_PRF_GC_GENERATION_RANGE {
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

    unsafe fn is_array_class(
        &self,
        classId: sys::ClassID,
        pBaseElemType: *mut sys::CorElementType,
        pBaseClassId: *mut sys::ClassID,
        pcRank: *mut sys::ULONG,
    ) -> HResult {
        code(self.about_class(classId, "IsArrayClass").map(|class| {
            let Some(element) = class.element else { return HResult(1) };
            // SAFETY: as above, three times.
            unsafe { answer(pBaseElemType, sys::ELEMENT_TYPE_CLASS) };
            // SAFETY: as above.
            unsafe { answer(pBaseClassId, element) };
            // SAFETY: as above.
            unsafe { answer(pcRank, 1) };
            HResult::S_OK
        }))
    }

    unsafe fn get_class_id_info2(
        &self,
        classId: sys::ClassID,
        pModuleId: *mut sys::ModuleID,
        pTypeDefToken: *mut sys::mdTypeDef,
        pParentClassId: *mut sys::ClassID,
        _cNumTypeArgs: sys::ULONG32,
        pcNumTypeArgs: *mut sys::ULONG32,
        _typeArgs: *mut sys::ClassID,
    ) -> HResult {
        code(self.about_class(classId, "GetClassIDInfo2").map(|class| {
            if class.element.is_some() {
                return HResult::CORPROF_E_CLASSID_IS_ARRAY;
            }
            // SAFETY: as above, four times.
            unsafe { answer(pModuleId, class.module) };
            // SAFETY: as above.
            unsafe { answer(pTypeDefToken, class.token) };
            // SAFETY: as above.
            unsafe { answer(pParentClassId, class.parent) };
            // SAFETY: as above.
            unsafe { answer(pcNumTypeArgs, 0) };
            HResult::S_OK
        }))
    }

    unsafe fn get_static_field_info(
        &self,
        classId: sys::ClassID,
        fieldToken: sys::mdFieldDef,
        pFieldInfo: *mut sys::COR_PRF_STATIC_TYPE,
    ) -> HResult {
        code(self.static_place(classId, fieldToken).map(|_| {
            // SAFETY: as above.
            unsafe { answer(pFieldInfo, sys::COR_PRF_FIELD_APP_DOMAIN_STATIC) };
            HResult::S_OK
        }))
    }

    unsafe fn get_app_domain_static_address(
        &self,
        classId: sys::ClassID,
        fieldToken: sys::mdFieldDef,
        _appDomainId: sys::AppDomainID,
        ppAddress: *mut *mut c_void,
    ) -> HResult {
        code(self.static_place(classId, fieldToken).map(|place| {
            // SAFETY: as above.
            unsafe { answer(ppAddress, place.cast()) };
            HResult::S_OK
        }))
    }

    unsafe fn force_gc(&self) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.force_gc(&profiler)
    }

    unsafe fn do_stack_snapshot(
        &self,
        thread: sys::ThreadID,
        callback: Option<sys::StackSnapshotCallback>,
        _infoFlags: sys::ULONG32,
        clientData: *mut c_void,
        _context: *const sys::BYTE,
        _contextSize: sys::ULONG32,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's own callback and data.
        unsafe { runtime.walk(&profiler, thread, callback, clientData) }
    }

    unsafe fn get_thread_info(&self, threadId: sys::ThreadID, pdwWin32ThreadId: *mut sys::DWORD) -> HResult {
        code(self.os_thread(threadId).map(|thread| {
            // SAFETY: as above.
            unsafe { answer(pdwWin32ThreadId, thread) };
            HResult::S_OK
        }))
    }

    unsafe fn get_current_thread_id(&self, pThreadId: *mut sys::ThreadID) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let Some(thread) = runtime.this_thread() else { return HResult::CORPROF_E_NOT_MANAGED_THREAD };
        // SAFETY: as above.
        unsafe { answer(pThreadId, thread.0) };
        HResult::S_OK
    }

    unsafe fn set_enter_leave_function_hooks3(
        &self,
        pFuncEnter3: Option<sys::FunctionEnter3>,
        pFuncLeave3: Option<sys::FunctionLeave3>,
        pFuncTailcall3: Option<sys::FunctionTailcall3>,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_hooks(&profiler, [pFuncEnter3, pFuncLeave3, pFuncTailcall3])
    }

    unsafe fn set_enter_leave_function_hooks3_with_info(
        &self,
        pFuncEnter3WithInfo: Option<sys::FunctionEnter3WithInfo>,
        pFuncLeave3WithInfo: Option<sys::FunctionLeave3WithInfo>,
        pFuncTailcall3WithInfo: Option<sys::FunctionTailcall3WithInfo>,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_hooks_with_info(&profiler, [pFuncEnter3WithInfo, pFuncLeave3WithInfo, pFuncTailcall3WithInfo])
    }

    unsafe fn set_function_id_mapper(&self, pFunc: Option<sys::FunctionIDMapper>) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_mapper(&profiler, pFunc.map(Mapper::Plain), std::ptr::null_mut())
    }

    unsafe fn set_function_id_mapper2(
        &self,
        pFunc: Option<sys::FunctionIDMapper2>,
        clientData: *mut c_void,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.set_mapper(&profiler, pFunc.map(Mapper::WithData), clientData)
    }

    unsafe fn get_function_enter3_info(
        &self,
        _functionId: sys::FunctionID,
        eltInfo: sys::COR_PRF_ELT_INFO,
        pFrameInfo: *mut sys::COR_PRF_FRAME_INFO,
        pcbArgumentInfo: *mut sys::ULONG,
        pArgumentInfo: *mut sys::COR_PRF_FUNCTION_ARGUMENT_INFO,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.may_see_frame(&profiler, ARGUMENTS).map(|()| {
            let range = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: eltInfo, length: 8 };
            let known = sys::COR_PRF_FUNCTION_ARGUMENT_INFO { numRanges: 1, totalArgumentSize: 8, ranges: [range] };
            // SAFETY: as above, three times.
            unsafe { answer(pFrameInfo, eltInfo) };
            // SAFETY: as above.
            unsafe { answer(pcbArgumentInfo, size_of_val(&known) as u32) };
            // SAFETY: as above.
            unsafe { answer(pArgumentInfo, known) };
            HResult::S_OK
        }))
    }

    unsafe fn get_function_leave3_info(
        &self,
        _functionId: sys::FunctionID,
        eltInfo: sys::COR_PRF_ELT_INFO,
        pFrameInfo: *mut sys::COR_PRF_FRAME_INFO,
        pRetvalRange: *mut sys::COR_PRF_FUNCTION_ARGUMENT_RANGE,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.may_see_frame(&profiler, RETURN_VALUE).map(|()| {
            // SAFETY: as above, twice.
            unsafe { answer(pFrameInfo, eltInfo) };
            let range = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: eltInfo, length: 8 };
            // SAFETY: as above.
            unsafe { answer(pRetvalRange, range) };
            HResult::S_OK
        }))
    }

    unsafe fn get_il_function_body(
        &self,
        moduleId: sys::ModuleID,
        methodId: sys::mdMethodDef,
        ppMethodHeader: *mut sys::LPCBYTE,
        pcbMethodSize: *mut sys::ULONG,
    ) -> HResult {
        code(self.about("GetILFunctionBody", |runtime| runtime.il_of(ModuleId(moduleId), methodId)).map(|il| {
            // SAFETY: as above, twice.
            unsafe { answer(ppMethodHeader, il.as_ptr()) };
            // SAFETY: as above.
            unsafe { answer(pcbMethodSize, il.len() as u32) };
            HResult::S_OK
        }))
    }

    unsafe fn get_il_function_body_allocator(
        &self,
        moduleId: sys::ModuleID,
        ppMalloc: *mut *mut sys::IMethodMalloc,
    ) -> HResult {
        let known = |runtime: &Runtime| runtime.lock().code.modules.contains_key(&ModuleId(moduleId)).then_some(());
        code(self.about("GetILFunctionBodyAllocator", known).map(|()| {
            // SAFETY: as above.
            unsafe { answer(ppMalloc, super::il::allocator()) };
            HResult::S_OK
        }))
    }

    unsafe fn set_il_instrumented_code_map(
        &self,
        functionId: sys::FunctionID,
        _fStartJit: sys::BOOL,
        _cILMapEntries: sys::ULONG,
        _rgILMapEntries: *const sys::COR_IL_MAP,
    ) -> HResult {
        let known = |runtime: &Runtime| {
            runtime.lock().code.functions.contains_key(&FunctionId(functionId)).then_some(HResult::S_OK)
        };
        code(self.about("SetILInstrumentedCodeMap", known))
    }

    unsafe fn set_il_function_body(
        &self,
        moduleId: sys::ModuleID,
        _methodid: sys::mdMethodDef,
        _pbNewILMethodHeader: sys::LPCBYTE,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.replace_body(&profiler, ModuleId(moduleId))
    }

    unsafe fn request_rejit(
        &self,
        cFunctions: sys::ULONG,
        moduleIds: *const sys::ModuleID,
        methodIds: *const sys::mdMethodDef,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's two lists.
        runtime.request_rejit(&profiler, &unsafe { methods(cFunctions, moduleIds, methodIds) }, None)
    }

    unsafe fn request_rejit_with_inliners(
        &self,
        dwRejitFlags: sys::DWORD,
        cFunctions: sys::ULONG,
        moduleIds: *const sys::ModuleID,
        methodIds: *const sys::mdMethodDef,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: as above.
        runtime.request_rejit(&profiler, &unsafe { methods(cFunctions, moduleIds, methodIds) }, Some(dwRejitFlags))
    }

    unsafe fn request_revert(
        &self,
        cFunctions: sys::ULONG,
        moduleIds: *const sys::ModuleID,
        methodIds: *const sys::mdMethodDef,
        status: *mut sys::HRESULT,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: as above.
        let codes = runtime.request_revert(&profiler, &unsafe { methods(cFunctions, moduleIds, methodIds) });
        let codes: Vec<sys::HRESULT> = codes.into_iter().map(|code| code.0).collect();
        // SAFETY: the profiler's list has room for as many.
        unsafe { answer_list(&codes, cFunctions, std::ptr::null_mut(), status) }
    }

    unsafe fn event_pipe_start_session(
        &self,
        _cProviderConfigs: sys::UINT32,
        _pProviderConfigs: *const sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
        _requestRundown: sys::BOOL,
        pSession: *mut sys::EVENTPIPE_SESSION,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.start_session(&profiler).map(|session| {
            // SAFETY: as above.
            unsafe { answer(pSession, session) };
            HResult::S_OK
        }))
    }

    unsafe fn event_pipe_stop_session(&self, session: sys::EVENTPIPE_SESSION) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.stop_session(session)
    }

    unsafe fn event_pipe_create_provider(
        &self,
        _providerName: *const sys::WCHAR,
        pProvider: *mut sys::EVENTPIPE_PROVIDER,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: as above.
        unsafe { answer(pProvider, runtime.create_provider(&profiler)) };
        HResult::S_OK
    }

    unsafe fn apply_meta_data(&self, moduleId: sys::ModuleID) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.apply_metadata(&profiler, ModuleId(moduleId))
    }

    unsafe fn set_environment_variable(&self, szName: *const sys::WCHAR, szValue: *const sys::WCHAR) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's texts.
        let (name, value) = unsafe { (text(szName), text(szValue)) };
        runtime.set_variable(&profiler, name, value)
    }

    unsafe fn get_environment_variable(
        &self,
        szName: *const sys::WCHAR,
        cchValue: sys::ULONG,
        pcchValue: *mut sys::ULONG,
        szValue: *mut sys::WCHAR,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's text.
        let known = runtime.variable(&unsafe { text(szName) });
        // SAFETY: as above.
        known.map_or(HResult::E_FAIL, |value| unsafe { answer_text(&value, cchValue, pcchValue, szValue) })
    }

    unsafe fn create_handle(
        &self,
        object: sys::ObjectID,
        r#type: sys::COR_PRF_HANDLE_TYPE,
        pHandle: *mut sys::ObjectHandleID,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(runtime.create_handle(&profiler, ObjectId(object), r#type).map(|handle| {
            // SAFETY: as above; a handle is a number in disguise.
            unsafe { answer(pHandle, handle as sys::ObjectHandleID) };
            HResult::S_OK
        }))
    }

    unsafe fn destroy_handle(&self, handle: sys::ObjectHandleID) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        runtime.destroy_handle(&profiler, handle as usize)
    }
}

/// The modules and tokens of a request.
///
/// # Safety
/// Both lists are as long as `count` says, or null.
unsafe fn methods(count: u32, modules: *const usize, tokens: *const u32) -> Vec<(ModuleId, u32)> {
    if modules.is_null() || tokens.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    let (modules, tokens) = unsafe {
        (std::slice::from_raw_parts(modules, count as usize), std::slice::from_raw_parts(tokens, count as usize))
    };
    modules.iter().zip(tokens).map(|(module, token)| (ModuleId(*module), *token)).collect()
}

/// A text that ends with a zero.
///
/// # Safety
/// It does, or is null.
unsafe fn text(units: *const u16) -> String {
    if units.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise: every unit up to the zero can be read.
    let length = (0..).take_while(|at| unsafe { *units.add(*at) } != 0).count();
    // SAFETY: as above.
    String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(units, length) })
}
