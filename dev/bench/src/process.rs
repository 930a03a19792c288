//! Facts from the kernel about a target and the machine.

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory of a process at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory, KiB.
    pub resident: u64,
    /// Resident memory of the mappings whose file carries Remora's name: library and shared ring, KiB.
    pub named: u64,
}

/// CPU time of a process, with its ended threads, seconds. 0 if the process is gone. Running threads count up to the last kernel tick.
pub fn cpu_time(process_id: u32) -> f64 {
    let clock = i32::try_from(process_id).ok().and_then(|id| clock_getcpuclockid(Pid::from_raw(id)).ok());
    clock.and_then(|clock| clock.now().ok()).map_or(0.0, |time| Duration::from(time).as_secs_f64())
}

/// CPU time of a process's threads whose names begin with `start`, seconds. Ended threads are not in it.
pub fn cpu_time_of(process_id: u32, start: &str) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process_id}/task")).into_iter().flatten().flatten();
    let names_match = |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(start));
    let tasks = tasks.map(|task| task.path()).filter(names_match);
    tasks.filter_map(|task| used(&task)).sum::<u64>() as f64 / 1e9
}

/// CPU time that the calling thread has used, seconds.
pub fn own_time() -> f64 {
    used(Path::new("/proc/thread-self")).unwrap_or(0) as f64 / 1e9
}

/// The memory of a process.
pub fn memory(process_id: u32) -> Memory {
    let maps = fs::read_to_string(PathBuf::from(format!("/proc/{process_id}/smaps"))).unwrap_or_default();
    memory_in(&maps)
}

/// Resident memory of a process, MiB.
pub fn resident(process_id: u32) -> f64 {
    memory(process_id).resident as f64 / 1024.0
}

/// A description of this machine.
pub fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown model", |(_, model)| model.trim());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processors} CPUs ({model}), Linux {}", release.trim())
}

/// The machine's load.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load of the last minute {}", load.split(' ').next().unwrap_or("unknown"))
}

fn used(task: &Path) -> Option<u64> {
    fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
}

fn memory_in(smaps: &str) -> Memory {
    let mut memory = Memory::default();
    let mut ours = false;
    for line in smaps.lines() {
        match line.strip_prefix("Rss:") {
            Some(size) => {
                let size = size.trim().trim_end_matches(" kB").parse().unwrap_or(0);
                memory.resident += size;
                memory.named += if ours { size } else { 0 };
            }
            // Only the first line of a mapping starts with addresses in lower-case hexadecimal.
            None if line.starts_with(|first: char| first.is_ascii_digit() || first.is_ascii_lowercase()) => {
                // Compares the file name, since fetched runtimes are in a folder called like this.
                ours = line.rsplit('/').next().is_some_and(|file| file.contains("remora"));
            }
            None => {}
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_added_up_and_ours_by_name() {
        let smaps = "7f0000000000-7f0000100000 rw-s 00000000 00:01 5 /memfd:remora-ring (deleted)\n\
                     Size:               1024 kB\nRss:                  12 kB\nPss: 6 kB\nVmFlags: rd\n\
                     a00000000000-b00000000000 r-xp 00000000 00:01 6 /home/me/.cache/remora/libc.so.6\nRss:                  30 kB\n";
        assert_eq!(memory_in(smaps), Memory { resident: 42, named: 12 });
    }

    #[test]
    fn our_own_processor_time_grows() {
        let before = cpu_time(std::process::id());
        let mut sum = 0_u64;
        while cpu_time(std::process::id()) == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(before >= 0.0);
    }
}
