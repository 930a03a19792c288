//! The control messages on the socket: few, small, framed by their length.
//!
//! A session starts with [`FromAgent::Hello`]. The answer is [`ToAgent::Welcome`], with the descriptor of the shared memory.
//! [`ToAgent::Begin`] follows once the runtime has confirmed the attach. The agent then sends [`FromAgent::Started`] or
//! [`FromAgent::Inert`]. [`ToAgent::Detach`], or the socket's hang-up, ends the session.

use crate::AgentError;
use crate::Foreign;
use crate::bytes::{Malformed, Reader, Writer};

/// The longest frame, bytes.
const MAXIMUM_FRAME: usize = 64 * 1024;

/// The highest id that Linux gives a process or a thread: `PID_MAX_LIMIT` of include/linux/threads.h.
pub(crate) const HIGHEST_ID: u32 = 4 << 20;

/// The highest signal of Linux on x64.
const HIGHEST_SIGNAL: u32 = 64;

/// From the collector to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToAgent {
    /// The hello was accepted. The shared memory's descriptor comes with this message.
    Welcome,
    /// The runtime has answered the attach request with success.
    Begin,
    /// Sets the sampling frequency, hertz.
    SetFrequency(u32),
    /// Stop, close all resources, detach.
    Detach,
    /// Heap tracking: take another snapshot.
    TakeAnother,
    /// A new unwind table for native code ([`crate::unwind`]). The descriptor of its sealed memory travels with this message.
    Unwind,
    /// Begins or ends to report thrown exceptions. The answer is [`FromAgent::WatchesExceptions`].
    WatchExceptions(bool),
}

/// From the agent to the collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromAgent {
    /// The first message.
    Hello {
        /// [`crate::VERSION`].
        version: u32,
        /// The nonce of the client data.
        nonce: [u8; 16],
    },
    /// Sampling has begun.
    Started {
        /// The signal in use.
        signal: u32,
        /// The worker thread's id in the target's namespace.
        thread: u32,
        /// Threads followed at the start.
        threads: u32,
        /// Monotonic time of the start, nanoseconds.
        time: u64,
        /// The source of the samples, in words.
        engine: String,
    },
    /// The agent will not sample and must not detach. It has closed all resources and stays mapped.
    Inert(AgentError),
    /// Sampling is over and all resources are closed. The detach request comes next.
    Leaving {
        /// The longest callback, nanoseconds.
        longest_callback: u64,
        /// Callbacks received.
        callbacks: u64,
        /// Unload callbacks that did not wait until their look-ups were done.
        early_unloads: u64,
    },
    /// The runtime refused the detach. The agent stays, inert.
    DetachRefused {
        /// The HRESULT.
        code: u32,
    },
    /// ProfilerDetachSucceeded was called.
    Detached,
    /// The application was paused for a GC and a fork. A forked copy now walks the heap.
    Forked {
        /// Process id of the copy in the target's pid namespace.
        child: u32,
        /// Duration of the GC, including the fork, nanoseconds.
        collection: u64,
        /// Duration of the fork, nanoseconds.
        fork: u64,
        /// The number of that GC in heap tracking; 0 without it.
        at: u64,
    },
    /// The agent's own part of a snapshot, modules and methods, is in the transport.
    Described,
    /// The forked copy has ended.
    Walked {
        /// The status from `wait`.
        status: i32,
    },
    /// The agent has failed, and ends by itself.
    Failed(AgentError),
    /// The answer to [`ToAgent::WatchExceptions`]: whether exceptions are reported now, and the HRESULT if the runtime refused.
    WatchesExceptions {
        /// Whether they are.
        watches: bool,
        /// The HRESULT; 0 if it agreed.
        code: u32,
    },
}

/// What the target finds on the control channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message(ToAgent),
    /// Nothing at the moment.
    Nothing,
    /// The other side is gone: the recorder has died or given up (DET-16).
    HungUp,
}

/// A growing buffer that yields whole frames.
#[derive(Debug, Default)]
pub struct Frame {
    buffer: Vec<u8>,
}

impl Frame {
    /// Adds bytes as they were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the body of the next frame, if it is complete.
    ///
    /// # Errors
    /// [`Malformed`] if the announced length is absurd: the connection is then unusable.
    pub fn take(&mut self) -> Result<Option<Foreign<Vec<u8>>>, Malformed> {
        let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAXIMUM_FRAME {
            return Err(Malformed);
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let body = self.buffer[4..4 + length].to_vec();
        self.buffer.drain(..4 + length);
        Ok(Some(body.into()))
    }
}

fn framed(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(0);
    write(&mut writer);
    let length = (writer.bytes.len() - 4) as u32;
    writer.bytes[..4].copy_from_slice(&length.to_le_bytes());
    writer.bytes
}

impl ToAgent {
    /// The frame, length included.
    pub fn encode(&self) -> Vec<u8> {
        framed(|writer| {
            match self {
                ToAgent::Welcome => writer.u8(1),
                ToAgent::Begin => writer.u8(2),
                ToAgent::SetFrequency(hertz) => writer.u8(3).u32(*hertz),
                ToAgent::Detach => writer.u8(4),
                ToAgent::TakeAnother => writer.u8(5),
                ToAgent::Unwind => writer.u8(6),
                ToAgent::WatchExceptions(watches) => writer.u8(7).u8(u8::from(*watches)),
            };
        })
    }

    /// Reads a frame's body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: Foreign<&[u8]>) -> Result<ToAgent, Malformed> {
        let mut reader = Reader::new(body.unchecked());
        Ok(match reader.u8()? {
            1 => ToAgent::Welcome,
            2 => ToAgent::Begin,
            3 => ToAgent::SetFrequency(reader.u32()?),
            4 => ToAgent::Detach,
            5 => ToAgent::TakeAnother,
            6 => ToAgent::Unwind,
            7 => ToAgent::WatchExceptions(reader.u8()? != 0),
            _ => return Err(Malformed),
        })
    }
}

impl FromAgent {
    /// The frame, length included.
    pub fn encode(&self) -> Vec<u8> {
        framed(|writer| match self {
            FromAgent::Hello { version, nonce } => {
                writer.u8(1).u32(*version);
                writer.bytes.extend_from_slice(nonce);
            }
            FromAgent::Started { signal, thread, threads, time, engine } => {
                writer.u8(2).u32(*signal).u32(*thread).u32(*threads).u64(*time).text(engine);
            }
            FromAgent::Inert(reason) => reason.write(writer.u8(3)),
            FromAgent::Leaving { longest_callback, callbacks, early_unloads } => {
                writer.u8(4).u64(*longest_callback).u64(*callbacks).u64(*early_unloads);
            }
            FromAgent::DetachRefused { code } => {
                writer.u8(5).u32(*code);
            }
            FromAgent::Detached => {
                writer.u8(6);
            }
            FromAgent::Failed(error) => error.write(writer.u8(7)),
            FromAgent::Forked { child, collection, fork, at } => {
                writer.u8(8).u32(*child).u64(*collection).u64(*fork).u64(*at);
            }
            FromAgent::Described => {
                writer.u8(10);
            }
            FromAgent::Walked { status } => {
                writer.u8(9).u32(*status as u32);
            }
            FromAgent::WatchesExceptions { watches, code } => {
                writer.u8(11).u8(u8::from(*watches)).u32(*code);
            }
        })
    }

    /// Reads a frame's body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: Foreign<&[u8]>) -> Result<FromAgent, Malformed> {
        let mut reader = Reader::new(body.unchecked());
        Ok(match reader.u8()? {
            1 => FromAgent::Hello { version: reader.u32()?, nonce: reader.array()? },
            2 => FromAgent::Started {
                signal: reader.at_most(HIGHEST_SIGNAL)?,
                thread: reader.at_most(HIGHEST_ID)?,
                threads: reader.u32()?,
                time: reader.u64()?,
                engine: reader.text()?,
            },
            3 => FromAgent::Inert(AgentError::read(&mut reader)?),
            4 => FromAgent::Leaving {
                longest_callback: reader.u64()?,
                callbacks: reader.u64()?,
                early_unloads: reader.u64()?,
            },
            5 => FromAgent::DetachRefused { code: reader.u32()? },
            6 => FromAgent::Detached,
            7 => FromAgent::Failed(AgentError::read(&mut reader)?),
            8 => FromAgent::Forked {
                child: reader.at_most(HIGHEST_ID)?,
                collection: reader.u64()?,
                fork: reader.u64()?,
                at: reader.u64()?,
            },
            10 => FromAgent::Described,
            9 => FromAgent::Walked { status: reader.u32()? as i32 },
            11 => FromAgent::WatchesExceptions { watches: reader.u8()? != 0, code: reader.u32()? },
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentErrorCode;

    #[test]
    fn frames_come_out_whole_however_they_were_cut() {
        let messages = [
            FromAgent::Hello { version: 1, nonce: [3; 16] },
            FromAgent::Started { signal: 40, thread: 42, threads: 9, time: 1, engine: "timers".into() },
            FromAgent::Inert(AgentErrorCode::NoCallbacks.into()),
            FromAgent::Leaving { longest_callback: 1, callbacks: 2, early_unloads: 3 },
            FromAgent::DetachRefused { code: 0x8013_1372 },
            FromAgent::Detached,
            FromAgent::Failed(AgentErrorCode::SignalTaken.with(35)),
            FromAgent::Forked { child: 7, collection: 8, fork: 9, at: 10 },
            FromAgent::Described,
            FromAgent::Walked { status: -1 },
            FromAgent::WatchesExceptions { watches: true, code: 0x8013_1363 },
        ];
        let stream: Vec<u8> = messages.iter().flat_map(FromAgent::encode).collect();
        for step in [1, 3, 7, 1000] {
            let mut frame = Frame::default();
            let mut read = Vec::new();
            for piece in stream.chunks(step) {
                frame.push(piece);
                while let Some(body) = frame.take().expect("sane lengths") {
                    read.push(FromAgent::decode(body.all()).expect("own message"));
                }
            }
            assert_eq!(read, messages);
        }
    }

    #[test]
    fn commands_come_back_and_absurd_lengths_are_refused() {
        let commands = [
            ToAgent::Welcome,
            ToAgent::Begin,
            ToAgent::SetFrequency(999),
            ToAgent::Detach,
            ToAgent::TakeAnother,
            ToAgent::Unwind,
            ToAgent::WatchExceptions(true),
            ToAgent::WatchExceptions(false),
        ];
        for message in commands {
            assert_eq!(ToAgent::decode(message.encode()[4..].into()), Ok(message));
        }
        let mut frame = Frame::default();
        frame.push(&[0xff; 8]);
        assert_eq!(frame.take(), Err(Malformed));
        assert_eq!(ToAgent::decode([].as_slice().into()), Err(Malformed));
        assert_eq!(ToAgent::decode([99].as_slice().into()), Err(Malformed));
    }
}
