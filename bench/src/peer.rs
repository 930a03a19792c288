//! The peer: the runtime's own sampler as `dotnet-trace collect` drives it, which keeps the stream and reads it later.

use crate::Outcome;
use remora_nettrace::{SampledProfile, providers};
use remora_profile::{Event, Meta, Profile};
use remora_trigger::{EventPipeConfig, EventPipeSession, Provider, Rundown, Stacks};
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What `dotnet-trace` asks for, MiB.
const BUFFER: u32 = 256;
/// How long the runtime may take to list its methods at the end.
const STOP_PATIENCE: Duration = Duration::from_secs(120);
/// Bytes read at once.
const PIECE: usize = 1 << 16;

/// A session under way.
pub struct Peer {
    session: EventPipeSession,
    stream: Vec<u8>,
    piece: Vec<u8>,
    ended: bool,
    asked: SystemTime,
}

/// What a session gave.
pub struct Recorded {
    stream: Vec<u8>,
    asked: SystemTime,
}

/// Records for this long: all samples of threads, in managed code and outside.
pub fn record(process_id: u32, duration: Duration) -> Outcome<Profile> {
    let mut peer = Peer::start(process_id)?;
    peer.run(duration)?;
    peer.end()?.profile()
}

impl Peer {
    /// Starts one.
    pub fn start(process_id: u32) -> Outcome<Peer> {
        let process = remora_trigger::find(process_id)?;
        let provider = |wanted: providers::Wanted| Provider {
            name: wanted.name.to_owned(),
            keywords: wanted.keywords,
            level: wanted.level,
            filter: String::new(),
        };
        let config = EventPipeConfig {
            buffer_mebibytes: BUFFER,
            rundown: Rundown::Default,
            stacks: Stacks::Walked,
            providers: providers::DOTNET_TRACE.into_iter().map(provider).collect(),
        };
        let asked = SystemTime::now();
        let session = EventPipeSession::start(&process, &config)?;
        Ok(Peer { session, stream: Vec::new(), piece: vec![0; PIECE], ended: false, asked })
    }

    /// Records for so long.
    pub fn run(&mut self, duration: Duration) -> Outcome<()> {
        let deadline = Instant::now() + duration;
        while Instant::now() < deadline {
            self.read(deadline)?;
            if self.ended {
                return Err("the target ended the stream".into());
            }
        }
        Ok(())
    }

    /// Stops it and reads the stream to its end.
    pub fn end(mut self) -> Outcome<Recorded> {
        self.session.stop(STOP_PATIENCE)?;
        let deadline = Instant::now() + STOP_PATIENCE;
        while !self.ended {
            self.read(deadline)?;
            if Instant::now() >= deadline {
                return Err("the runtime did not end its stream".into());
            }
        }
        self.session.finish(STOP_PATIENCE)?;
        Ok(Recorded { stream: self.stream, asked: self.asked })
    }

    fn read(&mut self, deadline: Instant) -> Outcome<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.session.wait_at_most(Some(left.max(Duration::from_millis(1))))?;
        match self.session.read(&mut self.piece) {
            Ok(0) => self.ended = true,
            Ok(count) => self.stream.extend_from_slice(&self.piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Recorded {
    /// What the stream says: all samples, of threads in managed code and outside.
    pub fn profile(&self) -> Outcome<Profile> {
        let mut sampled = SampledProfile::new(Event::Wall);
        sampled.push(&self.stream)?;
        Ok(sampled.finish(Meta::default()))
    }

    /// From the request to the first sample by the stream's own clock (whose beginning is known to a millisecond).
    pub fn first_sample(&self) -> Outcome<Option<Duration>> {
        let profile = self.profile()?;
        let asked = self.asked.duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        let first = profile.samples().iter().map(|sample| sample.time).min();
        Ok(first.map(|time| Duration::from_nanos((profile.meta.started_unix_nanoseconds + time).saturating_sub(asked))))
    }
}
