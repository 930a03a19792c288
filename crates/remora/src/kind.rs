//! What a file is that was given where another one belongs: by its first bytes.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// How recordings begin, and how snapshots of heaps do: the magic of the two formats.
const RECORDING: &[u8; 6] = b"REMORA";
const SNAPSHOT: &[u8; 6] = b"RMHEAP";

/// `failure`, unless `file` is of the other kind: then which command is for it.
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

/// `None` where that cannot be read; then the failure that there was is the one to tell.
fn begin(file: &Path) -> Option<[u8; 6]> {
    // A pipe that was read to its end would be waited for.
    fs::metadata(file).ok().filter(|metadata| metadata.is_file())?;
    let mut bytes = [0; 6];
    File::open(file).ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
