//! The order of a recorder that starts this process: it comes in the environment, and must not stay there.

use corprof::{Alive, HResult, Info, Loading};
use remora_wire::{STARTUP_VARIABLE, StartupOrder};

/// Reads the order, and sets the variables of this process back. Call it in Initialize only.
pub fn take_order() -> Option<StartupOrder> {
    let order = StartupOrder::decode(&std::env::var(STARTUP_VARIABLE).ok()?).ok()?;
    for (name, value) in order.variables() {
        // SAFETY: Initialize runs in the main thread, before managed code. The runtime's other threads read no variables meanwhile, and
        // the C library only moves pointers to texts that stay.
        unsafe {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    }
    Some(order)
}

/// Sets the variables back in the runtime, too. It has its own copy of the environment, for managed code and its children (seen on 3.1 to
/// 10). Without this they keep the variables, and a child tries to load the library: that fails, and the child starts.
pub fn set_back_in_runtime<L: Loading>(info: &Info<L, Alive>, order: &StartupOrder) {
    for (name, value) in order.variables() {
        let _: Result<(), HResult> = match value {
            Some(value) => info.set_environment_variable(name, value, corprof::irreversible()),
            None => info.remove_environment_variable(name, corprof::irreversible()),
        };
    }
}
