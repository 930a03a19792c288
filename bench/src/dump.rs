//! The peer of a heap snapshot: the runtime's own heap dump, asked for as `dotnet-gcdump collect` does.
//!
//! That is (EventPipeDotNetHeapDumper.cs of dotnet-gcdump, in dotnet/diagnostics): a session of the sampler that ends
//! with its first event, so that the runtime tells all types anew; the dump, ended when the collection is told to have ended; and its
//! rundown. Each has a clock of its own here: a bar is held beside the dump alone, to the heap's last byte. What the tool itself needs on
//! top, its start, a wait of up to 100 ms before it stops the session, the graph and its file, is nobody's time here.

use crate::Outcome;
use remora_nettrace::{Event, Parser, Sink, Trace};
use remora_trigger::{EventPipeConfig, EventPipeSession, Process, Provider, Rundown, Stacks};
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// Collections, types, and the heap with its roots: `GCHeapSnapshot`.
const HEAP: (&str, u64, u32) = ("Microsoft-Windows-DotNETRuntime", 0x198_0001, 5);
/// What makes the runtime forget which types it has told: all keywords that a provider has by default.
const SAMPLER: (&str, u64, u32) = (remora_nettrace::providers::SAMPLER, 0xf000_0000_0000, 4);
/// MiB, as it does.
const BUFFER: u32 = 1024;
/// The heap has come when this much of it has, and then nothing for so long.
const BEGUN: u64 = 1 << 20;
const SILENCE: Duration = Duration::from_secs(1);
/// How long a dump may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a dump took.
#[derive(Debug, Clone, Copy)]
pub struct Dump {
    /// From the request to the heap's last byte, seconds.
    pub seconds: f64,
    /// What the tool does before: types, seconds.
    pub types: f64,
    /// And behind: from the wish to end to the stream's last byte, seconds.
    pub rundown: f64,
    /// Bytes of the stream, rundown not included.
    pub bytes: u64,
}

impl Dump {
    /// All that the tool waits for, seconds.
    pub fn as_the_tool(&self) -> f64 {
        self.types + self.seconds + self.rundown
    }
}

/// Takes one, and keeps nothing of it: what makes a file of it comes on top of its time.
pub fn dump(process_id: u32) -> Outcome<Dump> {
    let process = remora_trigger::find(process_id)?;
    let types = have_types_told(&process)?;
    let begun = Instant::now();
    let mut session = start(&process, HEAP, Rundown::Default)?;
    let (mut bytes, mut last) = (0, Instant::now());
    let mut piece = vec![0; 1 << 20];
    while bytes < BEGUN || last.elapsed() < SILENCE {
        let count = read(&mut session, &mut piece, begun)?;
        if count > 0 {
            (bytes, last) = (bytes + count as u64, Instant::now());
        }
    }
    let asked = Instant::now();
    end(session, &mut piece)?;
    let rundown = asked.elapsed().as_secs_f64();
    Ok(Dump { seconds: (last - begun).as_secs_f64(), types, rundown, bytes })
}

/// The session before the dump; how long it took, seconds.
fn have_types_told(process: &Process) -> Outcome<f64> {
    let begun = Instant::now();
    let mut session = start(process, SAMPLER, Rundown::None)?;
    let (mut parser, mut seen) = (Parser::new(), Seen(false));
    let mut piece = vec![0; 1 << 16];
    while !seen.0 {
        let count = read(&mut session, &mut piece, begun)?;
        parser.push(&piece[..count], &mut seen)?;
    }
    end(session, &mut piece)?;
    Ok(begun.elapsed().as_secs_f64())
}

fn start(process: &Process, what: (&str, u64, u32), rundown: Rundown) -> Outcome<EventPipeSession> {
    let (name, keywords, level) = what;
    let provider = Provider { name: name.to_owned(), keywords, level, filter: String::new() };
    let config =
        EventPipeConfig { buffer_mebibytes: BUFFER, rundown, stacks: Stacks::Walked, providers: vec![provider] };
    Ok(EventPipeSession::start(process, &config)?)
}

/// How many bytes have come; none, if nothing does for a while.
fn read(session: &mut EventPipeSession, piece: &mut [u8], begun: Instant) -> Outcome<usize> {
    if begun.elapsed() > PATIENCE {
        return Err("the runtime's heap dump did not end".into());
    }
    session.wait_at_most(Some(SILENCE / 10))?;
    match session.read(piece) {
        Ok(0) => Err("the target ended the stream".into()),
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Ends a session, and reads its stream to the end.
fn end(mut session: EventPipeSession, piece: &mut [u8]) -> Outcome<()> {
    session.stop(PATIENCE)?;
    session.wait_at_most(Some(PATIENCE))?;
    while session.read(piece)? > 0 {}
    Ok(session.finish(PATIENCE)?)
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
