//! Notes: where a snapshot is incomplete.

use remora_heap_file::Snapshot;
use remora_terminal::grouped;

/// The notes of a snapshot.
pub fn notes(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = snapshot.state.notes.clone();
    let lost = snapshot.graph.completeness();
    let counted = [
        (lost.ranges_unwalked, "ranges of the heap were not walked to their end"),
        (lost.objects_unwalked, "objects have a class that was not reported"),
        (lost.types_unknown, "objects have a type whose name is not in the file"),
        (lost.references_dangling, "references lead to no object that was walked"),
        (lost.roots_dangling, "roots hold what is no object that was walked"),
        (lost.objects_refused, "objects lie where no object can lie, or twice"),
        (
            snapshot.roots_unnamed,
            "roots have a name in the file for which there was no room: their kind alone is shown",
        ),
        (snapshot.statics_left_out, "static fields are in the file and not shown: there are more than a million"),
    ];
    notes.extend(
        counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", grouped(count))),
    );
    if !snapshot.whole {
        notes.push("the file ends early: what is shown is what had been walked by then".to_owned());
    }
    notes
}
