//! CPU time of a process from the kernel: the reference for the sum of weights, and the clock by which a test waits for samples.

use crate::until;
use std::time::Duration;

/// The kernel's ticks in `/proc`, on every Linux that .NET runs on.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of a process so far, with all its threads, including ended ones.
pub fn cpu_time(pid: u32) -> Duration {
    let path = format!("/proc/{pid}/stat");
    let stat = crate::process_facts::text_of(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    let ticks = ticks_in(&stat).unwrap_or_else(|| panic!("{path} is not what it should be: {stat}"));
    TICK * ticks
}

/// Waits until a process has used `more` CPU time: works as long as it makes any progress.
#[track_caller]
pub fn until_used(pid: u32, more: Duration) {
    let mut used = cpu_time(pid);
    let goal = used + more;
    while used < goal {
        let before = used;
        until("the process uses processor time", || {
            used = cpu_time(pid);
            used > before
        });
    }
}

/// The sum of one field of `schedstat` over the threads with a wanted name: nanoseconds on a CPU (0), nanoseconds of waiting for one (1).
pub fn scheduled(pid: u32, number: usize, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of_task = tasks.flatten().filter_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').nth(number)?.parse::<u64>().ok().filter(|_| is_wanted(&name))
    });
    of_task.sum()
}

fn ticks_in(stat: &str) -> Option<u32> {
    // The name is in parentheses and may contain anything; the third field follows it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_read_whatever_the_name() {
        assert_eq!(ticks_in("7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1"), Some(200));
        assert_eq!(ticks_in("7 (cut) S 1"), None);
    }

    #[test]
    fn a_process_that_works_is_waited_for() {
        let mut burner = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        until_used(burner.id(), TICK * 3);
        let used = cpu_time(burner.id());
        burner.kill().unwrap();
        burner.wait().unwrap();
        assert!(used >= TICK * 3, "{used:?}");
    }
}
