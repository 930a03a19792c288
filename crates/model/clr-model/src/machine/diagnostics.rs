//! The diagnostics socket of Core, as a trigger process sees it from outside.

use super::{AttachError, AttachOptions, Machine, Other, Process};
use crate::mutation;
use crate::runtime::{Answer, NamedRequest, Runtime};
use corprof::HResult;
use std::sync::Arc;

/// The header of a message: magic, size, command, reserved (ipc-protocol.md).
const HEADER: usize = 20;
/// Fixed bytes of an attach message: the time-out, the class, two lengths.
const FIXED: usize = 4 + 16 + 4 + 4;

/// Why a runtime with a default socket has none.
const SWITCHED_OFF: &str = "its diagnostics are switched off: start it without DOTNET_EnableDiagnostics=0";

/// The server behind a socket.
pub(super) enum Server {
    /// A runtime with the profiling API.
    Clr(Arc<Runtime>),
    /// A runtime that answers that it has no profiling API.
    WithoutProfiling,
}

/// Bytes of an attach message.
pub(super) fn message_size(options: &AttachOptions) -> usize {
    let units = options.path.as_deref().unwrap_or_default().encode_utf16().count() + 1;
    HEADER + FIXED + 2 * units + options.client_data.len()
}

/// Connects to a process's socket.
pub(super) fn connect(machine: &Machine, trigger: &Process, target: u32) -> Result<Server, AttachError> {
    let target = machine.process(target).ok_or(AttachError::NoSuchProcess)?;
    let is_off = ["DOTNET_EnableDiagnostics", "COMPlus_EnableDiagnostics"]
        .into_iter()
        .any(|name| target.variable(name).as_deref() == Some("0"));
    let others = target.others();
    let server = match target.runtimes().into_iter().next() {
        Some(_) if is_off => return Err(AttachError::NotAttachable(SWITCHED_OFF)),
        Some(runtime) => Server::Clr(runtime),
        None if others.iter().any(|other| *other != Other::CoreBefore3) => Server::WithoutProfiling,
        None if others.is_empty() && mutation::is("ATT-04") => return Err(AttachError::NoSuchProcess),
        None if others.is_empty() => {
            return Err(AttachError::NoRuntime { prefix: machine.runtime_version.differences().startup_prefix });
        }
        None => return Err(AttachError::NotAttachable(Other::CoreBefore3.reason())),
    };
    let may = trigger.account.may_attach_to(&target.account, machine.runtime_version);
    if may { Ok(server) } else { Err(AttachError::AccessDenied) }
}

/// Sends an attach request; returns the pending answer.
pub(super) fn send(server: &Server, options: &AttachOptions) -> Result<(Arc<Runtime>, Answer), AttachError> {
    match server {
        Server::WithoutProfiling if mutation::is("ATT-03/2") => Err(AttachError::NoSuchProcess),
        Server::WithoutProfiling => Err(AttachError::Answered(HResult::DS_IPC_E_NOTSUPPORTED)),
        Server::Clr(runtime) => {
            let answer = runtime.ask_for_attach_by_name(NamedRequest {
                class: options.class,
                path: options.path.clone(),
                milliseconds: options.milliseconds,
                client_data: options.client_data.clone(),
            });
            Ok((runtime.clone(), answer))
        }
    }
}
