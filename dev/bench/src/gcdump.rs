//! The peer of a heap snapshot: the runtime's own heap dump, requested as `dotnet-gcdump collect` does.
//!
//! That tool (EventPipeDotNetHeapDumper.cs of dotnet-gcdump, in dotnet/diagnostics) has three steps:
//! - A session of the sampler that ends with its first event, so that the runtime sends all types again.
//! - The dump, which ends at the event of the GC's end.
//! - The dump's rundown.
//!
//! Each step is timed separately. A bar is compared with the dump alone, up to the heap's last byte. The tool's further costs are not
//! measured: its start, the graph, its file, and a wait of up to 100 ms before it stops the session.

use crate::Outcome;
use crate::event_pipe::Stream;
use remora_attach::Rundown;
use remora_nettrace::providers::{self, Wanted};
use remora_nettrace::{Event, Parser, Sink, Trace};
use std::time::{Duration, Instant};

/// GCs, types, and the heap with its roots: `GCHeapSnapshot`.
const HEAP: Wanted = Wanted { name: "Microsoft-Windows-DotNETRuntime", keywords: 0x198_0001, level: 5 };
/// Makes the runtime send all types again: all default keywords of a provider.
const SAMPLER: Wanted = Wanted { name: providers::SAMPLER, keywords: 0xf000_0000_0000, level: 4 };
/// MiB, as in the tool.
const BUFFER: u32 = 1024;
/// The heap is complete when this much has arrived, followed by such a silence.
const BEGUN: u64 = 1 << 20;
const SILENCE: Duration = Duration::from_secs(1);
/// Timeout for a dump.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The cost of a dump.
#[derive(Debug, Clone, Copy)]
pub struct Dump {
    /// From the request to the heap's last byte, seconds.
    pub seconds: f64,
    /// The tool's step before: types, seconds.
    pub types: f64,
    /// The step after: from the stop request to the stream's last byte, seconds.
    pub rundown: f64,
    /// Bytes of the stream, without the rundown.
    pub bytes: u64,
}

impl Dump {
    /// The tool's total wait, seconds.
    pub fn as_the_tool(&self) -> f64 {
        self.types + self.seconds + self.rundown
    }
}

/// Takes a dump and drops the data: making a file of it would add to its time.
pub fn dump(process_id: u32) -> Outcome<Dump> {
    let types = types_sent_again(process_id)?;
    let begun = Instant::now();
    let mut stream = Stream::start(process_id, BUFFER, &[HEAP], Rundown::Default)?;
    let (mut bytes, mut last) = (0, Instant::now());
    while bytes < BEGUN || last.elapsed() < SILENCE {
        if begun.elapsed() > TIMEOUT {
            return Err("the runtime's heap dump did not end".into());
        }
        let count = stream.read_on(SILENCE / 10)?.len();
        if count > 0 {
            (bytes, last) = (bytes + count as u64, Instant::now());
        }
    }
    let asked = Instant::now();
    stream.end(|_| ())?;
    Ok(Dump { seconds: (last - begun).as_secs_f64(), types, rundown: asked.elapsed().as_secs_f64(), bytes })
}

/// Runs the session before the dump; returns its duration, seconds.
fn types_sent_again(process_id: u32) -> Outcome<f64> {
    let begun = Instant::now();
    let mut stream = Stream::start(process_id, BUFFER, &[SAMPLER], Rundown::None)?;
    let (mut parser, mut seen) = (Parser::new(), Seen(false));
    while !seen.0 {
        if begun.elapsed() > TIMEOUT {
            return Err("the runtime sent no event".into());
        }
        parser.push(stream.read_on(SILENCE / 10)?.into(), &mut seen)?;
    }
    stream.end(|_| ())?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Whether there was an event.
struct Seen(bool);

impl Sink for Seen {
    fn trace(&mut self, _: &Trace) {}

    fn event(&mut self, _: &Event<'_>) {
        self.0 = true;
    }

    fn dropped(&mut self, _: u64, _: u64) {}
}
