//! One heap snapshot by the command itself, into a temporary folder.

use crate::Outcome;
use crate::bench;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The variable with the command's path.
pub(super) const COMMAND: &str = "REMORA_BENCH_COMMAND";
/// Time between two checks for the file.
const INTERVAL: Duration = Duration::from_millis(1);
/// Timeout for a snapshot.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A temporary folder, removed on drop.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make() -> Outcome<Folder> {
        let path = std::env::temp_dir().join(format!("remora-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// The path of `name` in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One snapshot by `remora heap`.
pub(super) struct Taken {
    /// From the command's start to the file, seconds.
    pub(super) seconds: f64,
    pub(super) file_bytes: u64,
    pub(super) report: Value,
}

/// Takes one.
pub(super) fn take(process_id: u32, folder: &Folder) -> Outcome<Taken> {
    take_as(process_id, folder, &[])
}

/// Takes one with further arguments.
pub(super) fn take_as(process_id: u32, folder: &Folder, way: &[&str]) -> Outcome<Taken> {
    let file = folder.0.join("bench.remora-heap");
    let _ = std::fs::remove_file(&file);
    let mut command = Command::new(bench::path(COMMAND)?);
    command.args(["heap", "-p", &process_id.to_string(), "--json", "--top", "1", "-o"]).arg(&file).args(way);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let seconds = until_there(&mut child, &file, begun)?;
    let output = child.wait_with_output()?;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("remora heap: {}: {said} {}", output.status, report["notes"]).into());
    }
    if report["complete"] != true || report["receipt"]["clean"] != true {
        return Err(format!("not complete, or not clean: {}, {}", report["notes"], report["receipt"]["left"]).into());
    }
    Ok(Taken { seconds, file_bytes: std::fs::metadata(&file)?.len(), report })
}

/// Waits for the file, which gets its name when it is complete.
fn until_there(child: &mut Child, file: &Path, begun: Instant) -> Outcome<f64> {
    while !file.exists() {
        if begun.elapsed() > TIMEOUT || child.try_wait()?.is_some_and(|status| !status.success()) {
            let _ = child.kill();
            return Err("there is no snapshot".into());
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(begun.elapsed().as_secs_f64())
}
