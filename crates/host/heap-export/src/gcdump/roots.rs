//! Roots as a tree of nodes without size.
//!
//! The names are those that readers know; PerfView ranks paths to a root by them.

use remora_heap::{HeapGraph, ObjectIx, RootKind};

/// The parent of all other nodes.
const ALL: &str = "[.NET Roots]";
/// The parent of roots other than the application's own variables.
const OTHER: &str = "[other roots]";

/// A node, its parent, and the kind of its roots.
type Known = (&'static str, Option<&'static str>, Option<RootKind>);

/// Every possible node, each after its parent.
const KNOWN: [Known; 10] = [
    (ALL, None, None),
    ("[local vars]", Some(ALL), Some(RootKind::Stack)),
    ("[static vars]", Some(ALL), Some(RootKind::Static)),
    ("[inferred roots]", Some(ALL), Some(RootKind::Inferred)),
    (OTHER, Some(ALL), Some(RootKind::Other)),
    ("[strong Handles]", Some(OTHER), Some(RootKind::Handle)),
    ("[pinning Handles]", Some(OTHER), Some(RootKind::Pinned)),
    ("[finalizer Handles]", Some(OTHER), Some(RootKind::Finalizer)),
    ("[Dependent Handles]", Some(OTHER), Some(RootKind::Dependent)),
    // A kind newer than this table.
    ("[unknown roots]", Some(OTHER), None),
];

/// The root groups of a graph.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Their names; the first is that of all roots.
    pub(crate) names: Vec<&'static str>,
    /// The entry in [`KNOWN`] of each.
    known: Vec<usize>,
}

impl Groups {
    pub(crate) fn of(graph: &HeapGraph) -> Groups {
        let mut is_there = [false; KNOWN.len()];
        is_there[0] = true;
        for root in graph.roots() {
            let place = place_of(root.kind);
            is_there[place] = true;
            if let Some(above) = KNOWN.iter().position(|above| Some(above.0) == KNOWN[place].1) {
                is_there[above] = true;
            }
        }
        let known: Vec<usize> = (0..KNOWN.len()).filter(|place| is_there[*place]).collect();
        Groups { names: known.iter().map(|place| KNOWN[*place].0).collect(), known }
    }

    /// The children of a group.
    pub(crate) fn below(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        let name = self.names[group];
        (0..self.known.len()).filter(move |other| KNOWN[self.known[*other]].1 == Some(name))
    }

    /// The objects that a group's roots hold, one for each root.
    pub(crate) fn held<'a>(&self, graph: &'a HeapGraph, group: usize) -> impl Iterator<Item = ObjectIx> + 'a {
        let place = self.known[group];
        graph.roots().iter().filter(move |root| place_of(root.kind) == place).map(|root| root.object)
    }
}

fn place_of(kind: RootKind) -> usize {
    KNOWN.iter().position(|known| known.2 == Some(kind)).unwrap_or(KNOWN.len() - 1)
}
