//! A port of ours to which runtimes connect at startup, to record an application from its first second.
//!
//! The application is started with [`ReversePort::variable`] in its environment. Its runtime connects, identifies itself, and waits for the
//! resume command. Each connection serves one command; afterwards the runtime connects again.
//! Child processes inherit the variable and wait, too. A process that lives as long as they do must resume every runtime that connects.
//! So it is for tests and tools that own the application. `remora record -- COMMAND` does not use it, since it may end before the command.
//! It needs .NET 5 or later; older runtimes ignore the variable and run without waiting.

use crate::attach::Attach;
use crate::client::{Deadline, exchange, read_exact};
use crate::codec::{Advertisement, ProcessInfo, ProcessInfoVersion, Reply, Request};
use crate::error::Error;
use crate::placement::{SOCKET_PREFIX, random_name};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable with the ports to connect to.
pub const PORTS_VARIABLE: &str = "DOTNET_DiagnosticPorts";

/// A socket to which runtimes connect at startup.
#[derive(Debug)]
pub struct ReversePort {
    listener: UnixListener,
    directory: PathBuf,
}

impl ReversePort {
    /// Listens in a new directory below `parent` that only we may enter. The whole path must fit a socket address.
    pub fn open_in(parent: &Path) -> Result<ReversePort, Error> {
        let failed = |errno: Errno| Error::io("listen in", parent, errno);
        let directory = parent.join(random_name(SOCKET_PREFIX, "").map_err(failed)?);
        rustix::fs::mkdir(&directory, Mode::from_raw_mode(0o700)).map_err(failed)?;
        match UnixListener::bind(directory.join("port")) {
            Ok(listener) => Ok(ReversePort { listener, directory }),
            Err(error) => {
                // Removes only the new directory, which is empty.
                let _ = std::fs::remove_dir(&directory);
                Err(Error::io("listen in", directory, error))
            }
        }
    }

    /// Like [`ReversePort::open_in`], in the directory for temporary files, or in `/tmp` if that path is too long for a socket.
    pub fn open() -> Result<ReversePort, Error> {
        let usual = ReversePort::open_in(&std::env::temp_dir());
        usual.or_else(|error| ReversePort::open_in(Path::new("/tmp")).map_err(|_| error))
    }

    /// Path of the socket.
    pub fn path(&self) -> PathBuf {
        self.directory.join("port")
    }

    /// The environment variable for the application: name and value.
    pub fn variable(&self) -> (&'static str, String) {
        (PORTS_VARIABLE, format!("{},suspend", self.path().display()))
    }

    /// Waits for the next runtime to connect and identify itself.
    pub fn accept(&self, timeout: Duration) -> Result<WaitingRuntime, Error> {
        const STEP: &str = "start a .NET runtime";
        let deadline = Deadline::after(timeout);
        let limit = Timespec::try_from(timeout)
            .map_err(|_| Error::io("wait that long at", self.path(), std::io::ErrorKind::InvalidInput))?;
        let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
        let broken = |source: std::io::Error| Error::Broken { step: STEP, source };
        match rustix::event::poll(&mut ready, Some(&limit)) {
            // The caller handles the signal, and waits again.
            Ok(0) | Err(Errno::INTR) => return Err(Error::TimedOut { step: STEP, after: timeout }),
            Ok(_) => {}
            Err(errno) => return Err(broken(errno.into())),
        }
        let (mut stream, _) = self.listener.accept().map_err(broken)?;
        let mut bytes = [0; Advertisement::SIZE];
        read_exact(&mut stream, &mut bytes, deadline)?;
        Ok(WaitingRuntime { advertisement: Advertisement::decode(&bytes)?, stream })
    }
}

impl Drop for ReversePort {
    fn drop(&mut self) {
        // Drop cannot report an error; a failure leaves a directory with a socket in it.
        let _ = std::fs::remove_file(self.path());
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// A connected runtime that accepts one command.
#[derive(Debug)]
pub struct WaitingRuntime {
    advertisement: Advertisement,
    stream: UnixStream,
}

impl WaitingRuntime {
    /// Its advertisement.
    pub fn advertisement(&self) -> Advertisement {
        self.advertisement
    }

    /// Its process information, without arguments while it waits. .NET 5 answers only the first form.
    pub fn process_info(mut self, version: ProcessInfoVersion, timeout: Duration) -> Result<ProcessInfo, Error> {
        let payload = exchange(&mut self.stream, &Request::ProcessInfo(version), Deadline::after(timeout))?;
        Ok(ProcessInfo::decode(version, &payload)?)
    }

    /// Resumes the runtime.
    pub fn resume(mut self, timeout: Duration) -> Result<(), Error> {
        exchange(&mut self.stream, &Request::ResumeRuntime, Deadline::after(timeout)).map(|_| ())
    }

    /// Requests it to load a profiler; refused as too early before the resume.
    pub fn attach(mut self, attach: &Attach) -> Result<(), Error> {
        attach.with_request(|request| {
            let payload = exchange(&mut self.stream, request, Deadline::after(attach.timeout))?;
            Ok(Reply::Done(payload).into_attached()?)
        })
    }
}
