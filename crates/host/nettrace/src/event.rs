//! The items of a stream.

/// The stream's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Wall-clock time of the session's start, nanoseconds since 1970-01-01 UTC; 0 if the stream's date is invalid.
    pub started_unix_nanoseconds: u64,
    /// Process id in the target's own namespace.
    pub process_id: u32,
    /// Bytes of an address: 4 or 8.
    pub pointer_size: u32,
    /// Processors of the machine.
    pub processors: u32,
    /// Requested nanoseconds between samples.
    pub sampling_interval: u32,
}

/// A type of event; the runtime declares it before the first event of this type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventType {
    /// Its provider: `Microsoft-Windows-DotNETRuntime`.
    pub provider: String,
    /// Its id in the provider.
    pub id: u32,
    /// Its name; the runtime's own events have none.
    pub name: String,
    /// Version of its payload.
    pub version: u32,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its type.
    pub event_type: &'a EventType,
    /// Nanoseconds since the session's start.
    pub time: u64,
    /// The thread it belongs to, in the target's numbering.
    pub thread: u64,
    /// The thread that wrote it (for a sample: the sampler's).
    pub written_by: u64,
    /// Its stack, leaf first; empty if it has none.
    pub stack: &'a [u64],
    /// Its payload.
    pub payload: &'a [u8],
}

/// Receives events.
pub trait Sink {
    /// The stream has begun. Called once, before everything else.
    fn trace(&mut self, trace: &Trace);
    /// An event. Events of one thread arrive in order; those of different threads may not, because of the runtime's buffers.
    fn event(&mut self, event: &Event<'_>);
    /// The runtime dropped `count` events that thread `written_by` would have written.
    fn dropped(&mut self, written_by: u64, count: u64);
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// The stream has no end mark: the target ended, or the file was cut.
    pub truncated: bool,
    /// Events passed to the sink.
    pub events: u64,
    /// Events the runtime dropped.
    pub dropped: u64,
    /// Events without declared type or with a missing stack: passed without the stack, or not at all.
    pub incomplete: u64,
}
