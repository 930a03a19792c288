//! Makes the copy's own what the process would go on writing to before its eyes.
//!
//! Where the runtime keeps what can be written apart from what can be executed (.NET 7 and later), its heaps of classes, and with them the
//! numbers in static fields, lie in a shared file, `memfd:doublemapper`. A fork shares that: what the process writes there the copy sees,
//! and what the copy wrote the process would. Seen on 8, 9 and 10: a static number that was counted up 60 times over while a heap was
//! walked; types that were initialized after the copy was made and looked so in it.
//!
//! So the first that a copy does is to put its own pages in the place of those that can be written, with what stands there then. What the
//! process does between the fork and that is seen. On 3.1 to 6, and where W^X is off, nothing is shared.
//! Seen by `/proc/PID/smaps`: 1.6 MiB in a small program on 8, 8 MiB in an ASP.NET Core server on 9.

use std::ffi::{CStr, c_int, c_void};

/// What the runtime calls its file.
const NAME: &[u8] = b"/memfd:doublemapper";
/// The rights of what is shared and can be written.
const SHARED: &[u8] = b"rw-s";
/// Where the mappings of this process stand.
const MAPS: &CStr = c"/proc/self/maps";
/// The file is looked for among so many descriptors: the runtime opens it when it starts.
const DESCRIPTORS: c_int = 4096;

/// A mapping of that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shared {
    start: usize,
    length: usize,
    offset: i64,
    inode: u64,
}

/// Replaces all such mappings; how many could not be. `text` is room for what the kernel says of mappings.
///
/// # Safety
/// In a copy of the process, by its only thread, whose descriptors are still open.
pub unsafe fn make_private(text: &mut [u8]) -> usize {
    // Of a file that is not found, the next mapping is not another reason to look.
    let mut descriptor: Option<(u64, Option<c_int>)> = None;
    let lines = mappings(text).split(|byte| *byte == b'\n');
    let replaced = lines.filter_map(parsed).map(|shared| {
        let known = descriptor.filter(|(inode, _)| *inode == shared.inode);
        let (_, found) = *descriptor.insert(known.unwrap_or_else(|| (shared.inode, opened(shared.inode))));
        // SAFETY: the caller's promise.
        found.is_some_and(|found| unsafe { replaced(shared, found) })
    });
    replaced.filter(|replaced| !replaced).count()
}

/// What the kernel says, as much as there is room for.
fn mappings(text: &mut [u8]) -> &[u8] {
    // SAFETY: a name that lives.
    let file = unsafe { libc::open(MAPS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let mut length = 0;
    while let Some(rest) = text.get_mut(length..).filter(|rest| !rest.is_empty()) {
        // SAFETY: a descriptor, or one that is refused; and so many bytes.
        match unsafe { libc::read(file, rest.as_mut_ptr().cast(), rest.len()) } {
            read @ 1.. => length += read as usize,
            _ => break,
        }
    }
    // SAFETY: as above.
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
        // SAFETY: all-zero is a valid value of this plain struct, and a place for the answer.
        let (answer, about) = unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            (libc::fstat(*descriptor, &raw mut about), about)
        };
        answer == 0 && about.st_ino == inode
    })
}

/// Puts a page of the copy's own in the place of each. What is read is what stands there now; a hole of the file is none of the process's
/// memory before, and none after.
///
/// # Safety
/// As for [`make_private`].
unsafe fn replaced(shared: Shared, descriptor: c_int) -> bool {
    let Shared { start, length, offset, .. } = shared;
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory; read into as much as there is; then moved over a mapping of the same length, which nobody else uses.
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
/// There are so many bytes behind `into`.
unsafe fn read_whole(descriptor: c_int, into: *mut u8, length: usize, offset: i64) -> bool {
    let mut done = 0;
    while done < length {
        // SAFETY: what is left of the caller's bytes.
        match unsafe { libc::pread(descriptor, into.add(done).cast(), length - done, offset + done as i64) } {
            read @ 1.. => done += read as usize,
            // Behind the end of the file nothing was ever written.
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
    fn a_mapping_of_the_runtimes_file_is_told_from_others() {
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

    /// In a copy of this process: what stood there when the copy looked stays, and what it writes is its own.
    fn stays_apart(shared: *mut u64, told: c_int, hears: c_int) -> bool {
        let mut text = [0; 1 << 17];
        // SAFETY: the copy's only thread; the mapping is there in both processes.
        unsafe {
            let left = make_private(&mut text);
            libc::write(told, b"!".as_ptr().cast(), 1);
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
        // SAFETY: a name that lives, places for descriptors, and a mapping of what was made here.
        let shared = unsafe {
            let file = libc::memfd_create(c"doublemapper".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(file, 2 * PAGE as i64), 0);
            assert_eq!((libc::pipe(there.as_mut_ptr()), libc::pipe(back.as_mut_ptr())), (0, 0));
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), 2 * PAGE, rights, libc::MAP_SHARED, file, 0).cast::<u64>()
        };
        // SAFETY: the first page of the mapping; the child calls nothing that allocates or locks, and ends.
        let child = unsafe {
            shared.write_volatile(1);
            libc::fork()
        };
        if child == 0 {
            let status = c_int::from(!stays_apart(shared, there[1], back[0]));
            // SAFETY: ends this process, without a word to anybody.
            unsafe { libc::_exit(status) };
        }
        let (mut byte, mut status) = (0_u8, -1);
        // SAFETY: live places, descriptors that are open, and a child of ours.
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
        // SAFETY: a name that lives, and a mapping of what was made here, which stays when its descriptor goes.
        let shared = unsafe {
            let file = libc::memfd_create(c"doublemapper".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(file, PAGE as i64), 0);
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let shared = libc::mmap(std::ptr::null_mut(), PAGE, rights, libc::MAP_SHARED, file, 0).cast::<u64>();
            libc::close(file);
            shared
        };
        // SAFETY: the mapping; the child calls nothing that allocates or locks, and ends.
        let child = unsafe {
            shared.write_volatile(1);
            libc::fork()
        };
        if child == 0 {
            let mut text = [0; 1 << 17];
            // SAFETY: the copy's only thread; the mapping is there in both processes.
            let seen = unsafe { (make_private(&mut text), shared.read_volatile()) };
            // SAFETY: ends this process, without a word to anybody.
            unsafe { libc::_exit(c_int::from(seen != (1, 1))) };
        }
        let mut status = -1;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
    }
}
