//! The bulk messages in the shared ring: descriptions, each sent once, and the samples that refer to them.
//!
//! A description always precedes the first sample that needs it. A second description of an address replaces the first: the old code was
//! unloaded and its memory reused.

use crate::Foreign;
use crate::bytes::{Malformed, Reader, Writer};
use crate::control::HIGHEST_ID;

/// Flags of a [`Message::Sample`].
pub mod sample_flags {
    /// The thread was off the CPU: blocked, or waiting for a CPU ([`RUNNABLE`]).
    pub const BLOCKED: u8 = 1;
    /// The stack was cut at the depth limit.
    pub const TRUNCATED: u8 = 2;
    /// The walk ended before the thread's outermost frame.
    pub const BROKEN: u8 = 4;
    /// A caller hidden by frameless code was restored.
    pub const REPAIRED: u8 = 8;
    /// Callers may be missing: Remora does not know whether some code has a frame, or where its caller is without one.
    pub const CALLERS_UNKNOWN: u8 = 16;
    /// Together with [`BLOCKED`]: the thread was ready to run and waited for a CPU.
    pub const RUNNABLE: u8 = 32;
    /// The thread ran or waited for a GC that it had suspended the runtime for.
    pub const COLLECTING: u8 = 64;
    /// Not a sample: the thread throws an exception ([`super::Message::Thrown`]).
    pub const THROWN: u8 = 128;
}

/// A type in a method's generic arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// A class or value type of a module, with its generic arguments (indexes of types).
    Class {
        /// Index of the module.
        module: u32,
        /// mdTypeDef token.
        token: u32,
        /// Indexes of types.
        arguments: Vec<u32>,
    },
    /// An array.
    Array {
        /// Index of the element's type, if the runtime reports it.
        element: Option<u32>,
        /// Number of dimensions.
        rank: u32,
        /// CorElementType of the element.
        element_kind: u32,
    },
    /// The runtime gives no description: shared code over reference types, among others.
    Unknown,
}

/// How a method is identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MethodKind {
    /// By its token in a module.
    Token {
        /// Index of the module.
        module: u32,
        /// mdMethodDef token.
        token: u32,
        /// Generic arguments of its class, indexes of types.
        class_arguments: Vec<u32>,
        /// Its own generic arguments, indexes of types.
        arguments: Vec<u32>,
        /// The names of its type and of the method in the metadata. The agent reads them if the module has no file of its own.
        names: Option<(String, String)>,
    },
    /// By its name only: a dynamic method.
    Named {
        /// Index of the module, if it has one.
        module: Option<u32>,
        /// Its name; empty if unknown.
        name: String,
    },
}

/// The code at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Code of a managed method.
    Managed {
        /// Index of the method.
        method: u32,
        /// Its IL offset, if the runtime reports it.
        il_offset: Option<u32>,
    },
    /// Not managed code.
    Native,
}

/// One message from the agent to the collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A module.
    Module {
        /// Its index from now on.
        index: u32,
        /// Path of its file, as the target sees it. Without a file of its own, the runtime's name for it.
        path: String,
        /// MVID of a module without a file of its own, in file byte order; zeros if unknown.
        mvid: Option<[u8; 16]>,
    },
    /// A type.
    Type {
        /// Its index from now on.
        index: u32,
        /// Its description.
        kind: TypeKind,
    },
    /// A method.
    Method {
        /// Its index from now on.
        index: u32,
        /// Its description.
        kind: MethodKind,
    },
    /// The code at an address, from now on.
    Address {
        /// The address: an instruction of a leaf, or one byte before a return address.
        address: u64,
        /// The code there.
        place: Place,
    },
    /// A thread that is followed from now on. A known id now belongs to this thread.
    Thread {
        /// Thread id in the target's namespace.
        thread: u32,
        /// Its name.
        name: String,
    },
    /// The current name of a followed thread.
    ThreadName {
        /// Thread id in the target's namespace.
        thread: u32,
        /// Its name.
        name: String,
    },
    /// CPU time of a followed thread while it was recorded, by its own clock. Sent when it has ended, and before a [`Message::ProcessTime`].
    ThreadTime {
        /// Thread id in the target's namespace.
        thread: u32,
        /// Nanoseconds.
        used: u64,
    },
    /// CPU time used during the recording. Sent at its end, and now and then before: a target can end by itself.
    ProcessTime {
        /// Monotonic time, nanoseconds.
        time: u64,
        /// Whether the recording has ended.
        is_last: bool,
        /// By the process, nanoseconds, including ended threads, the agent's threads and threads not followed.
        process: u64,
        /// By the agent's own threads, nanoseconds.
        agent: u64,
        /// By threads that cannot be followed, nanoseconds.
        unfollowed: u64,
    },
    /// A sample.
    Sample {
        /// Thread id in the target's namespace.
        thread: u32,
        /// Monotonic time, nanoseconds.
        time: u64,
        /// Nanoseconds that it represents.
        weight: u64,
        /// [`sample_flags`].
        flags: u8,
        /// The leaf's instruction, then one byte before each return address, outermost last.
        addresses: Vec<u64>,
    },
    /// A thread throws an exception. Encoded like a sample with the flag [`sample_flags::THROWN`], whose weight is `class`.
    Thrown {
        /// Thread id in the target's namespace.
        thread: u32,
        /// Monotonic time, nanoseconds.
        time: u64,
        /// Index of the exception's type, if known.
        class: Option<u32>,
        /// [`sample_flags`] about the stack.
        flags: u8,
        /// As in a sample. The leaf is in the agent or in the runtime, which throw for the managed code below.
        addresses: Vec<u64>,
    },
    /// The module behind a ModuleID: at the time of a snapshot, or in heap tracking from a GC on, until the next such message.
    ModuleId {
        /// ModuleID.
        id: u64,
        /// The first GC of heap tracking with this meaning. 0 in a snapshot, and for an id without an earlier owner.
        since: u64,
        /// Index of the module; `None` if the id may have belonged to two modules.
        index: Option<u32>,
    },
    /// The FunctionID of a described method, for a heap snapshot.
    FunctionId {
        /// As in roots on stacks.
        id: u64,
        /// Index of the method.
        method: u32,
    },
    /// The thread has not run since its last sample, which therefore counts again.
    Repeat {
        /// Thread id in the target's namespace.
        thread: u32,
        /// Monotonic time, nanoseconds.
        time: u64,
        /// Nanoseconds that it represents.
        weight: u64,
    },
}

const NONE: u32 = u32::MAX;

fn optional(value: Option<u32>) -> u32 {
    value.unwrap_or(NONE)
}

fn some(value: u32) -> Option<u32> {
    (value != NONE).then_some(value)
}

impl Message {
    /// The message as words for the ring.
    pub fn encode(&self) -> Vec<u64> {
        if let Message::Sample { thread, time, weight, flags, addresses } = self {
            let mut words = Vec::with_capacity(3 + addresses.len());
            words.extend_from_slice(&encode_sample(*thread, *time, *weight, *flags));
            words.extend_from_slice(addresses);
            return words;
        }
        if let Message::Thrown { thread, time, class, flags, addresses } = self {
            let mut words = encode_thrown(*thread, *time, *class, *flags).to_vec();
            words.extend_from_slice(addresses);
            return words;
        }
        let mut writer = Writer::default();
        self.write(&mut writer);
        let length = writer.bytes.len() as u64;
        let mut words = vec![u64::from(self.kind()) | length << 8];
        words.extend(writer.bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
        words
    }

    /// Reads a record of the ring.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: Foreign<&[u64]>) -> Result<Message, Malformed> {
        let (&first, rest) = words.unchecked().split_first().ok_or(Malformed)?;
        if first as u8 == KIND_SAMPLE {
            return decode_sample(first, rest);
        }
        let length = usize::try_from(first >> 8).map_err(|_| Malformed)?;
        let bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut reader = Reader::new(bytes.get(..length).ok_or(Malformed)?);
        Message::read(first as u8, &mut reader)
    }

    fn kind(&self) -> u8 {
        match self {
            Message::Module { .. } => 1,
            Message::Type { .. } => 2,
            Message::Method { .. } => 3,
            Message::Address { .. } => 4,
            Message::Thread { .. } => 5,
            Message::Sample { .. } | Message::Thrown { .. } => KIND_SAMPLE,
            Message::Repeat { .. } => 7,
            Message::ThreadName { .. } => 8,
            Message::ModuleId { .. } => 9,
            Message::FunctionId { .. } => 10,
            Message::ThreadTime { .. } => 11,
            Message::ProcessTime { .. } => 12,
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Message::Module { index, path, mvid } => {
                writer
                    .u32(*index)
                    .text(path)
                    .u8(u8::from(mvid.is_some()))
                    .bytes(mvid.as_ref().map_or(&[], |mvid| mvid));
            }
            Message::Type { index, kind } => {
                writer.u32(*index);
                write_type(writer, kind);
            }
            Message::Method { index, kind } => {
                writer.u32(*index);
                write_method(writer, kind);
            }
            Message::Address { address, place } => {
                writer.u64(*address);
                match place {
                    Place::Managed { method, il_offset } => writer.u8(1).u32(*method).u32(optional(*il_offset)),
                    Place::Native => writer.u8(0),
                };
            }
            Message::Thread { thread, name } | Message::ThreadName { thread, name } => {
                writer.u32(*thread).text(name);
            }
            Message::Repeat { thread, time, weight } => {
                writer.u32(*thread).u64(*time).u64(*weight);
            }
            Message::ModuleId { id, since, index } => {
                writer.u64(*id).u64(*since).u32(optional(*index));
            }
            Message::FunctionId { id, method } => {
                writer.u64(*id).u32(*method);
            }
            Message::ThreadTime { thread, used } => {
                writer.u32(*thread).u64(*used);
            }
            Message::ProcessTime { time, is_last, process, agent, unfollowed } => {
                writer.u64(*time).u8((*is_last).into()).u64(*process).u64(*agent).u64(*unfollowed);
            }
            Message::Sample { .. } | Message::Thrown { .. } => {}
        }
    }

    fn read(kind: u8, reader: &mut Reader) -> Result<Message, Malformed> {
        Ok(match kind {
            1 => Message::Module { index: reader.u32()?, path: reader.text()?, mvid: read_mvid(reader)? },
            2 => Message::Type { index: reader.u32()?, kind: read_type(reader)? },
            3 => Message::Method { index: reader.u32()?, kind: read_method(reader)? },
            4 => Message::Address {
                address: reader.u64()?,
                place: match reader.u8()? {
                    0 => Place::Native,
                    1 => Place::Managed { method: reader.u32()?, il_offset: some(reader.u32()?) },
                    _ => return Err(Malformed),
                },
            },
            5 => Message::Thread { thread: reader.at_most(HIGHEST_ID)?, name: reader.text()? },
            8 => Message::ThreadName { thread: reader.at_most(HIGHEST_ID)?, name: reader.text()? },
            9 => Message::ModuleId { id: reader.u64()?, since: reader.u64()?, index: some(reader.u32()?) },
            10 => Message::FunctionId { id: reader.u64()?, method: reader.u32()? },
            11 => Message::ThreadTime { thread: reader.at_most(HIGHEST_ID)?, used: reader.u64()? },
            12 => Message::ProcessTime {
                time: reader.u64()?,
                is_last: reader.u8()? != 0,
                process: reader.u64()?,
                agent: reader.u64()?,
                unfollowed: reader.u64()?,
            },
            7 => Message::Repeat { thread: reader.at_most(HIGHEST_ID)?, time: reader.u64()?, weight: reader.u64()? },
            _ => return Err(Malformed),
        })
    }
}

const KIND_SAMPLE: u8 = 6;

/// The words of a sample before its addresses, for a caller that has the addresses in a buffer already.
pub fn encode_sample(thread: u32, time: u64, weight: u64, flags: u8) -> [u64; 3] {
    [u64::from(KIND_SAMPLE) | u64::from(flags) << 8 | u64::from(thread) << 32, time, weight]
}

/// The words of a [`Message::Thrown`] before its addresses, in the same way.
pub fn encode_thrown(thread: u32, time: u64, class: Option<u32>, flags: u8) -> [u64; 3] {
    encode_sample(thread, time, u64::from(optional(class)), flags | sample_flags::THROWN)
}

fn decode_sample(first: u64, rest: &[u64]) -> Result<Message, Malformed> {
    let [time, weight, addresses @ ..] = rest else { return Err(Malformed) };
    let (thread, flags) = ((first >> 32) as u32, (first >> 8) as u8);
    if thread > HIGHEST_ID {
        return Err(Malformed);
    }
    let addresses = addresses.to_vec();
    if flags & sample_flags::THROWN == 0 {
        return Ok(Message::Sample { thread, time: *time, weight: *weight, flags, addresses });
    }
    let class = some(u32::try_from(*weight).map_err(|_| Malformed)?);
    Ok(Message::Thrown { thread, time: *time, class, flags: flags & !sample_flags::THROWN, addresses })
}

fn write_type(writer: &mut Writer, kind: &TypeKind) {
    match kind {
        TypeKind::Class { module, token, arguments } => writer.u8(1).u32(*module).u32(*token).list(arguments),
        TypeKind::Array { element, rank, element_kind } => {
            writer.u8(2).u32(optional(*element)).u32(*rank).u32(*element_kind)
        }
        TypeKind::Unknown => writer.u8(0),
    };
}

fn read_type(reader: &mut Reader) -> Result<TypeKind, Malformed> {
    Ok(match reader.u8()? {
        0 => TypeKind::Unknown,
        1 => TypeKind::Class { module: reader.u32()?, token: reader.u32()?, arguments: reader.list()? },
        2 => TypeKind::Array { element: some(reader.u32()?), rank: reader.u32()?, element_kind: reader.u32()? },
        _ => return Err(Malformed),
    })
}

fn read_mvid(reader: &mut Reader) -> Result<Option<[u8; 16]>, Malformed> {
    if reader.u8()? == 0 { Ok(None) } else { reader.array().map(Some) }
}

/// Tags of the kinds of methods.
const TOKEN: u8 = 1;
const NAMED: u8 = 2;
const TOKEN_AND_NAMES: u8 = 3;

fn write_method(writer: &mut Writer, kind: &MethodKind) {
    match kind {
        MethodKind::Token { module, token, class_arguments, arguments, names } => {
            writer.u8(if names.is_some() { TOKEN_AND_NAMES } else { TOKEN });
            writer.u32(*module).u32(*token).list(class_arguments).list(arguments);
            if let Some((type_name, method_name)) = names {
                writer.text(type_name).text(method_name);
            }
        }
        MethodKind::Named { module, name } => {
            writer.u8(NAMED).u32(optional(*module)).text(name);
        }
    }
}

fn read_method(reader: &mut Reader) -> Result<MethodKind, Malformed> {
    Ok(match reader.u8()? {
        kind @ (TOKEN | TOKEN_AND_NAMES) => MethodKind::Token {
            module: reader.u32()?,
            token: reader.u32()?,
            class_arguments: reader.list()?,
            arguments: reader.list()?,
            names: if kind == TOKEN_AND_NAMES { Some((reader.text()?, reader.text()?)) } else { None },
        },
        NAMED => MethodKind::Named { module: some(reader.u32()?), name: reader.text()? },
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FromAgent;

    fn one_of_each() -> Vec<Message> {
        vec![
            Message::Module { index: 1, path: "/app/Ä.dll".into(), mvid: None },
            Message::Module { index: 2, path: "Ä.dll".into(), mvid: Some(*b"sixteen bytes of") },
            Message::Type { index: 2, kind: TypeKind::Class { module: 1, token: 0x0200_0002, arguments: vec![3, 4] } },
            Message::Type { index: 3, kind: TypeKind::Array { element: None, rank: 2, element_kind: 8 } },
            Message::Type { index: 4, kind: TypeKind::Unknown },
            Message::Method {
                index: 5,
                kind: MethodKind::Token {
                    module: 1,
                    token: 0x0600_0001,
                    class_arguments: vec![2],
                    arguments: vec![],
                    names: None,
                },
            },
            Message::Method {
                index: 7,
                kind: MethodKind::Token {
                    module: 1,
                    token: 0x0600_0002,
                    class_arguments: vec![],
                    arguments: vec![4],
                    names: Some(("Type".into(), String::new())),
                },
            },
            Message::Method { index: 6, kind: MethodKind::Named { module: None, name: "lambda".into() } },
            Message::Address { address: 0x7f00, place: Place::Managed { method: 5, il_offset: Some(12) } },
            Message::Address { address: 0x7f01, place: Place::Native },
            Message::Thread { thread: 99, name: "worker".into() },
            Message::ThreadName { thread: 99, name: "other".into() },
            Message::Sample { thread: 99, time: 5, weight: 4_000_000, flags: 9, addresses: vec![1, 2, 3] },
            Message::Repeat { thread: 99, time: 6, weight: 1 },
            Message::Thrown { thread: 99, time: 5, class: Some(2), flags: 9, addresses: vec![1, 2, 3] },
            Message::Thrown { thread: 99, time: 5, class: None, flags: 0, addresses: vec![] },
            Message::ThreadTime { thread: 99, used: 7 },
            Message::ProcessTime { time: 3, is_last: true, process: 9, agent: 1, unfollowed: 2 },
        ]
    }

    #[test]
    fn every_message_comes_back_as_it_was() {
        for message in one_of_each() {
            assert_eq!(Message::decode(message.encode().as_slice().into()), Ok(message));
        }
    }

    #[test]
    fn ids_signals_and_flags_that_linux_or_the_agent_cannot_give_are_refused() {
        let decoded = |message: Message| Message::decode((&message.encode()).into()).is_ok();
        let sample = |thread, flags| Message::Sample { thread, time: 0, weight: 0, flags, addresses: vec![] };
        assert!(decoded(sample(HIGHEST_ID, 127)));
        let with = |words: [u64; 3]| Message::decode((&words[..]).into()).is_ok();
        assert!(with(encode_thrown(1, 0, None, 0)) && !with(encode_sample(1, 0, 1 << 32, sample_flags::THROWN)));
        for thread in [HIGHEST_ID + 1, u32::MAX] {
            assert!(!decoded(sample(thread, 0)));
            assert!(!decoded(Message::Repeat { thread, time: 0, weight: 0 }));
            assert!(!decoded(Message::Thrown { thread, time: 0, class: None, flags: 0, addresses: vec![] }));
            assert!(!decoded(Message::Thread { thread, name: String::new() }));
            assert!(!decoded(Message::ThreadName { thread, name: String::new() }));
            assert!(!decoded(Message::ThreadTime { thread, used: 0 }));
        }
        let heard = |message: FromAgent| FromAgent::decode(message.encode()[4..].into()).is_ok();
        let started =
            |signal, thread| FromAgent::Started { signal, thread, threads: 0, time: 0, engine: String::new() };
        assert!(heard(started(64, HIGHEST_ID)) && !heard(started(65, 1)) && !heard(started(1, HIGHEST_ID + 1)));
        let forked = |child| FromAgent::Forked { child, collection: 0, fork: 0, at: 0 };
        assert!(heard(forked(HIGHEST_ID)) && !heard(forked(HIGHEST_ID + 1)));
    }

    #[test]
    fn damaged_messages_are_refused_or_read_as_something_else_but_never_panic() {
        for message in one_of_each() {
            let words = message.encode();
            for cut in 0..words.len() {
                let _ = Message::decode(words[..cut].into());
            }
            for word in 0..words.len() {
                for bit in 0..64 {
                    let mut damaged = words.clone();
                    damaged[word] ^= 1 << bit;
                    let _ = Message::decode(damaged.as_slice().into());
                }
            }
        }
    }
}
