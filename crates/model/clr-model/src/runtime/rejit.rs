//! ReJIT: other IL for methods of a running process, and back. And replacing bodies before their first compilation.
//!
//! Each of these forbids the detach for good: `SetILFunctionBody`, `RequestReJIT`, and `RequestRevert`, too (facts 2.1 and 6).
//!
//! A request makes a version. The next call of the method asks the profiler for its IL, and compiles it. What was compiled before stays, and
//! threads may still run it (source: rejit.cpp and codeversion.cpp).

use super::calls::{call_all, low};
use super::code::{FunctionId, ModuleId};
use super::function_control::FunctionControl;
use super::{Profiler, Runtime, State, Status};
use crate::mutation;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_abi::callback_slot;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// COR_E_BADIMAGEFORMAT: what the compiler answers to a body that it cannot read.
const BAD_FORMAT: HResult = HResult(0x8007_000B_u32 as i32);

/// The setting that forbids an attached profiler to change methods if it is 0 (source: clrconfigvalues.h).
const REJIT_ON_ATTACH: &str = "ProfApi_RejitOnAttach";

#[derive(Default)]
pub(super) struct Rejit {
    /// The active version of each function whose original is not active.
    active: BTreeMap<FunctionId, Version>,
    /// The version by the start of each body.
    versions: BTreeMap<u64, usize>,
    made: usize,
    /// The callers whose code contains a function, by that function.
    inliners: BTreeMap<FunctionId, BTreeSet<FunctionId>>,
    /// Whether a profiler that was loaded at startup enabled ReJIT there.
    enabled_from_start: bool,
    /// All that profilers got in GetReJITParameters. The model keeps what a real runtime frees, to detect late uses.
    controls: Vec<Arc<FunctionControl>>,
}

#[derive(Debug, Clone, Copy)]
struct Version {
    /// Its ReJITID.
    id: usize,
    phase: Phase,
    /// Whether the profiler is asked for its IL. An inliner is compiled from the IL that it has.
    asks: bool,
}

/// The progress of a version (source: codeversion.h, ILCodeVersion::RejitFlags).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Requested,
    /// A thread is in GetReJITParameters, or compiles.
    UnderWay,
    Active,
}

impl Rejit {
    /// The version of the code at an address: 0 is the original.
    pub(super) fn version_at(&self, address: u64) -> usize {
        let body = self.versions.range(..=address).next_back();
        body.filter(|(start, _)| address < **start + super::code::BODY_SIZE).map_or(0, |(_, version)| *version)
    }

    /// Activates a new version, or takes the one that the profiler does not know yet (source: rejit.cpp, BindILVersion).
    fn request(&mut self, function: FunctionId, asks: bool) {
        if let Some(known) = self.active.get_mut(&function).filter(|known| known.phase == Phase::Requested) {
            known.asks |= asks;
            return;
        }
        self.made += 1;
        self.active.insert(function, Version { id: self.made, phase: Phase::Requested, asks });
    }

    fn is_active(&self, function: FunctionId, id: usize) -> bool {
        self.active.get(&function).is_some_and(|known| known.id == id)
    }

    /// The version to compile now, if one is requested.
    fn begin(&mut self, function: FunctionId) -> Option<Version> {
        let is_due = |known: &&mut Version| known.phase == Phase::Requested || mutation::is("RJT-01/12");
        let known = self.active.get_mut(&function).filter(is_due)?;
        known.phase = Phase::UnderWay;
        Some(*known)
    }

    fn end(&mut self, function: FunctionId, id: usize) {
        if let Some(known) = self.active.get_mut(&function).filter(|known| known.id == id) {
            known.phase = Phase::Active;
        }
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

    /// The existing versions of a function, oldest first. Reverted ones are among them.
    pub(super) fn versions_of(&self, function: FunctionId) -> Vec<usize> {
        let versions: BTreeSet<usize> =
            self.code.bodies_of(function).map(|start| self.rejit.version_at(start)).collect();
        versions.into_iter().collect()
    }

    /// Later calls run the original version again.
    fn activate_original(&mut self, function: FunctionId) {
        self.rejit.active.remove(&function);
        if let Some(known) = self.code.functions.get_mut(&function) {
            known.start = known.bodies().last().unwrap_or(known.first);
        }
    }

    /// Whether some profiler hears of compilations: only then, the runtime tells of those of ReJIT, too (source: prestub.cpp,
    /// JitCompileCodeLockedEventWrapper).
    fn tracks_jit(&self) -> bool {
        let is_active = |one: &&Arc<Profiler>| one.status() == Status::Active;
        self.profilers.iter().filter(is_active).any(|one| one.mask().0 & sys::COR_PRF_MONITOR_JIT_COMPILATION != 0)
    }
}

impl Runtime {
    /// SetILFunctionBody: the replacement is permanent.
    pub(super) fn replace_body(&self, profiler: &Profiler, module: ModuleId) -> HResult {
        if profiler.attached && !self.differences().bodies_after_attach {
            return HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER;
        }
        if !self.lock().code.modules.contains_key(&module) {
            return super::info::stale(self, "module", "SetILFunctionBody");
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
        if let Err(refused) = self.may_rejit(profiler, methods) {
            return refused;
        }
        if flags.is_some_and(|flags| flags & sys::COR_PRF_REJIT_BLOCK_INLINING == 0) {
            return HResult::E_INVALIDARG;
        }
        if flags.is_some() && self.is_off_after_attach() && !mutation::is("RJT-01/11") {
            return HResult::CORPROF_E_REJIT_INLINING_DISABLED;
        }
        profiler.lock().irreversible = true;
        self.adopt_for_rejit();
        for (module, token) in methods {
            if let Err((function, code)) = self.ask(*module, *token, flags) {
                self.tell_error(*module, *token, function, code);
            }
        }
        HResult::S_OK
    }

    /// A profiler was loaded at startup.
    pub(super) fn enables_rejit_from_start(&self, profiler: &Profiler) {
        self.lock().rejit.enabled_from_start |= profiler.mask().0 & sys::COR_PRF_ENABLE_REJIT != 0;
    }

    /// Whether a profiler may enable ReJIT outside of Initialize: a setting may forbid it, unless one enabled it at startup (source:
    /// rejit.inl, IsReJITEnabled).
    pub(super) fn may_enable_rejit(&self) -> bool {
        let is_off = self.is_off_after_attach() && !mutation::is("RJT-01/10");
        self.lock().rejit.enabled_from_start || !is_off
    }

    /// The same setting switches the tracking of inlined methods off, by a mistake of the runtime: `ProfApi_InliningTracking` does nothing
    /// (source: rejit.inl, IsReJITInlineTrackingEnabled; live: tests/conformance/tests/rejit.rs).
    fn is_off_after_attach(&self) -> bool {
        self.number_set(REJIT_ON_ATTACH) == Some(0)
    }

    /// The refusals of all three requests, in their order (source: proftoeeinterfaceimpl.cpp).
    fn may_rejit(&self, profiler: &Profiler, methods: &[(ModuleId, u32)]) -> Result<(), HResult> {
        let refuse = super::info::refuse_if;
        refuse(profiler.notification_only, HResult::E_INVALIDARG)?;
        refuse(profiler.callback_version < 4, HResult::CORPROF_E_CALLBACK4_REQUIRED)?;
        let is_enabled = profiler.mask().0 & sys::COR_PRF_ENABLE_REJIT != 0 || mutation::is("RJT-01/4");
        refuse(!is_enabled, HResult::CORPROF_E_REJIT_NOT_ENABLED)?;
        refuse(methods.is_empty(), HResult::E_INVALIDARG)
    }

    /// The thread becomes one of the runtime's, and may go on to call it (source: proftoeeinterfaceimpl.cpp, SetupThreadForReJIT).
    fn adopt_for_rejit(&self) {
        let task = schedule::current();
        let is_new = self.this_thread().is_none();
        if !mutation::is("RJT-01/13") {
            self.adopt_thread();
        }
        if is_new {
            self.lock().heap.gc.forced.push(task);
        }
    }

    fn ask(&self, module: ModuleId, token: u32, flags: Option<u32>) -> Result<(), (usize, HResult)> {
        let function = self.rejittable(module, token, "RequestReJIT")?;
        let mut state = self.lock();
        let rejit = &mut state.rejit;
        rejit.request(function, true);
        let inliners = rejit.inliners.get(&function).cloned().filter(|_| flags.is_some());
        let asks = flags.is_some_and(|flags| flags & sys::COR_PRF_REJIT_INLINING_CALLBACKS != 0);
        for inliner in inliners.unwrap_or_default() {
            if !mutation::is("RJT-01/5") {
                rejit.request(inliner, asks);
            }
        }
        Ok(())
    }

    /// The function of a request; or, for ReJITError, the function and the code.
    fn rejittable(&self, module: ModuleId, token: u32, what: &str) -> Result<FunctionId, (usize, HResult)> {
        let (known, function) = {
            let state = self.lock();
            let known = state.code.modules.get(&module).map(|module| (module.enumerable, module.collectible));
            (known, state.code.function_of(module, token))
        };
        let id = function.map_or(0, |function| function.0);
        match (known, function) {
            (None, _) => Err((0, super::info::stale(self, "module", what))),
            (Some((false, true)), _) => Err((0, HResult::CORPROF_E_DATAINCOMPLETE)),
            (Some((_, true)), _) if !mutation::is("RJT-01/2") => Err((id, HResult::CORPROF_E_FUNCTION_IS_COLLECTIBLE)),
            (_, None) => Err((0, HResult::E_INVALIDARG)),
            (_, Some(function)) => Ok(function),
        }
    }

    fn tell_error(&self, module: ModuleId, token: u32, function: usize, code: HResult) {
        call_all!(self, low(sys::COR_PRF_ENABLE_REJIT), rejit_error(module.0, token, function, code.0));
    }

    /// RequestRevert: the first version runs again, but the detach stays forbidden. What was not changed is no error.
    pub(super) fn request_revert(
        &self,
        profiler: &Profiler,
        methods: &[(ModuleId, u32)],
    ) -> Result<Vec<HResult>, HResult> {
        self.may_rejit(profiler, methods)?;
        profiler.lock().irreversible = true;
        self.adopt_for_rejit();
        for (module, token) in methods {
            match self.rejittable(*module, *token, "RequestRevert") {
                Ok(_) if mutation::is("RJT-01/6") => {}
                Ok(function) => self.lock().activate_original(function),
                Err((function, code)) => self.tell_error(*module, *token, function, code),
            }
        }
        Ok(vec![HResult::S_OK; methods.len()])
    }

    /// The code of one function contains another one from now on, unless a profiler objects. Returns whether it does.
    pub fn inline(&self, caller: FunctionId, callee: FunctionId) -> bool {
        let allowed = Cell::new(1);
        if self.lock().tracks_jit() {
            let slot = callback_slot!(jit_inlining).name;
            self.call_all(slot, low(sys::COR_PRF_MONITOR_JIT_COMPILATION), |object| {
                let mut answer = 1;
                // SAFETY: ids of functions that are loaded, and a local place; `call_all` keeps the object alive.
                unsafe { object.jit_inlining(caller.0, callee.0, &raw mut answer) };
                allowed.set(allowed.get().min(i32::from(answer != 0)));
            });
        }
        let mut state = self.lock();
        // A function with a version of a profiler's own is inlined nowhere.
        let inlines = allowed.get() != 0 && !state.rejit.active.contains_key(&callee);
        if inlines {
            state.rejit.inliners.entry(callee).or_default().insert(caller);
        }
        inlines
    }

    /// Whether the code of one function contains another one.
    pub fn is_inlined(&self, caller: FunctionId, callee: FunctionId) -> bool {
        self.lock().rejit.inliners.get(&callee).is_some_and(|callers| callers.contains(&caller))
    }

    /// Compiles a requested version of a function when it is called. Other callers wait for it.
    pub fn compile_again_if_asked(&self, function: FunctionId) {
        while self.is_compiled_elsewhere(function) {
            schedule::wait_until(None, || !self.is_compiled_elsewhere(function) || self.is_exiting());
            if self.is_exiting() || schedule::is_stopped() {
                return;
            }
        }
        let (version, method) = {
            let mut state = self.lock();
            let Some(version) = state.rejit.begin(function) else { return };
            let known = state.code.functions.get(&function);
            (version, known.and_then(|known| Some((known.module?, known.token))))
        };
        if let Some(method) = method {
            self.compile_again(function, method, version);
        }
        self.lock().rejit.end(function, version.id);
    }

    fn is_compiled_elsewhere(&self, function: FunctionId) -> bool {
        if mutation::is("RJT-01/12") {
            return false;
        }
        self.lock().rejit.active.get(&function).is_some_and(|version| version.phase == Phase::UnderWay)
    }

    fn compile_again(&self, function: FunctionId, (module, token): (ModuleId, u32), version: Version) {
        let is_whole = !version.asks || self.parameters_of(function, module, token);
        let tracks_jit = self.lock().tracks_jit();
        if tracks_jit {
            call_all!(self, low(sys::COR_PRF_ENABLE_REJIT), rejit_compilation_started(function.0, version.id, 1));
        }
        if is_whole {
            self.add_version(function, version.id);
        }
        if tracks_jit {
            let code = if is_whole { HResult::S_OK } else { BAD_FORMAT };
            call_all!(
                self,
                low(sys::COR_PRF_ENABLE_REJIT),
                rejit_compilation_finished(function.0, version.id, code.0, 1)
            );
        }
    }

    /// GetReJITParameters. Returns whether the function can be compiled from what the profiler gave: nothing means its original IL.
    fn parameters_of(&self, function: FunctionId, module: ModuleId, token: u32) -> bool {
        let control = FunctionControl::new(self.faults.clone());
        self.lock().rejit.controls.push(control.clone());
        let answer = Cell::new(HResult::S_OK);
        self.call_all(callback_slot!(rejit_parameters).name, low(sys::COR_PRF_ENABLE_REJIT), |object| {
            // SAFETY: an id of a module that is loaded; the state keeps the control for ever; `call_all` keeps the object alive.
            let given = unsafe { object.rejit_parameters(module.0, token, control.as_object()) };
            answer.set(given.unwrap_or(HResult::S_OK));
        });
        let is_whole = control.close();
        if answer.get().is_success() || mutation::is("RJT-01/7") {
            return is_whole;
        }
        // The original IL, and no second question (source: rejit.cpp, ConfigureILCodeVersion).
        self.tell_error(module, token, function.0, answer.get());
        true
    }

    /// Adds the body of a version. It is the one that runs, unless the version was reverted or replaced meanwhile.
    fn add_version(&self, function: FunctionId, id: usize) {
        let mut state = self.lock();
        let before = state.code.functions.get(&function).map(|known| known.start);
        let start = state.code.add_body(function);
        state.rejit.versions.insert(start, id);
        let Rejit { active, inliners, .. } = &mut state.rejit;
        for (_, callers) in inliners.iter_mut().filter(|(callee, _)| active.contains_key(callee)) {
            // What has a version of a profiler's own is called from now on.
            callers.remove(&function);
        }
        if !state.rejit.is_active(function, id)
            && let (Some(known), Some(before)) = (state.code.functions.get_mut(&function), before)
        {
            known.start = before;
        }
    }
}
