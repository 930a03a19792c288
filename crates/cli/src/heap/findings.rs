//! What was found in a snapshot without being asked for, as text and for programs: a section each, where there is something to say.

mod arrays;
mod finalizers;

use remora_heap::HeapGraph;
use remora_heap::findings::Findings;
use serde::Serialize;

/// Waste is worth a section if it is at least this part of the heap.
const PART: u64 = 1000;
/// So many objects are worth one whatever they take.
const MANY: u64 = 100;

/// What is shown, and of which heap.
pub(crate) struct Shown<'a> {
    pub(crate) findings: &'a Findings,
    pub(crate) graph: &'a HeapGraph,
    /// Of all objects.
    pub(crate) bytes: u64,
    /// Rows of each table.
    pub(crate) top: usize,
}

/// The same for programs. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
pub(crate) struct FindingsTold {
    empty_arrays: arrays::Told,
    finalizers: finalizers::Told,
}

impl FindingsTold {
    pub(crate) fn of(shown: &Shown<'_>) -> FindingsTold {
        FindingsTold { empty_arrays: arrays::told(shown), finalizers: finalizers::told(shown) }
    }
}

/// For people.
pub(crate) fn sections(shown: &Shown<'_>) -> String {
    let sections = [arrays::section(shown), finalizers::section(shown)];
    sections.into_iter().flatten().map(|section| format!("\n{section}")).collect()
}

impl Shown<'_> {
    /// Whether so many bytes are worth a section.
    fn is_much(&self, bytes: u64) -> bool {
        bytes > 0 && bytes >= self.bytes / PART
    }
}
