//! Fields of the text files in `/proc`.

use rustix::process::Pid;
use std::fs;

/// The rest of the line that begins with `name`, without the space around it. `None` if there is no such file or line.
pub fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

/// The state of a thread, or of a process's first one, as a letter of proc_pid_stat(5).
pub fn state(thread: Pid) -> Option<char> {
    field(&format!("/proc/{thread}/status"), "State:")?.chars().next()
}
