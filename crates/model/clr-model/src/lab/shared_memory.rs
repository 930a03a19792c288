//! The page in the memory of a run. A profiler that closes every descriptor does not take it away.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The run has crashed: only the signal handler writes.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// The mapped page.
#[derive(Debug, Clone, Copy)]
pub struct SharedMemory {
    start: usize,
    length: usize,
    process: u32,
}

impl SharedMemory {
    /// Maps a file of this length. It stays mapped.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn map(file: &File, length: usize) -> io::Result<SharedMemory> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no reference points into this memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMemory { start: start as usize, length, process: std::process::id() })
    }

    /// Whether this process is the run, and not a copy that the profiler has forked. A signal handler may ask.
    pub fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// The run has crashed. False if it had crashed before. A signal handler may ask.
    pub fn end(&self) -> bool {
        !IS_OVER.swap(true, Ordering::SeqCst)
    }

    /// Whether the run has crashed.
    pub fn is_over(&self) -> bool {
        IS_OVER.load(Ordering::SeqCst)
    }

    /// Writes bytes if they fit. A signal handler may write.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.place(offset, bytes.len()) {
            // SAFETY: `place` has room for the bytes. No reference points there, and the reader uses the file.
            unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
    }

    /// The address of a place with so many bytes. A copy of the run has none.
    pub fn place(&self, offset: usize, length: usize) -> Option<*mut u8> {
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.length);
        (fits && self.is_own()).then(|| (self.start + offset) as *mut u8)
    }
}
