//! Finds the current recorder of a process: the owner of its instance lock ([`crate::instance_lock`]), or the process that maps the agent's shared
//! memory.

use crate::instance_lock;
use remora_attach::Process;
use remora_attach::proc::Proc;
use remora_wire::{MEMORY_NAME, THREAD_NAME};
use std::fs;

/// The recorder, as text: `process 4711 (remora record -p 42)`.
pub(crate) fn of(process: &Process) -> Option<String> {
    instance_lock::holder(process).or_else(|| by_memory(&Proc::default(), process.pid)).map(instance_lock::holder_text)
}

fn by_memory(proc: &Proc, process_id: u32) -> Option<u32> {
    let ring = ring(proc, process_id)?;
    let mut others = proc.pids().ok()?.into_iter().filter(|other| *other != process_id);
    // A forked copy of the target also maps that memory, and is no recorder. A process that ends has no program any more.
    let program = proc.link(process_id, "exe").ok();
    let has_another = |other: u32| proc.link(other, "exe").is_ok_and(|its| program.as_ref() != Some(&its));
    others.find(|other| self::ring(proc, *other) == Some(ring) && has_another(*other))
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
fn ring(proc: &Proc, process_id: u32) -> Option<((u32, u32), u64)> {
    let mappings = proc.maps(process_id).ok()?;
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
        let recorder = || by_memory(&Proc::at(folder.path()), 7);
        process(7, Some("/bin/dotnet"));
        process(8, Some("/bin/dotnet"));
        process(9, None);
        assert_eq!(recorder(), None);
        process(10, Some("/bin/remora"));
        assert_eq!(recorder(), Some(10));
    }

    #[test]
    fn a_file_of_the_same_path_and_inode_on_another_device_is_no_shared_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let ring_of = |device: &str| {
            std::fs::create_dir_all(folder.path().join("7")).expect("made");
            let maps = format!("7f00-7f10 rw-s 00000000 {device} 42 /memfd:{MEMORY_NAME} (deleted)\n");
            std::fs::write(folder.path().join("7/maps"), maps).expect("written");
            ring(&Proc::at(folder.path()), 7).expect("there")
        };
        assert_eq!(ring_of("00:01"), ring_of("00:01"));
        assert_ne!(ring_of("00:01"), ring_of("00:2a"));
    }
}
