//! The client data of the attach request: all that the agent knows when it starts in the target.

use crate::VERSION;
use crate::bytes::{Malformed, Reader, Writer};

const MAGIC: &[u8; 8] = b"REMORACF";

/// What the agent does in the target, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Samples CPU time, user and kernel.
    CpuSampling(Sampling),
    /// Samples wall-clock time, running or blocked.
    WallSampling(Sampling),
    /// Takes a heap snapshot.
    HeapSnapshot(HeapSnapshot),
    /// Takes a heap snapshot, and follows later GCs until the next snapshot.
    HeapTracking,
    /// Placeholder profiler: attaches, stays and does nothing. It corrects the runtime's profiler count after a main profiler's detach.
    Placeholder,
    /// Attaches, checks whether its callbacks arrive, and detaches. That shows whether the runtime's profiler count is right.
    CallbackCheck,
    /// Counts and times calls: for the tracer, not for the agent.
    Tracing {
        /// Whether it keeps arguments and results, too.
        arguments: bool,
    },
}

impl Task {
    /// Whether the task is about the heap, without samples.
    pub fn is_of_heap(self) -> bool {
        self.snapshot().is_some()
    }

    /// How the task takes heap snapshots, if it does.
    pub fn snapshot(self) -> Option<HeapSnapshot> {
        match self {
            Task::HeapSnapshot(snapshot) => Some(snapshot),
            Task::HeapTracking => Some(HeapSnapshot::default()),
            _ => None,
        }
    }

    /// Whether the runtime reports roots, or survivors, in GCs (MONITOR_GC).
    pub fn monitors_gcs(self) -> bool {
        self == Task::HeapTracking || self.snapshot().is_some_and(|snapshot| snapshot.roots == Roots::Seen)
    }
}

/// How to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Samples per second and thread.
    pub frequency: u32,
    /// Signals and stack reads per second, for the whole process.
    pub signal_budget: u32,
}

/// How to take a heap snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapSnapshot {
    /// The contents of objects.
    pub contents: Contents,
    /// When it is taken.
    pub moment: Moment,
    /// How it finds roots.
    pub roots: Roots,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moment {
    /// After a full GC: all objects are alive.
    #[default]
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
    pub task: Task,
}

impl Config {
    /// The encoded client data.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes.extend_from_slice(MAGIC);
        writer.u32(VERSION);
        writer.bytes.extend_from_slice(&self.nonce);
        match self.task {
            Task::CpuSampling(Sampling { frequency, signal_budget }) => writer.u8(0).u32(frequency).u32(signal_budget),
            Task::WallSampling(Sampling { frequency, signal_budget }) => writer.u8(1).u32(frequency).u32(signal_budget),
            Task::HeapSnapshot(snapshot) => {
                writer.u8(2);
                writer.u8(match snapshot.contents {
                    Contents::None => 0,
                    Contents::Strings => 1,
                    Contents::Values => 2,
                });
                writer.u8(match snapshot.moment {
                    Moment::Collected => 0,
                    Moment::AsItIs => 1,
                });
                writer.u8(match snapshot.roots {
                    Roots::Inferred => 0,
                    Roots::Seen => 1,
                })
            }
            Task::Placeholder => writer.u8(3),
            Task::HeapTracking => writer.u8(4),
            Task::CallbackCheck => writer.u8(5),
            Task::Tracing { arguments } => writer.u8(6).u8(arguments.into()),
        };
        writer.text(&self.socket_path);
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
            task: match reader.u8()? {
                0 => Task::CpuSampling(sampling(&mut reader)?),
                1 => Task::WallSampling(sampling(&mut reader)?),
                2 => Task::HeapSnapshot(snapshot(&mut reader)?),
                3 => Task::Placeholder,
                4 => Task::HeapTracking,
                5 => Task::CallbackCheck,
                6 => Task::Tracing { arguments: reader.u8()? != 0 },
                _ => return Err(Malformed),
            },
            socket_path: reader.text()?,
        })
    }
}

fn sampling(reader: &mut Reader<'_>) -> Result<Sampling, Malformed> {
    Ok(Sampling { frequency: reader.u32()?.clamp(1, 10_000), signal_budget: reader.u32()?.clamp(1, 1_000_000) })
}

fn snapshot(reader: &mut Reader<'_>) -> Result<HeapSnapshot, Malformed> {
    Ok(HeapSnapshot {
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_data_comes_back_as_it_was_and_a_cut_one_is_refused() {
        let sampling = Sampling { frequency: 99, signal_budget: 2000 };
        let snapshot = HeapSnapshot { contents: Contents::Strings, moment: Moment::AsItIs, roots: Roots::Seen };
        for task in [
            Task::CpuSampling(sampling),
            Task::WallSampling(sampling),
            Task::HeapSnapshot(snapshot),
            Task::HeapTracking,
            Task::Placeholder,
            Task::CallbackCheck,
            Task::Tracing { arguments: false },
            Task::Tracing { arguments: true },
        ] {
            let config = Config { nonce: [7; 16], socket_path: "/tmp/remora-1/agent.sock".into(), task };
            let bytes = config.encode();
            assert_eq!(Config::decode(&bytes), Ok(config));
            for length in 0..bytes.len() {
                assert_eq!(Config::decode(&bytes[..length]), Err(Malformed));
            }
        }
    }
}
