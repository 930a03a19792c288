//! A place in the target where a test can act: one connection, one thread, one moment.
//!
//! The first line describes the seat: its name, the thread, and the id of its subject. Then each line is answered by one line: the
//! HRESULT as `0x` and eight digits, and further words.

use crate::orders::{self, Snapshot};
use crate::own_thread::this_thread;
use crate::profiler::Shared;
use corprof::HResult;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A connection with the test.
pub struct Seat<'a> {
    /// The probe's shared state.
    pub shared: &'a Arc<Shared>,
    /// The client data, if the seat is in `InitializeForAttach`.
    pub data: &'a [u8],
    /// A started enumeration.
    pub snapshot: Option<Snapshot<'a>>,
    /// Whether the probe detaches when the other end of this connection closes.
    pub is_devoted: bool,
    stream: Option<BufReader<UnixStream>>,
}

impl<'a> Seat<'a> {
    /// Connects and sends the seat's description.
    pub fn take(shared: &'a Arc<Shared>, place: &str, data: &'a [u8]) -> Seat<'a> {
        let stream = shared.socket.get().and_then(|path| UnixStream::connect(path).ok());
        let stream = stream.and_then(|mut stream| {
            writeln!(stream, "{place} {} {}", this_thread(), digest(data)).ok()?;
            Some(BufReader::new(stream))
        });
        Seat { shared, data, snapshot: None, is_devoted: false, stream }
    }

    /// Sends the seat's description and disconnects.
    pub fn pass_by(shared: &'a Arc<Shared>, place: &str) {
        drop(Seat::take(shared, place, &[]));
    }

    /// Executes orders until told to return, or until the test disconnects; returns the code.
    pub fn prompt(mut self) -> HResult {
        // Without a connection the callback succeeds.
        let Some(mut stream) = self.stream.take() else { return HResult::S_OK };
        let mut line = String::new();
        while let Ok(1..) = stream.read_line(&mut line) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["return", code] = words[..] {
                return HResult(orders::number(code) as i32);
            }
            let answer = orders::obey(&mut self, &words);
            if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                break;
            }
            line.clear();
        }
        if self.is_devoted {
            orders::leave(self.shared);
        }
        HResult::S_OK
    }
}

/// Length and FNV-1a hash, which a test also computes.
pub fn digest(data: &[u8]) -> String {
    let hash = data
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
    format!("{}:{hash:016x}", data.len())
}
