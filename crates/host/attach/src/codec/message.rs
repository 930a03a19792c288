//! Header, request and reply: the frame around every payload.
//!
//! Refuses messages over 65,535 bytes when encoding, and wrong magic or impossible sizes when decoding.

use super::text::Cursor;
use super::{AttachProfiler, CodecError, EventPipeConfig, ProcessInfoVersion, StopTracing};
use crate::hresult::HResult;

/// Bytes of a header.
pub const HEADER_SIZE: usize = 20;
/// Bytes of the largest message, header included: the size field has 16 bits.
pub const MAX_MESSAGE: usize = 65_535;

const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
const SERVER_SET: u8 = 0xFF;
const SERVER_OK: u8 = 0x00;
const SERVER_ERROR: u8 = 0xFF;

/// Command set and command of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// 2 EventPipe, 3 profiler, 4 process, 0xFF answers.
    pub set: u8,
    /// The command in that set.
    pub id: u8,
}

/// The frame of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole message, header included.
    pub size: u16,
    /// Its command.
    pub command: Command,
}

impl Header {
    /// Reads the first [`HEADER_SIZE`] bytes.
    pub fn decode(bytes: &[u8]) -> Result<Header, CodecError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(CodecError::BadMagic);
        }
        let size = cursor.u16()?;
        let [set, id] = cursor.array()?;
        cursor.u16()?;
        if usize::from(size) < HEADER_SIZE {
            return Err(CodecError::BadField { field: "size", why: "smaller than a header" });
        }
        Ok(Header { size, command: Command { set, id } })
    }

    /// Bytes that follow the header.
    pub fn payload_size(self) -> usize {
        usize::from(self.size).saturating_sub(HEADER_SIZE)
    }
}

/// The requests to a runtime.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Request<'a> {
    /// Process information. .NET 5 and later.
    ProcessInfo(ProcessInfoVersion),
    /// Continue after the wait at startup.
    ResumeRuntime,
    /// Load a profiler.
    AttachProfiler(&'a AttachProfiler<'a>),
    /// Start an EventPipe session over this connection.
    CollectTracing(&'a EventPipeConfig),
    /// End a session.
    StopTracing(StopTracing),
}

impl Request<'_> {
    /// The whole message, or why it cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let mut payload = Vec::new();
        match self {
            Request::ProcessInfo(_) | Request::ResumeRuntime => {}
            Request::AttachProfiler(attach) => attach.encode(&mut payload),
            Request::CollectTracing(config) => config.encode(&mut payload),
            Request::StopTracing(stop) => stop.encode(&mut payload),
        }
        frame(self.command(), &payload)
    }

    /// Its command set and command.
    pub fn command(&self) -> Command {
        match self {
            Request::ProcessInfo(version) => Command { set: 0x04, id: *version as u8 },
            Request::ResumeRuntime => Command { set: 0x04, id: 0x01 },
            Request::AttachProfiler(_) => Command { set: 0x03, id: 0x01 },
            Request::CollectTracing(config) => Command { set: 0x02, id: config.command() },
            Request::StopTracing(_) => Command { set: 0x02, id: 0x01 },
        }
    }
}

/// Puts the header before `payload`.
pub(super) fn frame(command: Command, payload: &[u8]) -> Result<Vec<u8>, CodecError> {
    let total = HEADER_SIZE + payload.len();
    let size = u16::try_from(total).map_err(|_| CodecError::TooLarge { size: total })?;
    let mut message = Vec::with_capacity(total);
    message.extend_from_slice(MAGIC);
    message.extend_from_slice(&size.to_le_bytes());
    message.extend_from_slice(&[command.set, command.id, 0, 0]);
    message.extend_from_slice(payload);
    Ok(message)
}

/// An answer of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Success; the payload depends on the request.
    Done(Vec<u8>),
    /// Refused.
    Refused(HResult),
}

impl Reply {
    /// Reads a whole message, header included; bytes after it are ignored.
    pub fn decode(bytes: &[u8]) -> Result<Reply, CodecError> {
        let header = Header::decode(bytes)?;
        let end = usize::from(header.size);
        let payload = bytes.get(HEADER_SIZE..end).ok_or(CodecError::Truncated { need: end, have: bytes.len() })?;
        match header.command {
            Command { set: SERVER_SET, id: SERVER_OK } => Ok(Reply::Done(payload.to_vec())),
            Command { set: SERVER_SET, id: SERVER_ERROR } => {
                Cursor::new(payload).u32().map(HResult).map(Reply::Refused)
            }
            Command { set, id } => Err(CodecError::UnexpectedReply { set, command: id }),
        }
    }

    /// The payload of a success.
    pub fn into_payload(self) -> Result<Vec<u8>, CodecError> {
        match self {
            Reply::Done(payload) => Ok(payload),
            Reply::Refused(code) => Err(CodecError::Refused(code)),
        }
    }

    /// The answer to AttachProfiler: a success contains a second code, which must be a success, too.
    pub fn into_attached(self) -> Result<(), CodecError> {
        let payload = self.into_payload()?;
        if payload.is_empty() {
            return Ok(());
        }
        let code = HResult(Cursor::new(&payload).u32()?);
        if code.is_failure() { Err(CodecError::Refused(code)) } else { Ok(()) }
    }
}
