//! What comes out of a stream.

/// What the stream says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Wall-clock time of the session's start, nanoseconds since 1970-01-01 UTC; 0 if the stream's date makes no sense.
    pub started_unix_nanoseconds: u64,
    /// Process id, as the target numbers itself.
    pub process_id: u32,
    /// Bytes of an address: 4 or 8.
    pub pointer_size: u32,
    /// Processors of the machine.
    pub processors: u32,
    /// Nanoseconds between samples that were asked for.
    pub sampling_interval: u32,
}

/// What kind of event one is, as the runtime declares it before the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventType {
    /// Its provider: `Microsoft-Windows-DotNETRuntime`.
    pub provider: String,
    /// Its number there.
    pub id: u32,
    /// Its name; the runtime's own events have none.
    pub name: String,
    /// Version of its layout.
    pub version: u32,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What kind.
    pub event_type: &'a EventType,
    /// Nanoseconds since the session's start.
    pub time: u64,
    /// The thread that it is about, as the target numbers it.
    pub thread: u64,
    /// The thread that wrote it (for a sample: the sampler's).
    pub written_by: u64,
    /// Its stack, leaf first; empty if it has none.
    pub stack: &'a [u64],
    /// Its content.
    pub payload: &'a [u8],
}

/// Who takes the events.
pub trait Sink {
    /// The stream has begun. Comes once, before everything else.
    fn trace(&mut self, trace: &Trace);
    /// An event. Those of one thread come in order; those of different threads may be out of order by the runtime's buffers.
    fn event(&mut self, event: &Event<'_>);
    /// The runtime dropped `count` events that thread `written_by` would have written.
    fn dropped(&mut self, written_by: u64, count: u64);
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// It did not end as a stream ends: the target went away, or the file was cut.
    pub truncated: bool,
    /// Events handed out.
    pub events: u64,
    /// Events that the runtime dropped.
    pub dropped: u64,
    /// Events whose kind was never declared or whose stack is missing: handed out without it, or not at all.
    pub incomplete: u64,
}
