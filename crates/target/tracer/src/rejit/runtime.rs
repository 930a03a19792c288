//! The runtime's side, and the events that it reports.

use corprof::{Alive, AttachMask, Attached, HResult, HighAttachMask, Info, IrreversibleMask, irreversible};
use std::sync::OnceLock;

/// The runtime's side. It lives as long as the process: the runtime refuses every detach after ReJIT was enabled.
static INFO: OnceLock<Info<Attached, Alive>> = OnceLock::new();

/// The runtime's side; `None` before the attach.
pub(crate) fn info() -> Option<&'static Info<Attached, Alive>> {
    INFO.get()
}

/// Keeps the runtime's side.
///
/// # Errors
/// There is one already.
pub(crate) fn keep(info: Info<Attached, Alive>) -> Result<(), HResult> {
    INFO.set(info).map_err(|_| HResult::E_FAIL)
}

/// Asks for the events of a session.
pub(crate) fn listen(info: &Info<Attached, Alive>) -> Result<(), HResult> {
    let events = AttachMask::MODULE_LOADS | AttachMask::STACK_SNAPSHOT;
    let mask = IrreversibleMask::enable_rejit(events, irreversible());
    info.set_event_mask2_irreversible(mask, HighAttachMask::NONE)
}

/// Asks for no more events.
pub(crate) fn listen_to_nothing(info: &Info<Attached, Alive>) -> Result<(), HResult> {
    info.set_event_mask2(AttachMask::NONE, HighAttachMask::NONE)
}
