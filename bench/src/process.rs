//! What the kernel says about a target and the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Numbers of one process at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory, KiB.
    pub resident: u64,
    /// Resident memory of the mappings whose file carries Remora's name: library and shared ring, KiB.
    pub named: u64,
}

/// Processor time that the threads of a process have used, seconds, to the nanosecond. Threads that have ended are not in it.
pub fn processor_time(process_id: u32) -> f64 {
    used_by(process_id, |_| true)
}

/// The same, only of threads whose names begin with `start`.
pub fn processor_time_of(process_id: u32, start: &str) -> f64 {
    used_by(process_id, |task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(start)))
}

/// CPU time that the calling thread has used, seconds.
pub fn own_time() -> f64 {
    used(Path::new("/proc/thread-self")).unwrap_or(0) as f64 / 1e9
}

/// Its memory.
pub fn memory(process_id: u32) -> Memory {
    let maps = fs::read_to_string(PathBuf::from(format!("/proc/{process_id}/smaps"))).unwrap_or_default();
    memory_in(&maps)
}

/// Which machine this is.
pub fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown model", |(_, model)| model.trim());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processors} processors ({model}), Linux {}", release.trim())
}

/// How busy it is.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load of the last minute {}", load.split(' ').next().unwrap_or("unknown"))
}

fn used_by(process_id: u32, wanted: impl Fn(&Path) -> bool) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process_id}/task")).into_iter().flatten().flatten();
    let paths = tasks.map(|task| task.path()).filter(|path| wanted(path));
    paths.filter_map(|path| used(&path)).sum::<u64>() as f64 / 1e9
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
            // Only the line that begins a mapping starts with its addresses in lower-case hexadecimal.
            None if line.starts_with(|first: char| first.is_ascii_digit() || first.is_ascii_lowercase()) => {
                // Not by the folder: the runtimes that are fetched lie in one of that name.
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
        let before = processor_time(std::process::id());
        let mut sum = 0_u64;
        while processor_time(std::process::id()) == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(before >= 0.0);
    }
}
