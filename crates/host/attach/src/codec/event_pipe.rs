//! Starts and stops an EventPipe session.
//!
//! The request uses the oldest form that can express the configuration, so that old runtimes understand it.
//! Runtimes before .NET 9 have no form without stacks or with rundown keywords (8.0.4 refuses both).

use super::CodecError;
use super::text::{Cursor, push_string};

const FORMAT_NETTRACE: u32 = 1;

/// An event provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Name, `Microsoft-Windows-DotNETRuntime` for example.
    pub name: String,
    /// Its event keywords.
    pub keywords: u64,
    /// 1 critical .. 5 verbose.
    pub level: u32,
    /// `key=value` pairs for the provider; often empty.
    pub filter: String,
}

/// Whether the runtime describes methods and modules at the session's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rundown {
    /// Not at all.
    None,
    /// As by default.
    Default,
    /// With these keywords; .NET 9 and later.
    Keywords(u64),
}

/// Whether events have stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// Yes, as all runtimes do.
    Walked,
    /// No; .NET 9 and later.
    None,
}

/// The configuration of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPipeConfig {
    /// Size of the buffer in the target, MiB.
    pub buffer_mebibytes: u32,
    /// The rundown at the end.
    pub rundown: Rundown,
    /// Whether stacks are walked.
    pub stacks: Stacks,
    /// Event providers.
    pub providers: Vec<Provider>,
}

impl EventPipeConfig {
    pub(super) fn command(&self) -> u8 {
        match (self.rundown, self.stacks) {
            (Rundown::Keywords(_), _) => 0x05,
            (_, Stacks::None) => 0x04,
            _ => 0x03,
        }
    }

    /// The nearest configuration that every runtime supports and that delivers no less; `None` if it is this one.
    pub fn for_older_runtimes(&self) -> Option<EventPipeConfig> {
        let rundown = match self.rundown {
            Rundown::Keywords(0) | Rundown::None => Rundown::None,
            Rundown::Keywords(_) | Rundown::Default => Rundown::Default,
        };
        let older = EventPipeConfig { rundown, stacks: Stacks::Walked, ..self.clone() };
        (older != *self).then_some(older)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.buffer_mebibytes.to_le_bytes());
        out.extend_from_slice(&FORMAT_NETTRACE.to_le_bytes());
        match self.rundown {
            Rundown::None => out.push(0),
            Rundown::Default => out.push(1),
            Rundown::Keywords(keywords) => out.extend_from_slice(&keywords.to_le_bytes()),
        }
        if self.command() != 0x03 {
            out.push(u8::from(self.stacks == Stacks::Walked));
        }
        out.extend_from_slice(&u32::try_from(self.providers.len()).unwrap_or(u32::MAX).to_le_bytes());
        for provider in &self.providers {
            out.extend_from_slice(&provider.keywords.to_le_bytes());
            out.extend_from_slice(&provider.level.to_le_bytes());
            push_string(out, &provider.name);
            push_string(out, &provider.filter);
        }
    }
}

/// Identifies a session, in the answer to its start and in the request to stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(pub u64);

impl SessionId {
    /// Reads the payload of the answer.
    pub fn decode(payload: &[u8]) -> Result<SessionId, CodecError> {
        Cursor::new(payload).u64().map(SessionId)
    }
}

/// A request to end a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopTracing {
    /// The session.
    pub session: SessionId,
}

impl StopTracing {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.0.to_le_bytes());
    }
}
