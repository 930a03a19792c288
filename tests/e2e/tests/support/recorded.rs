//! Shared by the tests of recordings and of names.

use remora_e2e::{Recorded, Recording, Target, until_used};
use std::time::Duration;

/// Checks that it answers and ends normally.
#[track_caller]
pub fn target_is_well(target: &mut Target) {
    let first = target.ask_number("count");
    while target.ask_number("count") == first {}
    assert!(target.is_alive());
}

/// Records until the target has used this many milliseconds of CPU time.
#[track_caller]
pub fn recorded_while_it_uses(target: &Target, milliseconds: u64, arguments: &[&str]) -> Recorded {
    let recording = Recording::begun(target, arguments);
    until_used(target.pid(), Duration::from_millis(milliseconds));
    let recorded = recording.stop();
    recorded.is_clean();
    recorded
}
