//! A place in the target where a test can act: one connection, one thread, one moment.
//!
//! The first line describes the seat: its name, the thread, and the id of its subject. Then each line is answered by one line: the
//! HRESULT as `0x` and eight digits, and further words.

use crate::open_metadata::Open;
use crate::own_thread::this_thread;
use crate::shared::Shared;
use corprof::{Enumeration, JittedFunction, ModuleId};
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A started enumeration that is read later.
pub enum Snapshot<'a> {
    /// Of modules.
    Modules(Box<Enumeration<'a, ModuleId>>),
    /// Of compiled functions.
    Functions(Box<Enumeration<'a, JittedFunction>>),
}

/// A connection with the test.
pub struct Seat<'a> {
    /// The probe's shared state.
    pub shared: &'a Arc<Shared>,
    /// The client data, if the seat is in `InitializeForAttach`.
    pub data: &'a [u8],
    /// A started enumeration.
    pub snapshot: Option<Snapshot<'a>>,
    /// Metadata that is kept, also beyond the detach.
    pub metadata: Option<Open>,
    /// Whether the probe detaches when the other end of this connection closes.
    pub is_devoted: bool,
    /// The connection; none if the test does not listen.
    pub stream: Option<BufReader<UnixStream>>,
}

impl<'a> Seat<'a> {
    /// Connects and sends the seat's description.
    pub fn take(shared: &'a Arc<Shared>, place: &str, data: &'a [u8]) -> Seat<'a> {
        let stream = shared.socket.get().and_then(|path| UnixStream::connect(path).ok());
        let stream = stream.and_then(|mut stream| {
            writeln!(stream, "{place} {} {}", this_thread(), digest(data)).ok()?;
            Some(BufReader::new(stream))
        });
        Seat { shared, data, snapshot: None, metadata: None, is_devoted: false, stream }
    }

    /// Sends the seat's description and disconnects.
    pub fn pass_by(shared: &'a Arc<Shared>, place: &str) {
        drop(Seat::take(shared, place, &[]));
    }
}

/// Length and FNV-1a hash, which a test also computes.
pub fn digest(data: &[u8]) -> String {
    let hash = data
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
    format!("{}:{hash:016x}", data.len())
}
