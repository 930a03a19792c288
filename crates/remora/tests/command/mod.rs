//! Runs the command in tests, and provides places for its outputs.
//! Command and golden recording are copied, since their directories may be closed to other users.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: u8,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(command: &mut Command) -> Ran {
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
        let code = output.status.code().and_then(|code| u8::try_from(code).ok());
        let code = code.unwrap_or_else(|| panic!("{:?}: {:?}", command.get_args(), output.status));
        Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Its standard output; it must have succeeded.
    #[track_caller]
    pub fn succeeds(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// Its one-line message; it must have failed with this status.
    #[track_caller]
    pub fn fails(self, code: u8) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        let message = self.stderr.strip_suffix('\n').expect("the line ends").to_owned();
        assert!(!message.contains('\n'), "{message}");
        message
    }
}

/// Path of the golden recording.
pub fn golden() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../host/recording/tests/golden/v1.remora")
}

/// Runs the command.
pub fn remora<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    Ran::of(plain(&mut Command::new(env!("CARGO_BIN_EXE_remora"))).args(args))
}

/// Runs the command with a standard output whose reader is closed.
pub fn remora_into_a_closed_pipe<const N: usize>(args: [&str; N]) -> Ran {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_remora"));
    let child = plain(&mut command).args(args).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn();
    let output = child.expect("it starts").wait_with_output().expect("it ends");
    let code = output.status.code().and_then(|code| u8::try_from(code).ok()).expect("it ended by itself");
    Ran { code, stdout: String::new(), stderr: String::from_utf8(output.stderr).expect("it is text") }
}

/// Removes environment variables that would change the output.
fn plain(command: &mut Command) -> &mut Command {
    for variable in ["CLICOLOR_FORCE", "COLUMNS", "TERM"] {
        command.env_remove(variable);
    }
    command
}

/// A temporary directory, removed on drop, that other users may enter.
pub struct Directory(tempfile::TempDir);

impl Directory {
    pub fn new() -> Directory {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
        Directory(directory)
    }

    /// The path of `name` in it.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("it is text").to_owned()
    }

    /// Its entries, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("it can be read");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    /// Runs the command as an unprivileged user. Command and golden recording are copied, since their directories may be closed to other
    /// users.
    pub fn remora_as_nobody<const N: usize>(&self, args: [&str; N]) -> Ran {
        let open = Directory::new();
        let (program, input) = (open.path("remora"), open.path("golden.remora"));
        std::fs::copy(env!("CARGO_BIN_EXE_remora"), &program).expect("copied");
        std::fs::copy(golden(), &input).expect("copied");
        let args = args.map(|arg| if arg == golden() { input.clone() } else { arg.to_owned() });
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &program]);
            command
        } else {
            Command::new(program)
        };
        Ran::of(plain(&mut command).args(args))
    }

    /// Runs the command with this directory on a disk of `size`, mounted for the command only.
    pub fn remora_on_a_small_disk<const N: usize>(&self, size: &str, args: [&str; N]) -> Ran {
        let mut command = Command::new("unshare");
        command.arg(if is_root() { "--mount" } else { "-rm" });
        command.args(["sh", "-c", "mount -t tmpfs -o size=$1 tmpfs \"$2\" && shift 2 && exec \"$@\"", "sh", size]);
        command.args([&self.path(""), env!("CARGO_BIN_EXE_remora")]);
        Ran::of(plain(&mut command).args(args))
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
