//! The recorder of Remora's own agent in a run. The agent begins to sample. Then the recorder asks it to detach, or dies, or never existed.
//!
//! Without a recorder the agent would detach at once, so its sampling, symbol resolution and stopping would stay untested. Only the
//! conversation is simulated. The data is not read, since its accuracy is not checked here.

use crate::runtime::give_the_code_memory;
use crate::schedule::{self, Random};
use remora_ring::HEADER_WORDS;
use remora_wire::{Config, Frame, FromAgent, HeapSnapshot, MEMORY_NAME, Sampling, Task, ToAgent, layout};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create, open};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::{self, File};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Folders for a socket, which exists only for an instant.
const FOLDERS: [&str; 2] = ["/tmp", "/dev/shm"];
/// A path without a listener.
const NOBODY: &str = "/nobody/listens/here";
/// Time between two checks.
const INTERVAL: Duration = Duration::from_millis(1);
/// Shortest sampling time, microseconds.
const SHORTEST: usize = 2_000;
const LONGEST: usize = 10_000;
/// As high as possible, since a run is short.
const FREQUENCY: u32 = 10_000;
const BUDGET: u32 = 1_000_000;

/// How the recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecorderEnd {
    /// The recorder asks the agent to detach.
    Tells,
    /// The socket is closed.
    IsGone,
    /// There never was a recorder.
    NeverCame,
}

/// See the module documentation.
pub struct Recorder {
    listener: Mutex<Option<UnixListener>>,
    /// Its file by descriptor number: the name is unlinked.
    file: Option<OwnedFd>,
    manner: RecorderEnd,
    task: Task,
    random: Mutex<Random>,
    /// The runtime has answered the attach with success.
    pub confirmed: Arc<AtomicBool>,
}

/// The task of Remora's own agent in a run.
pub fn task(ordinal: u64) -> Task {
    let sampling = Sampling { frequency: FREQUENCY, signal_budget: BUDGET };
    match ordinal % 7 {
        0 | 2 => Task::CpuSampling(sampling),
        1 | 4 => Task::WallSampling(sampling),
        5 => Task::HeapTracking,
        _ => Task::HeapSnapshot(HeapSnapshot::default()),
    }
}

impl Recorder {
    /// Listens if the seed says so. Without a socket, there is no recorder.
    pub fn of(seed: u64, ordinal: u64) -> Recorder {
        let manner = match ordinal % 3 {
            0 => RecorderEnd::Tells,
            1 => RecorderEnd::IsGone,
            _ => RecorderEnd::NeverCame,
        };
        let listening = (manner != RecorderEnd::NeverCame).then(listen).and_then(Result::ok);
        let (listener, file) = listening.unzip();
        Recorder {
            listener: Mutex::new(listener),
            file,
            manner,
            task: task(ordinal),
            random: Mutex::new(Random::new(seed)),
            confirmed: Arc::default(),
        }
    }

    /// The agent's client data. From now on the recorder waits for the agent.
    pub fn client_data(&self) -> Vec<u8> {
        self.wait_for_it();
        let path = self.file.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
        let config = Config { nonce: [0; 16], socket_path: path.unwrap_or_else(|| NOBODY.to_owned()), task: self.task };
        config.encode()
    }

    fn wait_for_it(&self) {
        let Some(listener) = self.listener.lock().expect("no panic while locked").take() else { return };
        give_the_code_memory();
        let (manner, confirmed) = (self.manner, self.confirmed.clone());
        let is_watched = self.task == Task::HeapTracking;
        let mut random = Random::new(self.random.lock().expect("no panic while locked").draw());
        schedule::spawn("the recorder of Remora's agent", move || {
            while !schedule::is_stopped() {
                match listener.accept() {
                    // An agent that disconnects early needs no handling.
                    Ok((stream, _)) => _ = serve(stream, (manner, is_watched), &confirmed, &mut random),
                    Err(_) => std::thread::sleep(INTERVAL),
                }
            }
        });
    }
}

/// An unlinked socket, and its file.
fn listen() -> io::Result<(UnixListener, OwnedFd)> {
    let name = format!("remora-lab-{}", std::process::id());
    let mut last = io::ErrorKind::NotFound.into();
    for folder in FOLDERS {
        let path = format!("{folder}/{name}");
        match UnixListener::bind(&path) {
            Ok(listener) => {
                let file = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                fs::remove_file(&path)?;
                listener.set_nonblocking(true)?;
                return Ok((listener, file?));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One conversation up to its end.
fn serve(
    mut stream: UnixStream,
    (manner, is_watched): (RecorderEnd, bool),
    confirmed: &AtomicBool,
    random: &mut Random,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(INTERVAL))?;
    let (mut frame, mut is_confirmed) = (Frame::default(), false);
    welcome(&stream, is_watched)?;
    loop {
        if !is_confirmed && confirmed.load(Ordering::SeqCst) {
            is_confirmed = true;
            stream.write_all(&ToAgent::Begin.encode())?;
        }
        let heard = hear(&mut stream, &mut frame)?;
        if matches!(heard, Some(FromAgent::Started { .. })) {
            let time = SHORTEST + random.below(LONGEST - SHORTEST);
            std::thread::sleep(Duration::from_micros(time as u64));
            if manner == RecorderEnd::IsGone {
                return Ok(());
            }
            stream.write_all(&ToAgent::Detach.encode())?;
        }
        if schedule::is_stopped() {
            return Ok(());
        }
    }
}

/// The next message, if one arrives soon.
fn hear(stream: &mut UnixStream, frame: &mut Frame) -> io::Result<Option<FromAgent>> {
    let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
    if let Some(body) = frame.take().map_err(malformed)? {
        return FromAgent::decode(body.all()).map(Some).map_err(malformed);
    }
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => {
            frame.push(&bytes[..length]);
            Ok(None)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends the shared memory that the agent expects: complete, sealed, with the magic word. The heap tracking data is not read.
fn welcome(stream: &UnixStream, is_watched: bool) -> io::Result<()> {
    let memory = memfd_create(MEMORY_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    fallocate(&memory, FallocateFlags::empty(), 0, layout::size_in_bytes(is_watched, HEADER_WORDS) as u64)?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let memory = File::from(memory);
    memory.write_all_at(&layout::MAGIC.to_ne_bytes(), (layout::WORD_MAGIC * 8) as u64)?;
    let bytes = ToAgent::Welcome.encode();
    let descriptors = [memory.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
