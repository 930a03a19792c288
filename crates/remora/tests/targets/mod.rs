//! Modelled targets that no other test sees, and profilers for them.

use super::command::{Directory, Ran};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A class that the broken profilers do not look at.
pub const CLASS: &str = "636F7270-726F-6600-6D6F-64756C650001";

/// Targets that no other test sees. They end with it.
pub struct Targets {
    pub directory: Directory,
    pub running: Vec<Child>,
}

impl Targets {
    pub fn new() -> Targets {
        Targets { directory: Directory::new(), running: Vec::new() }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remora"));
        command.arg("model").args(args).env("XDG_RUNTIME_DIR", self.directory.path(""));
        command
    }

    pub fn remora(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Starts a target, and waits until it is ready. Returns its process.
    pub fn run(&mut self, args: &[&str]) -> Pid {
        let command = self.command(&[&["run"], args].concat());
        self.begin(command)
    }

    pub fn begin(&mut self, mut command: Command) -> Pid {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut ready).expect("it says so");
        let (_, process) = ready.split_once(" runs as process ").unwrap_or_else(|| panic!("{ready}"));
        let process = process.split(':').next().and_then(|number| number.parse().ok()).and_then(Pid::from_raw);
        self.running.push(child);
        process.expect("its number")
    }

    pub fn attach(&self, target: &str, library: &str) -> Ran {
        self.remora(&["attach", target, "--clsid", CLASS, "--library", library])
    }

    /// A library whose first export does this.
    pub fn written_in_c(&self, body: &str) -> String {
        let (source, library) = (self.directory.path("profiler.c"), self.directory.path("profiler.so"));
        let text = format!(
            "#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/socket.h>\n#include <sys/un.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint DllGetClassObject(void) {{ {body} return 0x80004005; }}\n"
        );
        std::fs::write(&source, text).expect("written");
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o", &library, &source]).status();
        assert!(status.expect("cc starts").success());
        library
    }

    /// The files in the directory of the sockets.
    pub fn files(&self) -> usize {
        let place = std::fs::read_dir(self.directory.path("")).expect("the directory").flatten();
        let place = place.map(|entry| entry.path()).find(|path| path.is_dir()).expect("the place");
        std::fs::read_dir(place).expect("it can be read").count()
    }

    /// A library with one fault.
    pub fn broken(&self, fault: &str) -> String {
        let this = std::env::current_exe().expect("this program");
        let beside: PathBuf = this.parent().expect("a folder").join("libremora_broken_profilers.so");
        let library = self.directory.path(&format!("{fault}.so"));
        std::fs::copy(beside, &library).expect("copied");
        library
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        for child in &mut self.running {
            drop(child.stdin.take());
            if matches!(child.try_wait(), Ok(None)) {
                // Not waited for yet, so the number is still its own. It ends its target, whatever has become of that.
                for signal in [Signal::TERM, Signal::CONT] {
                    let _ = kill_process(Pid::from_child(child), signal);
                }
                let _ = child.wait();
            }
        }
    }
}
