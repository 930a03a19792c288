//! What belongs to the whole process, and what a profiler has changed there: working directory, file mask, limits.
//!
//! A limit that is too low would end the run, and not the profiler: the model needs memory, threads and descriptors. So it is raised again
//! as far as the system allows, and reported.

use super::page::Line;
use super::{monitor, observer};
use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

type Resource = libc::__rlimit_resource_t;

/// Every limit, with its name.
const LIMITS: [(Resource, &str); 16] = [
    (libc::RLIMIT_AS, "RLIMIT_AS"),
    (libc::RLIMIT_CORE, "RLIMIT_CORE"),
    (libc::RLIMIT_CPU, "RLIMIT_CPU"),
    (libc::RLIMIT_DATA, "RLIMIT_DATA"),
    (libc::RLIMIT_FSIZE, "RLIMIT_FSIZE"),
    (libc::RLIMIT_LOCKS, "RLIMIT_LOCKS"),
    (libc::RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK"),
    (libc::RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE"),
    (libc::RLIMIT_NICE, "RLIMIT_NICE"),
    (libc::RLIMIT_NOFILE, "RLIMIT_NOFILE"),
    (libc::RLIMIT_NPROC, "RLIMIT_NPROC"),
    (libc::RLIMIT_RSS, "RLIMIT_RSS"),
    (libc::RLIMIT_RTPRIO, "RLIMIT_RTPRIO"),
    (libc::RLIMIT_RTTIME, "RLIMIT_RTTIME"),
    (libc::RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING"),
    (libc::RLIMIT_STACK, "RLIMIT_STACK"),
];

/// Those that the model needs.
const NEEDED: [usize; 4] = [0, 3, 9, 10];

/// The limits before the profiler.
static BEFORE: OnceLock<[libc::rlimit; LIMITS.len()]> = OnceLock::new();
/// The profiler has lowered a needed limit.
static IS_LIMITED: AtomicBool = AtomicBool::new(false);
/// The limits of which that is written, as bits.
static REPORTED: AtomicU32 = AtomicU32::new(0);

/// The state at an instant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProcessWide {
    folder: Option<String>,
    file_mask: Option<String>,
    limits: BTreeMap<&'static str, u64>,
    /// Threads whose system calls are filtered.
    filtered: usize,
}

impl ProcessWide {
    /// Reads it.
    pub fn now() -> ProcessWide {
        let limits = LIMITS.into_iter().map(|(resource, name)| (name, limit(resource).rlim_cur)).collect();
        let (folder, file_mask, filtered) = observer::look(|| {
            let folder = fs::read_link("/proc/self/cwd").ok().map(|folder| folder.to_string_lossy().into_owned());
            let file_mask = field("/proc/self/status", "Umask:");
            let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
            let is_filtered = |task: &fs::DirEntry| {
                let path = task.path().join("status");
                field(&path.to_string_lossy(), "Seccomp:").is_some_and(|mode| mode != "0")
            };
            (folder, file_mask, tasks.filter(is_filtered).count())
        });
        ProcessWide { folder, file_mask, limits, filtered }
    }

    /// What was changed since `before`.
    pub fn changes(&self, before: &ProcessWide) -> Vec<String> {
        let mut changes = Vec::new();
        if self.folder.is_some() && before.folder.is_some() && self.folder != before.folder {
            changes.push("the working directory".to_owned());
        }
        if self.file_mask.is_some() && before.file_mask.is_some() && self.file_mask != before.file_mask {
            changes.push("the mask of new files (umask)".to_owned());
        }
        let changed =
            self.limits.iter().filter(|(name, limit)| before.limits.get(*name).is_some_and(|one| one != *limit));
        let is_reported = |name: &str| {
            let place = LIMITS.iter().position(|(_, known)| *known == name);
            place.is_some_and(|place| REPORTED.load(Ordering::SeqCst) & 1 << place != 0)
        };
        let changed = changed.filter(|(name, _)| !is_reported(name));
        changes.extend(changed.map(|(name, _)| format!("the limit {name}")));
        if self.filtered > before.filtered {
            changes.push("the system calls that threads may make (seccomp)".to_owned());
        }
        changes
    }
}

/// The limits from now on are not the profiler's.
pub fn begin() {
    // The first call counts.
    let _ = BEFORE.set(LIMITS.map(|(resource, _)| limit(resource)));
}

/// Reports limits that the profiler has lowered and that the run needs, and raises them again.
pub fn raise_limits() {
    for place in lowered() {
        let (resource, name) = LIMITS[place];
        if REPORTED.fetch_or(1 << place, Ordering::SeqCst) & 1 << place == 0 {
            IS_LIMITED.store(true, Ordering::SeqCst);
            monitor::write(&Line::Seen(format!(
                "the profiler lowers the limit {name} of the process to {}: the program can reach it at any time",
                limit(resource).rlim_cur
            )));
        }
        raise(place);
    }
}

/// Whether the profiler has lowered a limit that the run needs. A signal handler may ask.
pub fn is_limited() -> bool {
    IS_LIMITED.load(Ordering::SeqCst) || lowered().next().is_some()
}

/// Our own code has panicked. If the profiler is the cause, the run ends, and says so.
pub fn panicked(message: &str) {
    if message.contains(MISALIGNED) {
        monitor::broken("MOD-01", "an address that the profiler gave is not aligned for what the runtime reads there");
    } else if is_limited() {
        raise_limits();
    } else {
        return monitor::failed(message);
    }
    monitor::write(&Line::Done);
    // SAFETY: takes a number. The locks of this thread do not matter any more.
    unsafe { libc::_exit(0) };
}

/// A check of the compiler's, in builds for tests only.
const MISALIGNED: &str = "misaligned pointer dereference";

fn lowered() -> impl Iterator<Item = usize> {
    let before = BEFORE.get();
    let is_lower =
        move |place: &usize| before.is_some_and(|before| limit(LIMITS[*place].0).rlim_cur < before[*place].rlim_cur);
    NEEDED.into_iter().filter(is_lower)
}

/// As high as before, or as high as the system allows.
fn raise(place: usize) {
    let (resource, wanted) = (LIMITS[place].0, BEFORE.get().map(|before| before[place]));
    let Some(wanted) = wanted else { return };
    // SAFETY: a local value.
    if unsafe { libc::setrlimit(resource, &raw const wanted) } == 0 {
        return;
    }
    let most = limit(resource).rlim_max;
    let possible = libc::rlimit { rlim_cur: most.min(wanted.rlim_cur), rlim_max: most };
    // SAFETY: a local value. A failure leaves the limit.
    unsafe { libc::setrlimit(resource, &raw const possible) };
}

fn limit(resource: Resource) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a local place.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit
}

/// A field of a status file.
fn field(path: &str, name: &str) -> Option<String> {
    let status = fs::read_to_string(path).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}
