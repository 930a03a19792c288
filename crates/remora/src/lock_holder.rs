//! Finds the current recorder of a process: the owner of its instance lock ([`crate::instance_lock`]), or the process that maps the agent's shared
//! memory.

use crate::instance_lock;
use remora_attach::Process;
use remora_attach::proc::Proc;
use remora_symbols::parse_maps;
use remora_wire::{MEMORY_NAME, THREAD_NAME};
use std::fs;
use std::time::{Duration, Instant};

/// Time and bytes for the mappings of all processes, in search of a recorder. A target can start any number of processes, each with 64 MiB
/// of mappings.
const LIMITS: (Duration, usize) = (Duration::from_secs(5), 512 << 20);

/// The recorder, as text: `process 4711 (remora record -p 42)`.
pub(crate) fn of(process: &Process) -> Option<String> {
    instance_lock::holder(process)
        .or_else(|| by_memory(&Proc::default(), process.pid, LIMITS))
        .map(instance_lock::holder_text)
}

fn by_memory(proc: &Proc, process_id: u32, (time, mut left): (Duration, usize)) -> Option<u32> {
    let ring = ring(&proc.read(process_id, "maps").ok()?)?;
    let begun = Instant::now();
    // A forked copy of the target also maps that memory, and is no recorder. A process that ends has no program any more.
    let program = proc.link(process_id, "exe").ok();
    let has_another = |other: u32| proc.link(other, "exe").is_ok_and(|its| program.as_ref() != Some(&its));
    for other in proc.pids().ok()?.into_iter().filter(|other| *other != process_id) {
        if begun.elapsed() >= time {
            break;
        }
        if !has_another(other) {
            continue;
        }
        let maps = proc.read(other, "maps").unwrap_or_default();
        if self::ring(&maps) == Some(ring) {
            return Some(other);
        }
        left = left.checked_sub(maps.len())?;
    }
    None
}

/// Whether an agent thread runs in the process.
pub(crate) fn agent_lives(process_id: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process_id}/task")) else {
        return false;
    };
    tasks
        .flatten()
        .any(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == THREAD_NAME))
}

/// The shared memory that a process has mapped: device and inode. Another mapped file can have the same path and inode on another device.
fn ring(maps: &[u8]) -> Option<((u32, u32), u64)> {
    let mappings = parse_maps(maps);
    let memory = format!("/memfd:{MEMORY_NAME}");
    mappings.iter().find(|mapping| mapping.path == memory.as_str()).map(|mapping| (mapping.device, mapping.inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command right after a killed recorder was refused: the forked copy, which was ending, was taken for a recorder.
    #[test]
    fn regression_a_forked_copy_that_was_ending_was_reported_as_the_recorder() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = |pid: u32, program: Option<&str>| {
            let own = folder.path().join(pid.to_string());
            std::fs::create_dir_all(&own).expect("made");
            let maps = format!("7f00-7f10 rw-s 00000000 00:01 42 /memfd:{MEMORY_NAME} (deleted)\n");
            std::fs::write(own.join("maps"), maps).expect("written");
            if let Some(program) = program {
                std::os::unix::fs::symlink(program, own.join("exe")).expect("linked");
            }
        };
        let recorder = || by_memory(&Proc::at(folder.path()), 7, LIMITS);
        process(7, Some("/bin/dotnet"));
        process(8, Some("/bin/dotnet"));
        process(9, None);
        assert_eq!(recorder(), None);
        process(10, Some("/bin/remora"));
        assert_eq!(recorder(), Some(10));
    }

    /// Sixty processes with 56 MB of mappings made `check` last two minutes.
    #[test]
    fn mappings_of_all_processes_are_read_up_to_a_sum() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = |pid: u32, program: &str, bytes: u64| {
            let own = folder.path().join(pid.to_string());
            std::fs::create_dir_all(&own).expect("made");
            let maps = format!("7f00-7f10 rw-s 00000000 00:01 42 /memfd:{MEMORY_NAME} (deleted)\n");
            std::fs::write(own.join("maps"), if bytes == 0 { &maps } else { "" }).expect("written");
            let file = std::fs::File::options().append(true).open(own.join("maps")).expect("just written");
            file.set_len(bytes.max(maps.len() as u64)).expect("it has room");
            std::os::unix::fs::symlink(program, own.join("exe")).expect("linked");
        };
        let recorder = |time| {
            let before = bytes_read();
            let found = by_memory(&Proc::at(folder.path()), 7, (time, 8 << 20));
            (found, bytes_read() - before)
        };
        process(7, "/bin/dotnet", 0);
        (10..30).for_each(|pid| process(pid, "/bin/dotnet", 1 << 20));
        process(60, "/bin/remora", 0);
        let (found, read) = recorder(Duration::MAX);
        assert!(found == Some(60) && read < 1 << 20, "copies of the target are not read: {found:?}, {read} bytes");
        assert_eq!(recorder(Duration::ZERO).0, None);
        (40..60).for_each(|pid| process(pid, "/bin/other", 1 << 20));
        let (found, read) = recorder(Duration::MAX);
        assert!(found.is_none() && read < 10 << 20, "{found:?}, {read} bytes");
    }

    /// Bytes that this thread has read of files.
    fn bytes_read() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").expect("the kernel counts them");
        let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        count.and_then(|count| count.parse().ok()).expect("a number")
    }

    #[test]
    fn a_file_of_the_same_path_and_inode_on_another_device_is_no_shared_memory() {
        let ring_of = |device: &str| {
            let maps = format!("7f00-7f10 rw-s 00000000 {device} 42 /memfd:{MEMORY_NAME} (deleted)\n");
            ring(maps.as_bytes()).expect("there")
        };
        assert_eq!(ring_of("00:01"), ring_of("00:01"));
        assert_ne!(ring_of("00:01"), ring_of("00:2a"));
    }
}
