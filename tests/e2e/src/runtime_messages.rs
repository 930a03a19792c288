//! The runtime's own messages about profilers: the texts of its `ProfilerMessage` events, from a session over the diagnostics port.

use crate::{TIMEOUT, diagnostics, until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
/// The keyword of `ProfilerMessage` in the runtime's manifest (ClrEtwAll.man).
const PROFILER_KEYWORD: u64 = 0x200_0000_0000;
const INFORMATIONAL: u32 = 4;
const TRACING_SET: u8 = 2;
const STOP: u8 = 1;
const COLLECT_2: u8 = 3;
const HEADER_LENGTH: usize = 20;
/// Shorter runs of letters are no messages.
const SHORTEST_TEXT: usize = 16;

/// A listening session.
pub struct RuntimeMessages {
    pid: u32,
    session: [u8; 8],
    received: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<std::io::Result<()>>,
}

impl RuntimeMessages {
    /// Starts to listen.
    pub fn of(pid: u32) -> RuntimeMessages {
        let begun = begin(pid);
        let (stream, session) = begun.unwrap_or_else(|error| panic!("cannot listen to {pid}: {error}"));
        let received = Arc::default();
        let all = Arc::clone(&received);
        let reader = std::thread::spawn(move || read_all(stream, &all));
        RuntimeMessages { pid, session, received, reader }
    }

    /// The numbers of the messages so far, in order: `[0x2514].`
    pub fn ids(&self) -> Vec<String> {
        message_ids(&texts(&self.received.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits for `count` messages; returns their numbers.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<String> {
        until(&format!("the runtime has written {count} messages"), || self.ids().len() >= count);
        self.ids()
    }

    /// Ends the session; returns the texts, in order.
    pub fn texts(self) -> Vec<String> {
        if let Err(code) = diagnostics::command(self.pid, TRACING_SET, STOP, &self.session) {
            panic!("the session does not stop: {code:#x}");
        }
        let read = self.reader.join().unwrap_or_else(|_| panic!("the session's reader broke off"));
        read.unwrap_or_else(|error| panic!("the session broke off: {error}"));
        texts(&self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The number at the end of each message about profilers.
pub fn message_ids(texts: &[String]) -> Vec<String> {
    texts.iter().filter_map(|text| text.split("Message ID: ").nth(1)).map(str::to_owned).collect()
}

fn read_all(mut stream: UnixStream, all: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => all.lock().unwrap_or_else(PoisonError::into_inner).extend(&bytes[..count]),
        }
    }
}

fn begin(pid: u32) -> std::io::Result<(UnixStream, [u8; 8])> {
    let mut payload = Vec::new();
    // Megabytes of buffer, the format of .NET Core 3 and later, no rundown, one provider.
    payload.extend(16_u32.to_le_bytes());
    payload.extend(1_u32.to_le_bytes());
    payload.push(0);
    payload.extend(1_u32.to_le_bytes());
    payload.extend(PROFILER_KEYWORD.to_le_bytes());
    payload.extend(INFORMATIONAL.to_le_bytes());
    payload.extend((PROVIDER.len() as u32 + 1).to_le_bytes());
    payload.extend(PROVIDER.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    // No filter.
    payload.extend(0_u32.to_le_bytes());
    let mut stream = UnixStream::connect(diagnostics::socket_of(pid))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut message = b"DOTNET_IPC_V1\0".to_vec();
    message.extend(((HEADER_LENGTH + payload.len()) as u16).to_le_bytes());
    message.extend([TRACING_SET, COLLECT_2, 0, 0]);
    message.extend(payload);
    stream.write_all(&message)?;
    let mut answer = [0; HEADER_LENGTH + 8];
    stream.read_exact(&mut answer)?;
    let mut session = [0; 8];
    session.copy_from_slice(&answer[HEADER_LENGTH..]);
    Ok((stream, session))
}

/// Every longer run of ASCII letters in UTF-16, at any offset.
fn texts(stream: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let run: String = stream[at..]
            .chunks_exact(2)
            .take_while(|unit| unit[1] == 0 && (0x20..0x7F).contains(&unit[0]))
            .map(|unit| char::from(unit[0]))
            .collect();
        at += if run.len() < SHORTEST_TEXT { 1 } else { 2 * run.len() };
        if run.len() >= SHORTEST_TEXT {
            found.push(run);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_wherever_they_begin() {
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let mut stream = vec![1, 2, 3];
        stream.extend(wide("The profiler was loaded."));
        stream.extend([0, 0, 9]);
        stream.extend(wide("too short"));
        stream.extend([0, 0]);
        stream.extend(wide("The profiler has gone."));
        assert_eq!(texts(&stream), ["The profiler was loaded.", "The profiler has gone."]);
    }
}
