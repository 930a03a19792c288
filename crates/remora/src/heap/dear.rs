//! When a watch makes the program stand for so long that it ends by itself.
//!
//! While it watches, the runtime counts by class what was made since the collection before, at the beginning of each collection. The agent adds
//! up beforehand what that would take, and spares the program one that would be too dear (docs/design/0014-heap-watch.md). What is left is
//! what it did not foresee, on a slow machine or with a runtime that counts otherwise: it is not to happen again.

use std::time::Duration;

/// What a watch may add to one collection.
const LONGEST: Duration = Duration::from_secs(1);

/// Why the watch ends, if a collection took so many nanoseconds longer for its sake. At once, and without a last snapshot: its collection
/// would be counted, too.
pub(super) fn too_dear(dearest: u64) -> Option<String> {
    let dearest = Duration::from_nanos(dearest);
    (dearest > LONGEST).then(|| {
        format!(
            "the watch ended because one GC paused the application {:.1} s longer: the runtime counted by type the objects made since the \
             GC before",
            dearest.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_ends_after_a_collection_that_it_prolonged_by_more_than_a_second() {
        assert_eq!(too_dear(0), None);
        assert_eq!(too_dear(1_000_000_000), None);
        let why = too_dear(2_340_000_000).expect("too dear");
        assert!(why.contains("paused the application 2.3 s longer"), "{why}");
    }
}
