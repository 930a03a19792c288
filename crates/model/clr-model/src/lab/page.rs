//! The page shared by a run and its laboratory: the run's findings and each thread's current callback, readable after its death.
//!
//! It is a file in memory, the standard input of the run. A thread's callback is at a fixed place. Findings are lines of JSON, written at
//! once.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

/// Threads with a seat of their own; later threads share.
pub const THREADS: usize = 64;
/// Bytes of a seat: the name of a callback, padded with zeros.
const NAME: usize = 48;
/// Offset of the crash.
pub const CRASH: u64 = 4096;
/// Offset of the first line.
const LINES: u64 = 8192;
/// Maximum of lines read, in bytes; a run that writes more is broken.
const MOST_LINES: usize = 1 << 20;

/// One line of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The profiler exercised this clause.
    Exercised(String),
    /// A clause was broken.
    Broken {
        /// The clause.
        clause: String,
        /// The callback or call with the fault.
        callback: Option<String>,
        /// The fault, and the correct behaviour.
        message: String,
    },
    /// Something that is harmless in a real process, and yet not as the contract has it.
    Remark {
        /// The clause.
        clause: String,
        /// The callback or call.
        callback: Option<String>,
        /// The event.
        message: String,
    },
    /// The profiler has set an event mask, or asked the runtime for more than its version and environment.
    Worked,
    /// The model answered a call of Info with an error.
    Refused {
        /// The call.
        call: String,
        /// The answer.
        code: u32,
    },
    /// The runtime is about to release the object or the library, and threads of the profiler run. Those that no finding has named yet are
    /// listed.
    UnloadBegins {
        /// Their descriptions.
        threads: Vec<String>,
        /// Whether it is the library. Then a crash of any thread is their fault.
        unmaps: bool,
    },
    /// They have ended, and nothing has crashed.
    UnloadIsOver,
    /// The profiler's detach request was accepted.
    AskedForDetach,
    /// Why a clause could not be exercised.
    Note {
        /// The clause.
        clause: String,
        /// The obstacle.
        message: String,
    },
    /// The laboratory itself failed.
    Failed(String),
    /// The run is complete; the process now exits.
    Done,
}

/// How a run crashed, from its signal handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Crash {
    /// The signal.
    pub signal: u64,
    /// The seat of the thread.
    pub seat: u64,
    /// One of the constants below.
    pub place: u64,
    /// Whether the thread had requested the detach.
    pub asker: u64,
    /// Whether it was an access to freed client data.
    pub freed: u64,
    /// Whether the thread belongs to the runtime's side.
    pub own: u64,
}

impl Crash {
    /// Outside the library's code.
    pub const ELSEWHERE: u64 = 0;
    /// Inside the library's code.
    pub const IN_LIBRARY: u64 = 1;
    /// Where the library's code was before its unload.
    pub const IN_UNMAPPED_LIBRARY: u64 = 2;
}

/// The laboratory's end.
#[derive(Debug)]
pub struct Page {
    file: File,
}

impl Page {
    /// An empty page.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Page> {
        let descriptor = rustix::fs::memfd_create("remora-lab", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(Page { file: File::from(descriptor) })
    }

    /// For the standard input of the run.
    ///
    /// # Errors
    /// The system's.
    pub fn for_run(&self) -> io::Result<OwnedFd> {
        Ok(OwnedFd::from(self.file.try_clone()?))
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<Line> {
        let text = self.bytes(LINES, MOST_LINES);
        // The last line of a killed run may be incomplete.
        String::from_utf8_lossy(&text).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The running callbacks with their seats.
    pub fn callbacks(&self) -> Vec<(usize, String)> {
        let all = self.bytes(0, THREADS * NAME);
        let name = |seat: &[u8]| String::from_utf8_lossy(seat).trim_end_matches('\0').to_owned();
        all.chunks(NAME).map(name).enumerate().filter(|(_, name)| !name.is_empty()).collect()
    }

    /// The crash, if there was one.
    pub fn crash(&self) -> Option<Crash> {
        let bytes = self.bytes(CRASH, size_of::<Crash>());
        let mut numbers = bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_ne_bytes(chunk.try_into().ok()?)));
        let mut next = || numbers.next();
        let [signal, seat, place] = [next()?, next()?, next()?];
        let crash = Crash { signal, seat, place, asker: next()?, freed: next()?, own: next()? };
        (crash.signal != 0).then_some(crash)
    }

    fn bytes(&self, offset: u64, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut read = 0;
        while let Ok(count @ 1..) = self.file.read_at(&mut bytes[read..], offset + read as u64) {
            read += count;
        }
        bytes.truncate(read);
        bytes
    }
}

/// The run's end.
#[derive(Debug)]
pub struct PageWriter {
    file: File,
    end: Mutex<u64>,
}

impl PageWriter {
    /// Takes the page from standard input, and leaves nothing there to read.
    ///
    /// # Errors
    /// The system's, or standard input is something else.
    pub fn take() -> io::Result<PageWriter> {
        let descriptor = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let file = File::from(descriptor);
        // Refuses a run started by hand: it would overwrite its standard input.
        if file.metadata()?.len() != 0 || rustix::fs::fcntl_get_seals(&file).is_err() {
            return Err(io::Error::other("standard input is not a page of the laboratory"));
        }
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(PageWriter { file, end: Mutex::new(LINES) })
    }

    /// The descriptor, for a signal handler.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Writes a line.
    pub fn write(&self, line: &Line) {
        let Ok(text) = serde_json::to_string(line) else { return };
        let mut end = self.end.lock().expect("no panic while locked");
        // A failure cannot be reported anywhere.
        let _ = self.file.write_all_at(format!("{text}\n").as_bytes(), *end);
        *end += text.len() as u64 + 1;
    }

    /// Records the current callback of a thread.
    pub fn seat(&self, seat: usize, callback: &str) {
        let mut bytes = [0; NAME];
        for (place, byte) in bytes.iter_mut().zip(callback.bytes()) {
            *place = byte;
        }
        let _ = self.file.write_all_at(&bytes, ((seat % THREADS) * NAME) as u64);
    }
}
