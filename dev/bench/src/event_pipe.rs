//! A session of the runtime's event stream, requested as the .NET tools do.

use crate::Outcome;
use remora_attach::{EventPipeConfig, EventPipeSession, Provider, Rundown, Stacks};
use remora_nettrace::providers::Wanted;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// Timeout for the end of a stream: the runtime lists its methods before that.
const END_TIMEOUT: Duration = Duration::from_secs(300);

/// A running session.
pub struct Stream {
    session: EventPipeSession,
    piece: Vec<u8>,
}

impl Stream {
    /// Starts a session with these providers.
    pub fn start(process_id: u32, mebibytes: u32, providers: &[Wanted], rundown: Rundown) -> Outcome<Stream> {
        let provider = |wanted: &Wanted| Provider {
            name: wanted.name.to_owned(),
            keywords: wanted.keywords,
            level: wanted.level,
            filter: String::new(),
        };
        let providers = providers.iter().map(provider).collect();
        let config = EventPipeConfig { buffer_mebibytes: mebibytes, rundown, stacks: Stacks::Walked, providers };
        let session = EventPipeSession::start(&remora_attach::find(process_id)?, &config)?;
        Ok(Stream { session, piece: vec![0; PIECE] })
    }

    /// New data: empty if none arrives in this time, `None` at the end of the stream.
    pub fn read(&mut self, at_most: Duration) -> Outcome<Option<&[u8]>> {
        self.session.wait_at_most(Some(at_most.max(Duration::from_millis(1))))?;
        match self.session.read(&mut self.piece) {
            Ok(0) => Ok(None),
            Ok(count) => Ok(Some(&self.piece[..count])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(Some(&[])),
            Err(error) => Err(error.into()),
        }
    }

    /// The same, but the end of the stream is a failure.
    pub fn read_on(&mut self, at_most: Duration) -> Outcome<&[u8]> {
        Ok(self.read(at_most)?.ok_or("the target ended the stream")?)
    }

    /// Stops the session and reads its stream to the end.
    pub fn end(mut self, mut keep: impl FnMut(&[u8])) -> Outcome<()> {
        self.session.stop(END_TIMEOUT)?;
        let deadline = Instant::now() + END_TIMEOUT;
        while let Some(bytes) = self.read(deadline.saturating_duration_since(Instant::now()))? {
            keep(bytes);
            if Instant::now() >= deadline {
                return Err("the runtime did not end its stream".into());
            }
        }
        Ok(self.session.finish(END_TIMEOUT)?)
    }
}
