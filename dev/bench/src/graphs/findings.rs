//! Types that findings examine: each has an eighth of a graph's objects, so every finding covers many.

use crate::Outcome;
use remora_heap::findings::{Findings, Looked, NoValues};
use remora_heap::tables::by_type;
use remora_heap::{ArrayFacts, Builder, DominatorTree, Event, HeapGraph, Place, Type, TypeFacts, TypeFlags, TypeIx};

/// The assembly of the runtime's own types.
const CORE: &str = "System.Private.CoreLib";
/// Types that have objects; they come first.
pub(super) const TYPES: u32 = 8;

/// Adds them to a graph.
pub(super) fn add_types(builder: &mut Builder) -> Outcome<()> {
    // Index 0 is the base class of all.
    let types: [(&str, &str, u32); 11] = [
        ("System.Object", CORE, 0),
        ("Bench.Node", "Bench", 0),
        ("Bench.Publisher", "Bench", 0),
        ("System.EventHandler", CORE, 8),
        ("System.Collections.Generic.List<Node>", CORE, 0),
        ("Bench.Node[]", "Bench", 0),
        ("System.Threading.Tasks.Task", CORE, 0),
        ("System.Threading.TimerQueueTimer", CORE, 0),
        ("System.MulticastDelegate", CORE, 0),
        ("System.ValueType", CORE, 0),
        ("System.Object[]", CORE, 0),
    ];
    for (place, (name, assembly, base)) in types.into_iter().enumerate() {
        let flags = if place == 1 { TypeFlags::FINALIZABLE } else { TypeFlags::default() };
        let index = builder.add_type(Type { name: name.to_owned(), assembly: assembly.to_owned(), flags })?;
        let mut facts = TypeFacts { base: (place > 0).then_some(TypeIx(base)), ..TypeFacts::default() };
        match place {
            2 => facts.events = vec![Event { name: "Changed".to_owned(), delegate: "System.EventHandler".to_owned() }],
            4 => facts.arguments = vec![TypeIx(1)],
            5 => facts.array = Some(ArrayFacts { element: Some(TypeIx(1)), place: Place::Reference, rank: 1 }),
            _ => {}
        }
        builder.describe_type(index, facts)?;
    }
    Ok(())
}

/// Runs all findings; returns the number of kinds found.
pub(super) fn look(graph: &HeapGraph, tree: &DominatorTree) -> usize {
    let rows = by_type(graph, tree);
    let found = Findings::new(Looked { graph, tree, rows: &rows, values: &NoValues });
    let rows = [found.tasks.rows.len(), found.timers.rows.len(), found.finalizers.rows.len()];
    rows.iter().sum::<usize>() + found.subscriptions.rows.len()
}
