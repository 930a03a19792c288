//! Memory of one attach that signal handlers may access: mapped whole at the start, unmapped whole at the end.

use std::sync::atomic::AtomicU64;

/// An anonymous or shared mapping, unmapped when dropped.
pub struct Mapping {
    address: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: a mapping is only an address range. The types laid over it are atomic, or have one user as their callers ensure.
unsafe impl Send for Mapping {}
// SAFETY: the types laid over the range are atomic, or have one user as their callers ensure.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed private memory; a page exists once it is touched.
    pub fn anonymous(bytes: usize) -> Result<Mapping, i32> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        Mapping::made(bytes, unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        })
    }

    /// Maps the shared memory behind `descriptor`. It must be sealed against shrinking and have all its pages: otherwise a write would be a
    /// SIGBUS in the target.
    pub fn shared(descriptor: i32, bytes: usize) -> Result<Mapping, i32> {
        if size_of_sealed(descriptor, libc::F_SEAL_SHRINK)? < bytes {
            return Err(libc::EINVAL);
        }
        // SAFETY: a new mapping at an address that the kernel chooses.
        Mapping::made(bytes, unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, descriptor, 0)
        })
    }

    /// Maps the whole shared memory behind `descriptor`, for the same demands.
    pub fn whole(descriptor: i32) -> Result<Mapping, i32> {
        Mapping::shared(descriptor, size_of_sealed(descriptor, libc::F_SEAL_SHRINK)?)
    }

    /// Maps the memory behind `descriptor` read-only: sealed against writes, at most `most` bytes.
    ///
    /// No page is read yet. Reading all of them takes milliseconds, and a child forked meanwhile would keep the mapping: see
    /// `ForkGuard::keep` of the agent.
    pub fn read_only(descriptor: i32, most: usize) -> Result<Mapping, i32> {
        let bytes = size_of_sealed(descriptor, libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE)?;
        if bytes == 0 || bytes > most {
            return Err(libc::EINVAL);
        }
        // Not shared: kernels before 6.7 refuse that for a file sealed against writing, even read-only.
        let flags = libc::MAP_PRIVATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        Mapping::made(bytes, unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, descriptor, 0) })
    }

    fn made(bytes: usize, address: *mut libc::c_void) -> Result<Mapping, i32> {
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM));
        }
        Ok(Mapping { address, bytes })
    }

    /// Its first address.
    pub fn address(&self) -> *mut libc::c_void {
        self.address
    }

    /// Gives the kernel advice on the whole mapping.
    ///
    /// # Errors
    /// The system's error number.
    pub fn advise(&self, advice: i32) -> Result<(), i32> {
        // SAFETY: the mapping is this value's. The advice is about forks only.
        unsafe { advise(self.address, self.bytes, advice) }
    }

    /// The mapping as words. The caller keeps it mapped.
    ///
    /// # Safety
    /// The result must not be used after the mapping was dropped.
    pub unsafe fn words(&self) -> &'static [AtomicU64] {
        // SAFETY: page-aligned and `bytes` long, zero or written by atomics only. The caller does not use the words after the mapping.
        unsafe { std::slice::from_raw_parts(self.address.cast::<AtomicU64>(), self.bytes / 8) }
    }

    /// The mapping as words that never change.
    ///
    /// # Safety
    /// The words must not be written, and the result must not be used after the mapping was dropped.
    pub unsafe fn plain_words(&self) -> &'static [u64] {
        // SAFETY: page-aligned and `bytes` long. The caller ensures that nothing writes the words, and that the mapping outlives them.
        unsafe { std::slice::from_raw_parts(self.address.cast::<u64>(), self.bytes / 8) }
    }

    /// The mapping as values that are valid when all their bytes are zero, for one user only.
    ///
    /// # Safety
    /// As [`Mapping::values`]; and nothing else accesses the mapping meanwhile.
    #[allow(clippy::mut_from_ref, reason = "the caller promises to be the only one")]
    pub unsafe fn exclusive<T>(&self) -> &'static mut [T] {
        // SAFETY: page-aligned and long enough for this number of values. The caller ensures validity, lifetime, and that it is the only
        // user.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast::<T>(), self.bytes / size_of::<T>()) }
    }

    /// The mapping as values that are valid when all their bytes are zero.
    ///
    /// # Safety
    /// All-zero bytes are a valid `T`; the result must not be used after the mapping was dropped.
    pub unsafe fn values<T: Sync>(&self) -> &'static [T] {
        // SAFETY: page-aligned and long enough for this number of values. The caller ensures validity and lifetime.
        unsafe { std::slice::from_raw_parts(self.address.cast::<T>(), self.bytes / size_of::<T>()) }
    }
}

/// Gives the kernel advice on a mapping.
///
/// # Errors
/// The system's error number.
///
/// # Safety
/// The advice does not change the content of memory that is in use.
pub unsafe fn advise(address: *mut libc::c_void, bytes: usize, advice: i32) -> Result<(), i32> {
    // SAFETY: the caller ensures that the memory keeps its content.
    if unsafe { libc::madvise(address, bytes, advice) } == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

/// The size of the memory behind `descriptor`. It must have these seals and all its pages.
fn size_of_sealed(descriptor: i32, wanted: i32) -> Result<usize, i32> {
    // SAFETY: fcntl on a descriptor number; the kernel refuses an invalid one.
    let seals = unsafe { libc::fcntl(descriptor, libc::F_GET_SEALS) };
    if seals < 0 || seals & wanted != wanted {
        return Err(libc::EPERM);
    }
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is live.
    if unsafe { libc::fstat(descriptor, &raw mut status) } != 0 {
        return Err(libc::EINVAL);
    }
    let bytes = status.st_size as usize;
    // The first write would allocate a missing page. If memory has run out, that is SIGBUS, too.
    if (status.st_blocks as usize) * 512 < bytes { Err(libc::ENOSPC) } else { Ok(bytes) }
}

/// Words in a mapping of their own.
pub struct MappedWords(Mapping);

impl MappedWords {
    /// Maps `count` zero words; a page exists once it is touched.
    pub fn new(count: usize) -> Result<MappedWords, i32> {
        Mapping::anonymous(count * 8).map(MappedWords)
    }
}

impl AsRef<[AtomicU64]> for MappedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: the slice borrows `self`, which keeps the mapping.
        unsafe { self.0.words() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `made` mapped it, and only this unmaps it. The callers that took a view ensured that it is no longer used.
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}
