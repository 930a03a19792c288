//! The client data of the attach request: all that the agent knows when it starts in the target.

use crate::VERSION;
use crate::bytes::{Malformed, Reader, Writer};

const MAGIC: &[u8; 8] = b"REMORACF";

/// The task of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Samples CPU time, user and kernel.
    Cpu,
    /// Samples wall-clock time, running or blocked.
    Wall,
    /// Takes a heap snapshot, without samples.
    Heap,
    /// Tracks the heap: takes a snapshot, and follows later GCs until the next snapshot.
    Watch,
    /// Placeholder profiler: attaches, stays and does nothing. It corrects the runtime's profiler count after a main profiler's detach.
    Nothing,
    /// Attaches, checks whether its callbacks arrive, and detaches. That shows whether the runtime's profiler count is right.
    Heard,
}

impl EventKind {
    /// Whether the task is about the heap, without samples.
    pub fn is_of_heap(self) -> bool {
        matches!(self, EventKind::Heap | EventKind::Watch)
    }
}

/// The contents of objects in a heap snapshot, beside their shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contents {
    /// Nothing.
    #[default]
    None,
    /// The characters of strings.
    Strings,
    /// Strings, the values in all other objects, and the layout of each class.
    Values,
}

/// When a heap snapshot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After a full GC: all objects are alive.
    Collected,
    /// At once, garbage included: the runtime is suspended only for the fork. .NET 9 and later.
    AsItIs,
}

/// How a heap snapshot finds roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Roots {
    /// It contains none: the reader infers them.
    #[default]
    Inferred,
    /// The runtime reports them in the GC, to main profilers only.
    Seen,
}

/// The order from the recorder to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Proves to both ends that they belong to the same attach.
    pub nonce: [u8; 16],
    /// The socket to connect to, as the target sees it.
    pub socket_path: String,
    /// The task.
    pub event: EventKind,
    /// For a heap snapshot: the contents of objects.
    pub contents: Contents,
    /// For a heap snapshot: when it is taken.
    pub moment: Moment,
    /// For a heap snapshot: how it finds roots.
    pub roots: Roots,
    /// Samples per second and thread.
    pub frequency: u32,
    /// Signals and stack reads per second, for the whole process.
    pub signal_budget: u32,
}

impl Config {
    /// The encoded client data.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes.extend_from_slice(MAGIC);
        writer.u32(VERSION);
        writer.bytes.extend_from_slice(&self.nonce);
        writer.u8(match self.event {
            EventKind::Cpu => 0,
            EventKind::Wall => 1,
            EventKind::Heap => 2,
            EventKind::Nothing => 3,
            EventKind::Watch => 4,
            EventKind::Heard => 5,
        });
        writer.u8(match self.contents {
            Contents::None => 0,
            Contents::Strings => 1,
            Contents::Values => 2,
        });
        writer.u8(match self.moment {
            Moment::Collected => 0,
            Moment::AsItIs => 1,
        });
        writer.u8(match self.roots {
            Roots::Inferred => 0,
            Roots::Seen => 1,
        });
        writer.u32(self.frequency).u32(self.signal_budget).text(&self.socket_path);
        writer.bytes
    }

    /// Reads what [`Config::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] if it is something else, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Config, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC || reader.u32()? != VERSION {
            return Err(Malformed);
        }
        Ok(Config {
            nonce: reader.array()?,
            event: match reader.u8()? {
                0 => EventKind::Cpu,
                1 => EventKind::Wall,
                2 => EventKind::Heap,
                3 => EventKind::Nothing,
                4 => EventKind::Watch,
                5 => EventKind::Heard,
                _ => return Err(Malformed),
            },
            contents: match reader.u8()? {
                0 => Contents::None,
                1 => Contents::Strings,
                2 => Contents::Values,
                _ => return Err(Malformed),
            },
            moment: match reader.u8()? {
                0 => Moment::Collected,
                1 => Moment::AsItIs,
                _ => return Err(Malformed),
            },
            roots: match reader.u8()? {
                0 => Roots::Inferred,
                1 => Roots::Seen,
                _ => return Err(Malformed),
            },
            frequency: reader.u32()?.clamp(1, 10_000),
            signal_budget: reader.u32()?.clamp(1, 1_000_000),
            socket_path: reader.text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_data_comes_back_as_it_was_and_a_cut_one_is_refused() {
        let config = Config {
            nonce: [7; 16],
            socket_path: "/tmp/remora-1/agent.sock".into(),
            event: EventKind::Wall,
            contents: Contents::Strings,
            moment: Moment::AsItIs,
            roots: Roots::Seen,
            frequency: 99,
            signal_budget: 2000,
        };
        let bytes = config.encode();
        assert_eq!(Config::decode(&bytes), Ok(config));
        for length in 0..bytes.len() {
            assert_eq!(Config::decode(&bytes[..length]), Err(Malformed));
        }
    }
}
