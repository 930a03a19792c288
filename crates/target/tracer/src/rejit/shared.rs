//! The counters: one address range for the life of the process.
//!
//! During a session the recorder's shared memory is mapped there, between sessions private memory. A probe may run at any time: a method
//! that was entered during a session may end long after it. So the range never becomes unmapped, and each switch is one `mmap`.

use remora_ring::{HEADER_WORDS as RING_HEADER, Ring};
use remora_wire::method_trace::memory;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The bytes of the range.
const BYTES: usize = memory::size_in_bytes(RING_HEADER);

/// Its begin; null until the first session.
static RANGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// The words of the range; empty before [`reserve`].
pub(crate) fn words() -> &'static [AtomicU64] {
    let begin = RANGE.load(Ordering::Relaxed);
    if begin.is_null() {
        return &[];
    }
    // SAFETY: `reserve` mapped that many bytes there, and they stay mapped and writable for the life of the process.
    unsafe { std::slice::from_raw_parts(begin, BYTES / 8) }
}

/// A counter of the header.
pub(crate) fn count(which: usize) {
    add(which, 1);
}

/// Adds to a word of the header.
pub(crate) fn add(which: usize, more: u64) {
    if let Some(word) = words().get(which) {
        word.fetch_add(more, Ordering::Relaxed);
    }
}

/// Sets a word of the header.
pub(crate) fn set(which: usize, value: u64) {
    if let Some(word) = words().get(which) {
        word.store(value, Ordering::SeqCst);
    }
}

/// A word of the header.
pub(crate) fn get(which: usize) -> u64 {
    words().get(which).map_or(0, |word| word.load(Ordering::Relaxed))
}

/// The ring of records.
pub(crate) fn ring() -> Option<Ring<'static>> {
    words().get(memory::ring(RING_HEADER)).and_then(Ring::new)
}

/// Reserves the range, once.
///
/// # Errors
/// The system's error number.
pub(crate) fn reserve() -> Result<(), i32> {
    if !RANGE.load(Ordering::SeqCst).is_null() {
        return Ok(());
    }
    let begin = map(std::ptr::null_mut(), None)?;
    RANGE.store(begin, Ordering::SeqCst);
    Ok(())
}

/// Puts the recorder's memory in place. It must be sealed against shrinking and have all its pages: otherwise a write would be a SIGBUS.
///
/// # Errors
/// The system's error number.
pub(crate) fn share(descriptor: &OwnedFd) -> Result<(), i32> {
    check_size(descriptor.as_raw_fd())?;
    map(RANGE.load(Ordering::SeqCst), Some(descriptor)).map(|_| ())
}

/// Puts private memory in place again.
///
/// # Errors
/// The system's error number. The shared memory then stays.
pub(crate) fn unshare() -> Result<(), i32> {
    map(RANGE.load(Ordering::SeqCst), None).map(|_| ())
}

/// Maps at `place`, or anywhere if that is null.
fn map(place: *mut AtomicU64, descriptor: Option<&OwnedFd>) -> Result<*mut AtomicU64, i32> {
    let fixed = if place.is_null() { 0 } else { libc::MAP_FIXED };
    let (kind, descriptor) = match descriptor {
        Some(descriptor) => (libc::MAP_SHARED, descriptor.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
    };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, or one that replaces this module's own range. Only atomics access that.
    let mapped = unsafe { libc::mmap(place.cast(), BYTES, rights, kind | fixed, descriptor, 0) };
    if mapped == libc::MAP_FAILED { Err(last_error()) } else { Ok(mapped.cast()) }
}

fn check_size(descriptor: i32) -> Result<(), i32> {
    // SAFETY: fcntl on a descriptor number; the kernel refuses an invalid one.
    let seals = unsafe { libc::fcntl(descriptor, libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(libc::EPERM);
    }
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is live.
    if unsafe { libc::fstat(descriptor, &raw mut status) } != 0 || (status.st_size as usize) < BYTES {
        return Err(libc::EINVAL);
    }
    if (status.st_blocks as usize) * 512 < BYTES { Err(libc::ENOSPC) } else { Ok(()) }
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM)
}
