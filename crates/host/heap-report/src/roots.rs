//! Text about the roots of a snapshot.

use remora_heap::{HeapGraph, ObjectIx, RootKind};
use remora_terminal::{counted, grouped};
use std::collections::HashMap;

/// A sentence with the kinds seen and the inferred roots; `None` if there is no root.
pub(crate) fn sentence(graph: &HeapGraph) -> Option<String> {
    let count = |kind: RootKind| graph.roots().iter().filter(|root| root.kind == kind).count() as u64;
    let seen = RootKind::ALL.iter().copied().filter(|kind| *kind != RootKind::Inferred);
    let seen: Vec<String> = seen
        .map(|kind| (count(kind), kind))
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {}", grouped(count), kind.name()))
        .collect();
    let inferred = count(RootKind::Inferred);
    // Every snapshot has static fields.
    let are_reported = seen.len() > usize::from(count(RootKind::Static) > 0);
    Some(match (seen.is_empty(), inferred) {
        (true, 0) => return None,
        (true, _) => "Roots are inferred: these objects were alive, so something holds them.".to_owned(),
        (false, 0) => format!("Roots, as the runtime reports them: {}.", seen.join(", ")),
        (false, _) if are_reported => format!(
            "Roots, as the runtime reports them: {}. {}: it does not report what holds frozen objects.",
            seen.join(", "),
            more_are_inferred(inferred)
        ),
        (false, _) => format!(
            "Roots: {} of static fields {} known; {}: these objects were alive, so something holds them.",
            counted(count(RootKind::Static), "reference"),
            if count(RootKind::Static) == 1 { "is" } else { "are" },
            more_are_inferred(inferred)
        ),
    })
}

/// `1 more is inferred`.
fn more_are_inferred(count: u64) -> String {
    format!("{} more {} inferred", grouped(count), if count == 1 { "is" } else { "are" })
}

/// An object's root as text, the most informative kind first; `None` if no root was seen.
pub(crate) fn holder(graph: &HeapGraph, object: ObjectIx) -> Option<String> {
    of_kinds(graph, object, graph.roots_of(object))
}

/// The static field whose value an object is, if its name is known.
pub(crate) fn static_field(graph: &HeapGraph, object: ObjectIx) -> Option<String> {
    Some(format!("{} {}", RootKind::Static.name(), graph.root_note(object, RootKind::Static)?))
}

/// [`holder`] of all objects that have one.
pub(crate) fn all_holders(graph: &HeapGraph) -> HashMap<ObjectIx, String> {
    holders_of(graph, |_| true)
}

/// The same for some of them. It looks at all roots once.
pub(crate) fn holders_of(graph: &HeapGraph, is_meant: impl Fn(ObjectIx) -> bool) -> HashMap<ObjectIx, String> {
    let mut kinds = HashMap::<ObjectIx, Vec<RootKind>>::new();
    let meant = graph.roots().iter().filter(|root| is_meant(root.object));
    meant.for_each(|root| kinds.entry(root.object).or_default().push(root.kind));
    let text = |(object, kinds): (ObjectIx, Vec<RootKind>)| Some((object, of_kinds(graph, object, kinds.into_iter())?));
    kinds.into_iter().filter_map(text).collect()
}

fn of_kinds(graph: &HeapGraph, object: ObjectIx, kinds: impl Iterator<Item = RootKind>) -> Option<String> {
    let known = kinds.filter(|kind| *kind != RootKind::Inferred);
    let kind = known.min_by_key(|kind| (graph.root_note(object, *kind).is_none(), *kind != RootKind::Static, *kind))?;
    Some(match graph.root_note(object, kind) {
        Some(note) => format!("{} {note}", kind.name()),
        None => kind.name().to_owned(),
    })
}

/// A root's kind and details.
pub(crate) fn words(graph: &HeapGraph, object: ObjectIx, kind: RootKind) -> String {
    match graph.root_note(object, kind) {
        Some(note) => format!("{}, {note}", kind.name()),
        None => kind.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap::{Builder, Object, TypeIx};

    fn graph(kinds: &[RootKind]) -> HeapGraph {
        let mut builder = Builder::new();
        for (place, kind) in kinds.iter().enumerate() {
            let address = 0x1000 + place as u64 * 24;
            builder.add_object(Object { address, type_ix: TypeIx(0), bytes: 24 }, []).expect("room");
            builder.add_root(address, *kind).expect("room");
        }
        builder.finish().expect("a graph")
    }

    #[test]
    fn what_was_seen_and_what_is_inferred_are_reported_apart() {
        let said = |kinds: &[RootKind]| sentence(&graph(kinds)).unwrap_or_default();
        assert_eq!(said(&[]), "");
        assert!(said(&[RootKind::Inferred]).starts_with("Roots are inferred: these objects"));
        let stack = [RootKind::Stack, RootKind::Handle, RootKind::Stack];
        assert_eq!(said(&stack), "Roots, as the runtime reports them: 2 stack, 1 handle.");
        assert!(
            said(&[RootKind::Handle, RootKind::Inferred])
                .contains("1 handle. 1 more is inferred: it does not report what holds")
        );
    }

    #[test]
    fn static_fields_are_known_of_every_snapshot_and_make_the_others_no_less_inferred() {
        let said = sentence(&graph(&[RootKind::Static, RootKind::Inferred])).unwrap_or_default();
        assert!(
            said.starts_with("Roots: 1 reference of static fields is known; 1 more is inferred: these objects"),
            "{said}"
        );
        let said = sentence(&graph(&[RootKind::Static, RootKind::Stack, RootKind::Inferred])).unwrap_or_default();
        assert!(said.starts_with("Roots, as the runtime reports them: 1 stack, 1 static. 1 more"), "{said}");
    }

    #[test]
    fn what_holds_an_object_is_reported_by_the_kind_that_says_most() {
        let mut graph = graph(&[RootKind::Stack, RootKind::Inferred]);
        assert_eq!((holder(&graph, ObjectIx(0)).as_deref(), holder(&graph, ObjectIx(1))), (Some("stack"), None));
        graph.note_root(ObjectIx(0), RootKind::Stack, "in Main()".to_owned());
        assert_eq!(holder(&graph, ObjectIx(0)).as_deref(), Some("stack in Main()"));
    }

    #[test]
    fn what_is_known_of_a_root_stands_behind_its_kind() {
        let mut graph = graph(&[RootKind::Stack]);
        assert_eq!(words(&graph, ObjectIx(0), RootKind::Stack), "stack");
        graph.note_root(ObjectIx(0), RootKind::Stack, "in Main()".to_owned());
        assert_eq!(words(&graph, ObjectIx(0), RootKind::Stack), "stack, in Main()");
    }
}
