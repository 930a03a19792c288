//! Where a run has crashed, hangs, or was told to exit: written by its handlers, read after its death.
//!
//! The handler unwinds with the compiler's own library, which may wait for a lock that the crash holds. An alarm ends that.

use super::page::{BACKTRACE, Crash, FRAMES, MAPS, MOST_MAPS, Page};
use super::shared_memory::SharedMemory;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// The longest time for it, seconds.
const LONGEST: u32 = 1;
/// `_URC_NO_REASON` and `_URC_END_OF_STACK`.
const GO_ON: c_int = 0;
const END: c_int = 5;
/// What a frame of the laboratory's own program is called.
pub const MODEL: &str = "the runtime model";
/// How the names of the C library's files begin: glibc's, and musl's, which is its linker.
const C_LIBRARY: [&str; 4] = ["libc.so", "libc-", "libpthread", "ld-"];

unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

static MEMORY: OnceLock<SharedMemory> = OnceLock::new();

/// Names the page to the handler.
pub fn prepare(memory: SharedMemory) {
    // The first and only call.
    let _ = MEMORY.set(memory);
}

/// Writes mappings and stack of the running thread. Only for a signal handler of a process that is about to die.
pub fn record() {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut alarm: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a local set, and a valid signal.
    unsafe { libc::sigaddset(&raw mut alarm, libc::SIGALRM) };
    // SAFETY: takes numbers only.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    // SAFETY: a local set; the old one is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alarm, std::ptr::null_mut()) };
    // SAFETY: takes a number.
    unsafe { libc::alarm(LONGEST) };
    walk();
}

/// Writes mappings and stack of the running thread, in a signal handler. Without an alarm: who sends the signal waits only so long.
pub fn walk() {
    let Some(memory) = MEMORY.get() else { return };
    copy_mappings(memory);
    let mut count = 0_usize;
    // SAFETY: `step` has the required signature, and gets a local that outlives the call.
    unsafe { _Unwind_Backtrace(step, (&raw mut count).cast()) };
}

fn copy_mappings(memory: &SharedMemory) {
    // SAFETY: the path is a static C string.
    let open = || unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let mut maps = open();
    if maps < 0 {
        // No descriptor is free, and the run does not read its standard input any more.
        // SAFETY: takes a number.
        unsafe { libc::close(0) };
        maps = open();
    }
    if maps < 0 {
        return;
    }
    let mut end = 0;
    while let Some(place) = memory.place(MAPS + end, MOST_MAPS.saturating_sub(end)).filter(|_| end < MOST_MAPS) {
        // SAFETY: the place has as many bytes.
        let read = unsafe { libc::read(maps, place.cast(), MOST_MAPS - end) };
        match usize::try_from(read) {
            Ok(read @ 1..) => end += read,
            _ => break,
        }
    }
    // SAFETY: its own descriptor. A hanging run goes on.
    unsafe { libc::close(maps) };
}

extern "C" fn step(context: *mut c_void, count: *mut c_void) -> c_int {
    let Some(memory) = MEMORY.get() else { return END };
    // SAFETY: `record` passes a local counter, and this is the only thread that uses it.
    let count = unsafe { &mut *count.cast::<usize>() };
    // SAFETY: the unwinder's own context.
    let address = unsafe { _Unwind_GetIP(context) };
    memory.write(BACKTRACE + *count * size_of::<u64>(), &(address as u64).to_ne_bytes());
    *count += 1;
    if *count < FRAMES { GO_ON } else { END }
}

/// The frames, innermost first, each as a file and an offset in it.
pub fn frames(page: &Page) -> Vec<String> {
    let Some(crash) = page.crash().or_else(|| page.hang()).or_else(|| page.exit()) else { return Vec::new() };
    let mappings = mappings(&page.mappings());
    let library = (crash.library_first, crash.library_end);
    let stack = if crash.signal == Crash::EXITS { calls(&page.backtrace()) } else { stack(page, crash.instruction) };
    let named = stack.into_iter().map(|address| name(address, library, &mappings));
    let mut frames: Vec<String> = Vec::new();
    // An exit's first frames are those of the function that records it.
    for frame in named.skip_while(|frame| crash.signal == Crash::EXITS && frame == MODEL) {
        if frames.last() != Some(&frame) {
            frames.push(frame);
        }
    }
    // What called the model is of no interest.
    let model = frames.iter().position(|frame| frame == MODEL);
    frames.truncate(model.map_or(frames.len(), |model| model + 1));
    frames
}

/// The instruction, and the calls that led to it.
fn stack(page: &Page, instruction: u64) -> Vec<u64> {
    let all = page.backtrace();
    // The first frames are those of the handler.
    let calls = all.iter().position(|address| *address == instruction).map_or(&[][..], |first| &all[first + 1..]);
    [vec![instruction], self::calls(calls)].concat()
}

/// Return addresses: the calls are before them.
fn calls(addresses: &[u64]) -> Vec<u64> {
    addresses.iter().map(|address| address.saturating_sub(1)).collect()
}

/// Whether the model itself, or what it called of the C library, has crashed. False if the stack does not show it.
pub fn is_of_model(page: &Page) -> bool {
    let frames = frames(page);
    let (last, called) = frames.split_last().map_or((None, &[][..]), |(last, called)| (Some(last), called));
    let is_of_c_library = |frame: &String| C_LIBRARY.iter().any(|name| frame.starts_with(name));
    last.is_some_and(|last| last == MODEL) && called.iter().all(is_of_c_library)
}

/// Whether the crash hit an instruction that is mapped. True without a list of the mappings.
pub fn is_mapped(page: &Page, instruction: u64) -> bool {
    let mappings = mappings(&page.mappings());
    mappings.is_empty() || mappings.iter().any(|(first, end, _, _)| (*first..*end).contains(&instruction))
}

/// Mapped files, by their addresses: first, end, first of the whole file, name.
type Mappings = Vec<(u64, u64, u64, String)>;

fn mappings(text: &str) -> Mappings {
    let mut mappings = Mappings::new();
    for line in text.lines() {
        let Some((addresses, path)) =
            line.split_once(' ').and_then(|(addresses, rest)| Some((addresses, rest.split_once('/')?.1)))
        else {
            continue;
        };
        let Some((first, end)) = addresses.split_once('-') else { continue };
        let (Ok(first), Ok(end)) = (u64::from_str_radix(first, 16), u64::from_str_radix(end, 16)) else { continue };
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        // A file can be mapped twice: Rust's standard library maps a library again to read its symbols.
        let begins = begins_a_file(line);
        let known = mappings.iter().rev().find(|(_, _, _, known)| *known == name && !begins);
        let start = known.map_or(first, |(_, _, start, _)| *start);
        mappings.push((first, end, start, name));
    }
    mappings
}

/// Whether a line of the mappings is the start of a file, which the linker maps without write permission.
fn begins_a_file(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (permissions, offset) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    !permissions.contains('w') && offset.bytes().all(|digit| digit == b'0')
}

fn name(address: u64, library: (u64, u64), mappings: &Mappings) -> String {
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(|own| own.file_name()?.to_str());
    match mappings.iter().find(|(first, end, _, _)| (*first..*end).contains(&address)) {
        Some((_, _, _, name)) if Some(name.as_str()) == own => MODEL.to_owned(),
        Some((_, _, start, name)) => format!("{name}+{:#x}", address - start),
        None if (library.0..library.1).contains(&address) && mappings.is_empty() => {
            format!("the library+{:#x}", address - library.0)
        }
        None if (library.0..library.1).contains(&address) => {
            format!("the unmapped library+{:#x}", address - library.0)
        }
        None => "an unknown address".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_by_its_file_and_its_offset() {
        let maps = "1000-2000 r--p 00000000 00:01 7 /a/lib x.so\n2000-3000 r-xp 00001000 00:01 7 /a/lib x.so\n5000-6000 rw-p 00000000 00:00 0\n";
        let mappings = mappings(maps);
        assert_eq!(name(0x2010, (0, 0), &mappings), "lib x.so+0x1010");
        assert_eq!(name(0x5010, (0, 0), &mappings), "an unknown address");
        assert_eq!(name(0x7010, (0x7000, 0x8000), &mappings), "the unmapped library+0x10");
    }

    #[test]
    fn an_offset_counts_from_the_mapping_that_the_linker_made() {
        let maps = "1000-3000 r--p 00000000 00:01 7 /a/x.so\n3000-4000 r--p 00000000 00:01 7 /a/x.so\n4000-5000 r-xp 00001000 00:01 7 /a/x.so\n5000-6000 rw-p 00000000 00:01 7 /a/x.so\n";
        let mappings = mappings(maps);
        assert_eq!(name(0x4010, (0, 0), &mappings), "x.so+0x1010");
        assert_eq!(name(0x5010, (0, 0), &mappings), "x.so+0x2010");
    }
}
