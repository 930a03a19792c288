//! Who records a process at this moment: whoever else has mapped the memory that the agent in it writes to.

use remora_trigger::proc::Proc;
use remora_wire::{MEMORY_NAME, THREAD_NAME};
use std::fs;

/// The recording process, as it is told: `process 4711 (remora record -p 42)`.
pub(crate) fn of(process_id: u32) -> Option<String> {
    let proc = Proc::default();
    let ring = ring(&proc, process_id)?;
    let others = proc.pids().ok()?.into_iter().filter(|other| *other != process_id);
    let holder = others.into_iter().find(|other| self::ring(&proc, *other) == Some(ring))?;
    let command = proc.command_line(holder).unwrap_or_default().join(" ");
    Some(format!("process {holder} ({command})"))
}

/// Whether an agent's thread runs in the process.
pub(crate) fn agent_lives(process_id: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process_id}/task")) else {
        return false;
    };
    tasks
        .flatten()
        .any(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == THREAD_NAME))
}

/// The inode of the shared memory that a process has mapped.
fn ring(proc: &Proc, process_id: u32) -> Option<u64> {
    let mappings = proc.maps(process_id).ok()?;
    let memory = format!("/memfd:{MEMORY_NAME}");
    mappings.iter().find(|mapping| mapping.path.as_os_str() == memory.as_str()).map(|mapping| mapping.inode)
}
