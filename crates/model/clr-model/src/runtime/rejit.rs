//! Rejit of methods in a running process, and replacing bodies before their first compilation.
//!
//! Each of these forbids the detach for good: `SetILFunctionBody`, `RequestReJIT`, and `RequestRevert`, too (facts 2.1 and 6).

use super::calls::{call_all, low};
use super::code::{FunctionId, ModuleId};
use super::{Profiler, Runtime, State};
use crate::mutation;
use corprof::{HResult, sys};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;

#[derive(Debug, Default)]
pub(super) struct Rejit {
    /// Functions to recompile at their next call.
    asked: BTreeSet<FunctionId>,
    /// The version by the start of each body.
    versions: BTreeMap<u64, usize>,
    made: usize,
}

impl Rejit {
    /// The version of the code at an address: 0 is the original.
    pub(super) fn version_at(&self, address: u64) -> usize {
        let body = self.versions.range(..=address).next_back();
        body.filter(|(start, _)| address < **start + super::code::BODY_SIZE).map_or(0, |(_, version)| *version)
    }
}

impl State {
    /// Starts of the bodies of one version, oldest first. 0 is the original.
    pub(super) fn bodies_of_version(&self, function: FunctionId, version: usize) -> Vec<u64> {
        if version == 0 {
            return self.code.functions.get(&function).map(|known| known.bodies().collect()).unwrap_or_default();
        }
        self.code.bodies_of(function).filter(|start| self.rejit.version_at(*start) == version).collect()
    }

    /// The existing versions of a function, oldest first.
    pub(super) fn versions_of(&self, function: FunctionId) -> Vec<usize> {
        let versions: BTreeSet<usize> =
            self.code.bodies_of(function).map(|start| self.rejit.version_at(start)).collect();
        versions.into_iter().collect()
    }
}

impl Runtime {
    /// SetILFunctionBody: the replacement is permanent.
    pub(super) fn replace_body(&self, profiler: &Profiler, module: ModuleId) -> HResult {
        if profiler.attached && !self.differences().bodies_after_attach {
            return HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER;
        }
        if !self.lock().code.modules.contains_key(&module) {
            return super::info::stale(self, "SetILFunctionBody");
        }
        profiler.lock().irreversible = true;
        HResult::S_OK
    }

    /// RequestReJIT; with its inliners if `flags` are given.
    pub(super) fn request_rejit(
        &self,
        profiler: &Profiler,
        methods: &[(ModuleId, u32)],
        flags: Option<u32>,
    ) -> HResult {
        if profiler.mask().0 & sys::COR_PRF_ENABLE_REJIT == 0 {
            return HResult::CORPROF_E_REJIT_NOT_ENABLED;
        }
        if flags.is_some_and(|flags| flags & sys::COR_PRF_REJIT_BLOCK_INLINING == 0) || methods.is_empty() {
            return HResult::E_INVALIDARG;
        }
        profiler.lock().irreversible = true;
        for (module, token) in methods {
            if let Err((function, code)) = self.ask(*module, *token) {
                self.tell_error(*module, *token, function, code);
            }
        }
        HResult::S_OK
    }

    fn ask(&self, module: ModuleId, token: u32) -> Result<(), (usize, HResult)> {
        let mut state = self.lock();
        let known = state.code.modules.get(&module).map(|module| module.collectible);
        let function = state.code.function_of(module, token);
        match (known, function) {
            (None, _) => {
                drop(state);
                Err((0, super::info::stale(self, "RequestReJIT")))
            }
            (Some(true), function) if !mutation::is("RJT-01/2") => {
                Err((function.map_or(0, |function| function.0), HResult::CORPROF_E_FUNCTION_IS_COLLECTIBLE))
            }
            (_, Some(function)) => {
                state.rejit.asked.insert(function);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    fn tell_error(&self, module: ModuleId, token: u32, function: usize, code: HResult) {
        call_all!(self, low(sys::COR_PRF_ENABLE_REJIT), rejit_error(module.0, token, function, code.0));
    }

    /// RequestRevert: the first version runs again, but the detach stays forbidden.
    pub(super) fn request_revert(&self, profiler: &Profiler, methods: &[(ModuleId, u32)]) -> Vec<HResult> {
        profiler.lock().irreversible = true;
        let mut state = self.lock();
        let state = &mut *state;
        let revert = |(module, token): &(ModuleId, u32)| {
            let Some(function) = state.code.function_of(*module, *token) else { return HResult::E_INVALIDARG };
            if state.rejit.asked.remove(&function) {
                return HResult::S_OK;
            }
            let is_original = |known: &super::code::Function| state.rejit.version_at(known.start) == 0;
            match state.code.functions.get_mut(&function).filter(|known| !is_original(known)) {
                Some(known) => {
                    known.start = known.bodies().last().unwrap_or(known.first);
                    HResult::S_OK
                }
                None => HResult::CORPROF_E_ACTIVE_REJIT_REQUEST_NOT_FOUND,
            }
        };
        methods.iter().map(revert).collect()
    }

    /// Recompiles a requested function when it is called.
    pub(super) fn compile_again_if_asked(&self, function: FunctionId) {
        if !self.lock().rejit.asked.remove(&function) {
            return;
        }
        let known = self.lock().code.functions.get(&function).map(|known| (known.module, known.token));
        let Some((Some(module), token)) = known else { return };
        call_all!(self, low(sys::COR_PRF_ENABLE_REJIT), rejit_parameters(module.0, token, control()));
        let version = self.add_body(function);
        call_all!(self, low(sys::COR_PRF_ENABLE_REJIT), rejit_compilation_started(function.0, version, 1));
        call_all!(self, low(sys::COR_PRF_ENABLE_REJIT), rejit_compilation_finished(function.0, version, 0, 1));
    }

    fn add_body(&self, function: FunctionId) -> usize {
        let mut state = self.lock();
        state.rejit.made += 1;
        let version = state.rejit.made;
        let start = state.code.add_body(function);
        state.rejit.versions.insert(start, version);
        version
    }
}

/// The argument of GetReJITParameters: it accepts everything and keeps nothing.
#[repr(C)]
struct Control(&'static sys::ICorProfilerFunctionControlVtbl);

fn control() -> *mut sys::ICorProfilerFunctionControl {
    static CONTROL: Control = Control(&sys::ICorProfilerFunctionControlVtbl {
        base: super::il::STATIC_UNKNOWN,
        SetCodegenFlags: set_codegen_flags,
        SetILFunctionBody: set_body,
        SetILInstrumentedCodeMap: set_map,
    });
    std::ptr::from_ref(&CONTROL).cast_mut().cast()
}

unsafe extern "system" fn set_codegen_flags(_: *mut c_void, _: sys::DWORD) -> sys::HRESULT {
    0
}

unsafe extern "system" fn set_body(_: *mut c_void, _: sys::ULONG, _: *const sys::BYTE) -> sys::HRESULT {
    0
}

unsafe extern "system" fn set_map(_: *mut c_void, _: sys::ULONG, _: *const sys::COR_IL_MAP) -> sys::HRESULT {
    0
}
