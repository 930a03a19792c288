//! Bodies of methods: to read them, to replace them, to have them compiled again.

use super::{FunctionId, ModuleId, Server, answer_list, code, named, tell};
use crate::runtime::Runtime;
use corprof::{HResult, sys};

impl Server {
    pub(super) unsafe fn get_il_function_body(
        &self,
        moduleId: sys::ModuleID,
        methodId: sys::mdMethodDef,
        ppMethodHeader: *mut sys::LPCBYTE,
        pcbMethodSize: *mut sys::ULONG,
    ) -> HResult {
        let known = named(moduleId).and_then(|()| {
            self.about("GetILFunctionBody", |runtime| {
                let is_loaded = runtime.lock().code.modules.contains_key(&ModuleId(moduleId));
                is_loaded.then(|| runtime.il_of(ModuleId(moduleId), methodId))
            })
        });
        code(known.and_then(|il| il.ok_or(HResult::E_INVALIDARG)).map(|il| {
            tell! { ppMethodHeader => il.as_ptr(), pcbMethodSize => il.len() as u32 }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn get_il_function_body_allocator(
        &self,
        moduleId: sys::ModuleID,
        ppMalloc: *mut *mut sys::IMethodMalloc,
    ) -> HResult {
        let known = |runtime: &Runtime| runtime.lock().code.modules.contains_key(&ModuleId(moduleId)).then_some(());
        if ppMalloc.is_null() {
            return HResult::E_INVALIDARG;
        }
        code(named(moduleId).and_then(|()| self.about("GetILFunctionBodyAllocator", known)).map(|()| {
            tell! { ppMalloc => crate::runtime::il::allocator() }
            HResult::S_OK
        }))
    }

    pub(super) unsafe fn set_il_instrumented_code_map(
        &self,
        functionId: sys::FunctionID,
        _fStartJit: sys::BOOL,
        _cILMapEntries: sys::ULONG,
        _rgILMapEntries: *const sys::COR_IL_MAP,
    ) -> HResult {
        let known = |runtime: &Runtime| {
            runtime.lock().code.functions.contains_key(&FunctionId(functionId)).then_some(HResult::S_OK)
        };
        code(named(functionId).and_then(|()| self.about("SetILInstrumentedCodeMap", known)))
    }

    pub(super) unsafe fn set_il_function_body(
        &self,
        moduleId: sys::ModuleID,
        _methodid: sys::mdMethodDef,
        _pbNewILMethodHeader: sys::LPCBYTE,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        code(named(moduleId).map(|()| runtime.replace_body(&profiler, ModuleId(moduleId))))
    }

    pub(super) unsafe fn request_rejit(
        &self,
        cFunctions: sys::ULONG,
        moduleIds: *const sys::ModuleID,
        methodIds: *const sys::mdMethodDef,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's two lists.
        runtime.request_rejit(&profiler, &unsafe { methods(cFunctions, moduleIds, methodIds) }, None)
    }

    pub(super) unsafe fn request_rejit_with_inliners(
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

    pub(super) unsafe fn request_revert(
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
