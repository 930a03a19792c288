//! The forked copy watches the memory left in its control groups, and ends before the kernel kills a process.
//!
//! When the application writes to a page during the copy's life, two pages exist, and both count for the same control group. The command
//! measures the copy from outside, ten times a second; an application can write a gigabyte between two measurements. So a timer makes the
//! copy check a thousand times a second, also while it waits for the command. It reads the limit and the use of each group above it
//! (cgroups(7)), in both versions. It ends itself while some room is left, and reports how much.
//!
//! Before a limit is reached, the kernel may make all of a group wait for memory. Its pressure stall information shows that.
//!
//! If no group limits memory, or none is visible from the process, the copy watches only the machine's stalls. The kernel then kills the
//! copy first.

use crate::copy_end::end_of_copy;
use remora_sampler::monotonic;
use remora_wire::layout::{self, ENDED_BY_ROOM, ENDED_BY_STALLS};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Where control groups are mounted, by convention (systemd's file-hierarchy(7), and all container runtimes).
const MOUNT: &[u8] = b"/sys/fs/cgroup";
/// The groups of the process.
const OWN: &CStr = c"/proc/self/cgroup";
/// Memory pressure of the whole machine.
const MACHINE: &CStr = c"/proc/pressure/memory";

/// The maximum of watched groups with a limit, the lowest first. No known system nests more limits.
const GROUPS: usize = 8;
/// The maximum of nested groups that are read.
const DEPTH: usize = 64;
/// The longest path, bytes. A longer one is not opened.
const PATH: usize = 4096;
/// Bytes read of a file: `memory.stat` has some 2,000.
const TEXT: usize = 4096;
/// Bytes read of the list of groups: a dozen, with their paths.
const CGROUP: usize = 16 << 10;
/// Version 1 gives this limit, rounded down to pages, if there is none.
const NO_LIMIT: u64 = 1 << 62;

/// Time between two checks, microseconds.
const TICK: libc::suseconds_t = 1000;
/// The pause between two checks is this many times as long as the last check. Reading the cached bytes may take a tenth of a millisecond.
const SHARE: u64 = 20;
/// The part of a limit that stays free, and its bounds, bytes. The application can fill that much until the copy runs again and ends.
const KEPT: u64 = 16;
const LEAST_KEPT: u64 = 8 << 20;
const MOST_KEPT: u64 = 128 << 20;
/// The free memory must also cover this many times the use since the last check: the next check may come late.
const AHEAD: u64 = 2;
/// The time over which stalls are added up, nanoseconds: the kernel adds them up every two seconds.
const STALLS_OVER: u64 = 2_500_000_000;
/// The part of that time in which all threads waited for memory.
const STALLED: u64 = 4;

/// The open files of a group, as descriptors.
#[repr(C)]
#[derive(Clone, Copy)]
struct Group {
    limit: c_int,
    usage: c_int,
    stat: c_int,
    /// Whether it is of version 1.
    is_first: bool,
    /// Bytes left at the last check; 0 before.
    left: u64,
}

/// The watched groups and the pressure file.
#[repr(C)]
pub struct MemoryHeadroom {
    groups: [Group; GROUPS],
    count: usize,
    /// A descriptor, or below 0.
    pressure: c_int,
    /// Total stalls at the last check, and its time; 0 before.
    stalled: u64,
    stalled_at: u64,
    /// No check before this time.
    next: u64,
    /// The command reads here why the copy ended.
    counters: &'static [AtomicU64],
}

/// The reason why the copy ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    /// Only `left` bytes of the limit are left.
    MemoryHeadroom { left: u64, limit: u64 },
    /// All threads wait for memory.
    Stalls,
}

// Only the copy writes it. The copy is a process of its own, so no two attaches share it.
static WATCHED: AtomicPtr<MemoryHeadroom> = AtomicPtr::new(std::ptr::null_mut());

/// In the copy: from now on it ends itself before its control groups run out of memory.
///
/// # Safety
/// Only in the copy, on its only thread, with its descriptors closed, and while it may still open files. `place` lives until the copy ends,
/// and nothing else accesses it.
pub unsafe fn watch(place: *mut MemoryHeadroom, counters: &'static [AtomicU64]) {
    let mut text = [0; CGROUP];
    let file = open(OWN);
    let groups = MemoryHeadroom::of(read_at(file, &mut text), MOUNT, MACHINE, counters);
    close(file);
    // SAFETY: the caller keeps `place` alive until the copy ends, for this module alone.
    unsafe { place.write(groups) };
    begin(place);
}

fn begin(place: *mut MemoryHeadroom) {
    WATCHED.store(place, Ordering::SeqCst);
    // Check now: the copy's next step needs memory.
    on_tick(libc::SIGALRM);
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut action, mut ticks): (libc::sigaction, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = on_tick as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    let tick = libc::timeval { tv_sec: 0, tv_usec: TICK };
    let timer = libc::itimerval { it_interval: tick, it_value: tick };
    // The signal is unblocked last, when its handler is installed.
    // SAFETY: the structs are live; timers and dispositions are the copy's own.
    unsafe {
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::sigaddset(&raw mut ticks, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const ticks, std::ptr::null_mut());
        libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL as usize, &raw const timer, 0_usize);
    }
}

/// Runs in the middle of any code of the copy.
extern "C" fn on_tick(_: c_int) {
    // SAFETY: the C library's place for this thread's error number lives as long as the thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: null, or the place given to `watch`. The signal is blocked in its own handler, so only one call uses it.
    let room = unsafe { WATCHED.load(Ordering::Relaxed).as_mut() };
    if let Some(room) = room
        && let Some(short) = room.look(monotonic())
    {
        room.end(short);
    }
    // SAFETY: the C library's place for this thread's error number lives as long as the thread.
    unsafe { *libc::__errno_location() = errno };
}

impl MemoryHeadroom {
    /// Watches the groups of `cgroup`, mounted at `mount`.
    fn of(cgroup: &[u8], mount: &[u8], machine: &CStr, counters: &'static [AtomicU64]) -> MemoryHeadroom {
        let none = Group { limit: -1, usage: -1, stat: -1, is_first: false, left: 0 };
        let (groups, next) = ([none; GROUPS], 0);
        let mut room = MemoryHeadroom { groups, count: 0, pressure: -1, stalled: 0, stalled_at: 0, next, counters };
        for line in cgroup.split(|byte| *byte == b'\n') {
            room.find(line, mount);
        }
        if room.pressure < 0 {
            room.pressure = open(machine);
        }
        room
    }

    /// Adds the groups in a line of `/proc/PID/cgroup`.
    fn find(&mut self, line: &[u8], mount: &[u8]) {
        let mut parts = line.splitn(3, |byte| *byte == b':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return };
        // A path outside of the visible tree begins with `/..`.
        if path.starts_with(b"/..") {
            return;
        }
        let is_first = controllers.split(|byte| *byte == b',').any(|controller| controller == b"memory");
        let below: &[&[u8]] = match (is_first, controllers.is_empty()) {
            (true, _) => &[b"/memory"],
            (false, true) => &[b"", b"/unified"],
            (false, false) => &[],
        };
        for below in below {
            let mut path = path;
            for _ in 0..DEPTH {
                path = path.strip_suffix(b"/").unwrap_or(path);
                self.add(&[mount, below, path], is_first);
                let Some(end) = path.iter().rposition(|byte| *byte == b'/') else { break };
                path = path.split_at(end).0;
            }
        }
    }

    /// Adds the group in this directory, if it has a limit.
    fn add(&mut self, directory: &[&[u8]], is_first: bool) {
        let Some(place) = self.groups.get_mut(self.count) else { return };
        let opened = |name: &[u8]| Path::of(directory, name).map_or(-1, |path| open(path.as_c_str()));
        let names: [&[u8]; 2] = match is_first {
            true => [b"/memory.limit_in_bytes", b"/memory.usage_in_bytes"],
            false => [b"/memory.max", b"/memory.current"],
        };
        let limit = opened(names[0]);
        if number_in(limit).is_none_or(|limit| limit >= NO_LIMIT) {
            close(limit);
            return;
        }
        *place = Group { limit, usage: opened(names[1]), stat: opened(b"/memory.stat"), is_first, left: 0 };
        self.count += 1;
        if self.pressure < 0 && !is_first {
            self.pressure = opened(b"/memory.pressure");
        }
    }

    /// Checks, if it is due.
    fn look(&mut self, now: u64) -> Option<Short> {
        if now < self.next {
            return None;
        }
        let short = self.groups.iter_mut().take(self.count).find_map(Group::short).or_else(|| self.stalls(now));
        let took = monotonic().saturating_sub(now);
        self.next = now.saturating_add(took.saturating_mul(SHARE));
        short
    }

    fn stalls(&mut self, now: u64) -> Option<Short> {
        let over = now.saturating_sub(self.stalled_at);
        if self.pressure < 0 || self.stalled_at != 0 && over < STALLS_OVER {
            return None;
        }
        let mut text = [0; TEXT];
        let stalled = total(read_at(self.pressure, &mut text))?.saturating_mul(1000);
        let grown = stalled.saturating_sub(self.stalled);
        let is_first = std::mem::replace(&mut self.stalled_at, now) == 0;
        self.stalled = stalled;
        (!is_first && grown > over / STALLED).then_some(Short::Stalls)
    }

    fn end(&self, short: Short) -> ! {
        let say = |counter: usize, value| {
            if let Some(place) = self.counters.get(counter) {
                place.store(value, Ordering::Relaxed);
            }
        };
        match short {
            Short::MemoryHeadroom { left, limit } => {
                say(layout::HEAP_ROOM_LEFT, left);
                say(layout::HEAP_ROOM_LIMIT, limit);
                end_of_copy(ENDED_BY_ROOM)
            }
            Short::Stalls => end_of_copy(ENDED_BY_STALLS),
        }
    }
}

impl Group {
    /// Whether too little memory is left.
    fn short(&mut self) -> Option<Short> {
        // A removed limit is no number: nothing runs short.
        let (limit, used) = (number_in(self.limit)?, number_in(self.usage)?);
        let kept = (limit / KEPT).clamp(LEAST_KEPT, MOST_KEPT);
        let before = self.left;
        let is_little = |left: u64| left < kept.saturating_add(before.saturating_sub(left).saturating_mul(AHEAD));
        let mut left = limit.saturating_sub(used);
        if is_little(left) {
            // The kernel first drops cached files that were read once.
            let name: &[u8] = if self.is_first { b"total_inactive_file " } else { b"inactive_file " };
            let mut text = [0; TEXT];
            left = limit.saturating_sub(used.saturating_sub(value(read_at(self.stat, &mut text), name).unwrap_or(0)));
        }
        self.left = left;
        is_little(left).then_some(Short::MemoryHeadroom { left, limit })
    }
}

/// Stalls of all threads together, microseconds since the machine started: `full avg10=0.00 … total=123`.
fn total(text: &[u8]) -> Option<u64> {
    let full = text.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"full "))?;
    value_in(full.split(|byte| *byte == b' '), b"total=")
}

/// The number after `name` at the beginning of a line.
fn value(text: &[u8], name: &[u8]) -> Option<u64> {
    value_in(text.split(|byte| *byte == b'\n'), name)
}

fn value_in<'a>(mut parts: impl Iterator<Item = &'a [u8]>, name: &[u8]) -> Option<u64> {
    number(parts.find_map(|part| part.strip_prefix(name))?)
}

fn number_in(file: c_int) -> Option<u64> {
    let mut text = [0; 32];
    number(read_at(file, &mut text))
}

/// The digits up to the end of a line. `max` gives `None`.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.split(|byte| *byte == b'\n').next().filter(|digits| !digits.is_empty())?;
    digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(char::from(*digit).to_digit(10)?))
    })
}

/// A path that ends with a zero.
struct Path([u8; PATH]);

impl Path {
    /// `None` if it is too long.
    fn of(parts: &[&[u8]], name: &[u8]) -> Option<Path> {
        let (mut bytes, mut length) = ([0; PATH], 0);
        for part in parts.iter().chain([&name]) {
            bytes.get_mut(length..length + part.len())?.copy_from_slice(part);
            length += part.len();
        }
        (length < PATH).then_some(Path(bytes))
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

fn open(path: &CStr) -> c_int {
    // SAFETY: `path` is a live C string.
    unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }
}

fn close(file: c_int) {
    // SAFETY: an own descriptor, or a number that the kernel refuses.
    unsafe { libc::close(file) };
}

/// The current content of a file, from its beginning.
fn read_at(file: c_int, into: &mut [u8]) -> &[u8] {
    // Not through the C library, where a read is a cancellation point.
    // SAFETY: `into` is live and has the given length. The kernel refuses an invalid descriptor.
    let read = unsafe { libc::syscall(libc::SYS_pread64, file, into.as_mut_ptr(), into.len(), 0_usize) };
    into.get(..usize::try_from(read).unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
