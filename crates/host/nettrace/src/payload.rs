//! The relevant events. Payloads only ever grow at the end, so a longer one is read as far as known.

use crate::event::Event;
use crate::providers::{EVENT_PIPE, RUNDOWN, RUNTIME, SAMPLER};
use remora_symbols::{Reader, shortened};

/// A relevant event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payload {
    Sample(Mode),
    /// A method's code: loaded now, or before (rundown).
    Method {
        method: Method,
        listed: bool,
    },
    MethodUnloaded {
        start: u64,
    },
    Module {
        id: u64,
        file: String,
    },
    Process {
        command_line: String,
    },
}

/// The sampled thread's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In managed code.
    Managed,
    /// In native code: called from managed code, waiting, or inside the runtime.
    External,
}

/// A method's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) id: u64,
    pub(crate) module: u64,
    pub(crate) start: u64,
    pub(crate) size: u32,
    /// `Namespace.Type`; for dynamic methods `dynamicClass`.
    pub(crate) type_name: String,
    pub(crate) name: String,
    /// IL-like: `instance void  (class System.String,int32)`.
    pub(crate) signature: String,
}

/// The payload of `event`, if relevant; `Err` if it is relevant but too short.
pub(crate) fn payload(event: &Event<'_>) -> Result<Option<Payload>, ()> {
    let mut bytes = Reader::new(event.payload);
    let read = match (event.event_type.provider.as_str(), event.event_type.id) {
        (SAMPLER, 0) => sample(&mut bytes),
        (RUNTIME, 143) => method(&mut bytes, false),
        // Rundown at the start or at the end of the session.
        (RUNDOWN, 143 | 144) => method(&mut bytes, true),
        (RUNTIME, 144) => method(&mut bytes, false).map(unloaded),
        (RUNTIME, 152) | (RUNDOWN, 153 | 154) => module(&mut bytes),
        (EVENT_PIPE, 1) => bytes.utf16().map(|command_line| Payload::Process { command_line }),
        _ => return Ok(None),
    };
    read.map(Some).ok_or(())
}

fn sample(bytes: &mut Reader<'_>) -> Option<Payload> {
    const MANAGED: u32 = 2;
    let mode = if bytes.u32()? == MANAGED { Mode::Managed } else { Mode::External };
    Some(Payload::Sample(mode))
}

fn method(bytes: &mut Reader<'_>, listed: bool) -> Option<Payload> {
    let (id, module, start, size) = (bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u32()?);
    let (_token, _flags) = (bytes.u32()?, bytes.u32()?);
    let (type_name, name, signature) = (bytes.utf16()?, bytes.utf16()?, bytes.utf16()?);
    Some(Payload::Method { method: Method { id, module, start, size, type_name, name, signature }, listed })
}

fn unloaded(payload: Payload) -> Payload {
    match payload {
        Payload::Method { method, .. } => Payload::MethodUnloaded { start: method.start },
        other => other,
    }
}

fn module(bytes: &mut Reader<'_>) -> Option<Payload> {
    let (id, _assembly) = (bytes.u64()?, bytes.u64()?);
    let (_flags, _reserved) = (bytes.u32()?, bytes.u32()?);
    let (il_path, native_path) = (bytes.utf16()?, bytes.utf16()?);
    let path = if il_path.is_empty() { native_path } else { il_path };
    let file = path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    // It is looked at once more for each method.
    Some(Payload::Module { id, file: shortened(file) })
}
