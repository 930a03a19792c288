//! Reads one process's part of a `/proc` tree. The only file of this crate that touches the file system.

use crate::left::{is_ours, stays_on_purpose};
use crate::parse::{self, PERF_EVENT, Stat, Status, socket_inode};
use crate::snapshot::{Child, Descriptor, Descriptors, Memory, Placed, Presence, Signals, Snapshot, Thread, Unread};
use crate::{Error, Kind, Result};
use remora_attach::proc::in_time;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum bytes read of a file in `/proc`: a process's maximum of 65,530 mappings takes a tenth of it.
const READ_LIMIT: u64 = 64 << 20;
/// Maximum number of children and descendants that are looked at, and of bytes read of the `maps` of all of them. A child that shares the target's memory
/// has its mappings, too, so a few hundred children are gigabytes.
const MOST_CHILDREN: usize = 4096;
const CHILDREN_LIMIT: u64 = 64 << 20;
/// Maximum number of descriptors that are looked at, as many as Linux allows a process by default, and of bytes kept of their names.
const MOST_DESCRIPTORS: usize = 1 << 20;
const NAMES_LIMIT: usize = 1 << 20;
/// Maximum number of entries read of a directory. Linux has no more processes and threads.
const MOST_ENTRIES: usize = 4 << 20;
/// How often to reread a thread that currently blocks every signal, one millisecond apart.
const SETTLING_ROUNDS: u32 = 100;
/// How often for all threads together: a target can have thousands that never stop blocking signals.
const SETTLING_OF_ALL: u32 = 300;
/// The same for a sleeping thread: it most likely blocks them on purpose.
const SLEEPING_ROUNDS: u32 = 3;
/// The real-time signals that libc leaves to programs, 34 to 64.
const REAL_TIME: u64 = !0 << 33;
/// Above this resident size in KiB the proportional size is not read: the kernel walks every page for it.
const CHEAP_RESIDENT_KIB: u64 = 256 << 10;

/// Time for a look at a process: some seconds at most, unless it keeps the reader waiting.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The same for one file that was placed for it.
const TIMEOUT_OF_A_FILE: Duration = Duration::from_secs(5);

impl Snapshot {
    /// Reads process `process_id` through `proc_root` (`/proc`, or a tree like it). Threads that end meanwhile are skipped; unreadable
    /// parts are noted in [`Snapshot::unread`].
    ///
    /// # Errors
    /// [`Error::Gone`]; [`Error::Unreadable`], also if the process keeps its reader waiting for half a minute.
    pub fn take(proc_root: &Path, process_id: u32) -> Result<Snapshot> {
        let root = proc_root.to_owned();
        let look = move |_: &Path| Ok(Snapshot::take_now(&root, process_id));
        let taken = in_time(&proc_root.join(process_id.to_string()), TIMEOUT, look);
        taken.unwrap_or_else(|source| Err(Error::Unreadable { process_id, source }))
    }

    fn take_now(proc_root: &Path, process_id: u32) -> Result<Snapshot> {
        let directory = proc_root.join(process_id.to_string());
        let stat = identity(&directory, process_id)?;
        let mut reader = Reader::of(directory);
        let threads = reader.threads();
        let Some(place) = living(&reader.directory, &stat) else { return Err(Error::Gone { process_id }) };
        let mut snapshot = Snapshot { process_id, start_time: stat.start_time, threads, ..Snapshot::default() };
        reader.address_space(&place, &mut snapshot);
        reader.process_status(&place, &mut snapshot);
        snapshot.descriptors = reader.descriptors(&place);
        (snapshot.children, snapshot.descendants) = reader.family(proc_root, process_id);
        let timers = reader.directory.join("timers");
        let timers = reader.noted(Kind::Timer, &timers, read(&timers));
        snapshot.timers = timers.map(|text| parse::timers(&text)).unwrap_or_default();
        snapshot.unread = reader.unread;
        // If the process has ended or its id was reused, the data is meaningless, whatever was missing.
        let directory = proc_root.join(process_id.to_string());
        let again = identity(&directory, process_id)?;
        let same = again.start_time == stat.start_time && living(&directory, &again).is_some();
        if same { Ok(snapshot) } else { Err(Error::Gone { process_id }) }
    }

    /// Checks whether the files placed for the target (still) exist.
    pub fn look_for<P: AsRef<Path>>(&mut self, paths: &[P]) {
        for path in paths.iter().map(AsRef::as_ref) {
            let presence = presence(path);
            self.files.push(Placed { path: path.to_owned(), presence });
        }
    }
}

/// Whether `path` exists, even as a dangling link. The target may have put a link into its directory's place, and what that leads to may
/// keep us waiting.
fn presence(path: &Path) -> Presence {
    match in_time(path, TIMEOUT_OF_A_FILE, |path| fs::symlink_metadata(path)) {
        Ok(_) => Presence::Present,
        // Its directory is gone, and so is the file.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Presence::Absent
        }
        Err(_) => Presence::Unknown,
    }
}

fn identity(directory: &Path, process_id: u32) -> Result<Stat> {
    match read(&directory.join("stat")) {
        Ok(text) => parse::stat(&text).ok_or_else(|| Error::Unreadable {
            process_id,
            source: io::Error::new(io::ErrorKind::InvalidData, "its stat file is not one"),
        }),
        Err(error) if vanished(&error) => Err(Error::Gone { process_id }),
        Err(source) => Err(Error::Unreadable { process_id, source }),
    }
}

/// The directory to read the process's data from. A main thread that ended has no data, though other threads may still run.
fn living(directory: &Path, stat: &Stat) -> Option<PathBuf> {
    if !ended(stat) {
        return Some(directory.to_owned());
    }
    let tasks = directory.join("task");
    numbers(&tasks).ok()?.into_iter().map(|id| tasks.join(id.to_string())).find(|task| {
        let stat = read(&task.join("stat")).ok().and_then(|text| parse::stat(&text));
        stat.is_some_and(|stat| !ended(&stat))
    })
}

fn ended(stat: &Stat) -> bool {
    matches!(stat.state, 'Z' | 'X' | 'x')
}

/// The system's errors for an ended process or thread: no such file, or no such process (ESRCH).
fn vanished(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

fn read(path: &Path) -> io::Result<String> {
    read_up_to(path, READ_LIMIT)
}

fn read_up_to(path: &Path, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 64 MiB"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The numeric entries of a directory, sorted.
fn numbers(directory: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)?.take(MOST_ENTRIES) {
        if let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The kernel's own lists of a process's children, one per thread; `None` if this kernel has none.
fn listed_children(process: &Path) -> Option<Vec<u32>> {
    let tasks = process.join("task");
    let mut ids = Vec::new();
    let mut kept = false;
    for task in numbers(&tasks).ok()? {
        if let Ok(text) = read(&tasks.join(task.to_string()).join("children")) {
            kept = true;
            ids.extend(text.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    ids.sort_unstable();
    kept.then_some(ids)
}

/// Reads one process, and notes everything unreadable.
struct Reader {
    directory: PathBuf,
    unread: Vec<Unread>,
    /// Second looks at threads that are left.
    settling: u32,
    /// Bytes of children's `maps` that are left.
    of_children: u64,
    /// Children that were not looked at, or not at their `maps`.
    children_left_out: usize,
}

impl Reader {
    fn of(directory: PathBuf) -> Reader {
        let (settling, of_children) = (SETTLING_OF_ALL, CHILDREN_LIMIT);
        Reader { directory, unread: Vec::new(), settling, of_children, children_left_out: 0 }
    }

    fn note(&mut self, kind: Kind, path: &Path, error: &io::Error) {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let hint = if is_denied { " (the target's user or root may)" } else { "" };
        let error = format!("{error}{hint}");
        // A million descriptors with the same error are one finding.
        if !self.unread.iter().any(|known| known.kind == kind && known.error == error) {
            self.unread.push(Unread { kind, path: path.display().to_string(), error });
        }
    }

    /// Notes what was passed over.
    fn note_limit(&mut self, kind: Kind, path: &Path, limit: impl Into<String>) {
        self.note(kind, path, &io::Error::other(limit.into()));
    }

    /// The result; an error is noted.
    fn noted<T>(&mut self, kind: Kind, path: &Path, result: io::Result<T>) -> Option<T> {
        result.map_err(|error| self.note(kind, path, &error)).ok()
    }

    /// The result; an error is noted, unless the thing ended after it was listed.
    fn noted_unless_vanished<T>(&mut self, kind: Kind, path: &Path, result: io::Result<T>) -> Option<T> {
        match result {
            Err(error) if vanished(&error) => None,
            result => self.noted(kind, path, result),
        }
    }

    /// What `stat` and `status` of a thread or a process say, where they can be understood.
    fn stat_and_status(&mut self, kind: Kind, directory: &Path) -> Option<(Option<Stat>, Option<Status>)> {
        let both = read(&directory.join("stat")).and_then(|stat| Ok((stat, read(&directory.join("status"))?)));
        let (stat, status) = self.noted_unless_vanished(kind, directory, both)?;
        Some((parse::stat(&stat), parse::status(&status)))
    }

    fn threads(&mut self) -> Vec<Thread> {
        let tasks = self.directory.join("task");
        let ids = self.noted(Kind::Thread, &tasks, numbers(&tasks)).unwrap_or_default();
        ids.into_iter().filter_map(|id| self.settled_thread(&tasks.join(id.to_string()), id)).collect()
    }

    /// Reads a thread, and rereads it while it seems to be inside libc, which blocks every signal to start a thread or a process.
    fn settled_thread(&mut self, directory: &Path, id: u32) -> Option<Thread> {
        let (mut thread, mut state) = self.thread(directory, id)?;
        for round in 0..SETTLING_ROUNDS {
            let is_settled = thread.blocked & REAL_TIME != REAL_TIME || (state == 'S' && round >= SLEEPING_ROUNDS);
            let Some(left) = self.settling.checked_sub(1).filter(|_| !is_settled) else { break };
            self.settling = left;
            std::thread::sleep(Duration::from_millis(1));
            (thread, state) = self.thread(directory, id)?;
        }
        Some(thread)
    }

    fn thread(&mut self, directory: &Path, id: u32) -> Option<(Thread, char)> {
        let (Some(stat), Some(status)) = self.stat_and_status(Kind::Thread, directory)? else {
            self.note_limit(Kind::Thread, directory, "its stat or status file is not one");
            return None;
        };
        let thread = Thread {
            id,
            namespace_id: status.namespace_id.unwrap_or(id),
            start_time: stat.start_time,
            name: status.name,
            blocked: status.blocked,
            pending: status.pending,
        };
        Some((thread, stat.state))
    }

    fn address_space(&mut self, living: &Path, snapshot: &mut Snapshot) {
        let path = living.join("maps");
        match read(&path) {
            Ok(text) => snapshot.mappings = parse::maps(&text),
            Err(error) => return self.note(Kind::Mapping, &path, &error),
        }
        if snapshot.mappings.count == 0 {
            self.note_limit(Kind::Mapping, &path, "it is empty: the process is just ending");
        }
        let more = snapshot.mappings.more_of_ours;
        if more > 0 {
            let what = format!("{more} more mappings with a name of Remora were not looked at");
            self.note_limit(Kind::Mapping, &path, what);
        }
    }

    fn process_status(&mut self, living: &Path, snapshot: &mut Snapshot) {
        let path = living.join("status");
        let status = match read(&path).map(|text| parse::status(&text)) {
            Ok(Some(status)) => status,
            Ok(None) => return self.note_limit(Kind::SignalDisposition, &path, "the signal masks are not in it"),
            Err(error) => return self.note(Kind::SignalDisposition, &path, &error),
        };
        snapshot.signals = Signals { ignored: status.ignored, caught: status.caught, pending: status.shared_pending };
        let cheap = status.resident_kib <= CHEAP_RESIDENT_KIB;
        let rollup = if cheap { read(&living.join("smaps_rollup")).ok() } else { None };
        snapshot.memory = Memory {
            resident: status.resident_kib << 10,
            virtual_size: status.virtual_kib << 10,
            proportional: rollup.and_then(|text| parse::proportional_kib(&text)).map(|kib| kib << 10),
        };
        snapshot.name = status.name;
    }

    fn descriptors(&mut self, living: &Path) -> Descriptors {
        let directory = living.join("fd");
        let mut open = self.noted(Kind::Descriptor, &directory, numbers(&directory)).unwrap_or_default();
        let mut left_out = open.len().saturating_sub(MOST_DESCRIPTORS);
        open.truncate(MOST_DESCRIPTORS);
        let (mut descriptors, mut names) = (Descriptors { count: left_out, ..Descriptors::default() }, 0);
        for number in open {
            let path = directory.join(number.to_string());
            let target = self.noted_unless_vanished(Kind::Descriptor, &path, fs::read_link(&path));
            let Some(target) = target.as_ref().map(|target| target.to_string_lossy()) else { continue };
            descriptors.count += 1;
            if let Some(inode) = socket_inode(&target) {
                descriptors.sockets.push((number, inode));
            } else if target == PERF_EVENT {
                descriptors.perf_events += 1;
            } else if is_ours(&target) || target.starts_with("/memfd:") {
                names += target.len();
                match names {
                    0..NAMES_LIMIT => descriptors.named.push(Descriptor { number, target: target.into_owned() }),
                    _ => left_out += 1,
                }
            }
        }
        if left_out > 0 {
            self.note_limit(Kind::Descriptor, &directory, format!("{left_out} descriptors were not looked at"));
        }
        descriptors
    }

    /// Children and descendants.
    fn family(&mut self, proc_root: &Path, process_id: u32) -> (Vec<Child>, Vec<Child>) {
        let (mut ids, below) = match listed_children(&self.directory) {
            Some(ids) => (ids, None),
            None => {
                let mut all = self.searched_children(proc_root);
                (all.remove(&process_id).unwrap_or_default(), Some(all))
            }
        };
        let direct = ids.len().min(MOST_CHILDREN);
        let mut seen: HashSet<u32> = ids.iter().copied().collect();
        let mut at = 0;
        // All their threads and children are no more than the machine has.
        while at < ids.len() && ids.len() <= MOST_CHILDREN {
            let more = match &below {
                Some(all) => all.get(&ids[at]).cloned(),
                None => listed_children(&proc_root.join(ids[at].to_string())),
            };
            ids.extend(more.unwrap_or_default().into_iter().filter(|id| seen.insert(*id)));
            at += 1;
        }
        self.children_left_out = ids.len().saturating_sub(MOST_CHILDREN);
        ids.truncate(MOST_CHILDREN);
        let mut look = |ids: &[u32]| -> Vec<Child> {
            ids.iter().filter_map(|id| self.child(&proc_root.join(id.to_string()), *id)).collect()
        };
        let family = (look(&ids[..direct]), look(&ids[direct..]));
        if self.children_left_out > 0 {
            let limit = format!(
                "{} children were not looked at: Remora looks at 4,096, and reads 64 MiB of the mappings of all",
                self.children_left_out
            );
            self.note_limit(Kind::Child, &self.directory.join("task"), limit);
        }
        family
    }

    /// The children of each process.
    fn searched_children(&mut self, proc_root: &Path) -> HashMap<u32, Vec<u32>> {
        let all = self.noted(Kind::Child, proc_root, numbers(proc_root)).unwrap_or_default();
        let mut children = HashMap::<u32, Vec<u32>>::new();
        for id in all {
            let text = read(&proc_root.join(id.to_string()).join("stat")).ok();
            if let Some(stat) = text.and_then(|text| parse::stat(&text)) {
                children.entry(stat.parent).or_default().push(id);
            }
        }
        children
    }

    fn child(&mut self, directory: &Path, id: u32) -> Option<Child> {
        let (stat, status) = self.stat_and_status(Kind::Child, directory)?;
        let (stat, status) = (stat?, status?);
        let zombie = ended(&stat);
        let library = if zombie { None } else { self.library_of_child(directory) };
        Some(Child {
            id,
            namespace_id: status.namespace_id.unwrap_or(id),
            start_time: stat.start_time,
            name: status.name,
            zombie,
            library,
        })
    }

    fn library_of_child(&mut self, directory: &Path) -> Option<String> {
        let path = directory.join("maps");
        let text = match read_up_to(&path, self.of_children) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                self.of_children = 0;
                self.children_left_out += 1;
                None
            }
            // An unreadable child of a readable parent has changed its user. A child of ours never does.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            text => self.noted_unless_vanished(Kind::Child, &path, text),
        };
        let text = text?;
        self.of_children = self.of_children.saturating_sub(text.len() as u64);
        let mappings = parse::maps(&text);
        let library = mappings.ours.into_iter().map(|mapping| mapping.path).find(|path| !stays_on_purpose(path));
        if library.is_none() && mappings.more_of_ours > 0 {
            self.children_left_out += 1;
        }
        library
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand threads that block every signal made each look last a hundred seconds.
    #[test]
    fn threads_that_block_every_signal_are_looked_at_again_so_often_in_all() {
        let directory = tempfile::tempdir().expect("a directory");
        for id in 1..=20 {
            let task = directory.path().join(format!("task/{id}"));
            fs::create_dir_all(&task).expect("made");
            let zeros = " 0".repeat(48);
            fs::write(task.join("stat"), format!("{id} (busy) R{zeros}")).expect("written");
            let masks: String = ["SigPnd", "ShdPnd", "SigIgn", "SigCgt"].map(|mask| format!("{mask}:\t0\n")).concat();
            let status = format!("Name:\tbusy\nSigBlk:\tffffffffffffffff\n{masks}");
            fs::write(task.join("status"), status).expect("written");
        }
        let mut reader = Reader::of(directory.path().to_owned());
        assert_eq!((reader.threads().len(), reader.settling), (20, 0));
    }
}
