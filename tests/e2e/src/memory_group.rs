//! A control group with a memory limit, in the version that has this machine's memory controller. Only one of the two has it.
//!
//! `cargo xtask ci` prints at its end which version was not tested.

use crate::until;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The conventional mount point.
const GROUPS: &str = "/sys/fs/cgroup";

/// The number of groups made by this process.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A group. It is removed when the value is dropped, which must be after its processes have ended.
#[derive(Debug)]
pub struct MemoryGroup {
    directory: PathBuf,
    /// The file with the kernel's count of OOM kills.
    events: &'static str,
}

impl MemoryGroup {
    /// A new group with a limit of `limit` bytes. It needs root.
    pub fn new(limit: u64) -> MemoryGroup {
        let own = read(Path::new("/proc/self/cgroup"));
        let lines = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let mut first = lines.filter(|(controllers, _)| controllers.split(',').any(|one| one == "memory"));
        let (above, file, events) = match first.next_back() {
            Some((_, path)) => {
                let above = Path::new(GROUPS).join("memory").join(path.trim_start_matches('/'));
                (above, "memory.limit_in_bytes", "memory.oom_control")
            }
            None => (second(), "memory.max", "memory.events"),
        };
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = above.join(format!("remora-test-{}-{number}", std::process::id()));
        fs::create_dir(&directory)
            .unwrap_or_else(|error| panic!("no control group can be made in {}: {error}", above.display()));
        write(&directory.join(file), &limit.to_string());
        MemoryGroup { directory, events }
    }

    /// A shell that joins it and executes its arguments.
    pub fn command(&self) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-ec", "echo $$ > \"$0/cgroup.procs\"; exec \"$@\""]).arg(&self.directory);
        shell
    }

    /// The number of OOM kills in it.
    pub fn kills(&self) -> u64 {
        let events = read(&self.directory.join(self.events));
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.and_then(|kills| kills.parse().ok()).unwrap_or_else(|| panic!("the kernel does not count: {events}"))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // An ended process may still be leaving it.
        if !std::thread::panicking() {
            until("the control group is empty", || fs::remove_dir(&self.directory).is_ok());
        }
    }
}

/// The root of version 2, whose children get the memory controller.
fn second() -> PathBuf {
    let root = Path::new(GROUPS);
    let controllers = root.join("cgroup.controllers");
    let has_memory =
        fs::read_to_string(&controllers).is_ok_and(|all| all.split_whitespace().any(|one| one == "memory"));
    assert!(
        has_memory,
        "no control group limits memory here: /proc/self/cgroup names none, nor does {}",
        controllers.display()
    );
    write(&root.join("cgroup.subtree_control"), "+memory");
    root.to_owned()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}
