//! The three forms of process information: .NET 5, 6 and 8 and later.
//!
//! Refuses text beyond the answer; ignores fields that a later version appends.

use super::text::Cursor;
use super::{CodecError, Guid};
use remora_symbols::TargetText;

/// The form of process information: the number of its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessInfoVersion {
    /// 0x0400: .NET 5 and later.
    One = 0x00,
    /// 0x0404: adds the entry assembly and the runtime's version, .NET 6 and later.
    Two = 0x04,
    /// 0x0408: adds the runtime identifier, .NET 8 and later.
    Three = 0x08,
}

impl ProcessInfoVersion {
    /// The next older form, for a runtime that does not know this one.
    pub fn older(self) -> Option<ProcessInfoVersion> {
        match self {
            ProcessInfoVersion::One => None,
            ProcessInfoVersion::Two => Some(ProcessInfoVersion::One),
            ProcessInfoVersion::Three => Some(ProcessInfoVersion::Two),
        }
    }
}

/// A runtime's description of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// The process id in the target's own namespace.
    pub pid: u64,
    /// Unique for each start of a runtime.
    pub cookie: Guid,
    /// The command line as one text.
    pub command_line: TargetText,
    /// Operating system, as the runtime names it.
    pub operating_system: TargetText,
    /// Architecture, as the runtime names it.
    pub architecture: TargetText,
    /// Name of the entry assembly, without extension.
    pub entry_assembly: Option<TargetText>,
    /// Version of the runtime with its commit.
    pub runtime_version: Option<TargetText>,
    /// Runtime identifier, `linux-x64` for example.
    pub runtime_identifier: Option<TargetText>,
}

impl ProcessInfo {
    /// Reads the payload of the answer in form `version`.
    pub fn decode(version: ProcessInfoVersion, payload: &[u8]) -> Result<ProcessInfo, CodecError> {
        let mut cursor = Cursor::new(payload);
        if version == ProcessInfoVersion::Three {
            cursor.u32()?;
        }
        let mut info = ProcessInfo {
            pid: cursor.u64()?,
            cookie: Guid(cursor.array()?),
            command_line: cursor.string()?,
            operating_system: cursor.string()?,
            architecture: cursor.string()?,
            entry_assembly: None,
            runtime_version: None,
            runtime_identifier: None,
        };
        if version >= ProcessInfoVersion::Two {
            info.entry_assembly = present(cursor.string()?);
            info.runtime_version = present(cursor.string()?);
        }
        if version == ProcessInfoVersion::Three {
            info.runtime_identifier = present(cursor.string()?);
        }
        Ok(info)
    }
}

fn present(text: TargetText) -> Option<TargetText> {
    (!text.is_empty()).then_some(text)
}
