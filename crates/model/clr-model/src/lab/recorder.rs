//! Who uses Remora's own agent in a run: the other end of its socket. The agent begins to sample, and then is told to leave, or its recorder
//! is gone, or there was none.
//!
//! Without it the agent would find that nobody is there, and would leave at once: how it samples, asks what it has met, and stops, would
//! not be seen. Only the conversation is held here; what it sends is not read, for whether it measures right is not checked.

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

/// Folders in which a socket can be made; it is there for an instant.
const FOLDERS: [&str; 2] = ["/tmp", "/dev/shm"];
/// Where nobody listens.
const NOBODY: &str = "/nobody/listens/here";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);
/// So long it is sampled, microseconds.
const SHORTEST: usize = 2_000;
const LONGEST: usize = 10_000;
/// As often as it can be had: a run is short.
const FREQUENCY: u32 = 10_000;
const BUDGET: u32 = 1_000_000;

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecorderEnd {
    /// The agent is told to leave.
    Tells,
    /// The socket hangs up.
    IsGone,
    /// Nobody was ever there.
    NeverCame,
}

/// See the module documentation.
pub struct Recorder {
    listener: Mutex<Option<UnixListener>>,
    /// Its file, by the number of its descriptor: the name is gone.
    file: Option<OwnedFd>,
    manner: RecorderEnd,
    task: Task,
    random: Mutex<Random>,
    /// The runtime has answered the attach with success.
    pub confirmed: Arc<AtomicBool>,
}

/// What a run asks Remora's own agent for.
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
    /// Listens, if the seed says so. Where no socket can be had, nobody is there.
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

    /// What the agent is handed; from now on it is waited for.
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
                    // An agent that is gone in the middle is one that is gone.
                    Ok((stream, _)) => _ = serve(stream, (manner, is_watched), &confirmed, &mut random),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
    }
}

/// A socket without a name, and its file.
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

/// One conversation, up to its end.
fn serve(
    mut stream: UnixStream,
    (manner, is_watched): (RecorderEnd, bool),
    confirmed: &AtomicBool,
    random: &mut Random,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
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

/// The next message, if one comes soon.
fn hear(stream: &mut UnixStream, frame: &mut Frame) -> io::Result<Option<FromAgent>> {
    let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
    if let Some(body) = frame.take().map_err(malformed)? {
        return FromAgent::decode(&body).map(Some).map_err(malformed);
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

/// Hands over memory as the agent wants it: whole, sealed, and with the magic word. Nobody reads what is told of a heap that is watched.
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
