//! Calls whose effects survive a detach, or forbid it. The runtime does not prevent most of them. So each needs an
//! [`Irreversible`] (contract DET-22).
//!
//! The doc tests beside each call prove that it does not compile without one. `det_22_` in `tests/info.rs` shows that each call
//! reaches the runtime.

use super::{Alive, Info, Loading};
use crate::buffer::{text, units_of};
use crate::ids::{MethodToken, ModuleId, ProviderId};
use crate::mask::Irreversible;
use crate::{HResult, sys};

impl<L: Loading> Info<L, Alive> {
    /// Makes changes to a module's metadata visible. They stay after a detach.
    ///
    /// With an [`Irreversible`]:
    /// ```
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.apply_meta_data(corprof::ModuleId(1), corprof::irreversible());
    /// }
    /// ```
    /// Without it, it does not compile:
    /// ```compile_fail,E0061
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.apply_meta_data(corprof::ModuleId(1));
    /// }
    /// ```
    pub fn apply_meta_data(&self, module: ModuleId, _word: Irreversible) -> Result<(), HResult> {
        let raw = self.at(7)?;
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo7::ApplyMetaData(raw, module.0) }).ok()
    }

    /// An environment variable of the process, as the runtime sees it.
    pub fn get_environment_variable(&self, name: &str) -> Result<String, HResult> {
        let raw = self.at(11)?;
        let name = units_of(name);
        text(|capacity, needed, buffer| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; `name` is zero-terminated, and the buffer has room for `capacity`.
            unsafe { sys::ICorProfilerInfo11::GetEnvironmentVariable(raw, name.as_ptr(), capacity, needed, buffer) }
        })
    }

    /// Sets an environment variable of the process. It stays after a detach.
    ///
    /// With an [`Irreversible`]:
    /// ```
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.set_environment_variable("A", "B", corprof::irreversible());
    /// }
    /// ```
    /// Without it, it does not compile:
    /// ```compile_fail,E0061
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.set_environment_variable("A", "B");
    /// }
    /// ```
    pub fn set_environment_variable(&self, name: &str, value: &str, _word: Irreversible) -> Result<(), HResult> {
        let raw = self.at(11)?;
        let (name, value) = (units_of(name), units_of(value));
        // SAFETY: this `Info` is `Alive`, so its object is valid; both texts are zero-terminated.
        HResult(unsafe { sys::ICorProfilerInfo11::SetEnvironmentVariable(raw, name.as_ptr(), value.as_ptr()) }).ok()
    }

    /// Removes an environment variable of the process. It stays removed after a detach.
    ///
    /// With an [`Irreversible`]:
    /// ```
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.remove_environment_variable("A", corprof::irreversible());
    /// }
    /// ```
    /// Without it, it does not compile:
    /// ```compile_fail,E0061
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.remove_environment_variable("A");
    /// }
    /// ```
    pub fn remove_environment_variable(&self, name: &str, _word: Irreversible) -> Result<(), HResult> {
        let raw = self.at(11)?;
        let name = units_of(name);
        // SAFETY: this `Info` is `Alive`, so its object is valid; the name is zero-terminated, and null stands for no value.
        HResult(unsafe { sys::ICorProfilerInfo11::SetEnvironmentVariable(raw, name.as_ptr(), core::ptr::null()) }).ok()
    }

    /// Creates an EventPipe provider. It stays after a detach.
    ///
    /// With an [`Irreversible`]:
    /// ```
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.event_pipe_create_provider("A", corprof::irreversible());
    /// }
    /// ```
    /// Without it, it does not compile:
    /// ```compile_fail,E0061
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.event_pipe_create_provider("A");
    /// }
    /// ```
    pub fn event_pipe_create_provider(&self, name: &str, _word: Irreversible) -> Result<ProviderId, HResult> {
        let raw = self.at(12)?;
        let name = units_of(name);
        let mut provider = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; `name` is zero-terminated, and the out-pointer is a live local.
        let answer = unsafe { sys::ICorProfilerInfo12::EventPipeCreateProvider(raw, name.as_ptr(), &mut provider) };
        HResult(answer).ok()?;
        Ok(ProviderId(provider))
    }

    /// Requests new code for methods, through `rejit_parameters`. The runtime refuses every detach from then on.
    ///
    /// With an [`Irreversible`]:
    /// ```
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.request_rejit(&[], corprof::irreversible());
    /// }
    /// ```
    /// Without it, it does not compile:
    /// ```compile_fail,E0061
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>) {
    ///     let _ = info.request_rejit(&[]);
    /// }
    /// ```
    pub fn request_rejit(&self, methods: &[(ModuleId, MethodToken)], _word: Irreversible) -> Result<(), HResult> {
        let raw = self.at(4)?;
        let (modules, tokens): (Vec<usize>, Vec<u32>) =
            methods.iter().map(|(module, method)| (module.0, method.0)).unzip();
        // SAFETY: this `Info` is `Alive`, so its object is valid; both lists have that length.
        let answer = unsafe {
            sys::ICorProfilerInfo4::RequestReJIT(raw, modules.len() as u32, modules.as_ptr(), tokens.as_ptr())
        };
        HResult(answer).ok()
    }

    /// Replaces the IL of a method that is not compiled yet. The runtime refuses every detach from then on.
    ///
    /// With an [`Irreversible`]:
    /// ```
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>, body: *const u8) {
    ///     let _ = unsafe { info.set_il_function_body(corprof::ModuleId(1), corprof::MethodToken(1), body, corprof::irreversible()) };
    /// }
    /// ```
    /// Without it, it does not compile:
    /// ```compile_fail,E0061
    /// fn ask(info: &corprof::Info<corprof::Attached, corprof::Alive>, body: *const u8) {
    ///     let _ = unsafe { info.set_il_function_body(corprof::ModuleId(1), corprof::MethodToken(1), body) };
    /// }
    /// ```
    ///
    /// # Safety
    /// `body` is a method header and body, in memory from the runtime's own allocator for that module.
    pub unsafe fn set_il_function_body(
        &self,
        module: ModuleId,
        method: MethodToken,
        body: *const u8,
        _word: Irreversible,
    ) -> Result<(), HResult> {
        // SAFETY: this `Info` is `Alive`, so its object is valid; the caller guarantees the body.
        HResult(unsafe { sys::ICorProfilerInfo::SetILFunctionBody(self.raw, module.0, method.0, body) }).ok()
    }
}
