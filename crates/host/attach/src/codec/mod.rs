//! The diagnostics protocol of the .NET runtime as bytes: requests, answers, advertisements.
//!
//! Every message is a 20-byte header (magic, total size, command set, command, reserved) and a payload, little endian.
//! There is no input or output here; [`crate::client`] drives the protocol over a socket.
//! Encoding refuses a message over [`MAX_MESSAGE`] bytes, because the size field has 16 bits.
//! Decoding never reads beyond the answer, whatever its length fields claim.
//! Layout: <https://github.com/dotnet/diagnostics/blob/main/documentation/design-docs/ipc-protocol.md>.

mod advertise;
mod attach;
mod event_pipe;
mod message;
mod process_info;
mod text;

pub use advertise::Advertisement;
pub use attach::{AttachProfiler, largest_client_data};
pub use event_pipe::{EventPipeConfig, Provider, Rundown, SessionId, Stacks, StopTracing};
pub use message::{Command, HEADER_SIZE, Header, MAX_MESSAGE, Reply, Request};
pub use process_info::{ProcessInfo, ProcessInfoVersion};

pub use remora_symbols::Guid;

use crate::hresult::HResult;

/// Why bytes are no message of the protocol, or why a message cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The request does not fit the 16-bit size field. Likely cause: client data that is too large.
    #[error("the message would have {size} bytes and the protocol allows {MAX_MESSAGE}; make the client data smaller")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// The first bytes are not the protocol's magic. Likely cause: another program listens on that socket.
    #[error("the answer does not start with DOTNET_IPC_V1; another program may be listening on this socket")]
    BadMagic,
    /// A length field points past the end.
    #[error("the answer ends after {have} bytes where {need} are needed")]
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// An answer that is neither success nor error.
    #[error("the answer has command set 0x{set:02X}, command 0x{command:02X}, which this version does not know")]
    UnexpectedReply {
        /// Command set of the answer.
        set: u8,
        /// Command of the answer.
        command: u8,
    },
    /// An error answer, which a caller handles as a refusal, not as damage.
    #[error("the runtime answered {0}")]
    Refused(HResult),
    /// A field has a value that no runtime sends.
    #[error("the answer's {field} cannot be right: {why}")]
    BadField {
        /// The field.
        field: &'static str,
        /// The error.
        why: &'static str,
    },
}

/// Passes `bytes` to every decoder; each must return, whatever the bytes are. Entry point for fuzzing.
pub fn decode_anything(bytes: &[u8]) {
    let _ = Header::decode(bytes);
    let _ = Advertisement::decode(bytes);
    for version in [ProcessInfoVersion::One, ProcessInfoVersion::Two, ProcessInfoVersion::Three] {
        let _ = ProcessInfo::decode(version, bytes);
    }
    let _ = SessionId::decode(bytes);
    if let Ok(reply) = Reply::decode(bytes) {
        let _ = reply.into_payload();
    }
}

#[cfg(test)]
mod tests;
