//! A process that is verified to stay the same: its id may be reused, and its program may be replaced.
//!
//! Identified by a process descriptor where the kernel supports them, and by the fields of [`Process`].

use crate::error::Error;
use crate::process::Process;
use crate::program::Fate;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A process with its descriptor.
#[derive(Debug)]
pub struct Target {
    process: Process,
    descriptor: Option<OwnedFd>,
}

impl Target {
    /// Opens a descriptor of a process that was found.
    pub fn hold(process: &Process) -> Result<Target, Error> {
        let changed = || Error::Changed { pid: process.pid, what: "has ended" };
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).ok_or_else(changed)?;
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Some(descriptor),
            Err(Errno::SRCH) => return Err(changed()),
            // Kernels before 5.3, and containers that filter the call.
            Err(_) => None,
        };
        let target = Target { descriptor, process: process.clone() };
        // The descriptor was opened by number: only this check proves that it is the same process.
        process.require_same()?;
        Ok(target)
    }

    /// The process as it was found.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its fate.
    pub fn fate(&self) -> Fate {
        if self.has_exited() { Fate::Ended } else { self.process.fate() }
    }

    /// Whether it still runs, whatever program.
    pub fn is_alive(&self) -> bool {
        self.fate() != Fate::Ended
    }

    /// Waits until it ends; `false` if it did not in that time. Without a process descriptor it only checks once.
    pub fn wait(&self, limit: Duration) -> bool {
        let Some(descriptor) = &self.descriptor else { return !self.is_alive() };
        let limit = Timespec::try_from(limit).ok();
        let mut ready = [PollFd::new(descriptor, PollFlags::IN)];
        matches!(rustix::event::poll(&mut ready, limit.as_ref()), Ok(count) if count > 0)
    }

    /// The process descriptor, readable when the process has ended, for use with poll.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    fn has_exited(&self) -> bool {
        self.descriptor.is_some() && self.wait(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::tests::process::MadeUp;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    /// A live process under our name: `Target` needs only id, start time and `/proc`.
    fn held(child: &Child) -> Target {
        let proc = crate::proc::Proc::default();
        let (program, stat, _) = Program::with_status(&proc, child.id()).expect("alive");
        let process =
            Process { pid: child.id(), start_time: stat.start_time, program, proc, ..MadeUp::core_clr().find() };
        Target::hold(&process).expect("held")
    }

    fn shell(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut command = Command::new("sh");
        let mut child =
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut String::new()).expect("it says that it runs");
        (child, output)
    }

    #[test]
    fn the_end_of_a_process_is_seen_before_it_is_collected() {
        let (mut child, _output) = shell("echo ready; read line");
        let target = held(&child);
        assert_eq!((target.fate(), target.wait(Duration::ZERO)), (Fate::Same, false));
        drop(child.stdin.take());
        assert!(target.wait(Duration::from_secs(60)));
        assert_eq!((target.fate(), target.is_alive()), (Fate::Ended, false));
        child.wait().expect("collected");
        assert!(matches!(Target::hold(target.process()), Err(Error::Changed { .. })));
    }

    #[test]
    fn a_replaced_program_is_seen_even_if_it_is_the_same_one() {
        let (mut child, mut output) = shell("echo ready; read line; exec sh -c 'echo again; read line'");
        let target = held(&child);
        assert_eq!(target.fate(), Fate::Same);
        let mut input = child.stdin.take().expect("piped");
        input.write_all(b"go\n").expect("written");
        output.read_line(&mut String::new()).expect("the new program says that it runs");
        assert_eq!((target.fate(), target.is_alive()), (Fate::Replaced, true));
        drop(input);
        child.wait().expect("collected");
    }
}
