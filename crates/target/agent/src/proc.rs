//! The agent's readings of its own process from `/proc/self`: threads, their signal masks, mappings.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;

/// Room for a thread's status, which has some 1,500 bytes.
const STATUS: usize = 4096;

/// Reads a small file of one thread. The kernel does not give the file's length, so the standard library would need one call per step.
fn read_of(thread: u32, what: &str) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/self/task/{thread}/{what}"))?;
    let mut bytes = vec![0; STATUS];
    let mut filled = 0;
    loop {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if filled == bytes.len() {
            bytes.resize(2 * filled, 0);
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// [`read_of`], as text.
fn text_of(thread: u32, what: &str) -> std::io::Result<String> {
    read_of(thread, what).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Thread ids of this process; `None` if they cannot be listed now, for want of a descriptor for example.
pub fn threads() -> Option<HashSet<u32>> {
    let entries = fs::read_dir("/proc/self/task").ok()?;
    Some(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The name of a thread, as the kernel keeps it (15 bytes at most); `None` if it is gone or cannot be read.
pub fn thread_name(thread: u32) -> Option<String> {
    let mut name = read_of(thread, "comm").ok()?;
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Some(String::from_utf8_lossy(&name).into_owned())
}

/// Signals of one thread, as masks with bit `signal - 1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalMasks {
    /// Signals that the thread blocks or waits for. While a handler runs, its own signal is among them.
    pub blocked: u64,
    /// Pending for the thread or the process.
    pub pending: u64,
    /// Whether the thread sleeps in a system call, and so executes nothing.
    pub asleep: bool,
}

/// A thread's state when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its id.
    pub thread: u32,
    /// Its name, as the kernel keeps it (15 bytes at most).
    pub name: String,
    /// Its signals.
    pub masks: SignalMasks,
}

/// Reads a thread's state; `None` if the thread is gone. If it cannot be read, the thread counts as nameless, running, and blocking
/// everything.
///
/// The kernel's mask lacks the signals that a thread waits for in `sigwaitinfo`, so they are added here.
pub fn look(thread: u32) -> Option<Seen> {
    const UNKNOWN: SignalMasks = SignalMasks { blocked: u64::MAX, pending: 0, asleep: false };
    let (name, masks) = match text_of(thread, "status") {
        Ok(status) => (parse_name(&status), parse_masks(&status)?),
        Err(error) if is_gone(&error) => return None,
        Err(_) => (String::new(), UNKNOWN),
    };
    let waited = if masks.asleep { waited_for(thread) } else { 0 };
    Some(Seen { thread, name, masks: SignalMasks { blocked: masks.blocked | waited, ..masks } })
}

/// The state of each thread of this process.
pub fn everybody() -> Vec<Seen> {
    threads().unwrap_or_default().into_iter().filter_map(look).collect()
}

/// The signal masks of a thread; `None` if it is gone. See [`look`].
pub fn signal_masks(thread: u32) -> Option<SignalMasks> {
    look(thread).map(|seen| seen.masks)
}

/// The name in a thread's status. The kernel writes a line feed and a backslash as two characters there (Linux `fs/proc/array.c`).
fn parse_name(status: &str) -> String {
    let written = status.lines().find_map(|line| line.strip_prefix("Name:\t")).unwrap_or_default();
    let mut name = String::new();
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped })),
            other => name.push(other),
        }
    }
    name
}

/// Whether the error means that the thread has ended: before its file was opened, or since.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// The signals that a thread waits for now.
fn waited_for(thread: u32) -> u64 {
    let call = text_of(thread, "syscall").unwrap_or_default();
    let Some(set) = parse_wait(&call) else { return 0 };
    let mut signals = 0_u64;
    let local = libc::iovec { iov_base: (&raw mut signals).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: set as *mut libc::c_void, iov_len: 8 };
    // SAFETY: takes no arguments.
    let process = unsafe { libc::getpid() };
    // SAFETY: `signals` is live and has eight bytes. The kernel checks the remote address and returns an error if it is unreadable.
    let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    // If the kernel forbids the read, assume that the thread waits for all signals.
    if read == 8 { signals } else { u64::MAX }
}

/// The address of the set in a thread's `rt_sigtimedwait`; `None` in other calls.
fn parse_wait(call: &str) -> Option<u64> {
    let mut words = call.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let set = words.next()?.strip_prefix("0x")?;
    if number == libc::SYS_rt_sigtimedwait { u64::from_str_radix(set, 16).ok() } else { None }
}

/// A thread in a system call: the instruction after the call, and the stack pointer. `None` if the thread runs, is ready to run, or is
/// blocked elsewhere, for example by a page fault.
pub fn parse_system_call(call: &str) -> Option<(u64, u64)> {
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let mut words = call.split_ascii_whitespace();
    // The call's number is negative outside of calls. Six arguments follow.
    words.next()?.parse::<u32>().ok()?;
    let stack = number(words.nth(6)?)?;
    Some((number(words.next()?)?, stack))
}

/// The CPU on which a ready thread runs or waits, from its `stat` (Linux `Documentation/filesystems/proc.rst`). Field 3 is the state, field
/// 39 the processor. Field 2 is a name in parentheses and may contain anything.
pub fn parse_readiness(stat: &str) -> Option<i32> {
    const PROCESSOR: usize = 39 - 3;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    if fields.next()? != "R" {
        return None;
    }
    fields.nth(PROCESSOR - 1)?.parse().ok()
}

/// Whether a debugger traces a thread, and whether it holds the thread now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tracing {
    /// A debugger traces it.
    pub traced: bool,
    /// It is stopped, by its tracer or by a signal.
    pub held: bool,
}

/// Whether a thread is traced; all false if it is gone.
pub fn tracing(thread: u32) -> Tracing {
    text_of(thread, "status").map(|status| parse_tracing(&status)).unwrap_or_default()
}

fn parse_tracing(status: &str) -> Tracing {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Tracing {
        traced: field("TracerPid:").is_some_and(|tracer| tracer != "0"),
        held: field("State:").is_some_and(|state| state.starts_with(['t', 'T'])),
    }
}

fn parse_masks(status: &str) -> Option<SignalMasks> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let asleep =
        status.lines().find_map(|line| line.strip_prefix("State:")).is_some_and(|state| state.trim().starts_with('S'));
    Some(SignalMasks { blocked: field("SigBlk:")?, pending: field("SigPnd:")? | field("ShdPnd:")?, asleep })
}

/// One mapping: its bounds and whether it is writable or executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// First address beyond.
    pub end: u64,
    /// Both readable and writable.
    pub writable: bool,
    /// Executable, or reserved right after executable memory: the runtime puts the next code there, and maps it only then.
    pub executable: bool,
    /// Belongs to the C library's family or is the vDSO. They are built without frame pointers.
    pub frameless: bool,
    /// Without a file, or in the runtime's file for generated code.
    pub generated: bool,
}

/// All mappings, in ascending order.
pub fn regions() -> Vec<Region> {
    // A path in the target may be invalid UTF-8.
    fs::read("/proc/self/maps").map(|maps| parse_regions(&String::from_utf8_lossy(&maps))).unwrap_or_default()
}

fn parse_regions(maps: &str) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for (mut region, is_reserved) in maps.lines().filter_map(parse_region) {
        if is_reserved && let Some(before) = regions.last() {
            region.executable = before.executable && before.end == region.start;
        }
        regions.push(region);
    }
    regions
}

/// A mapping, and whether it is only reserved: no access yet.
fn parse_region(line: &str) -> Option<(Region, bool)> {
    let (bounds, rest) = line.split_once(' ')?;
    let (start, end) = bounds.split_once('-')?;
    let permissions = rest.as_bytes();
    let inode = rest.split_ascii_whitespace().nth(3);
    let region = Region {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        writable: permissions.first() == Some(&b'r') && permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        frameless: is_frameless(line.rsplit('/').next().unwrap_or(line)) || line.ends_with("[vdso]"),
        generated: (inode == Some("0") && !line.ends_with(']')) || line.contains("/memfd:doublemapper"),
    };
    Some((region, permissions.starts_with(b"---")))
}

/// Whether a library of this file name belongs to the C library's family.
fn is_frameless(name: &str) -> bool {
    const FAMILY: [&str; 8] = ["libc.", "libc-", "libm.", "libm-", "libpthread", "ld-linux", "ld-2.", "libgcc_s"];
    FAMILY.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runtime compiles its next code there. Handlers walk stacks with that code before the mappings are read again.
    #[test]
    fn what_is_reserved_behind_code_counts_as_code() {
        let maps = "10000-20000 r-xs 0 00:01 7 /memfd:doublemapper (deleted)\n20000-30000 ---s 0 00:01 7 /memfd:doublemapper (deleted)\n\
                    30000-40000 rw-p 0 00:00 0\n40000-50000 ---p 0 00:00 0\n60000-70000 rwxp 0 00:00 0\n71000-80000 ---p 0 00:00 0\n";
        let executable: Vec<bool> = parse_regions(maps).iter().map(|region| region.executable).collect();
        assert_eq!(executable, [true, true, false, false, true, false]);
    }

    #[test]
    fn masks_and_regions_are_read_from_the_kernels_text() {
        let status = "Name:\tx\nState:\tS (sleeping)\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000002\nSigBlk:\t8000000000000000\n";
        assert_eq!(parse_masks(status), Some(SignalMasks { blocked: 1 << 63, pending: 3, asleep: true }));
        let running = status.replace("S (sleeping)", "R (running)");
        assert_eq!(parse_masks(&running).map(|masks| masks.asleep), Some(false));
        let (region, _) = parse_region("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]").expect("a mapping");
        assert_eq!((region.start, region.end), (0x7ffc_0000_0000, 0x7ffc_0002_1000));
        assert!(region.writable && !region.executable);
        assert_eq!(parse_region("nonsense"), None);
        let frameless = |line| parse_region(line).is_some_and(|(region, _)| region.frameless);
        assert!(frameless("7f00-7f01 r-xp 00000000 08:01 7  /lib/x86_64-linux-gnu/libc.so.6"));
        assert!(frameless("7f00-7f01 r-xp 00000000 00:00 0  [vdso]"));
        assert!(!frameless("7f00-7f01 r-xp 00000000 08:01 7  /usr/share/dotnet/libcoreclr.so"));
        let generated = |line| parse_region(line).is_some_and(|(region, _)| region.generated);
        assert!(generated("7f00-7f01 rwxp 00000000 00:00 0 "));
        assert!(generated("7f00-7f01 r-xs 00000000 00:01 7  /memfd:doublemapper (deleted)"));
        assert!(!generated("7f00-7f01 r-xp 00000000 00:00 0  [vdso]"));
        assert!(!generated("7f00-7f01 r-xp 00000000 08:01 7  /usr/share/dotnet/libcoreclr.so"));
    }

    #[test]
    fn a_name_is_the_same_whichever_file_tells_it() {
        for name in [c"plain", c"two words", c"a\\b\nc\\nd", c""] {
            let seen = std::thread::spawn(|| {
                // SAFETY: `name` is live and ends with a zero; `gettid` takes no arguments.
                let thread = unsafe {
                    libc::prctl(libc::PR_SET_NAME, name.as_ptr());
                    libc::gettid()
                };
                (look(thread as u32).map(|seen| seen.name), thread_name(thread as u32))
            });
            let (in_status, in_comm) = seen.join().expect("it ends");
            assert_eq!(in_status, in_comm);
            assert_eq!(in_status.as_deref(), name.to_str().ok());
        }
    }

    #[test]
    fn a_ready_thread_waits_for_one_cpu() {
        let stat = |name: &str, state: &str| {
            let between: String = (4..39).map(|field| format!(" {field}")).collect();
            format!("12 ({name}) {state}{between} 1 0 0 5")
        };
        assert_eq!(parse_readiness(&stat("work", "R")), Some(1));
        assert_eq!(parse_readiness(&stat("odd) S 1 (x", "R")), Some(1));
        assert_eq!(parse_readiness(&stat("work", "S")), None);
        assert_eq!(parse_readiness("12 (cut) R 1 2"), None);
        let own = fs::read_to_string("/proc/thread-self/stat").expect("readable");
        assert!(parse_readiness(&own).is_some_and(|cpu| cpu >= 0), "{own}");
    }

    #[test]
    fn a_thread_in_a_system_call_has_an_instruction_and_a_stack() {
        let call = "202 0x7f00 0x0 0x0 0x8 0x0 0x0 0x7f11 0x7f22\n";
        assert_eq!(parse_system_call(call), Some((0x7f22, 0x7f11)));
        for other in ["running\n", "-1 0x7f11 0x7f22\n", "", "202 0x7f00 0x0", "202 0x7f00 0x0 0x0 0x8 0x0 0x0 0x7f11"]
        {
            assert_eq!(parse_system_call(other), None, "{other}");
        }
    }

    #[test]
    fn a_debugger_is_seen_and_whether_it_holds_the_thread() {
        let status = |state, tracer| format!("Name:\tx\nState:\t{state}\nTracerPid:\t{tracer}\n");
        assert_eq!(parse_tracing(&status("S (sleeping)", 0)), Tracing { traced: false, held: false });
        assert_eq!(parse_tracing(&status("R (running)", 77)), Tracing { traced: true, held: false });
        assert_eq!(parse_tracing(&status("t (tracing stop)", 77)), Tracing { traced: true, held: true });
    }

    #[test]
    fn a_thread_that_waits_for_a_signal_is_found_to_want_it() {
        assert_eq!(parse_wait("128 0x7f00 0x0 0x0 0x8 0x0 0x0 0x7f11 0x7f22"), Some(0x7f00));
        assert_eq!(parse_wait("202 0x7f00 0x0 0x0 0x8 0x0 0x0 0x7f11 0x7f22"), None);
        assert_eq!(parse_wait("running"), None);
        let (sender, receiver) = std::sync::mpsc::channel();
        let wanted = libc::SIGRTMAX() - 2;
        let waiter = std::thread::spawn(move || {
            // SAFETY: an all-zero set is valid; `gettid` takes no arguments.
            let (mut set, thread) = unsafe { (std::mem::zeroed::<libc::sigset_t>(), libc::gettid()) };
            // SAFETY: the set is live.
            unsafe { libc::sigaddset(&raw mut set, wanted) };
            // SAFETY: the set is live; a null old mask is allowed.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
            sender.send(thread).expect("the test listens");
            // SAFETY: the set is live; a null sender is allowed.
            unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) }
        });
        let thread = receiver.recv().expect("the thread says its id");
        let waits = || {
            let call = fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
            parse_wait(&call).is_some()
        };
        while !waits() {}
        let masks = signal_masks(thread as u32).expect("it lives");
        assert_ne!(masks.blocked & 1 << (wanted - 1), 0);
        // SAFETY: sends a signal that the thread waits for.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, wanted) };
        assert_eq!(waiter.join().expect("it ends"), wanted);
    }

    #[test]
    fn our_own_process_is_readable() {
        let threads = threads().expect("they can be listed");
        assert!(!threads.is_empty());
        assert!(threads.iter().any(|thread| signal_masks(*thread).is_some()));
        assert!(regions().iter().any(|region| region.executable));
    }
}
