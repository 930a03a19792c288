//! `remora convert`: writes a recording in another format.

use crate::args::ConvertArgs;
use crate::console::note;
use crate::failure::Failure;
use crate::output::{FileFormat, Output};
use crate::report::{fail_if_incomplete, open};

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let output = Output::resolve(&args.output, args.format.as_deref(), args.force)?;
    output.check()?;
    let mut recording = open(&args.file)?;
    let rule = args.application.rule();
    // A recording keeps every frame.
    if matches!(output.format, FileFormat::Export(_)) {
        recording.profile = args.runtime_frames.shown(recording.profile, Some(output.format));
    }
    output.write(&recording.profile, &rule)?;
    if let Some(path) = output.destination.path() {
        note(&format!("wrote {}", path.display()));
    }
    if recording.unknown_chunks > 0 {
        let chunks = recording.unknown_chunks;
        note(&format!("{chunks} parts of the recording are of a newer Remora and were left out"));
    }
    fail_if_incomplete(&args.file, &recording)
}
