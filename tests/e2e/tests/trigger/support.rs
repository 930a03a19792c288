//! Runtimes, and programs that run until the test ends them.

use remora_attach::{Attach, Error, Guid, HResult, Process, Version, attach, place_library, processes};
use remora_e2e::{Runtime, on_runtimes};
use remora_holds::holds;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Long enough for any machine.
pub const PATIENT: Duration = Duration::from_secs(60);
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trigger/fixtures");

/// An installation of .NET.
pub struct Root {
    /// Directory with `dotnet`.
    pub directory: PathBuf,
}

impl Root {
    /// The one version of the runtime in it.
    pub fn version(&self) -> Version {
        Version::parse(&self.framework().file_name().expect("named").to_string_lossy()).expect("a version")
    }

    /// Directory of the runtime.
    pub fn framework(&self) -> PathBuf {
        let mut versions = std::fs::read_dir(self.directory.join("shared/Microsoft.NETCore.App"))
            .unwrap_or_else(|error| panic!("{} is no .NET root: {error}", self.directory.display()));
        versions.next().expect("one version").expect("entry").path()
    }
}

/// Runs a test on every runtime.
pub fn each_root(test: impl Fn(&Root)) {
    each_root_from(0, test);
}

/// Runs a test on every runtime of this major version or a later one.
pub fn each_root_from(major: u32, test: impl Fn(&Root)) {
    on_runtimes(&Runtime::from_major(major), |runtime| test(&Root { directory: runtime.root().to_path_buf() }));
}

/// A library that a runtime can load, compiled once.
pub fn probe() -> Vec<u8> {
    static PROBE: OnceLock<Vec<u8>> = OnceLock::new();
    PROBE.get_or_init(|| compile("probe.rs", &["--crate-type", "cdylib", "-C", "panic=abort"])).clone()
}

/// A program that hosts the runtime, compiled once.
fn host() -> Vec<u8> {
    static HOST: OnceLock<Vec<u8>> = OnceLock::new();
    HOST.get_or_init(|| compile("host.rs", &["--edition", "2024"])).clone()
}

fn compile(source: &str, options: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("output");
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(options).arg("-o").arg(&output);
    let status = compiler.arg(Path::new(FIXTURES).join(source)).status().expect("rustc runs");
    assert!(status.success(), "{source} compiles");
    std::fs::read(output).expect("readable")
}

/// CLASS_E_CLASSNOTAVAILABLE: the runtime's answer after it has loaded the probe, which has no class.
pub const HAS_NO_CLASS: HResult = HResult(0x8004_0111);

/// Places the probe, attaches it, and checks by the refusal that the target has loaded it. Returns the runtime's answer.
pub fn library_loads(process: &Process) -> HResult {
    let library = place_library(process, &probe()).expect("placed");
    let request = Attach { timeout: PATIENT, ..Attach::new(Guid([1; 16]), library.target_path.clone()) };
    let answer = attach(process, &request);
    let Err(Error::RuntimeRefused(code)) = answer else { panic!("{answer:?} from {:?}", library.target_path) };
    holds!(ATT_06 clr rem, code == HAS_NO_CLASS, "from {:?}", library.target_path);
    library.remove().expect("removed");
    code
}

/// A .NET program that runs until it is dropped.
pub struct Sleeper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    mark: String,
    _program: tempfile::TempDir,
}

impl Sleeper {
    /// Starts one through the command `prefix`, and waits until managed code runs in it.
    pub fn start(root: &Root, prefix: &[&str], environment: &[(&str, &str)]) -> Sleeper {
        let mut sleeper = Sleeper::start_without_waiting(root, prefix, environment);
        sleeper.wait_until_ready();
        sleeper
    }

    /// Starts one and returns at once.
    pub fn start_without_waiting(root: &Root, prefix: &[&str], environment: &[(&str, &str)]) -> Sleeper {
        let program = program();
        let mut words: Vec<OsString> = prefix.iter().map(Into::into).collect();
        words.extend([root.directory.join("dotnet").into(), program.path().join("Sleeper.dll").into()]);
        Sleeper::run(words, environment, program)
    }

    fn run(mut words: Vec<OsString>, environment: &[(&str, &str)], program: tempfile::TempDir) -> Sleeper {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("sleeper-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        words.push(mark.clone().into());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .envs(environment.iter().copied())
            .env("PROGRAM", program.path().join("Sleeper.dll"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let input = child.stdin.take();
        Sleeper { child, input, output, mark, _program: program }
    }

    /// Starts one inside another program that hosts the runtime, from a separate copy of the runtime.
    pub fn start_hosted(root: &Root) -> Sleeper {
        let program = program();
        let runtime = program.path().join("runtime");
        std::fs::create_dir(&runtime).expect("made");
        for entry in std::fs::read_dir(root.framework()).expect("readable") {
            let entry = entry.expect("entry");
            // The kernel reports the real path of a mapped file, so that one must be a copy.
            match entry.file_name() == "libcoreclr.so" {
                true => drop(std::fs::copy(entry.path(), runtime.join(entry.file_name())).expect("copied")),
                false => std::os::unix::fs::symlink(entry.path(), runtime.join(entry.file_name())).expect("linked"),
            }
        }
        let host_path = program.path().join("host");
        std::fs::write(&host_path, host()).expect("written");
        make_readable(&host_path, 0o755);
        let words = vec![host_path.into(), runtime.into(), program.path().join("Sleeper.dll").into()];
        let mut sleeper = Sleeper::run(words, &[], program);
        sleeper.wait_until_ready();
        sleeper
    }

    /// Waits until managed code runs in it.
    pub fn wait_until_ready(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("readable");
        assert_eq!(line, "ready\n", "the program starts");
    }

    /// Its id, if it was started without a prefix.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that runs .NET, which may be a child of the started one.
    pub fn find(&self) -> Process {
        let mut all = processes().expect("listed");
        // The prefix command has the mark, too, and more words.
        all.retain(|process| {
            process.command_line.last().is_some_and(|last| *last == *self.mark) && process.command_line.len() <= 4
        });
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Stops it, and waits until it is stopped.
    pub fn stop(&self) {
        let pid = self.raw_pid();
        kill_process(pid, Signal::STOP).expect("signalled");
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("waited").expect("it is ours");
    }

    /// Lets it go on, and waits until it does.
    pub fn go_on(&self) {
        let pid = self.raw_pid();
        kill_process(pid, Signal::CONT).expect("signalled");
        waitpid(Some(pid), WaitOptions::CONTINUED).expect("waited").expect("it is ours");
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("small")).expect("not zero")
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // The program ends with its input; killing is for those that cannot read it.
        drop(self.input.take());
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The program in a directory that every user can read.
fn program() -> tempfile::TempDir {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    make_readable(directory.path(), 0o755);
    for name in ["Sleeper.dll", "Sleeper.runtimeconfig.json"] {
        let copy = directory.path().join(name);
        std::fs::copy(Path::new(FIXTURES).join(name), &copy).expect("copied");
        make_readable(&copy, 0o644);
    }
    directory
}

fn make_readable(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}
