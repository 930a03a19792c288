//! The peer of a heap snapshot: the runtime's own heap dump, asked for as `dotnet-gcdump collect` does.

use crate::Outcome;
use remora_trigger::{EventPipeConfig, EventPipeSession, Provider, Rundown, Stacks};
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// What `dotnet-gcdump` asks for: collections, types, and the heap with its roots (dotnet/diagnostics, `EventPipeDotNetHeapDumper`).
const PROVIDER: (&str, u64, u32) = ("Microsoft-Windows-DotNETRuntime", 0x198_0001, 5);
/// MiB, as it does.
const BUFFER: u32 = 1024;
/// The stream has ended when this much of it has come, and then nothing for so long.
const BEGUN: u64 = 1 << 20;
const SILENCE: Duration = Duration::from_secs(1);
/// How long a dump may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a dump took.
#[derive(Debug, Clone, Copy)]
pub struct Dump {
    /// From the request to the last byte, seconds.
    pub seconds: f64,
    /// Bytes of the stream.
    pub bytes: u64,
}

/// Takes one, and keeps nothing of it: what makes a file of it comes on top of its time.
pub fn dump(process_id: u32) -> Outcome<Dump> {
    let process = remora_trigger::find(process_id)?;
    let (name, keywords, level) = PROVIDER;
    let provider = Provider { name: name.to_owned(), keywords, level, filter: String::new() };
    let config = EventPipeConfig {
        buffer_mebibytes: BUFFER,
        rundown: Rundown::None,
        stacks: Stacks::Walked,
        providers: vec![provider],
    };
    let begun = Instant::now();
    let mut session = EventPipeSession::start(&process, &config)?;
    let (mut bytes, mut last) = (0, Instant::now());
    let mut piece = vec![0; 1 << 20];
    while bytes < BEGUN || last.elapsed() < SILENCE {
        if begun.elapsed() > PATIENCE {
            return Err("the runtime's heap dump did not end".into());
        }
        session.wait_at_most(Some(SILENCE / 10))?;
        match session.read(&mut piece) {
            Ok(0) => return Err("the target ended the stream".into()),
            Ok(count) => (bytes, last) = (bytes + count as u64, Instant::now()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
    }
    session.stop()?;
    while session.read(&mut piece).is_ok_and(|count| count > 0) {
        session.wait_at_most(Some(SILENCE))?;
    }
    session.finish()?;
    Ok(Dump { seconds: (last - begun).as_secs_f64(), bytes })
}
