//! Another vendor's profiler in the target: `tests/targets/native/libforeign_profiler.c`, controlled over a socket.

use crate::{Facts, Start, TIMEOUT, Target, diagnostics, native, until};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};

/// Its library, without the file extension.
const LIBRARY: &str = "libforeign_profiler";

/// The two classes of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The main profiler; a process has at most one.
    Main,
    /// A notification-only profiler, of which there may be several; .NET 6 and later.
    NotificationOnly,
}

/// A foreign profiler in a target.
pub struct ForeignProfiler {
    stream: BufReader<UnixStream>,
}

/// The counts of its callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Whether it got ProfilerAttachComplete.
    pub attached: bool,
    /// GCs whose start was reported to it.
    pub started: u64,
    /// GCs whose end was reported to it.
    pub finished: u64,
}

impl ForeignProfiler {
    /// Attaches it; the runtime's HRESULT if it refuses.
    pub fn attach(target: &Target, kind: Kind) -> Result<ForeignProfiler, u32> {
        let folder = crate::folder();
        let path = folder.path().join("s");
        let listener = listen(&path);
        let library = native(LIBRARY).to_string_lossy().into_owned();
        diagnostics::attach_profiler(target.pid(), &kind.clsid(), &library, path.to_string_lossy().as_bytes())?;
        Ok(ForeignProfiler::accept(&listener))
    }

    /// Starts the target with it, as an APM agent is loaded.
    pub fn at_start(start: Start, kind: Kind) -> (Target, ForeignProfiler) {
        let expected = Expected::new(kind);
        let start = expected.variables().into_iter().fold(start, |start, (name, value)| start.env(name, value));
        (start.ready(), expected.arrives())
    }

    /// Forces three GCs; the failure's code if the runtime refuses.
    pub fn collect(&mut self) -> Result<(), u32> {
        self.order("gc")
    }

    /// The counts of its callbacks.
    pub fn counts(&mut self) -> Counts {
        let answer = self.ask("counts");
        let numbers: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [attached, started, finished] = numbers[..] else { panic!("the foreign profiler answered `{answer}`") };
        Counts { attached: attached == 1, started, finished }
    }

    /// Starts or stops sampling by SIGPROF.
    pub fn sample(&mut self, on: bool) {
        let answer = self.order(if on { "sigprof on" } else { "sigprof off" });
        assert_eq!(answer, Ok(()), "the foreign profiler cannot sample");
    }

    /// How often its SIGPROF handler ran.
    pub fn samples(&mut self) -> u64 {
        let answer = self.ask("sigprof count");
        answer.parse().unwrap_or_else(|_| panic!("the foreign profiler answered `{answer}`"))
    }

    /// Requests its detach and waits until the runtime has detached it; the failure's code if the runtime refuses.
    pub fn detach(mut self) -> Result<(), u32> {
        self.begin_detach()?;
        self.wait_until_detached();
        Ok(())
    }

    /// The same, and waits until its library is unmapped, too. The runtime reports the detach before it unloads and uncounts a profiler
    /// (TerminateProfiling, vm/profilinghelper.cpp), so the profiler may still get callbacks right after that report.
    pub fn leave(self, target: &Target) -> Result<(), u32> {
        self.detach()?;
        let maps = || Facts::of(target.pid()).maps;
        until("the foreign profiler is unmapped", || !maps().iter().any(|mapping| mapping.name.contains(LIBRARY)));
        Ok(())
    }

    /// Requests its detach without waiting; the failure's code if the runtime refuses.
    pub fn begin_detach(&mut self) -> Result<(), u32> {
        self.order("detach")
    }

    /// Waits until the runtime has detached it, after [`ForeignProfiler::begin_detach`].
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
        if let Err(error) = stream.set_read_timeout(Some(TIMEOUT)) {
            panic!("cannot bound the wait for the foreign profiler: {error}");
        }
        ForeignProfiler { stream: BufReader::new(stream) }
    }
}

/// A foreign profiler that the environment names.
pub struct Expected {
    kind: Kind,
    listener: UnixListener,
    folder: tempfile::TempDir,
}

impl Expected {
    /// One of this kind.
    pub fn new(kind: Kind) -> Expected {
        let folder = crate::folder();
        let listener = listen(&folder.path().join("s"));
        Expected { kind, listener, folder }
    }

    /// The variables for its process.
    pub fn variables(&self) -> [(&'static str, OsString); 4] {
        [
            ("CORECLR_ENABLE_PROFILING", "1".into()),
            ("CORECLR_PROFILER", self.kind.clsid_text().into()),
            ("CORECLR_PROFILER_PATH", native(LIBRARY).into()),
            ("FOREIGN_PROFILER_SOCKET", self.folder.path().join("s").into()),
        ]
    }

    /// Waits for it.
    pub fn arrives(self) -> ForeignProfiler {
        ForeignProfiler::accept(&self.listener)
    }
}

impl Kind {
    /// The class in the byte order that the runtime passes.
    fn clsid(self) -> [u8; 16] {
        let mut bytes = *b"foreign-profile\0";
        bytes[15] = if self == Kind::Main { 1 } else { 2 };
        bytes
    }

    /// The class in the environment variable's format.
    fn clsid_text(self) -> String {
        let b = self.clsid();
        let tail: String = b[10..].iter().map(|byte| format!("{byte:02X}")).collect();
        let first = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let (second, third) = (u16::from_le_bytes([b[4], b[5]]), u16::from_le_bytes([b[6], b[7]]));
        format!("{{{first:08X}-{second:04X}-{third:04X}-{:02X}{:02X}-{tail}}}", b[8], b[9])
    }
}

fn listen(path: &std::path::Path) -> UnixListener {
    // An attached profiler has already connected: waiting for one that never connects would hang.
    let listener = UnixListener::bind(path).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.unwrap_or_else(|error| panic!("cannot listen on {}: {error}", path.display()))
}
