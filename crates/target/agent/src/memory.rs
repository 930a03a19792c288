//! Memory of one attach that signal handlers may touch: mapped whole at the start, unmapped whole at the very end.

use std::sync::atomic::AtomicU64;

/// An anonymous or shared mapping, unmapped when dropped.
pub struct Mapping {
    address: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: a mapping is just an address range; who reads and writes it when is up to the types laid over it, which are atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed private memory, touched page by page as it is used.
    pub fn anonymous(bytes: usize) -> Result<Mapping, i32> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        Mapping::made(bytes, unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        })
    }

    /// The shared memory behind `descriptor`, which must be sealed against shrinking and hold all its pages: else a write would be a SIGBUS in the target.
    pub fn shared(descriptor: i32, bytes: usize) -> Result<Mapping, i32> {
        if size_of_sealed(descriptor, libc::F_SEAL_SHRINK)? < bytes {
            return Err(libc::EINVAL);
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        Mapping::made(bytes, unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, descriptor, 0)
        })
    }

    /// Maps the memory behind `descriptor` read-only: sealed against writes, at most `most` bytes.
    ///
    /// No page is read yet. Reading all of them takes milliseconds, and a child forked meanwhile would keep the mapping: see
    /// [`ForkGuard::keep`](crate::fork_guard::ForkGuard::keep).
    pub fn read_only(descriptor: i32, most: usize) -> Result<Mapping, i32> {
        let bytes = size_of_sealed(descriptor, libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE)?;
        if bytes == 0 || bytes > most {
            return Err(libc::EINVAL);
        }
        // Not shared: kernels before 6.7 refuse that for a file sealed against writing, even read-only.
        let flags = libc::MAP_PRIVATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        Mapping::made(bytes, unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, flags, descriptor, 0) })
    }

    fn made(bytes: usize, address: *mut libc::c_void) -> Result<Mapping, i32> {
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM));
        }
        Ok(Mapping { address, bytes })
    }

    /// Where it begins.
    pub fn address(&self) -> *mut libc::c_void {
        self.address
    }

    /// Gives the kernel advice on all of it.
    ///
    /// # Errors
    /// The system's error number.
    pub fn advise(&self, advice: i32) -> Result<(), i32> {
        advise(self.address, self.bytes, advice)
    }

    /// The mapping as words, for as long as the caller keeps it mapped.
    ///
    /// # Safety
    /// The result must not be used after the mapping was dropped.
    pub unsafe fn words(&self) -> &'static [AtomicU64] {
        // SAFETY: page-aligned, `bytes` long, zero or written by atomics only; the lifetime is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address.cast::<AtomicU64>(), self.bytes / 8) }
    }

    /// The mapping as words that never change.
    ///
    /// # Safety
    /// The words must not be written, and the result must not be used after the mapping was dropped.
    pub unsafe fn plain_words(&self) -> &'static [u64] {
        // SAFETY: page-aligned and `bytes` long; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address.cast::<u64>(), self.bytes / 8) }
    }

    /// The mapping as values that are valid when all their bytes are zero, for one owner alone.
    ///
    /// # Safety
    /// As [`Mapping::values`]; and nobody else looks at the mapping meanwhile.
    #[allow(clippy::mut_from_ref, reason = "the caller promises to be the only one")]
    pub unsafe fn exclusive<T>(&self) -> &'static mut [T] {
        // SAFETY: page-aligned, long enough for the number of values computed here; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast::<T>(), self.bytes / size_of::<T>()) }
    }

    /// The mapping as values that are valid when all their bytes are zero.
    ///
    /// # Safety
    /// All-zero bytes are a valid `T`; the result must not be used after the mapping was dropped.
    pub unsafe fn values<T: Sync>(&self) -> &'static [T] {
        // SAFETY: page-aligned, long enough for the number of values computed here; validity and lifetime are the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address.cast::<T>(), self.bytes / size_of::<T>()) }
    }
}

/// Gives the kernel advice on a mapping that leaves what is in it as it is.
///
/// # Errors
/// The system's error number.
pub fn advise(address: *mut libc::c_void, bytes: usize, advice: i32) -> Result<(), i32> {
    // SAFETY: of the advice that is given here, none changes this process's memory.
    if unsafe { libc::madvise(address, bytes, advice) } == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

/// The size of the memory behind `descriptor`, which must have these seals and all its pages.
fn size_of_sealed(descriptor: i32, wanted: i32) -> Result<usize, i32> {
    // SAFETY: fcntl and fstat on a descriptor number; a wrong one is answered with an error.
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

/// Words of a mapping of their own.
pub struct MappedWords(Mapping);

impl MappedWords {
    /// So many, zero; none of them has memory before it is touched.
    pub fn new(count: usize) -> Result<MappedWords, i32> {
        Mapping::anonymous(count * 8).map(MappedWords)
    }
}

impl AsRef<[AtomicU64]> for MappedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: the words live no longer than `self`, which holds the mapping.
        unsafe { self.0.words() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `made`, unmapped once, and no view is used any more (promised by those who took one).
        unsafe { libc::munmap(self.address, self.bytes) };
    }
}
