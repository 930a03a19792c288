//! How long a thread has waited for CPUs. The kernel adds each wait when it ends.

/// Room for the path of another thread's file, and for its content: three numbers.
const ROOM: usize = 72;

/// How long a thread of this process has waited for CPUs in its life, nanoseconds. Thread 0 is the calling thread. An unfinished wait does
/// not count. `None` if the kernel does not say. Async-signal-safe.
///
/// Source: Linux `Documentation/scheduler/sched-stats.rst`, `/proc/<pid>/schedstat`: time on CPUs, time waited for them, time slices.
pub fn waited_for_cpu(thread: u32) -> Option<u64> {
    let mut path = [0_u8; ROOM];
    write_path(thread, &mut path);
    // The C library's functions of these names are cancellation points: a thread could end in the middle of the handler.
    // SAFETY: a zero-terminated path that lives on; every number has the register's full width.
    let file = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD as isize,
            path.as_ptr(),
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
    second_number(text.get(..usize::try_from(length).ok()?)?)
}

/// `/proc/thread-self/schedstat`, or `/proc/self/task/THREAD/schedstat`.
fn write_path(thread: u32, path: &mut [u8; ROOM]) {
    let mut digits = [0_u8; 10];
    let mut count = 0;
    let mut rest = thread;
    for digit in digits.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        (rest, count) = (rest / 10, count + 1);
    }
    let number = digits.iter().skip(digits.len() - count);
    let folder: &[u8] = if thread == 0 { b"/proc/thread-self" } else { b"/proc/self/task/" };
    let whole = folder.iter().chain(number).chain(b"/schedstat");
    // The last byte stays zero.
    path.iter_mut().take(ROOM - 1).zip(whole).for_each(|(place, byte)| *place = *byte);
}

fn second_number(text: &[u8]) -> Option<u64> {
    let word = text.split(|byte| *byte == b' ').nth(1)?;
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
        assert_eq!(second_number(b"354443072 974610 4\n"), Some(974_610));
        for text in [b"".as_slice(), b"1", b"1 x 2", b"1 99999999999999999999999 2"] {
            assert_eq!(second_number(text), None);
        }
    }

    #[test]
    fn paths_name_the_thread() {
        for (thread, wanted) in [
            (0, "/proc/thread-self/schedstat"),
            (1, "/proc/self/task/1/schedstat"),
            (4_294_967_295, "/proc/self/task/4294967295/schedstat"),
        ] {
            let mut path = [0; ROOM];
            write_path(thread, &mut path);
            let end = path.iter().position(|byte| *byte == 0).expect("it ends");
            assert_eq!(path[..end], *wanted.as_bytes());
        }
    }

    #[test]
    fn this_thread_and_any_other_can_be_asked() {
        // SAFETY: gettid takes nothing.
        let own = unsafe { libc::gettid() } as u32;
        let (first, by_number) = (waited_for_cpu(0), waited_for_cpu(own));
        assert!(first.is_some() && by_number >= first, "{first:?} {by_number:?}");
        assert_eq!(waited_for_cpu(u32::MAX), None);
    }
}
