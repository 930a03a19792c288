//! A minimal client of the runtime's diagnostics port, for requests of tests other than Remora's.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
const HEADER_LENGTH: usize = 20;
/// The answer to a command that failed.
const ERROR_ID: u8 = 0xFF;

/// The diagnostics socket of a process that uses `/tmp`.
pub fn socket_of(pid: u32) -> PathBuf {
    found_socket_of(pid).unwrap_or_else(|| panic!("process {pid} has no diagnostics socket"))
}

/// The same, `None` if there is none or nobody listens on it.
pub fn found_socket_of(pid: u32) -> Option<PathBuf> {
    let prefix = format!("dotnet-diagnostic-{pid}-");
    let entries =
        std::fs::read_dir(std::env::temp_dir()).unwrap_or_else(|error| panic!("cannot list sockets: {error}"));
    let found = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&prefix) && name.ends_with("-socket") && UnixStream::connect(path).is_ok()
    });
    found.last()
}

/// Sends one command; returns its payload, or the HRESULT of its failure.
pub fn command(pid: u32, set: u8, id: u8, payload: &[u8]) -> Result<Vec<u8>, u32> {
    answered(pid, &message(set, id, payload), || ())
}

/// The same, but returns only after the runtime has closed its end. For commands with a single answer.
pub fn command_until_closed(pid: u32, set: u8, id: u8, payload: &[u8]) -> Result<Vec<u8>, u32> {
    let (mut stream, answer) = exchange(pid, &message(set, id, payload), || ())
        .unwrap_or_else(|error| panic!("the diagnostics port of {pid} broke off: {error}"));
    let rest = stream.read(&mut [0]);
    assert!(matches!(rest, Ok(0)), "more than an answer, or no end: {rest:?}");
    answer
}

/// The same for a whole message; calls `sent` before it waits for the answer.
fn answered(pid: u32, message: &[u8], sent: impl FnOnce()) -> Result<Vec<u8>, u32> {
    let answer = exchange(pid, message, sent);
    answer.unwrap_or_else(|error| panic!("the diagnostics port of {pid} broke off: {error}")).1
}

/// The connection, and the answer on it.
type Answered = (UnixStream, Result<Vec<u8>, u32>);

fn exchange(pid: u32, message: &[u8], sent: impl FnOnce()) -> std::io::Result<Answered> {
    let mut stream = UnixStream::connect(socket_of(pid))?;
    stream.set_read_timeout(Some(crate::TIMEOUT))?;
    stream.write_all(message)?;
    sent();
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header)?;
    let length = usize::from(u16::from_le_bytes([header[14], header[15]])).saturating_sub(HEADER_LENGTH);
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    let answer = match (header[17], answer.get(..4)) {
        (ERROR_ID, Some(code)) => Err(u32::from_le_bytes([code[0], code[1], code[2], code[3]])),
        _ => Ok(answer),
    };
    Ok((stream, answer))
}

/// An attach request.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The profiler's class.
    pub class: [u8; 16],
    /// Its library, as the target sees it.
    pub library: String,
    /// The client data for the profiler.
    pub data: Vec<u8>,
    /// The request's timeout.
    pub time_out: Duration,
}

impl Wish {
    /// A request with a timeout that no test reaches.
    pub fn of(class: &[u8; 16], library: &str, data: &[u8]) -> Wish {
        Wish { class: *class, library: library.to_owned(), data: data.to_vec(), time_out: crate::TIMEOUT }
    }

    fn message(&self) -> Vec<u8> {
        let path: Vec<u16> = self.library.encode_utf16().chain([0]).collect();
        let mut payload = (self.time_out.as_millis() as u32).to_le_bytes().to_vec();
        payload.extend(self.class);
        payload.extend((path.len() as u32).to_le_bytes());
        payload.extend(path.iter().flat_map(|unit| unit.to_le_bytes()));
        payload.extend((self.data.len() as u32).to_le_bytes());
        payload.extend(&self.data);
        message(PROFILER_SET, ATTACH, &payload)
    }
}

/// Asks the runtime to attach a profiler: class `clsid` of `library`, with client data `data`.
pub fn attach_profiler(pid: u32, clsid: &[u8; 16], library: &str, data: &[u8]) -> Result<(), u32> {
    attach_profiler_and_tell(pid, &Wish::of(clsid, library, data), || ())
}

/// The same; calls `sent` before it waits for the answer.
pub fn attach_profiler_and_tell(pid: u32, wish: &Wish, sent: impl FnOnce()) -> Result<(), u32> {
    answered(pid, &wish.message(), sent).map(drop)
}

/// Sends the request, and disconnects before the answer.
pub fn attach_profiler_and_leave(pid: u32, wish: &Wish) {
    let sent = UnixStream::connect(socket_of(pid)).and_then(|mut stream| stream.write_all(&wish.message()));
    sent.unwrap_or_else(|error| panic!("the diagnostics port of {pid} broke off: {error}"));
}

/// Sends the request from a separate process, which succeeds when the runtime answers with success. `words` may make it another user's
/// process.
pub fn attach_profiler_from_another_process(pid: u32, wish: &Wish, words: &[&str]) -> Trigger {
    let program = crate::native("trigger").into_os_string();
    let mut line = words.iter().map(std::ffi::OsString::from).chain([program]);
    let mut command = Command::new(line.next().unwrap_or_default());
    command.args(line).arg(socket_of(pid)).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let said = child.stdin.take().map(|mut input| input.write_all(&wish.message()));
    assert!(matches!(said, Some(Ok(()))), "the trigger does not listen: {said:?}");
    Trigger(child)
}

/// A process that requests an attach. It is killed, by its id, when the value is dropped.
pub struct Trigger(Child);

impl Trigger {
    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        crate::child_process::wait_for(&mut self.0, "the trigger")
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests the description of the process.
pub fn describe_process(pid: u32) -> Result<Vec<u8>, u32> {
    command(pid, PROCESS_SET, DESCRIBE, &[])
}

const PROCESS_SET: u8 = 4;
const DESCRIBE: u8 = 0;
const PROFILER_SET: u8 = 3;
const ATTACH: u8 = 1;

fn message(set: u8, id: u8, payload: &[u8]) -> Vec<u8> {
    let mut message = MAGIC.to_vec();
    message.extend(((HEADER_LENGTH + payload.len()) as u16).to_le_bytes());
    message.extend([set, id, 0, 0]);
    message.extend(payload);
    message
}
