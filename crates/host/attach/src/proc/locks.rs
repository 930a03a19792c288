//! `/proc/locks`: who has locked which file.

/// Who holds a lock by flock(2) on a file, by its device and inode there. Of processes in other pid namespaces the kernel shows none; and a
/// file system of several devices (overlayfs, btrfs) may give another one for the file.
pub(crate) fn parse_lock_holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| match *line.split_ascii_whitespace().collect::<Vec<_>>() {
        [_, "FLOCK", _, "READ" | "WRITE", holder, locked, ..] if locked == file => holder.parse().ok(),
        _ => None,
    })
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
        assert_eq!(parse_lock_holder(line, device, 8_552_973), Some(20_447));
        for (other, inode) in [("POSIX", 8_552_973), ("FLOCK", 855_297), ("-> FLOCK", 8_552_973)] {
            assert_eq!(parse_lock_holder(&line.replace("FLOCK", other), device, inode), None);
        }
    }
}
