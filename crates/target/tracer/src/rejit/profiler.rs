//! The object that the runtime holds in the main slot.

use super::{modules, names, rendezvous, replacements, runtime, session, shared};
use corprof::{Alive, Attached, FunctionId, HResult, Info, MethodToken, ModuleId, ProfilerCallback, sys};
use remora_wire::method_trace::TraceConfig;
use remora_wire::method_trace::memory::REJIT_ERRORS;

/// See the module documentation.
pub(crate) struct Tracer;

impl ProfilerCallback for Tracer {
    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        let config = TraceConfig::decode(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        // The standard hook would print to the target's standard error. This library has its own copy of the hook.
        std::panic::set_hook(Box::new(|_| {}));
        runtime::keep(info)?;
        shared::reserve().map_err(|_| HResult::E_OUTOFMEMORY)?;
        rendezvous::publish().map_err(|_| HResult::E_OUTOFMEMORY)?;
        session::start(config).map_err(|_| HResult::E_OUTOFMEMORY)
    }

    fn profiler_attach_complete(&self) {
        session::attach_is_complete();
    }

    fn module_load_finished(&self, module: ModuleId, status: HResult) {
        if status.is_success() {
            modules::came(module);
        }
    }

    fn module_unload_started(&self, module: ModuleId) {
        modules::goes(module);
        names::forget_open();
    }

    fn rejit_parameters(
        &self,
        module: ModuleId,
        method: MethodToken,
        control: *mut sys::ICorProfilerFunctionControl,
    ) -> Result<(), HResult> {
        replacements::hand_over(module, method, control)
    }

    fn rejit_error(&self, module: ModuleId, method: MethodToken, _: FunctionId, status: HResult) {
        shared::count(REJIT_ERRORS);
        if let Some(index) = replacements::index(module, method) {
            modules::method_failed(index, status);
        }
    }

    fn load_as_notification_only(&self) -> bool {
        false
    }
}
