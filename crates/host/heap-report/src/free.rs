//! Free room between objects: how much of the heap it is, and in which generations of the GC.

use remora_heap_file::{GENERATIONS, Snapshot};
use remora_terminal::size::shown;
use remora_terminal::{Page, line, percent};
use serde::Serialize;
use std::cmp::Reverse;

/// Free room is worth a line from this part of the heap's room on. A compacting GC leaves far less.
const PART: u64 = 4;
/// The names of the generations.
const NAMES: [&str; GENERATIONS] =
    ["generation 0", "generation 1", "generation 2", "the large object heap", "the pinned object heap"];

/// As JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FreeJson {
    generation_0: u64,
    generation_1: u64,
    generation_2: u64,
    large_objects: u64,
    pinned_objects: u64,
}

impl From<[u64; GENERATIONS]> for FreeJson {
    fn from([generation_0, generation_1, generation_2, large_objects, pinned_objects]: [u64; GENERATIONS]) -> FreeJson {
        FreeJson { generation_0, generation_1, generation_2, large_objects, pinned_objects }
    }
}

/// The line, if there is much. `bytes` are those of all objects.
pub(crate) fn text(snapshot: &Snapshot, bytes: u64) -> Page {
    of(snapshot.free_bytes, snapshot.free_in, bytes).map(line).unwrap_or_default()
}

fn of(free: u64, free_in: [u64; GENERATIONS], bytes: u64) -> Option<String> {
    let room = bytes.saturating_add(free);
    if free == 0 || free < room / PART {
        return None;
    }
    let mut parts: Vec<(u64, &str)> = free_in.into_iter().zip(NAMES).filter(|(bytes, _)| *bytes >= free / 10).collect();
    parts.sort_by_key(|(bytes, _)| Reverse(*bytes));
    let parts: Vec<String> = parts.into_iter().map(|(bytes, name)| format!("{} in {name}", shown(bytes))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    Some(format!("fragmentation: {} of the heap's room is free between objects{parts}", percent(free, room)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_free_room_is_reported_with_the_generations_that_have_it_and_little_is_not() {
        const MIB: u64 = 1 << 20;
        let free_in = [0, MIB, 20 * MIB, 79 * MIB, 0];
        let text = of(100 * MIB, free_in, 60 * MIB);
        let expected = "fragmentation: 62.5% of the heap's room is free between objects: 79.0 MiB in the large object heap, 20.0 MiB in \
                        generation 2";
        assert_eq!(text.as_deref(), Some(expected));
        assert_eq!(of(100 * MIB, free_in, 301 * MIB), None);
        assert_eq!(of(0, [0; GENERATIONS], 0), None);
        let unknown = of(MIB, [0; GENERATIONS], MIB);
        assert_eq!(unknown.as_deref(), Some("fragmentation: 50.0% of the heap's room is free between objects"));
    }
}
