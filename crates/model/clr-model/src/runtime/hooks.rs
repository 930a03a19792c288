//! Enter, leave and tail call hooks: functions of the profiler that compiled code calls directly, not through the runtime.
//!
//! They can be set only in Initialize, and for good: compiled code contains the calls (seed 003, seed 000).

use super::code::FunctionId;
use super::info::refuse_if;
use super::{Profiler, Runtime, Status};
use crate::mutation;
use corprof::{HResult, sys};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

/// The flags that give a hook more than the function.
pub(super) const WITH_INFO: u32 =
    sys::COR_PRF_ENABLE_FUNCTION_ARGS | sys::COR_PRF_ENABLE_FUNCTION_RETVAL | sys::COR_PRF_ENABLE_FRAME_INFO;

/// One kind of hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Enter,
    Leave,
    Tailcall,
}

/// Hooks of the first and the third version, which have one signature.
type Fast = sys::FunctionEnter3;
type WithInfo = sys::FunctionEnter3WithInfo;
/// Hooks of the second version.
type Second = (Option<sys::FunctionEnter2>, Option<sys::FunctionLeave2>, Option<sys::FunctionTailcall2>);

#[derive(Default)]
pub(super) struct Hooks {
    owner: Option<Arc<Profiler>>,
    pub(super) fast: [Option<Fast>; 3],
    pub(super) with_info: [Option<WithInfo>; 3],
    pub(super) second: Second,
    pub(super) first: [Option<Fast>; 3],
    mapper: Option<(Mapper, usize)>,
    /// The mapper's answers: the id for the hooks, and whether the function is hooked.
    mapped: BTreeMap<FunctionId, (usize, bool)>,
}

/// The two kinds of function ID mappers.
#[derive(Clone, Copy)]
pub(super) enum Mapper {
    Plain(sys::FunctionIDMapper),
    WithData(sys::FunctionIDMapper2),
}

/// Calls the second-version hook of that kind. Returns whether there is one.
fn call_second(hooks: Second, kind: Kind, function: usize, id: usize) -> bool {
    // No argument is described: an empty list, and a range without length.
    let place = sys::COR_PRF_FUNCTION_ARGUMENT_RANGE { startAddress: 0, length: 0 };
    let mut none = sys::COR_PRF_FUNCTION_ARGUMENT_INFO { numRanges: 0, totalArgumentSize: 0, ranges: [place] };
    let mut returned = place;
    match (kind, hooks) {
        // SAFETY: the profiler must keep its hooks callable for good; the frame is only passed back, and the argument is a local.
        (Kind::Enter, (Some(enter), _, _)) => unsafe { enter(function, id, function, &raw mut none) },
        // SAFETY: the profiler must keep its hooks callable for good; the frame is only passed back, and the argument is a local.
        (Kind::Leave, (_, Some(leave), _)) => unsafe { leave(function, id, function, &raw mut returned) },
        // SAFETY: the profiler must keep its hooks callable for good; the frame is only passed back.
        (Kind::Tailcall, (_, _, Some(tailcall))) => unsafe { tailcall(function, id, function) },
        _ => return false,
    }
    true
}

impl Runtime {
    /// Hooks are never set by an attached profiler, otherwise only in Initialize.
    fn may_hook(&self, profiler: &Profiler, only_in_initialize: bool) -> Result<(), HResult> {
        let is_late = profiler.status() != Status::InitializingForStartup && !mutation::is("ELT-02");
        refuse_if(
            profiler.attached && !mutation::is("ELT-02/3"),
            HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER,
        )?;
        refuse_if(only_in_initialize && is_late, HResult::CORPROF_E_CALL_ONLY_FROM_INIT)
    }

    /// SetFunctionIDMapper and SetFunctionIDMapper2. A mapper alone forbids nothing.
    pub(super) fn set_mapper(&self, profiler: &Profiler, mapper: Option<Mapper>, data: *mut c_void) -> HResult {
        if let Err(refused) = self.may_hook(profiler, self.differences().mapper_only_in_initialize) {
            return refused;
        }
        self.lock().hooks.mapper = mapper.map(|mapper| (mapper, data as usize));
        HResult::S_OK
    }

    /// SetEnterLeaveFunctionHooks and its later versions.
    pub(super) fn set_hooks(&self, profiler: &Arc<Profiler>, change: impl FnOnce(&mut Hooks)) -> HResult {
        if let Err(refused) = self.may_hook(profiler, true) {
            return refused;
        }
        profiler.lock().irreversible = true;
        let mut state = self.lock();
        state.hooks.owner = Some(profiler.clone());
        change(&mut state.hooks);
        HResult::S_OK
    }

    /// The running thread calls a function.
    pub fn enter_function(&self, function: FunctionId) {
        self.compile_again_if_asked(function);
        if let Some(address) = self.address_of(function) {
            self.push_frame(address + 4);
        }
        self.call_hook(Kind::Enter, function);
    }

    /// The running thread returns from a function.
    pub fn leave_function(&self, function: FunctionId) {
        self.call_hook(Kind::Leave, function);
        self.pop_frame();
    }

    /// The running thread leaves one function by a tail call to another.
    pub fn tail_call(&self, from: FunctionId, to: FunctionId) {
        self.call_hook(Kind::Tailcall, from);
        self.pop_frame();
        self.enter_function(to);
    }

    /// Called directly from compiled code: no counter is raised, no status checked.
    fn call_hook(&self, kind: Kind, function: FunctionId) {
        if mutation::is("ELT-01/4") && kind == Kind::Tailcall {
            return;
        }
        let (owner, fast, with_info, second, first) = {
            let state = self.lock();
            let Some(owner) = state.hooks.owner.clone() else { return };
            let (hooks, at) = (&state.hooks, kind as usize);
            (owner, hooks.fast[at], hooks.with_info[at], hooks.second, hooks.first[at])
        };
        let mask = owner.mask().0;
        if mask & sys::COR_PRF_MONITOR_ENTERLEAVE == 0 {
            return;
        }
        let (id, is_hooked) = self.map(&owner, function);
        if !is_hooked {
            return;
        }
        let inside = owner.library.enter();
        if let Some(hook) = with_info.filter(|_| mask & WITH_INFO != 0 && !mutation::is("ELT-01/2")) {
            // SAFETY: the profiler must keep its hooks callable; the handle is only passed back.
            unsafe { hook(id, function.0) };
        } else if let Some(hook) = fast {
            // SAFETY: the profiler must keep its hooks callable for good; the id is only passed back.
            unsafe { hook(id) };
        } else if !call_second(second, kind, function.0, id)
            && let Some(hook) = first
        {
            // SAFETY: the profiler must keep its hooks callable for good; the id is only passed back.
            unsafe { hook(id) };
        }
        drop(inside);
    }

    /// Asks the mapper once per function. (The runtime asks when it compiles it.)
    fn map(&self, owner: &Profiler, function: FunctionId) -> (usize, bool) {
        let (known, mapper) = {
            let state = self.lock();
            (state.hooks.mapped.get(&function).copied(), state.hooks.mapper)
        };
        if let Some(known) = known {
            return known;
        }
        let mut is_hooked = 1;
        let inside = owner.library.enter();
        let id = match mapper {
            // SAFETY: the profiler must keep its mapper callable; a local place for the answer.
            Some((Mapper::Plain(mapper), _)) => unsafe { mapper(function.0, &raw mut is_hooked) },
            Some((Mapper::WithData(mapper), data)) => {
                let data = if mutation::is("ELT-01/3") { 0 } else { data };
                // SAFETY: the profiler must keep its mapper callable for good; its own data, and a local place.
                unsafe { mapper(function.0, data as *mut c_void, &raw mut is_hooked) }
            }
            None => function.0,
        };
        drop(inside);
        let answer = (id, is_hooked != 0 || mutation::is("ELT-01"));
        self.lock().hooks.mapped.insert(function, answer);
        answer
    }
}
