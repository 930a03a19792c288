//! A place in the target from which a test can act: one connection, one thread, one moment.
//!
//! The first line says where the seat is: its name, the thread, and the id of what it is about. Then one line is answered by one line:
//! the HRESULT as `0x` and eight digits, and words that belong to it.

use crate::orders::{self, Snapshot};
use crate::own_thread::this_thread;
use crate::profiler::Shared;
use corprof::HResult;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A connection with the test.
pub struct Seat<'a> {
    /// What all of the probe shares.
    pub shared: &'a Arc<Shared>,
    /// The client data, where the seat is in `InitializeForAttach`.
    pub data: &'a [u8],
    /// An enumeration that was begun.
    pub snapshot: Option<Snapshot<'a>>,
    /// Whether the probe is to leave when nobody holds the other end of this connection any more.
    pub is_devoted: bool,
    stream: Option<BufReader<UnixStream>>,
}

impl<'a> Seat<'a> {
    /// Connects and says where the seat is.
    pub fn take(shared: &'a Arc<Shared>, place: &str, data: &'a [u8]) -> Seat<'a> {
        let stream = shared.socket.get().and_then(|path| UnixStream::connect(path).ok());
        let stream = stream.and_then(|mut stream| {
            writeln!(stream, "{place} {} {}", this_thread(), digest(data)).ok()?;
            Some(BufReader::new(stream))
        });
        Seat { shared, data, snapshot: None, is_devoted: false, stream }
    }

    /// Says where the seat is and leaves at once.
    pub fn pass_by(shared: &'a Arc<Shared>, place: &str) {
        drop(Seat::take(shared, place, &[]));
    }

    /// Obeys until it is told to return, or until the test is gone; the code to return with.
    pub fn prompt(mut self) -> HResult {
        // Whatever the callback does is a success if nobody is there to say otherwise.
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

/// How many bytes, and what they are: FNV-1a, which a test computes as well.
pub fn digest(data: &[u8]) -> String {
    let hash = data
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
    format!("{}:{hash:016x}", data.len())
}
