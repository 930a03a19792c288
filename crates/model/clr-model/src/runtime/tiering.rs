//! Tiered compilation: the runtime recompiles an often called method better, and then calls the new body.
//!
//! The function and its id stay the same. Another compilation is reported and enumerated; for a precompiled method it is the first. The old
//! body stays, since threads may still execute it. Collectible methods are never recompiled (source: codeversion.cpp,
//! CodeVersionManager::IsMethodSupported).

use super::calls::{call_all, low};
use super::code::FunctionId;
use super::{Runtime, State};
use crate::mutation;
use crate::schedule;
use corprof::sys;
use std::collections::{BTreeMap, BTreeSet};

/// Calls of a body before a better one is made (source: clrconfignames.h, TieredCompilation_CallCountThreshold).
pub const OFTEN: u32 = 30;

#[derive(Debug, Default)]
pub(super) struct Tiering {
    /// Calls of the current body.
    calls: BTreeMap<FunctionId, u32>,
    /// Functions being recompiled in the background.
    under_way: BTreeSet<FunctionId>,
}

impl State {
    /// Whether a better body of a function may be made.
    fn may_improve(&self, function: FunctionId, most: usize) -> bool {
        let Some(known) = self.code.functions.get(&function) else { return false };
        let stays = known.module.and_then(|module| self.code.modules.get(&module)).is_some_and(|one| !one.collectible);
        // A real runtime also improves a profiler's own version of a method; the model does not.
        let is_original = self.rejit.version_at(known.start) == 0;
        let is_forbidden =
            self.profilers.iter().any(|profiler| profiler.mask().1 & sys::COR_PRF_HIGH_DISABLE_TIERED_COMPILATION != 0);
        stays && is_original && known.is_compiled && known.better.len() < most && !is_forbidden
    }
}

impl Runtime {
    /// Counts calls of a function by the program. After enough calls, a thread of the runtime makes a better body.
    pub fn count_calls(&self, function: FunctionId, times: u32) {
        let most = if self.has_tiers() { self.differences().better_bodies } else { 0 };
        {
            let mut state = self.lock();
            if !state.may_improve(function, most) || state.tiering.under_way.contains(&function) {
                return;
            }
            let calls = state.tiering.calls.entry(function).or_default();
            *calls += times;
            if *calls < OFTEN {
                return;
            }
            *calls = 0;
            state.tiering.under_way.insert(function);
        }
        let Some(runtime) = self.myself() else { return };
        schedule::spawn("the runtime's background compiler", move || {
            runtime.begin_thread();
            runtime.improve(function);
            runtime.end_thread();
        });
    }

    /// A setting disables tiers (source: clrconfignames.h, TieredCompilation).
    fn has_tiers(&self) -> bool {
        let variables = ["DOTNET_TieredCompilation", "COMPlus_TieredCompilation"];
        let is_off = |name| self.config.process.variable(name).as_deref() == Some("0");
        !variables.into_iter().any(is_off)
    }

    fn improve(&self, function: FunctionId) {
        self.safepoint();
        if self.is_exiting() {
            return;
        }
        call_all!(self, low(sys::COR_PRF_MONITOR_JIT_COMPILATION), jit_compilation_started(function.0, 1));
        let start = {
            let mut state = self.lock();
            state.tiering.under_way.remove(&function);
            state.code.add_better_body(function)
        };
        schedule::note("A better body of a function is made at {}", start);
        if mutation::is("CAT-08/3") {
            self.lock().code.forget_first_body(function);
        }
        schedule::point();
        call_all!(self, low(sys::COR_PRF_MONITOR_JIT_COMPILATION), jit_compilation_finished(function.0, 0, 1));
    }
}
