//! The peer: the runtime's own sampler, driven as by `dotnet-trace collect`, which stores the stream and reads it later.

use crate::Outcome;
use crate::event_pipe::Stream;
use remora_attach::Rundown;
use remora_nettrace::{SampledProfile, providers};
use remora_profile::{Event, Meta, Profile};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The buffer of `dotnet-trace`, MiB.
const BUFFER: u32 = 256;

/// A running session.
pub struct Peer {
    stream: Stream,
    kept: Vec<u8>,
    asked: SystemTime,
}

/// The result of a session.
pub struct Recorded {
    stream: Vec<u8>,
    asked: SystemTime,
}

/// Records for this long: all samples of threads, inside and outside of managed code.
pub fn record(process_id: u32, duration: Duration) -> Outcome<Profile> {
    let mut peer = Peer::start(process_id)?;
    peer.run(duration)?;
    peer.end()?.profile()
}

impl Peer {
    /// Starts a session.
    pub fn start(process_id: u32) -> Outcome<Peer> {
        let asked = SystemTime::now();
        let stream = Stream::start(process_id, BUFFER, &providers::DOTNET_TRACE, Rundown::Default)?;
        Ok(Peer { stream, kept: Vec::new(), asked })
    }

    /// Records for `duration`.
    pub fn run(&mut self, duration: Duration) -> Outcome<()> {
        let deadline = Instant::now() + duration;
        while Instant::now() < deadline {
            let bytes = self.stream.read_on(deadline.saturating_duration_since(Instant::now()))?;
            self.kept.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Stops it and reads the stream to its end.
    pub fn end(mut self) -> Outcome<Recorded> {
        self.stream.end(|bytes| self.kept.extend_from_slice(bytes))?;
        Ok(Recorded { stream: self.kept, asked: self.asked })
    }
}

impl Recorded {
    /// Decodes the stream: all samples of threads, inside and outside of managed code.
    pub fn profile(&self) -> Outcome<Profile> {
        let mut sampled = SampledProfile::new(Event::Wall);
        sampled.push((&self.stream).into())?;
        Ok(sampled.finish(Meta::default()))
    }

    /// From the request to the first sample, by the stream's own clock (whose start is known to a millisecond).
    pub fn first_sample(&self) -> Outcome<Option<Duration>> {
        let profile = self.profile()?;
        let asked = self.asked.duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        let first = profile.samples().iter().map(|sample| sample.time).min();
        Ok(first.map(|time| Duration::from_nanos((profile.meta.started_unix_nanoseconds + time).saturating_sub(asked))))
    }
}
