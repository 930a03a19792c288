//! How long a thread has waited for CPUs. The kernel adds each wait when it ends.

/// Room for the file's content: three numbers.
const ROOM: usize = 72;

/// How long the calling thread has waited for CPUs in its life, nanoseconds. An unfinished wait does not count. `None` if the kernel does
/// not say. Async-signal-safe.
pub(crate) fn waited_for_cpu() -> Option<u64> {
    // The C library's functions of these names are cancellation points: a thread could end in the middle of the handler.
    // SAFETY: a zero-terminated path that lives on; every number has the register's full width.
    let file = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD as isize,
            c"/proc/thread-self/schedstat".as_ptr(),
            (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
            0_usize,
        )
    };
    if file < 0 {
        return None;
    }
    let mut text = [0_u8; ROOM];
    // SAFETY: `text` lives on, and has `ROOM` bytes.
    let length = unsafe { libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), ROOM) };
    // SAFETY: opened above, closed once.
    unsafe { libc::syscall(libc::SYS_close, file) };
    waited_in(text.get(..usize::try_from(length).ok()?)?)
}

/// The time waited for CPUs in a thread's `schedstat`, nanoseconds: the second of its three numbers.
///
/// Source: Linux `Documentation/scheduler/sched-stats.rst`, `/proc/<pid>/schedstat`: time on CPUs, time waited for them, time slices.
pub fn waited_in(schedstat: &[u8]) -> Option<u64> {
    let word = schedstat.split(|byte| *byte == b' ').nth(1)?;
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(waited_in(b"354443072 974610 4\n"), Some(974_610));
        for text in [b"".as_slice(), b"1", b"1 x 2", b"1 99999999999999999999999 2"] {
            assert_eq!(waited_in(text), None);
        }
    }

    #[test]
    fn the_calling_thread_can_be_asked() {
        let first = waited_for_cpu();
        assert!(first.is_some() && waited_for_cpu() >= first, "{first:?}");
    }
}
