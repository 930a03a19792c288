//! Calls the runtime only when safe: each question first checks for timed-out unloads.
//!
//! No question starts after an unload has timed out (contract CAT-09), nor after the runtime has reported its shutdown. The answer is then
//! an error of our own.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::platform::Platform;
use crate::runtime::{CodeBody, FunctionFacts, ModuleFacts, Runtime, TypeFacts};
use crate::shared::Shared;
use std::sync::atomic::Ordering;

/// The answer to an unasked question: E_ABORT.
pub(crate) const NOT_ASKED: u32 = 0x8000_4004;

/// The runtime, with that check.
pub(crate) struct GuardedRuntime<'a, P: Platform, R> {
    pub(crate) shared: &'a Shared<P>,
    pub(crate) runtime: &'a R,
}

impl<P: Platform, R> GuardedRuntime<'_, P, R> {
    /// Whether an unload has stopped waiting for the look-ups.
    pub(crate) fn must_stop(&self) -> bool {
        self.shared.unload_barrier.has_timed_out() && !is_injected(InjectedFault::AskAfterUnloadTimeout)
    }

    fn may_ask(&self) -> bool {
        !self.must_stop()
            && (!self.shared.shutdown.load(Ordering::SeqCst) || is_injected(InjectedFault::AskAfterShutdown))
    }

    fn ask<T>(&self, question: impl FnOnce(&R) -> Result<T, u32>) -> Result<T, u32> {
        if self.may_ask() { question(self.runtime) } else { Err(NOT_ASKED) }
    }
}

impl<P: Platform, R: Runtime> Runtime for GuardedRuntime<'_, P, R> {
    fn function_at(&self, address: u64) -> Result<Option<usize>, u32> {
        self.ask(|runtime| runtime.function_at(address))
    }

    fn describe_function(&self, function: usize) -> Result<FunctionFacts, u32> {
        self.ask(|runtime| runtime.describe_function(function))
    }

    fn names_of(&self, function: usize, on_disk: bool, token: u32) -> Option<(String, String)> {
        self.may_ask().then(|| self.runtime.names_of(function, on_disk, token))?
    }

    fn describe_type(&self, class: usize) -> Result<TypeFacts, u32> {
        self.ask(|runtime| runtime.describe_type(class))
    }

    fn describe_module(&self, module: usize) -> Result<ModuleFacts, u32> {
        self.ask(|runtime| runtime.describe_module(module))
    }

    fn track_heap(&self, keeps: bool) -> Result<(), u32> {
        self.ask(|runtime| runtime.track_heap(keeps))
    }

    fn watch_exceptions(&self, watches: bool) -> Result<(), u32> {
        self.ask(|runtime| runtime.watch_exceptions(watches))
    }

    fn modules(&self) -> Result<Vec<usize>, u32> {
        self.ask(R::modules)
    }

    fn app_domain_of(&self, module: usize) -> Option<usize> {
        self.may_ask().then(|| self.runtime.app_domain_of(module))?
    }

    fn collect(&self) -> Result<(), u32> {
        self.ask(R::collect)
    }

    fn suspend_and_fork(&self) -> Result<(), u32> {
        self.ask(R::suspend_and_fork)
    }

    fn bodies(&self, function: usize) -> Vec<CodeBody> {
        if self.may_ask() { self.runtime.bodies(function) } else { Vec::new() }
    }

    fn il_offset(&self, function: usize, body: CodeBody, native_offset: u32) -> Option<u32> {
        self.may_ask().then(|| self.runtime.il_offset(function, body, native_offset))?
    }

    fn code<'b>(&self, body: CodeBody, from: u64, into: &'b mut [u8]) -> &'b [u8] {
        if self.may_ask() { self.runtime.code(body, from, into) } else { &[] }
    }

    fn callbacks_arrive(&self) -> bool {
        self.may_ask() && self.runtime.callbacks_arrive()
    }

    fn methods_described(&self) {
        if self.may_ask() {
            self.runtime.methods_described();
        }
    }

    fn clear_event_mask(&self) {
        if self.may_ask() {
            self.runtime.clear_event_mask();
        }
    }
}
