//! The scheduler's counters of a thread: how long it has waited for CPUs, and how often it got one.

use crate::raw::read_file;

/// Room for the file's content: three numbers.
const ROOM: usize = 72;

/// The scheduler's counters over a thread's life.
///
/// Source: Linux `Documentation/scheduler/sched-stats.rst`, `/proc/<pid>/schedstat`: time on CPUs, time waited for them, time slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// Time waited for CPUs, nanoseconds. The kernel adds each wait when it ends.
    pub waited: u64,
    /// How often it got a CPU.
    pub slices: u64,
}

/// The scheduler's counters of the calling thread. `None` if the kernel does not provide them. Async-signal-safe.
pub(crate) fn scheduled() -> Option<Scheduled> {
    let mut text = [0_u8; ROOM];
    let length = read_file(c"/proc/thread-self/schedstat", 0, &mut text)?;
    Scheduled::parse(text.get(..length)?)
}

impl Scheduled {
    /// From a thread's `schedstat`.
    pub fn parse(schedstat: &[u8]) -> Option<Scheduled> {
        let mut words = schedstat.trim_ascii_end().split(|byte| *byte == b' ').skip(1);
        let waited = number(words.next()?)?;
        Some(Scheduled { waited, slices: number(words.next()?)? })
    }
}

fn number(word: &[u8]) -> Option<u64> {
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait_and_the_third_counts_slices() {
        assert_eq!(Scheduled::parse(b"354443072 974610 4\n"), Some(Scheduled { waited: 974_610, slices: 4 }));
        for text in [b"".as_slice(), b"1", b"1 2", b"1 x 2", b"1 2 x", b"1 99999999999999999999999 2"] {
            assert_eq!(Scheduled::parse(text), None);
        }
    }

    #[test]
    fn the_calling_thread_can_be_asked() {
        let first = scheduled().expect("this kernel counts");
        let then = scheduled().expect("this kernel counts");
        assert!(first.slices > 0 && first.slices <= then.slices && first.waited <= then.waited, "{first:?} {then:?}");
    }
}
