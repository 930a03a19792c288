//! Tracing single methods by ReJIT: the client data, the messages on its socket, and the shared memory of its counters.
//!
//! A conversation begins with [`FromTracer::Hello`]. The answer is [`ToTracer::Trace`], with the descriptor of the shared memory. The agent
//! sends a [`FromTracer::Method`] for each method that matches, then [`FromTracer::Matched`]. Only after [`ToTracer::Go`] does it change
//! any method. [`ToTracer::Change`] changes what is traced, and is answered by [`FromTracer::Changed`]. [`ToTracer::Stop`], or the socket's
//! hang-up, restores all methods.

mod changes;
mod config;
mod parameter;
mod records;
pub mod rendezvous;

pub use changes::{Change, ChangeOutcome, Changed};
pub use config::TraceConfig;
pub use parameter::{Parameter, RESULT_NAME, Structure};
pub use records::{LONGEST_TEXT, MOST_FRAMES, MOST_VALUES, RESULT, TraceRecord, TraceValue};

use crate::Foreign;
use crate::bytes::{Malformed, Reader, Writer};

/// CLSID under which the library loads to trace single methods, as the main profiler.
pub const CLSID_TRACE: (u32, u16, u16, [u8; 8]) =
    (0x7d0c_3f5e, 0x52a1, 0x4c8b, [0x9e, 0x21, 0x52, 0x45, 0x4d, 0x4f, 0x52, 0x41]);

/// CLSID under which it loads only to hand a request to an agent that is inert in the main slot. The runtime sees a notification-only
/// profiler that cancels its activation.
pub const CLSID_HANDOVER: (u32, u16, u16, [u8; 8]) =
    (0x7d0c_3f5e, 0x52a1, 0x4c8b, [0x9e, 0x22, 0x52, 0x45, 0x4d, 0x4f, 0x52, 0x41]);

/// `CORPROF_E_PROFILER_CANCEL_ACTIVATION`: how the runtime answers an attach whose request was handed over.
pub const HANDED_OVER: u32 = 0x8013_1375;

/// Name of the agent's threads.
pub const THREAD_NAME: &str = "remora-tracer";

/// Name of the memory by which a second library finds the inert agent: it begins with [`rendezvous::MAGIC`].
pub const RENDEZVOUS_NAME: &str = "remora-tracer";

/// The remark about a method that returns a task without being asynchronous.
pub const RETURNS_TASK: &str = "returns a task";

/// The shared memory: a header of words, a row of counters for each method and stripe, and the ring of records.
pub mod memory {
    /// The first word.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"RMRTRM\0\x01");
    /// Words before the rows.
    pub const HEADER_WORDS: usize = 64;
    /// Word index of [`MAGIC`].
    pub const WORD_MAGIC: usize = 0;
    /// Words on a cache line of their own, which the agent writes rarely and each probe reads: the session's number; 0 when nothing is
    /// traced.
    pub const SESSION: usize = 8;
    /// Calls that last at least this long become records, nanoseconds.
    pub const THRESHOLD: usize = 9;
    /// Records that may still be begun.
    pub const RECORDS_LEFT: usize = 16;
    /// Slow calls without a record, because the ring or the pool was full.
    pub const RECORDS_LOST: usize = 24;
    /// Records without a stack.
    pub const STACKS_FAILED: usize = 25;
    /// Names of callers that could not be sent.
    pub const NAMES_LOST: usize = 26;
    /// Methods for which the runtime reported ReJITError.
    pub const REJIT_ERRORS: usize = 27;
    /// Asynchronous calls whose end is not seen, because too many wait.
    pub const CALLS_LOST: usize = 28;
    /// What a call of a probe pair costs, as measured in the target at the start, picoseconds.
    pub const PROBE_COST: usize = 29;
    /// Time that walks of stacks took, nanoseconds: those of recorded calls, and those of asynchronous calls that began to wait.
    pub const STACK_TIME: usize = 30;

    /// Methods that a session can trace.
    pub const MOST_METHODS: usize = 512;
    /// Rows for one method: threads are spread over them, so that they do not wait for each other's cache lines.
    pub const STRIPES: usize = 4;
    /// Words of a row.
    pub const ROW_WORDS: usize = 160;
    /// Calls begun.
    pub const ENTERED: usize = 0;
    /// Calls ended.
    pub const LEFT: usize = 1;
    /// Calls ended by an exception.
    pub const THROWN: usize = 2;
    /// The sum of durations, nanoseconds.
    pub const TOTAL: usize = 3;
    /// The shortest duration, as its complement, so that zero means none.
    pub const SHORTEST_COMPLEMENT: usize = 4;
    /// The longest duration.
    pub const LONGEST: usize = 5;
    /// The first bucket.
    pub const BUCKETS: usize = 8;
    /// Buckets: four for each power of two, from 16 ns on.
    pub const BUCKET_COUNT: usize = ROW_WORDS - BUCKETS;

    /// Steps begun, of an asynchronous method.
    pub const STEPS: usize = 6;
    /// The sum of durations of its steps, nanoseconds.
    pub const RUNNING: usize = 7;

    /// Entries of the table of asynchronous calls that wait.
    pub const MOST_WAITING: usize = 1 << 16;
    /// Words of an entry.
    pub const ENTRY_WORDS: usize = 2;

    /// Words of the ring's data (4 MiB).
    pub const RING_WORDS: usize = 1 << 19;

    /// Words of all rows.
    pub const ROWS_WORDS: usize = MOST_METHODS * STRIPES * ROW_WORDS;

    /// The row of a method and stripe.
    pub const fn row(method: usize, stripe: usize) -> usize {
        HEADER_WORDS + (method % MOST_METHODS * STRIPES + stripe % STRIPES) * ROW_WORDS
    }

    /// The ring.
    pub fn ring(ring_header_words: usize) -> std::ops::Range<usize> {
        let begin = HEADER_WORDS + ROWS_WORDS;
        begin..begin + ring_header_words + RING_WORDS
    }

    /// The table of asynchronous calls that wait, behind the ring.
    pub fn waiting(ring_header_words: usize) -> std::ops::Range<usize> {
        let begin = ring(ring_header_words).end;
        begin..begin + MOST_WAITING * ENTRY_WORDS
    }

    /// Bytes of the whole.
    pub const fn size_in_bytes(ring_header_words: usize) -> usize {
        (HEADER_WORDS + ROWS_WORDS + ring_header_words + RING_WORDS + MOST_WAITING * ENTRY_WORDS) * 8
    }

    /// The bucket of a duration.
    pub const fn bucket(nanoseconds: u64) -> usize {
        if nanoseconds < 16 {
            return 0;
        }
        let octave = nanoseconds.ilog2() as usize;
        let quarter = (nanoseconds >> (octave - 2) & 3) as usize;
        let bucket = (octave - 4) * 4 + quarter;
        if bucket < BUCKET_COUNT { bucket } else { BUCKET_COUNT - 1 }
    }

    /// The shortest duration of a bucket other than the first, which begins at zero.
    pub const fn bucket_begin(bucket: usize) -> u64 {
        if bucket == 0 {
            return 0;
        }
        let (octave, quarter) = (bucket / 4 + 4, bucket % 4);
        (4 + quarter as u64) << (octave - 2)
    }
}

/// What to trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRequest {
    /// Patterns of full names, with `*` for any characters.
    pub patterns: Vec<String>,
    /// Calls that last at least this long become records, nanoseconds.
    pub slower_than: u64,
    /// Records to make at most.
    pub records: u64,
    /// Whether records have arguments and results.
    pub arguments: bool,
    /// Methods to name at most; more are only counted.
    pub most_methods: u32,
    /// Calls per second of all methods above which the agent restores them by itself.
    pub most_calls: u64,
    /// Methods of an assembly that is loaded during the trace: with more, none of it is traced.
    pub most_late: u32,
}

/// From the recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToTracer {
    /// The hello was accepted. The shared memory's descriptor comes with this message.
    Trace(TraceRequest),
    /// Put the probes in.
    Go,
    /// Take them out, and be inert.
    Stop,
    /// Change what is traced.
    Change(Change),
    /// From now on only calls that last at least so long become records, nanoseconds: the recorder has no room for others.
    SlowerThan(u64),
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The recorder asked for it.
    Asked,
    /// The methods were called more often than the request allows.
    TooManyCalls,
}

/// From the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromTracer {
    /// The first message.
    Hello {
        /// [`crate::VERSION`].
        version: u32,
        /// The nonce of the client data.
        nonce: [u8; 16],
    },
    /// A method that matches. It may also come later, for a module that was loaded meanwhile.
    Method {
        /// Its number in the shared memory; `None` if it cannot be traced.
        index: Option<u32>,
        /// Its full name.
        name: String,
        /// Why it cannot be traced, or what is special about it.
        remark: String,
        /// The number of the method whose asynchronous steps this one runs.
        steps_of: Option<u32>,
        /// Whether a call of it is all its asynchronous steps.
        is_async: bool,
        /// The texts of its parameters ([`Parameter`]), and of its result if that is an enum or a structure.
        parameters: Vec<String>,
    },
    /// All matching methods of the loaded modules were named. Sent again once those of a module that was loaded later are traced.
    Matched {
        /// How many can be traced.
        methods: u32,
        /// How many match in all.
        found: u32,
    },
    /// The probes are in.
    Started {
        /// Monotonic time, nanoseconds.
        time: u64,
    },
    /// The name of a function in the stack of a record.
    Name {
        /// The id in records.
        function: u64,
        /// Its full name.
        name: String,
    },
    /// The runtime could not compile a method with its probes.
    Failed {
        /// Its number.
        index: u32,
        /// The HRESULT.
        code: u32,
    },
    /// A call of the runtime failed; no method is changed.
    Refused {
        /// The call.
        call: String,
        /// The HRESULT.
        code: u32,
    },
    /// The methods are restored, and the agent is inert.
    Stopped {
        /// Why.
        why: Ended,
        /// The HRESULT of the restoration.
        code: u32,
    },
    /// A method was restored, or is traced again.
    Switched {
        /// Its number.
        index: u32,
        /// Whether it is traced now.
        is_traced: bool,
    },
    /// The effect of a [`ToTracer::Change`]. It follows the messages about single methods.
    Changed(Changed),
}

fn framed(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u32(0);
    write(&mut writer);
    let length = (writer.bytes.len() - 4) as u32;
    writer.bytes[..4].copy_from_slice(&length.to_le_bytes());
    writer.bytes
}

/// Patterns of a request, or parameters of a method.
const MOST_TEXTS: u32 = 256;

fn write_texts(texts: &[String], writer: &mut Writer) {
    let texts = &texts[..texts.len().min(MOST_TEXTS as usize)];
    writer.u32(texts.len() as u32);
    texts.iter().for_each(|text| _ = writer.text(text));
}

fn read_texts(reader: &mut Reader<'_>) -> Result<Vec<String>, Malformed> {
    (0..reader.at_most(MOST_TEXTS)?).map(|_| reader.text()).collect()
}

/// An optional number below [`u32::MAX`].
fn optional(number: u32) -> Option<u32> {
    (number != u32::MAX).then_some(number)
}

impl ToTracer {
    /// The frame, length included.
    pub fn encode(&self) -> Vec<u8> {
        framed(|writer| match self {
            ToTracer::Trace(request) => {
                writer.u8(1).u64(request.slower_than).u64(request.records).u8(request.arguments.into());
                writer.u32(request.most_methods).u64(request.most_calls).u32(request.most_late);
                write_texts(&request.patterns, writer);
            }
            ToTracer::Go => _ = writer.u8(2),
            ToTracer::Stop => _ = writer.u8(3),
            ToTracer::Change(change) => change.write(writer.u8(4)),
            ToTracer::SlowerThan(nanoseconds) => _ = writer.u8(5).u64(*nanoseconds),
        })
    }

    /// Reads a frame's body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: Foreign<&[u8]>) -> Result<ToTracer, Malformed> {
        let mut reader = Reader::new(body.unchecked());
        Ok(match reader.u8()? {
            1 => ToTracer::Trace(TraceRequest {
                slower_than: reader.u64()?,
                records: reader.u64()?,
                arguments: reader.u8()? != 0,
                most_methods: reader.u32()?.min(memory::MOST_METHODS as u32),
                most_calls: reader.u64()?,
                most_late: reader.u32()?,
                patterns: read_texts(&mut reader)?,
            }),
            2 => ToTracer::Go,
            3 => ToTracer::Stop,
            4 => ToTracer::Change(Change::read(&mut reader)?),
            5 => ToTracer::SlowerThan(reader.u64()?),
            _ => return Err(Malformed),
        })
    }
}

impl FromTracer {
    /// The frame, length included.
    pub fn encode(&self) -> Vec<u8> {
        framed(|writer| match self {
            FromTracer::Hello { version, nonce } => _ = writer.u8(1).u32(*version).bytes(nonce),
            FromTracer::Method { index, name, remark, steps_of, is_async, parameters } => {
                let none = u32::MAX;
                writer.u8(2).u32(index.unwrap_or(none)).text(name).text(remark).u32(steps_of.unwrap_or(none));
                writer.u8((*is_async).into());
                write_texts(parameters, writer);
            }
            FromTracer::Matched { methods, found } => _ = writer.u8(3).u32(*methods).u32(*found),
            FromTracer::Started { time } => _ = writer.u8(4).u64(*time),
            FromTracer::Name { function, name } => _ = writer.u8(5).u64(*function).text(name),
            FromTracer::Failed { index, code } => _ = writer.u8(6).u32(*index).u32(*code),
            FromTracer::Refused { call, code } => _ = writer.u8(7).text(call).u32(*code),
            FromTracer::Stopped { why, code } => {
                let why = match why {
                    Ended::Asked => 0,
                    Ended::TooManyCalls => 1,
                };
                writer.u8(8).u8(why).u32(*code);
            }
            FromTracer::Switched { index, is_traced } => _ = writer.u8(9).u32(*index).u8((*is_traced).into()),
            FromTracer::Changed(changed) => changed.write(writer.u8(10)),
        })
    }

    /// Reads a frame's body.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(body: Foreign<&[u8]>) -> Result<FromTracer, Malformed> {
        let mut reader = Reader::new(body.unchecked());
        let highest = memory::MOST_METHODS as u32 - 1;
        Ok(match reader.u8()? {
            1 => FromTracer::Hello { version: reader.u32()?, nonce: reader.array()? },
            2 => FromTracer::Method {
                index: optional(reader.u32()?).filter(|index| *index <= highest),
                name: reader.text()?,
                remark: reader.text()?,
                steps_of: optional(reader.u32()?).filter(|index| *index <= highest),
                is_async: reader.u8()? != 0,
                parameters: read_texts(&mut reader)?,
            },
            3 => FromTracer::Matched { methods: reader.u32()?, found: reader.u32()? },
            4 => FromTracer::Started { time: reader.u64()? },
            5 => FromTracer::Name { function: reader.u64()?, name: reader.text()? },
            6 => FromTracer::Failed { index: reader.at_most(highest)?, code: reader.u32()? },
            7 => FromTracer::Refused { call: reader.text()?, code: reader.u32()? },
            8 => FromTracer::Stopped {
                why: match reader.u8()? {
                    0 => Ended::Asked,
                    1 => Ended::TooManyCalls,
                    _ => return Err(Malformed),
                },
                code: reader.u32()?,
            },
            9 => FromTracer::Switched { index: reader.at_most(highest)?, is_traced: reader.u8()? != 0 },
            10 => FromTracer::Changed(Changed::read(&mut reader)?),
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_and_cut_ones_are_refused() {
        let request = TraceRequest {
            patterns: vec!["Shop.Orders.*".into(), "Main".into()],
            slower_than: 50_000_000,
            records: 100,
            arguments: true,
            most_methods: 100,
            most_calls: 1_000_000,
            most_late: 100,
        };
        for message in [ToTracer::Trace(request), ToTracer::Go, ToTracer::Stop, ToTracer::SlowerThan(7)] {
            let bytes = &message.encode()[4..];
            assert_eq!(ToTracer::decode(bytes.into()), Ok(message));
            (0..bytes.len()).for_each(|length| assert_eq!(ToTracer::decode(bytes[..length].into()), Err(Malformed)));
        }
        let method = |index, steps_of: Option<u32>| FromTracer::Method {
            index,
            name: "Shop.Orders.Pay".into(),
            remark: "no".into(),
            steps_of,
            is_async: steps_of.is_none(),
            parameters: vec!["order".into()],
        };
        for message in [
            FromTracer::Hello { version: 1, nonce: [3; 16] },
            method(Some(3), None),
            method(None, Some(4)),
            FromTracer::Matched { methods: 3, found: 4 },
            FromTracer::Started { time: 9 },
            FromTracer::Name { function: 7, name: "Main".into() },
            FromTracer::Failed { index: 1, code: 2 },
            FromTracer::Refused { call: "RequestReJIT".into(), code: 2 },
            FromTracer::Stopped { why: Ended::Asked, code: 0 },
            FromTracer::Stopped { why: Ended::TooManyCalls, code: 5 },
        ] {
            let bytes = &message.encode()[4..];
            assert_eq!(FromTracer::decode(bytes.into()), Ok(message));
            (0..bytes.len()).for_each(|length| assert_eq!(FromTracer::decode(bytes[..length].into()), Err(Malformed)));
        }
        let config = TraceConfig { nonce: [7; 16], socket_path: "/tmp/a".into() };
        assert_eq!(TraceConfig::decode(&config.encode()), Ok(config));
    }

    #[test]
    fn records_come_back_as_they_were() {
        let record = TraceRecord {
            method: 5,
            is_thrown: true,
            thread: 77,
            begin: 1 << 40,
            duration: 12,
            stack: vec![1, 2, 3],
            values: vec![
                (0, TraceValue::Bool(true)),
                (1, TraceValue::Char(65)),
                (2, TraceValue::Signed(-3)),
                (3, TraceValue::Unsigned(u64::MAX)),
                (4, TraceValue::Float(0.5)),
                (5, TraceValue::Text("order".into(), 5)),
                (RESULT, TraceValue::Null),
            ],
        };
        let bytes = record.encode();
        (0..bytes.len()).for_each(|length| assert_eq!(TraceRecord::decode(bytes[..length].into()), Err(Malformed)));
        assert_eq!(TraceRecord::decode(bytes.as_slice().into()), Ok(record));
    }

    #[test]
    fn each_duration_lies_in_its_bucket() {
        for nanoseconds in (0..70_000).chain((16..63).map(|power| 3 << (power - 1))) {
            let bucket = memory::bucket(nanoseconds);
            assert!(memory::bucket_begin(bucket) <= nanoseconds, "{nanoseconds} {bucket}");
            if bucket + 1 < memory::BUCKET_COUNT {
                assert!(nanoseconds < memory::bucket_begin(bucket + 1), "{nanoseconds} {bucket}");
            }
        }
    }
}
