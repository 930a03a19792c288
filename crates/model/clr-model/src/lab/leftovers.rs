//! A profiler's remains in the process besides its library: threads, timers, signal handlers, children, descriptors.
//!
//! Read from the system before the attach and later; the difference belongs to the profiler. Threads of the runtime's side are known by
//! their numbers. Threads that the kernel is already removing do not count.

use super::{observer, system};
use crate::mutation;
use crate::schedule::threads::os_threads;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The kernel is taking the thread apart, or it is one of the kernel's own for io_uring, which executes no code of the process (PF_EXITING,
/// PF_IO_WORKER and PF_USER_WORKER of include/linux/sched.h, as `/proc/PID/task/TID/stat` shows them).
const NOT_OF_THE_PROCESS: u64 = 0x4 | 0x10 | 0x4000;

/// So many descriptors are read, the lowest ones: a look at all of them would take too long if the profiler uses up all.
const MOST_DESCRIPTORS: usize = 1024;

/// The state at an instant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProcessState {
    threads: BTreeMap<u32, String>,
    timers: BTreeSet<String>,
    handlers: BTreeMap<i32, usize>,
    children: BTreeMap<u32, String>,
    descriptors: BTreeMap<String, String>,
    /// The system did not show it: no descriptor is free, or a filter forbids to read.
    is_hidden: bool,
}

/// A new resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Whether it lets code enter the library. Descriptors are only untidy.
    pub is_a_way_in: bool,
    /// Its description.
    pub what: String,
}

impl Leftover {
    /// Whether it may be gone soon, without being a fault: threads must be joined, and timers deleted, before the request.
    pub fn may_pass(&self) -> bool {
        self.what.starts_with("a child process") || self.what.starts_with("a handler")
    }
}

impl ProcessState {
    /// Reads the state. `None` if the observer did not answer.
    pub fn now() -> Option<ProcessState> {
        observer::look(|| ProcessState {
            threads: threads(),
            timers: timers(),
            handlers: system::handlers(),
            children: children(),
            descriptors: descriptors(),
            is_hidden: is_hidden(),
        })
    }

    /// The threads now that are not in this state, with their names. `None` if the observer did not answer.
    pub fn new_threads(&self) -> Option<BTreeMap<u32, String>> {
        let mut threads = observer::look(threads)?;
        threads.retain(|id, _| !self.threads.contains_key(id));
        Some(threads)
    }

    /// The threads now that are neither in this state nor among `own`.
    pub fn threads_besides(&self, own: Vec<u32>) -> Vec<u32> {
        numbers("/proc/self/task").filter(|id| !own.contains(id) && !self.threads.contains_key(id)).collect()
    }

    /// Whether descriptors of this state are closed now.
    pub fn has_closed_descriptors(&self) -> bool {
        // The system may not show them.
        let can_look = || !is_hidden() && fs::read_link("/proc/self/exe").is_ok();
        let now = observer::look(move || can_look().then(descriptors));
        now.flatten().is_some_and(|now| {
            // One of them may be the reader's own, which is not listed.
            let are_all = now.len() < MOST_DESCRIPTORS - 1;
            let last = now.keys().filter_map(|number| number.parse::<u32>().ok()).max();
            let is_read = |number: &str| are_all || number.parse().ok() < last;
            self.descriptors.keys().any(|number| is_read(number) && !now.contains_key(number))
        })
    }

    /// Whether the system did not show it, so that nothing in it means nothing.
    pub fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// The resources beyond `before`, except the thread `asker`.
    pub fn beyond(&self, before: &ProcessState, asker: Option<u32>) -> Vec<Leftover> {
        let way_in = |what: String| Leftover { is_a_way_in: true, what };
        let threads = self.threads.iter().filter(|(id, _)| !before.threads.contains_key(id) && Some(**id) != asker);
        let threads =
            threads.map(|(_, name)| Leftover { is_a_way_in: !mutation::is("DET-04/6"), what: named("a thread", name) });
        let timers = self.timers.difference(&before.timers).map(|name| way_in(kind(name)));
        let handlers = self.handlers.iter().filter(|(signal, handler)| before.handlers.get(signal) != Some(handler));
        let handlers = handlers.map(|(signal, handler)| handling(*signal, *handler));
        let children = self.children.iter().filter(|(id, _)| !before.children.contains_key(id));
        let children = children.map(|(_, name)| way_in(named("a child process", name)));
        let descriptors = self.descriptors.iter().filter(|(number, _)| !before.descriptors.contains_key(*number));
        let descriptors = descriptors
            .map(|(_, link)| Leftover { is_a_way_in: false, what: format!("a descriptor ({})", kind(link)) });
        threads.chain(timers).chain(handlers).chain(children).chain(descriptors).collect()
    }
}

/// A changed action of a signal. Only code of the library is a way into it.
fn handling(signal: i32, handler: usize) -> Leftover {
    let (is_a_way_in, what) = match handler {
        libc::SIG_IGN => (false, format!("a changed action of signal {signal} (it is ignored)")),
        libc::SIG_DFL => (false, format!("a changed action of signal {signal} (the default one)")),
        _ => (true, format!("a handler of signal {signal}")),
    };
    Leftover { is_a_way_in, what }
}

/// Whether the system shows nothing: the folder of the threads cannot be read, or no file.
fn is_hidden() -> bool {
    numbers("/proc/self/task").next().is_none() || Stat::read("/proc/self/stat").is_none()
}

/// Whether a thread of this process has not ended, as far as is known.
pub fn is_alive(thread: u32) -> bool {
    observer::look(move || fs::metadata(format!("/proc/self/task/{thread}")).is_ok()).unwrap_or(true)
}

/// With its name, unless it has the inherited one.
pub(super) fn named(what: &str, name: &str) -> String {
    let own = observer::look(|| fs::read_to_string("/proc/self/comm").unwrap_or_default()).unwrap_or_default();
    if name == own.trim_end() { what.to_owned() } else { format!("{what} ({name})") }
}

/// Without its number, which differs in each run: `POSIX timer #3`, `socket:[4711]`, but `anon_inode:[eventfd]`.
fn kind(name: &str) -> String {
    let is_number = |text: &str| text.trim_matches(['[', ']']).bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once([':', '#']) {
        Some((kind, number)) if is_number(number) => kind.trim_end().to_owned(),
        _ => name.to_owned(),
    }
}

/// Whether a thread of this process is in uninterruptible sleep (state D in proc(5)), as in a system call on a slow disk. A look that
/// does not come is as slow.
pub fn waits_for_a_disk(thread: u32) -> bool {
    let read = move || fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    observer::look(read).is_none_or(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D')))
}

/// Threads that do not belong to the runtime's side and do not end right now, with their names.
fn threads() -> BTreeMap<u32, String> {
    let Some(os_threads) = os_threads() else { return BTreeMap::new() };
    let ids: Vec<u32> =
        os_threads.with_own_threads(|own| numbers("/proc/self/task").filter(|id| !own.contains(id)).collect());
    let of = |id: u32| {
        let stat = Stat::read(&format!("/proc/self/task/{id}/stat"))?;
        (stat.flags & NOT_OF_THE_PROCESS == 0).then_some((id, stat.name))
    };
    ids.into_iter().filter_map(of).collect()
}

fn timers() -> BTreeSet<String> {
    let posix = fs::read_to_string("/proc/self/timers").unwrap_or_default();
    let posix = posix.lines().filter_map(|line| line.strip_prefix("ID: ")).map(|id| format!("a POSIX timer #{id}"));
    posix.chain(system::interval_timers().map(str::to_owned)).collect()
}

/// Children, including grandchildren whose parents have ended: the run is their reaper. And those that have the run's parent (CLONE_PARENT):
/// they are in its group.
fn children() -> BTreeMap<u32, String> {
    let this = std::process::id();
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs());
    let is_child =
        |id: u32, stat: &Stat| stat.parent == this || stat.parent == parent && stat.group == this && id != this;
    let all = numbers("/proc").filter_map(|id| Some((id, Stat::read(&format!("/proc/{id}/stat"))?)));
    all.filter(|(id, stat)| is_child(*id, stat)).map(|(id, stat)| (id, stat.name)).collect()
}

fn descriptors() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return BTreeMap::new() };
    let links = entries.take(MOST_DESCRIPTORS).filter_map(|entry| {
        let entry = entry.ok()?;
        // The descriptor that reads the folder itself is closed before its link is read.
        let link = fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
        let is_own_reading = link.starts_with("/proc/") && link.ends_with("/fd");
        (!is_own_reading).then(|| (entry.file_name().to_string_lossy().into_owned(), link))
    });
    links.collect()
}

fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

struct Stat {
    name: String,
    parent: u32,
    group: u32,
    flags: u64,
}

impl Stat {
    /// `None` if the process or thread has ended.
    fn read(path: &str) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(path).ok()?)
    }

    /// The name is in parentheses, and may contain some.
    fn parse(text: &str) -> Option<Stat> {
        let (before, after) = text.rsplit_once(") ")?;
        let mut fields = after.split(' ');
        // State, parent, group, then session, terminal, its group, and the flags.
        let (parent, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        let flags = fields.nth(3)?.parse().ok()?;
        Some(Stat { name: before.split_once('(')?.1.to_owned(), parent, group, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;

    #[test]
    fn the_kernels_line_is_read_whatever_the_name_is() {
        let stat = Stat::parse("7 (a) b (c) S 3 6 7 0 -1 4194564 1 2 3\n").expect("it is one");
        assert_eq!((stat.name.as_str(), stat.parent, stat.group, stat.flags), ("a) b (c", 3, 6, 4_194_564));
    }

    #[test]
    fn det_04_a_thread_that_was_not_there_is_a_way_in_unless_it_asks() {
        let before = ProcessState::default();
        let after = ProcessState { threads: [(9, "mine".to_owned())].into(), ..ProcessState::default() };
        holds!(DET_04 sim, after.beyond(&before, None) == [Leftover { is_a_way_in: true, what: "a thread (mine)".into() }]);
        assert_eq!(after.beyond(&before, Some(9)), []);
        assert_eq!(before.beyond(&after, None), [], "what has gone is not left");
    }
}
