//! Messages and exit statuses that are easily confused.

use super::*;

#[test]
fn a_snapshot_without_an_object_for_want_of_room_is_reported_as_a_full_disk() {
    let failure = Failure::no_snapshot(Some(&Cut::FullDisk), None, vec!["a note".to_owned()]);
    assert!(failure.line().ends_with("free some space, or give -o a place on another disk"), "{failure}");
    assert_eq!(failure.exit(), Exit::DiskFull);
}

#[test]
fn a_file_for_which_there_is_no_memory_is_not_called_damaged() {
    let error = || io::Error::from(io::ErrorKind::OutOfMemory);
    let file = Path::new("a");
    let recording = Failure::recording(file, remora_recording::Error::Read(error()));
    let snapshot = Failure::heap_file(file, remora_heap_file::Error::Read(error()));
    let message = |part: &str| format!("reading a takes more than {part} of the free memory (it is not damaged)");
    assert_eq!((recording.to_string(), snapshot.to_string()), (message("a quarter"), message("half")));
    assert_eq!(recording.exit(), Exit::TooLargeToRead);
    let other = Failure::recording(file, remora_recording::Error::Read(io::ErrorKind::NotFound.into()));
    assert_eq!(other.exit(), Exit::NotARecording);
}

#[test]
fn who_counts_too_long_is_not_advised_to_look_for_limits() {
    let why = |last: &str| vec!["a note".to_owned(), format!("the agent: {last}")];
    let failure = Failure::no_snapshot(None, Some(AgentErrorCode::TooMuchAllocated), why("much"));
    assert!(failure.line().contains("leave --roots out"), "{failure}");
    assert_eq!(failure.exit(), Exit::Refused);
    let failure = Failure::no_snapshot(None, Some(AgentErrorCode::ForkRefused), why("fork refused"));
    assert!(failure.line().contains("a note, the agent: fork refused; look what limits"), "{failure}");
}
