//! The page shared by a run and its laboratory: the run's findings and each thread's current callback, readable after its death.
//!
//! It is a file in memory, the standard input of the run, which maps it: a profiler may close every descriptor. A thread's callback is at a fixed place. Findings are lines of JSON, written at
//! once.

use super::shared_memory::SharedMemory;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The callback in which profilers release what their callbacks use.
pub const SHUTDOWN: &str = "Shutdown";
/// Threads with a seat of their own; later threads share.
pub const THREADS: usize = 64;
/// The longest name of a callback, bytes.
const NAME: usize = 40;
/// Bytes of a seat: the name, padded with zeros; the thread; the time since when it runs.
const SEAT: usize = NAME + 2 * size_of::<u64>();
/// Offset of the crash.
pub const CRASH: usize = 4096;
/// Offset of the hang: a crash without a cause.
pub const HANG: usize = 5120;
/// Offset of the exit that the profiler asked for: a crash without a cause.
pub const EXIT: usize = 5632;
/// Offset of the crashed thread's frames: addresses, until a zero.
pub const BACKTRACE: usize = 6144;
/// The most frames.
pub const FRAMES: usize = 32;
/// Offset of the first line.
const LINES: usize = 8192;
/// Room for lines, in bytes; later ones are dropped.
const MOST_LINES: usize = 1 << 20;
/// Offset of the mappings at the crash.
pub const MAPS: usize = LINES + MOST_LINES;
/// Room for them.
pub const MOST_MAPS: usize = 1 << 19;
/// Size of the page.
const SIZE: usize = MAPS + MOST_MAPS;

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
    /// A clause was broken by a hang.
    Hangs {
        /// The clause.
        clause: String,
        /// The callback or call that does not return.
        callback: Option<String>,
        /// The fault.
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
    /// The runtime calls Shutdown. Threads of the program still call the profiler during it, and afterwards.
    ShutsDown,
    /// A thread had to be delayed for a finding on this clause, as a busy system may do. For so many milliseconds of the runtime's time.
    Preempted {
        /// The clause.
        clause: String,
        /// The delay.
        milliseconds: u64,
    },
    /// Something about the profiler that no clause is about.
    Seen(String),
    /// Why a clause could not be exercised.
    Note {
        /// The clause.
        clause: String,
        /// The obstacle.
        message: String,
    },
    /// Nothing can be said of a clause, whatever other runs have shown.
    Unjudged {
        /// The clause.
        clause: String,
        /// The reason.
        message: String,
    },
    /// The laboratory itself failed.
    Failed(String),
    /// The filters of system calls (seccomp) before the profiler.
    Filters(u64),
    /// The run is complete; the process now exits.
    Done,
    /// It kills itself: a callback that hangs might prevent its exit.
    EndsItself,
}

/// How a run crashed, from its signal handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Crash {
    /// The signal.
    pub signal: u64,
    /// The thread, as the model counts them.
    pub thread: u64,
    /// One of the constants below.
    pub place: u64,
    /// Whether the thread had requested the detach.
    pub asker: u64,
    /// Whether it was an access to freed client data.
    pub freed: u64,
    /// Whether the thread belongs to the runtime's side.
    pub own: u64,
    /// The interrupted instruction.
    pub instruction: u64,
    /// Where the library is mapped, or was.
    pub library_first: u64,
    /// Its end.
    pub library_end: u64,
    /// Whether the profiler had lowered a limit of the process that the run needs.
    pub limited: u64,
}

impl Crash {
    /// Outside the library's code.
    pub const ELSEWHERE: u64 = 0;
    /// Inside the library's code.
    pub const IN_LIBRARY: u64 = 1;
    /// Where the library's code was before its unload.
    pub const IN_UNMAPPED_LIBRARY: u64 = 2;
    /// In the place of a signal: the thread called `exit`.
    pub const EXITS: u64 = u64::MAX;
}

/// A running callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The callback.
    pub name: String,
    /// Its thread, as a [`Crash`] has it.
    pub thread: u64,
    /// For how long it runs.
    pub age: Duration,
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
        let file = File::from(rustix::fs::memfd_create("remora-lab", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.set_len(SIZE as u64)?;
        Ok(Page { file })
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
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        // The last line of a killed run may be incomplete.
        String::from_utf8_lossy(text).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The running callbacks.
    pub fn callbacks(&self) -> Vec<Running> {
        let now = milliseconds();
        let of_seat = |seat: &[u8]| {
            let (name, numbers) = seat.split_at_checked(NAME)?;
            let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
            let mut numbers = numbers.chunks_exact(8).filter_map(|one| Some(u64::from_ne_bytes(one.try_into().ok()?)));
            let (thread, since) = (numbers.next()?, numbers.next()?);
            (!name.is_empty()).then(|| Running { name, thread, age: Duration::from_millis(now.saturating_sub(since)) })
        };
        self.bytes(0, THREADS * SEAT).chunks(SEAT).filter_map(of_seat).collect()
    }

    /// The callback of a thread that has crashed, hangs or has called `exit`.
    pub fn callback_of(&self, thread: Crash) -> Option<String> {
        self.callbacks().into_iter().find_map(|running| (running.thread == thread.thread).then_some(running.name))
    }

    /// The crash, if there was one.
    pub fn crash(&self) -> Option<Crash> {
        self.crash_at(CRASH)
    }

    /// Where a thread hangs, if its stack is known.
    pub fn hang(&self) -> Option<Crash> {
        self.crash_at(HANG)
    }

    /// Where a thread called `exit`, if the run did not.
    pub fn exit(&self) -> Option<Crash> {
        self.crash_at(EXIT)
    }

    fn crash_at(&self, offset: usize) -> Option<Crash> {
        let bytes = self.bytes(offset, size_of::<Crash>());
        let mut numbers = bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_ne_bytes(chunk.try_into().ok()?)));
        let mut next = || numbers.next();
        let [signal, thread, place] = [next()?, next()?, next()?];
        let [asker, freed, own] = [next()?, next()?, next()?];
        let [instruction, library_first, library_end, limited] = [next()?, next()?, next()?, next()?];
        let crash =
            Crash { signal, thread, place, asker, freed, own, instruction, library_first, library_end, limited };
        (crash.signal != 0).then_some(crash)
    }

    /// Writes a crash, as a run's signal handler does.
    #[cfg(test)]
    pub fn note_crash(&self, crash: &Crash) {
        let Crash { signal, thread, place, asker, freed, own, instruction, library_first, library_end, limited } =
            *crash;
        let numbers = [signal, thread, place, asker, freed, own, instruction, library_first, library_end, limited];
        let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_ne_bytes).collect();
        self.file.write_all_at(&bytes, CRASH as u64).expect("written");
    }

    /// Writes a stack and mappings, as a run's signal handler does.
    #[cfg(test)]
    pub fn note_stack(&self, addresses: &[u64], mappings: &str) {
        let addresses: Vec<u8> = addresses.iter().copied().flat_map(u64::to_ne_bytes).collect();
        self.file.write_all_at(&addresses, BACKTRACE as u64).expect("written");
        self.file.write_all_at(mappings.as_bytes(), MAPS as u64).expect("written");
    }

    /// The crashed thread's frames, innermost first, with those of the signal handler.
    pub fn backtrace(&self) -> Vec<u64> {
        let bytes = self.bytes(BACKTRACE, FRAMES * size_of::<u64>());
        let addresses = bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_ne_bytes(chunk.try_into().ok()?)));
        addresses.take_while(|address| *address != 0).collect()
    }

    /// The process's mappings at the crash, as `/proc/PID/maps` shows them.
    pub fn mappings(&self) -> String {
        let bytes = self.bytes(MAPS, MOST_MAPS);
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    fn bytes(&self, offset: usize, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut read = 0;
        while let Ok(count @ 1..) = self.file.read_at(&mut bytes[read..], (offset + read) as u64) {
            read += count;
        }
        bytes.truncate(read);
        bytes
    }
}

/// The run's end.
#[derive(Debug)]
pub struct PageWriter {
    memory: SharedMemory,
    end: Mutex<usize>,
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
        if file.metadata()?.len() != SIZE as u64 || rustix::fs::fcntl_get_seals(&file).is_err() {
            return Err(io::Error::other("standard input is not a page of the laboratory"));
        }
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(PageWriter { memory: SharedMemory::map(&file, SIZE)?, end: Mutex::new(LINES) })
    }

    /// The page, for a signal handler.
    pub fn memory(&self) -> SharedMemory {
        self.memory
    }

    /// Writes a line. After a crash, and in a copy of the run that the profiler has forked, nothing is written.
    pub fn write(&self, line: &Line) {
        let Ok(text) = serde_json::to_string(line) else { return };
        if !self.memory.is_own() || self.memory.is_over() {
            return;
        }
        let mut end = self.end.lock().expect("no panic while locked");
        let text = format!("{text}\n");
        if *end + text.len() <= MAPS {
            self.memory.write(*end, text.as_bytes());
            *end += text.len();
        }
    }

    /// Records the current callback of a thread, and since when it runs.
    pub fn seat(&self, thread: usize, callback: &str, since: Instant) {
        if self.memory.is_over() {
            return;
        }
        let mut bytes = [0; SEAT];
        for (place, byte) in bytes.iter_mut().zip(callback.bytes().take(NAME)) {
            *place = byte;
        }
        let since = milliseconds().saturating_sub(since.elapsed().as_millis() as u64);
        let numbers = [thread as u64, since].into_iter().flat_map(u64::to_ne_bytes);
        bytes[NAME..].iter_mut().zip(numbers).for_each(|(place, byte)| *place = byte);
        self.memory.write((thread % THREADS) * SEAT, &bytes);
    }
}

/// The system's time, the same in each process.
fn milliseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
