//! `/proc/PID/status`: ids, namespaced pid, tracer, capabilities, pending signals.
//!
//! A missing line (an older kernel) leaves its field at the default; nothing is refused.

/// A capability that matters to access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Capability {
    /// Ignores file permissions.
    DacOverride = 1,
    /// Ignores read permission of files and search permission of directories.
    DacReadSearch = 2,
    /// Takes the group of another user.
    #[strum(serialize = "SETGID")]
    SetGid = 6,
    /// Takes the rights of another user.
    #[strum(serialize = "SETUID")]
    SetUid = 7,
    /// May examine other users' processes.
    SysPtrace = 19,
}

impl Capability {
    /// Whether it is among these, as the bits of `CapEff`.
    pub(crate) fn is_in(self, capabilities: u64) -> bool {
        capabilities & (1 << self as u32) != 0
    }
}

/// What is read of `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Process id of the thread's process; differs from the thread's own id for all but the first.
    pub process_id: u32,
    /// Real user id.
    pub real_uid: u32,
    /// Real group id.
    pub real_gid: u32,
    /// Effective user id.
    pub effective_uid: u32,
    /// User id for file access.
    pub file_uid: u32,
    /// Group id for file access.
    pub file_gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The process id in the innermost pid namespace: the process's own view.
    pub namespaced_pid: Option<u32>,
    /// The tracer; 0 if none.
    pub tracer_pid: u32,
    /// Number of threads.
    pub threads: u32,
    /// Effective capabilities, in its own user namespace.
    pub capabilities: u64,
    /// 0 none, 1 strict, 2 filter.
    pub seccomp: u32,
    /// Whether execve can no longer raise privileges.
    pub no_new_privileges: u32,
    /// Queued signals of its user, and their limit.
    pub queued_signals: Option<(u64, u64)>,
}

impl Status {
    /// Whether the process has the capability.
    pub fn is_capable(&self, capability: Capability) -> bool {
        capability.is_in(self.capabilities)
    }
}

/// Reads `status`.
pub fn parse_status(bytes: &[u8]) -> Status {
    let mut status = Status::default();
    for line in String::from_utf8_lossy(bytes).lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let number = |index: usize| value.split_ascii_whitespace().nth(index).and_then(|word| word.parse().ok());
        match key {
            "Tgid" => status.process_id = number(0).unwrap_or_default(),
            "Uid" => {
                status.real_uid = number(0).unwrap_or_default();
                status.effective_uid = number(1).unwrap_or_default();
                status.file_uid = number(3).unwrap_or_default();
            }
            "Gid" => {
                status.real_gid = number(0).unwrap_or_default();
                status.file_gid = number(3).unwrap_or_default();
            }
            "Groups" => status.groups = value.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect(),
            "NSpid" => status.namespaced_pid = value.split_ascii_whitespace().last().and_then(|word| word.parse().ok()),
            "TracerPid" => status.tracer_pid = number(0).unwrap_or_default(),
            "Threads" => status.threads = number(0).unwrap_or_default(),
            "CapEff" => status.capabilities = u64::from_str_radix(value, 16).unwrap_or_default(),
            "Seccomp" => status.seccomp = number(0).unwrap_or_default(),
            "NoNewPrivs" => status.no_new_privileges = number(0).unwrap_or_default(),
            "SigQ" => status.queued_signals = pair(value),
            _ => {}
        }
    }
    status
}

fn pair(value: &str) -> Option<(u64, u64)> {
    let (used, limit) = value.split_once('/')?;
    Some((used.parse().ok()?, limit.parse().ok()?))
}
