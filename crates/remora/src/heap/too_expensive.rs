//! The pause limit: ends a watch that pauses the application for too long.
//!
//! During a watch the runtime counts objects by class at the start of each GC: all that were allocated since the last GC. The agent
//! estimates that time, and clears MONITOR_GC for a GC that would exceed the pause budget (docs/design/0014-heap-watch.md). The estimate
//! can be wrong, on a slow machine or with a runtime that counts differently. Then the watch ends, so that it does not happen again.

use std::time::Duration;

/// The most that a watch may add to one GC pause.
const LONGEST: Duration = Duration::from_secs(1);

/// Why the watch ends, if it prolonged one GC pause by `longest_extra` nanoseconds. It ends at once and without a last snapshot:
/// the GC of that snapshot would be counted, too.
pub(super) fn too_expensive(longest_extra: u64) -> Option<String> {
    let longest_extra = Duration::from_nanos(longest_extra);
    (longest_extra > LONGEST).then(|| {
        format!(
            "the watch ended because one GC paused the application {:.1} s longer: the runtime counted by type the objects made since the \
             GC before",
            longest_extra.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_ends_after_a_collection_that_it_prolonged_by_more_than_a_second() {
        assert_eq!(too_expensive(0), None);
        assert_eq!(too_expensive(1_000_000_000), None);
        let why = too_expensive(2_340_000_000).expect("too dear");
        assert!(why.contains("paused the application 2.3 s longer"), "{why}");
    }
}
