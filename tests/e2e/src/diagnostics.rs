//! A minimal client of the runtime's diagnostics port, for requests of tests other than Remora's.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
const HEADER_LENGTH: usize = 20;
/// The answer to a command that failed.
const ERROR_ID: u8 = 0xFF;

/// The diagnostics socket of a process.
pub fn socket_of(pid: u32) -> PathBuf {
    found_socket_of(pid).unwrap_or_else(|| panic!("process {pid} has no diagnostics socket"))
}

/// The same, `None` if there is none or nobody listens on it.
pub fn found_socket_of(pid: u32) -> Option<PathBuf> {
    let prefix = format!("dotnet-diagnostic-{pid}-");
    let entries =
        std::fs::read_dir(temporary_folder_of(pid)).unwrap_or_else(|error| panic!("cannot list sockets: {error}"));
    let found = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&prefix) && name.ends_with("-socket") && UnixStream::connect(path).is_ok()
    });
    found.last()
}

/// Where a process has its temporary files.
fn temporary_folder_of(pid: u32) -> PathBuf {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let own = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"TMPDIR="));
    own.map_or_else(std::env::temp_dir, |folder| OsStr::from_bytes(folder).into())
}

/// Sends one command; returns its payload, or the HRESULT of its failure.
pub fn command(pid: u32, set: u8, id: u8, payload: &[u8]) -> Result<Vec<u8>, u32> {
    Request::send(pid, &message(set, id, payload)).answer()
}

/// The same, but returns only after the runtime has closed its end. For commands with a single answer.
pub fn command_until_closed(pid: u32, set: u8, id: u8, payload: &[u8]) -> Result<Vec<u8>, u32> {
    let mut request = Request::send(pid, &message(set, id, payload));
    let answer = request.answer();
    let rest = request.stream.read(&mut [0]);
    assert!(matches!(rest, Ok(0)), "more than an answer, or no end: {rest:?}");
    answer
}

/// A request that was sent.
pub struct Request {
    process: u32,
    stream: UnixStream,
}

impl Request {
    /// Sends a request to attach a profiler.
    pub fn to_attach(pid: u32, wish: &Wish) -> Request {
        Request::send(pid, &wish.message())
    }

    fn send(pid: u32, message: &[u8]) -> Request {
        let sent = UnixStream::connect(socket_of(pid)).and_then(|mut stream| {
            stream.set_read_timeout(Some(crate::TIMEOUT))?;
            stream.write_all(message)?;
            Ok(stream)
        });
        Request { process: pid, stream: sent.unwrap_or_else(|error| broke_off(pid, &error)) }
    }

    /// Whether the runtime has sent something, or has closed its end.
    pub fn is_answered(&self) -> bool {
        is_readable(&self.stream)
    }

    /// Waits for the answer: its payload, or the HRESULT of a failure.
    pub fn answer(&mut self) -> Result<Vec<u8>, u32> {
        self.read().unwrap_or_else(|error| broke_off(self.process, &error))
    }

    fn read(&mut self) -> std::io::Result<Result<Vec<u8>, u32>> {
        let mut header = [0; HEADER_LENGTH];
        self.stream.read_exact(&mut header)?;
        let length = usize::from(u16::from_le_bytes([header[14], header[15]])).saturating_sub(HEADER_LENGTH);
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        Ok(match (header[17], answer.get(..4)) {
            (ERROR_ID, Some(code)) => Err(u32::from_le_bytes([code[0], code[1], code[2], code[3]])),
            _ => Ok(answer),
        })
    }
}

fn broke_off(pid: u32, error: &std::io::Error) -> ! {
    panic!("the diagnostics port of {pid} broke off: {error}")
}

/// Whether a read would return at once.
pub(crate) fn is_readable(stream: &UnixStream) -> bool {
    let mut watched = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::IN)];
    let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let count = rustix::event::poll(&mut watched, Some(&at_once));
    count.unwrap_or_else(|error| panic!("cannot look for an answer: {error}")) > 0
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
    Request::to_attach(pid, &Wish::of(clsid, library, data)).answer().map(drop)
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
