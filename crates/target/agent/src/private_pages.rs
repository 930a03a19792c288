//! Replaces shared pages by the copy's own: the process would still write to them during the heap walk.
//!
//! .NET 7 and later keep writable memory apart from executable memory (W^X). The loader heaps, and with them the numbers in static fields,
//! lie in a shared file, `memfd:doublemapper`. A fork shares that file: each process sees the other's writes. Seen on 8, 9 and 10: during a
//! heap walk, a static number was counted up 60 times. Types that were initialized after the fork looked initialized in the copy.
//!
//! So the copy first replaces the writable pages by its own, with their content at that time. It still sees writes between the fork and
//! then. On 3.1 to 6, and without W^X, nothing is shared.
//! Sizes by `/proc/PID/smaps`: 1.6 MiB in a small program on 8, 8 MiB in an ASP.NET Core server on 9.

use std::ffi::{CStr, c_int, c_void};

/// The runtime's name for its file.
const NAME: &[u8] = b"/memfd:doublemapper";
/// The rights of a shared, writable mapping.
const SHARED: &[u8] = b"rw-s";
/// The kernel's list of this process's mappings.
const MAPS: &CStr = c"/proc/self/maps";
/// The file is searched among this many descriptors: the runtime opens it at startup.
const DESCRIPTORS: c_int = 4096;

/// A mapping of that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shared {
    start: usize,
    length: usize,
    offset: i64,
    inode: u64,
}

/// Replaces all such mappings. Returns how many could not be replaced. `text` is room for the kernel's list of mappings.
///
/// # Safety
/// Only in a forked copy, on its only thread, while its descriptors are still open.
pub unsafe fn make_private(text: &mut [u8]) -> usize {
    // Remember a file that was not found, too: do not search again for its next mapping.
    let mut descriptor: Option<(u64, Option<c_int>)> = None;
    let lines = mappings(text).split(|byte| *byte == b'\n');
    let replaced = lines.filter_map(parsed).map(|shared| {
        let known = descriptor.filter(|(inode, _)| *inode == shared.inode);
        let (_, found) = *descriptor.insert(known.unwrap_or_else(|| (shared.inode, opened(shared.inode))));
        // SAFETY: the caller is a copy's only thread, with its descriptors still open.
        found.is_some_and(|found| unsafe { replaced(shared, found) })
    });
    replaced.filter(|replaced| !replaced).count()
}

/// The kernel's list of mappings, as far as there is room.
fn mappings(text: &mut [u8]) -> &[u8] {
    // SAFETY: `MAPS` is a static C string.
    let file = unsafe { libc::open(MAPS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let mut length = 0;
    while let Some(rest) = text.get_mut(length..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is live and has the given length. The kernel refuses an invalid descriptor.
        match unsafe { libc::read(file, rest.as_mut_ptr().cast(), rest.len()) } {
            read @ 1.. => length += read as usize,
            _ => break,
        }
    }
    // SAFETY: the descriptor was opened here, or the kernel refuses it.
    unsafe { libc::close(file) };
    text.get(..length).unwrap_or_default()
}

/// `7fb853860000-7fb853863000 rw-s 00001000 00:01 45201   /memfd:doublemapper (deleted)`
fn parsed(line: &[u8]) -> Option<Shared> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let (_, inode, name) = (words.next()?, words.next()?, words.next()?);
    (rights == SHARED && name == NAME).then_some(())?;
    let mut ends = range.split(|byte| *byte == b'-');
    let (start, end) = (number(ends.next()?, 16)?, number(ends.next()?, 16)?);
    let length = usize::try_from(end.checked_sub(start)?).ok()?;
    Some(Shared {
        start: usize::try_from(start).ok()?,
        length,
        offset: i64::try_from(number(offset, 16)?).ok()?,
        inode: number(inode, 10)?,
    })
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = char::from(*digit).to_digit(base)?;
        number.checked_mul(u64::from(base))?.checked_add(u64::from(digit))
    })
}

/// The descriptor of the file with this inode.
fn opened(inode: u64) -> Option<c_int> {
    (0..DESCRIPTORS).find(|descriptor| {
        // SAFETY: all-zero is a valid value of this plain struct, and `about` is live for the answer.
        let (answer, about) = unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            (libc::fstat(*descriptor, &raw mut about), about)
        };
        answer == 0 && about.st_ino == inode
    })
}

/// Replaces each page by the copy's own, with its current content. A hole of the file takes no memory of the process, before or after.
///
/// # Safety
/// As for [`make_private`].
unsafe fn replaced(shared: Shared, descriptor: c_int) -> bool {
    let Shared { start, length, offset, .. } = shared;
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: `own` is new memory of `length` bytes. It moves over a mapping of the same length, which only this thread could use.
    unsafe {
        let own = libc::mmap(std::ptr::null_mut(), length, rights, flags, -1, 0);
        if own == libc::MAP_FAILED {
            return false;
        }
        let is_read = read_whole(descriptor, own.cast(), length, offset);
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        if is_read && libc::mremap(own, length, length, how, start as *mut c_void) != libc::MAP_FAILED {
            return true;
        }
        libc::munmap(own, length);
        false
    }
}

/// # Safety
/// `into` has room for `length` bytes.
unsafe fn read_whole(descriptor: c_int, into: *mut u8, length: usize, offset: i64) -> bool {
    let mut done = 0;
    while done < length {
        // SAFETY: the caller gives room for `length` bytes, and `done` of them are filled.
        match unsafe { libc::pread(descriptor, into.add(done).cast(), length - done, offset + done as i64) } {
            read @ 1.. => done += read as usize,
            // Nothing was ever written after the end of the file.
            0 => return true,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn a_mapping_of_the_runtimes_file_is_distinguished_from_others() {
        let line =
            b"7fb853860000-7fb853863000 rw-s 00001000 00:01 45201                      /memfd:doublemapper (deleted)";
        let shared = Shared { start: 0x7fb8_5386_0000, length: 0x3000, offset: 0x1000, inode: 45201 };
        assert_eq!(parsed(line), Some(shared));
        for other in [
            &b"7fb853850000-7fb853851000 r-xs 00000000 00:01 45201 /memfd:doublemapper (deleted)"[..],
            b"7fb853850000-7fb853851000 rw-s 00000000 00:01 45201 /memfd:another (deleted)",
            b"7fb853850000-7fb853851000 rw-p 00000000 00:00 0 ",
            b"7fb853850000 rw-s 00000000 00:01 45201 /memfd:doublemapper",
            b"",
        ] {
            assert_eq!(parsed(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    /// In a copy of this process: its content stays as it was at the replacement, and its own writes stay private.
    fn stays_apart(shared: *mut u64, sends: c_int, hears: c_int) -> bool {
        let mut text = [0; 1 << 17];
        // SAFETY: this is the copy's only thread, and the mapping exists in both processes.
        unsafe {
            let left = make_private(&mut text);
            libc::write(sends, b"!".as_ptr().cast(), 1);
            let mut byte = 0_u8;
            libc::read(hears, (&raw mut byte).cast(), 1);
            let seen = (shared.read_volatile(), shared.byte_add(PAGE).read_volatile());
            shared.write_volatile(3);
            (left, seen) == (0, (1, 0))
        }
    }

    #[test]
    fn regression_what_a_process_writes_to_its_shared_file_is_not_seen_by_its_copy_nor_the_other_way_round() {
        let (mut there, mut back) = ([0; 2], [0; 2]);
        // SAFETY: a static C string, room for descriptors, and a mapping of the file made here.
        let shared = unsafe {
            let file = libc::memfd_create(c"doublemapper".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(file, 2 * PAGE as i64), 0);
            assert_eq!((libc::pipe(there.as_mut_ptr()), libc::pipe(back.as_mut_ptr())), (0, 0));
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), 2 * PAGE, rights, libc::MAP_SHARED, file, 0).cast::<u64>()
        };
        // SAFETY: the first page of the mapping. The child neither allocates nor locks, and ends.
        let child = unsafe {
            shared.write_volatile(1);
            libc::fork()
        };
        if child == 0 {
            let status = c_int::from(!stays_apart(shared, there[1], back[0]));
            // SAFETY: ends this process; no exit handler runs.
            unsafe { libc::_exit(status) };
        }
        let (mut byte, mut status) = (0_u8, -1);
        // SAFETY: live places, open descriptors, and an own child.
        unsafe {
            assert_eq!(libc::read(there[0], (&raw mut byte).cast(), 1), 1, "it has pages of its own");
            shared.write_volatile(2);
            shared.byte_add(PAGE).write_volatile(2);
            assert_eq!(libc::write(back[1], b"!".as_ptr().cast(), 1), 1);
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!((status, shared.read_volatile()), (0, 2));
        }
    }

    #[test]
    fn what_cannot_be_made_its_own_is_counted_and_stays_as_it_is() {
        // SAFETY: a static C string, and a mapping of the file made here, which outlives its descriptor.
        let shared = unsafe {
            let file = libc::memfd_create(c"doublemapper".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(file, PAGE as i64), 0);
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let shared = libc::mmap(std::ptr::null_mut(), PAGE, rights, libc::MAP_SHARED, file, 0).cast::<u64>();
            libc::close(file);
            shared
        };
        // SAFETY: the page is mapped. The child neither allocates nor locks, and ends.
        let child = unsafe {
            shared.write_volatile(1);
            libc::fork()
        };
        if child == 0 {
            let mut text = [0; 1 << 17];
            // SAFETY: this is the copy's only thread, and the mapping exists in both processes.
            let seen = unsafe { (make_private(&mut text), shared.read_volatile()) };
            // SAFETY: ends this process; no exit handler runs.
            unsafe { libc::_exit(c_int::from(seen != (1, 1))) };
        }
        let mut status = -1;
        // SAFETY: an own child; `status` is live.
        assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
    }
}
