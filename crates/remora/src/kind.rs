//! Detects, by its first bytes, a recording given instead of a snapshot, or the reverse.

use crate::failure::Failure;
use std::io::Read;
use std::path::Path;

/// The magic of recordings and of heap snapshots.
const RECORDING: &[u8; 6] = b"REMORA";
const SNAPSHOT: &[u8; 6] = b"RMHEAP";

/// Returns `failure`, or for a file of the other kind a failure that names the right command.
pub(crate) fn or_other(file: &Path, failure: Failure) -> Failure {
    use remora_heap_file::Error as Snapshot;
    use remora_recording::Error as Recording;
    let file = file.to_owned();
    match (&failure, begin(&file).as_ref()) {
        (Failure::Recording { error: Recording::NotARecording, .. }, Some(SNAPSHOT)) => Failure::IsASnapshot { file },
        (Failure::HeapFile { error: Snapshot::NotASnapshot, .. }, Some(RECORDING)) => Failure::IsARecording { file },
        _ => failure,
    }
}

/// `None` if the file cannot be read; then the original failure is the one to report.
fn begin(file: &Path) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    // A pipe is refused: its content was read already.
    remora_heap_report::open_file(file).ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
