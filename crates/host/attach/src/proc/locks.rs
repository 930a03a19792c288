//! `/proc/locks`: who has locked which file.

use std::collections::HashMap;

/// A file: major and minor number of its device, and its inode.
type FileId = ((u32, u32), u64);

/// Who holds a lock by flock(2) on which file. Of processes in other pid namespaces the kernel shows none; and a file system of several
/// devices (overlayfs, btrfs) may give another one for the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Locks(HashMap<FileId, u32>);

impl Locks {
    /// Reads the text of `locks`.
    pub(crate) fn parse(locks: &str) -> Locks {
        Locks(locks.lines().filter_map(parse_line).collect())
    }

    /// Who has locked the file of this device and inode; one of several with a shared lock.
    pub(crate) fn holder(&self, device: u64, inode: u64) -> Option<u32> {
        let file = ((rustix::fs::major(device), rustix::fs::minor(device)), inode);
        self.0.get(&file).copied()
    }
}

/// A file and the holder of its lock.
fn parse_line(line: &str) -> Option<(FileId, u32)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (kind, _, access) = (words.next()?, words.next()?, words.next()?);
    if kind != "FLOCK" || !["READ", "WRITE"].contains(&access) {
        return None;
    }
    let (holder, mut file) = (words.next()?.parse().ok()?, words.next()?.split(':'));
    let mut number = || u32::from_str_radix(file.next()?, 16).ok();
    let device = (number()?, number()?);
    Some(((device, file.next()?.parse().ok()?), holder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;
    use rustix::fs::FlockOperation;

    #[test]
    fn who_holds_a_file_that_we_may_not_open_is_seen_among_the_kernels_locks() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
        let facts = rustix::fs::fstat(&file).expect("known");
        let holder = || Proc::default().lock_holder(facts.st_dev, facts.st_ino);
        assert_eq!(holder(), None);
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).expect("locked");
        assert_eq!(holder(), Some(std::process::id()));
        let line = "1: FLOCK  ADVISORY  WRITE 20447 fe:00:8552973 0 EOF";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(Locks::parse(line).holder(device, 8_552_973), Some(20_447));
        for (other, inode) in [("POSIX", 8_552_973), ("FLOCK", 855_297), ("-> FLOCK", 8_552_973)] {
            assert_eq!(Locks::parse(&line.replace("FLOCK", other)).holder(device, inode), None);
        }
    }
}
