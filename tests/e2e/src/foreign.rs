//! Another vendor's profiler in the target: `tests/targets/native/libforeign_profiler.c`, steered over a socket.

use crate::{Facts, PATIENCE, Start, Target, diagnostics, native, until};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};

/// Its library, without the ending.
const LIBRARY: &str = "libforeign_profiler";

/// Which of the two classes of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The main profiler, of which there is one.
    Main,
    /// Notification-only, of which there may be several; .NET 6 and later.
    NotificationOnly,
}

/// A foreign profiler that is in a target.
pub struct ForeignProfiler {
    stream: BufReader<UnixStream>,
}

/// What its callbacks have counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Whether the runtime has said that it is attached.
    pub attached: bool,
    /// Collections it was told the beginning of.
    pub started: u64,
    /// Collections it was told the end of.
    pub finished: u64,
}

impl ForeignProfiler {
    /// Attaches it; the runtime's own code if it refuses.
    pub fn attach(target: &Target, kind: Kind) -> Result<ForeignProfiler, u32> {
        let folder = crate::folder();
        let path = folder.path().join("s");
        let listener = listen(&path);
        let library = native(LIBRARY).to_string_lossy().into_owned();
        diagnostics::attach_profiler(target.pid(), &kind.clsid(), &library, path.to_string_lossy().as_bytes())?;
        Ok(ForeignProfiler::accept(&listener))
    }

    /// Starts the target with it, as an APM agent comes into a process.
    pub fn at_start(start: Start, kind: Kind) -> (Target, ForeignProfiler) {
        let folder = crate::folder();
        let path = folder.path().join("s");
        let listener = listen(&path);
        let start = start
            .env("CORECLR_ENABLE_PROFILING", "1")
            .env("CORECLR_PROFILER", kind.clsid_text())
            .env("CORECLR_PROFILER_PATH", native(LIBRARY))
            .env("FOREIGN_PROFILER_SOCKET", &path);
        (start.ready(), ForeignProfiler::accept(&listener))
    }

    /// Forces three collections; the code of the failure if the runtime refuses.
    pub fn collect(&mut self) -> Result<(), u32> {
        self.order("gc")
    }

    /// What its callbacks have counted.
    pub fn counts(&mut self) -> Counts {
        let answer = self.ask("counts");
        let numbers: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [attached, started, finished] = numbers[..] else { panic!("the foreign profiler answered `{answer}`") };
        Counts { attached: attached == 1, started, finished }
    }

    /// Samples by SIGPROF, or stops it.
    pub fn sample(&mut self, on: bool) {
        let answer = self.order(if on { "sigprof on" } else { "sigprof off" });
        assert_eq!(answer, Ok(()), "the foreign profiler cannot sample");
    }

    /// How often its SIGPROF handler ran.
    pub fn samples(&mut self) -> u64 {
        let answer = self.ask("sigprof count");
        answer.parse().unwrap_or_else(|_| panic!("the foreign profiler answered `{answer}`"))
    }

    /// Asks for its detach and waits until the runtime has let it go; the code of the failure if the runtime refuses.
    pub fn detach(mut self) -> Result<(), u32> {
        self.begin_detach()?;
        self.wait_until_detached();
        Ok(())
    }

    /// The same, and waits until its library is unmapped, too. The runtime says that it has let a profiler go before it unloads and uncounts it
    /// (TerminateProfiling, vm/profilinghelper.cpp): whoever leaves right behind that word may still be called.
    pub fn leave(self, target: &Target) -> Result<(), u32> {
        self.detach()?;
        let maps = || Facts::of(target.pid()).maps;
        until("the foreign profiler is unmapped", || !maps().iter().any(|mapping| mapping.name.contains(LIBRARY)));
        Ok(())
    }

    /// Asks for its detach and does not wait for it; the code of the failure if the runtime refuses.
    pub fn begin_detach(&mut self) -> Result<(), u32> {
        self.order("detach")
    }

    /// Waits until the runtime has let it go, after [`ForeignProfiler::begin_detach`].
    pub fn wait_until_detached(mut self) {
        assert_eq!(self.read_line(), "detached", "the foreign profiler was not let go");
    }

    fn order(&mut self, order: &str) -> Result<(), u32> {
        let answer = self.ask(order);
        let code = answer.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code.unwrap_or_else(|| panic!("the foreign profiler answered `{answer}` to `{order}`")) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    fn ask(&mut self, order: &str) -> String {
        if let Err(error) = writeln!(self.stream.get_mut(), "{order}") {
            panic!("the foreign profiler is gone: {error}");
        }
        self.read_line()
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(1..) => line.trim_end().to_owned(),
            Ok(0) => panic!("the foreign profiler is gone without a word"),
            Err(error) => panic!("the foreign profiler does not answer: {error}"),
        }
    }

    fn accept(listener: &UnixListener) -> ForeignProfiler {
        let stream = listener.accept().map(|(stream, _)| stream);
        let stream = stream.unwrap_or_else(|error| panic!("the foreign profiler does not report: {error}"));
        if let Err(error) = stream.set_read_timeout(Some(PATIENCE)) {
            panic!("cannot bound the wait for the foreign profiler: {error}");
        }
        ForeignProfiler { stream: BufReader::new(stream) }
    }
}

impl Kind {
    /// The class in the order of bytes that the runtime passes on.
    fn clsid(self) -> [u8; 16] {
        let mut bytes = *b"foreign-profile\0";
        bytes[15] = if self == Kind::Main { 1 } else { 2 };
        bytes
    }

    /// The class as the environment has it.
    fn clsid_text(self) -> String {
        let b = self.clsid();
        let tail: String = b[10..].iter().map(|byte| format!("{byte:02X}")).collect();
        let first = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let (second, third) = (u16::from_le_bytes([b[4], b[5]]), u16::from_le_bytes([b[6], b[7]]));
        format!("{{{first:08X}-{second:04X}-{third:04X}-{:02X}{:02X}-{tail}}}", b[8], b[9])
    }
}

fn listen(path: &std::path::Path) -> UnixListener {
    // Whoever is attached has connected already: to wait for one that never comes would be a hang.
    let listener = UnixListener::bind(path).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.unwrap_or_else(|error| panic!("cannot listen on {}: {error}", path.display()))
}
