//! A running target: a program that prints `ready`, answers questions, and ends with the test.

use crate::child_process::{send, wait_for};
use crate::{MemoryGroup, Runtime, TIMEOUT};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

/// A program about to be started.
pub struct Start {
    command: Command,
    name: String,
}

impl Start {
    /// One of `tests/targets`, on this runtime.
    pub fn managed(runtime: &Runtime, name: &str) -> Start {
        Start::of(runtime.command(name), &format!("{name} on {}", runtime.name()))
    }

    /// Any other command with the same protocol: `ready` first, then one line for each line.
    pub fn of(mut command: Command, name: &str) -> Start {
        // Settings of this machine must not influence the test.
        for variable in
            ["DOTNET_EnableDiagnostics", "CORECLR_ENABLE_PROFILING", "CORECLR_PROFILER", "CORECLR_PROFILER_PATH"]
        {
            command.env_remove(variable);
        }
        Start { command, name: name.to_owned() }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Start {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Start {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of the target's environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Start {
        self.command.env(name, value);
        self
    }

    /// Runs it through a shell script in a separate mount namespace. The script gets the command as its arguments and ends in `exec
    /// "$@"`.
    pub fn behind(self, script: &str) -> Start {
        let mut shell = Command::new("unshare");
        shell.args(["-m", "sh", "-ec", script, "sh"]);
        self.by(shell, &format!("behind `{script}`"))
    }

    /// Runs it as another user, without capabilities except reading every file: programs may be where only root can read.
    pub fn as_user(self, user: u32) -> Start {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg("--clear-groups");
        command.args(["--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"]);
        self.by(command, &format!("as user {user}"))
    }

    /// Starts it in a control group.
    pub fn in_group(self, group: &MemoryGroup) -> Start {
        self.by(group.command(), "in a control group")
    }

    /// Through a command that executes it.
    fn by(self, mut command: Command, how: &str) -> Start {
        command.arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Start { command, name: format!("{} {how}", self.name) }
    }

    /// The command itself, for all other changes.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts it and waits until it prints `ready`.
    pub fn ready(self) -> Target {
        let target = self.spawn();
        let line = target.read_line();
        assert_eq!(line, "ready", "{} did not say that it is ready{}", target.name, target.said());
        target
    }

    /// Starts it without waiting.
    pub fn spawn(mut self) -> Target {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", self.name));
        let stdin = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let errors = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            collect(stderr, Arc::clone(&errors));
        }
        Target { child, stdin, lines, errors, name: self.name }
    }
}

/// A running program. It is killed, by its id, when the value is dropped.
pub struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Arc<Mutex<String>>,
    name: String,
}

impl Target {
    /// Starts one of `tests/targets` on this runtime and waits until it is ready.
    pub fn start(runtime: &Runtime, name: &str, arguments: &[&str]) -> Target {
        Start::managed(runtime, name).args(arguments).ready()
    }

    /// The compiled assembly of one of `tests/targets`.
    pub fn assembly(name: &str) -> PathBuf {
        let targets = PathBuf::from(crate::expected("REMORA_TEST_TARGETS"));
        let assembly = targets.join(name).join(format!("{name}.dll"));
        assert!(assembly.is_file(), "there is no test program {}", assembly.display());
        assembly
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process id as an argument.
    pub fn pid_argument(&self) -> OsString {
        self.pid().to_string().into()
    }

    /// Sends a line and returns the answering line.
    pub fn ask(&mut self, question: &str) -> String {
        self.tell(question);
        self.read_line()
    }

    /// [`Target::ask`] for a numeric answer.
    pub fn ask_number(&mut self, question: &str) -> u64 {
        let answer = self.ask(question);
        answer.parse().unwrap_or_else(|_| panic!("{} answered `{answer}` to `{question}`, not a number", self.name))
    }

    /// Sends a line.
    pub fn tell(&mut self, line: &str) {
        let Some(stdin) = &mut self.stdin else { panic!("{} has no standard input any more", self.name) };
        if let Err(error) = writeln!(stdin, "{line}") {
            panic!("cannot tell {} `{line}`: {error}{}", self.name, self.said());
        }
    }

    /// The next line of its output.
    pub fn read_line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("{} said nothing more{}", self.name, self.said()))
    }

    /// Its standard error so far.
    pub fn errors(&self) -> String {
        self.errors.lock().map(|text| text.clone()).unwrap_or_default()
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The kernel's letter for its state: R, S, T, t.
    pub fn state(&self) -> char {
        self.thread_state(self.pid())
    }

    /// The same letter of one of its threads.
    pub fn thread_state(&self, thread: u32) -> char {
        let path = format!("/proc/{}/task/{thread}/stat", self.pid());
        let stat = crate::process_facts::text_of(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.unwrap_or_else(|| panic!("{path} is not what it should be: {stat}"))
    }

    /// Stops it, and returns when it has stopped.
    pub fn halt(&self) {
        self.signal(rustix::process::Signal::STOP);
        crate::until("it has stopped", || self.state() == 'T');
    }

    /// Resumes it after [`Target::halt`].
    pub fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
        crate::until("it goes on", || self.state() != 'T');
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        send(self.pid(), signal);
    }

    /// Asks it to end and returns its exit status.
    pub fn quit(mut self) -> ExitStatus {
        self.tell("quit");
        self.wait()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.stdin = None;
        wait_for(&mut self.child, &self.name)
    }

    fn said(&self) -> String {
        match self.errors() {
            errors if errors.is_empty() => String::new(),
            errors => format!("; its standard error:\n{errors}"),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects all data of `stream`, on a separate thread.
fn collect(mut stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            if let Ok(mut text) = into.lock() {
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        }
    });
}
