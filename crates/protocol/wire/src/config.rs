//! The client data of the attach request: all that the agent knows when it wakes up in the target.

use crate::VERSION;
use crate::bytes::{Malformed, Reader, Writer};

const MAGIC: &[u8; 8] = b"REMORACF";

/// What is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Time on a processor, user and kernel.
    Cpu,
    /// Time on the clock, running or blocked.
    Wall,
    /// Nothing: a snapshot of the heap is taken.
    Heap,
    /// Nothing: a snapshot of the heap is taken, and kept true through later collections, until another one is wanted.
    Watch,
    /// Nothing: the agent comes, and stays without doing anything. That sets right what the runtime counts since a main one left.
    Nothing,
    /// Nothing: the agent comes, is called or not, which says whether the runtime counts right, and leaves.
    Heard,
}

impl EventKind {
    /// Whether there are snapshots of the heap, and no samples.
    pub fn is_of_heap(self) -> bool {
        matches!(self, EventKind::Heap | EventKind::Watch)
    }
}

/// What of the objects a snapshot of the heap holds, beside their shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contents {
    /// Nothing.
    #[default]
    None,
    /// The characters of strings.
    Strings,
    /// These, what stands in all other objects, and how the objects of each class are laid out.
    Values,
}

/// How a snapshot of the heap is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After a full collection: what is there is alive.
    Collected,
    /// As it is, garbage included: the runtime is stopped for the copying alone. .NET 9 and later.
    AsItIs,
}

/// What a snapshot of the heap says of what holds objects from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Roots {
    /// Nothing: whoever reads it infers that something does.
    #[default]
    Inferred,
    /// What the runtime tells in the collection. It tells main profilers alone.
    Seen,
}

/// What the trigger tells the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Proves to both ends that they belong to the same attach.
    pub nonce: [u8; 16],
    /// The socket to connect to, as the target sees it.
    pub socket_path: String,
    /// What to sample.
    pub event: EventKind,
    /// Of a snapshot of the heap: what it holds of the objects.
    pub contents: Contents,
    /// And how it is taken.
    pub moment: Moment,
    /// And what it says of roots.
    pub roots: Roots,
    /// Samples a second and thread.
    pub frequency: u32,
    /// Signals and read stacks a second, for the whole process.
    pub signal_budget: u32,
}

impl Config {
    /// As it travels.
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
