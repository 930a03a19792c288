//! Why objects without a root of their own are alive: a static field that holds them through arrays and collections, or a path from one of
//! several roots.

use crate::long_paths::middle;
use crate::roots;
use crate::static_paths::{StaticPath, static_paths};
use remora_heap::{DominatorTree, HeapGraph, ObjectIx, ShortestPaths};
use remora_terminal::counted;
use std::collections::{HashMap, HashSet};

/// A line with a longer path has this many objects of its beginning, and of its end.
const PATH: [usize; 2] = [1, 3];

/// Why objects without a root of their own are alive.
pub(crate) struct Reached {
    pub(crate) fields: HashMap<ObjectIx, StaticPath>,
    /// The text of a known root and the path from there, as `remora heap show` prints it.
    pub(crate) paths: HashMap<ObjectIx, (String, Vec<ObjectIx>)>,
}

impl Reached {
    /// Looks for the static fields of all these objects, and for the paths to `held` without one.
    pub(crate) fn of(graph: &HeapGraph, held: &HashSet<ObjectIx>, owners: impl Iterator<Item = ObjectIx>) -> Reached {
        let fields = static_paths(graph, &owners.chain(held.iter().copied()).collect());
        let mut others = held.iter().filter(|held| !fields.contains_key(held)).peekable();
        if others.peek().is_none() {
            return Reached { fields, paths: HashMap::new() };
        }
        let shortest = ShortestPaths::new(graph);
        let path = |held: &ObjectIx| {
            let objects = shortest.to(graph, *held)?.objects;
            Some((*held, (roots::holder(graph, *objects.first()?)?, objects)))
        };
        let paths = others.filter_map(path).collect();
        Reached { fields, paths }
    }

    /// An object's root, or why it is alive without one; `None` if no known root reaches it.
    pub(crate) fn root_of(&self, graph: &HeapGraph, tree: &DominatorTree, held: ObjectIx) -> Option<String> {
        let through = |path: &StaticPath| format!("{}, through {}", path.root, graph.shown_type_of(path.through));
        let field = || self.fields.get(&held).map(through);
        roots::holder(graph, held).or_else(field).or_else(|| self.path(graph, tree, held))
    }

    /// `several roots, for example: stack in App.Program.Main() → App.Host → App.Services`.
    fn path(&self, graph: &HeapGraph, tree: &DominatorTree, held: ObjectIx) -> Option<String> {
        let (root, path) = self.paths.get(&held)?;
        let hidden = middle(path.len(), PATH);
        let name = |object: &ObjectIx| graph.shown_type_of(*object).into_owned();
        let mut steps = vec![root.clone()];
        steps.extend(path[..hidden.start].iter().map(name));
        steps.extend((!hidden.is_empty()).then(|| format!("… {}", counted(hidden.len() as u64, "other"))));
        steps.extend(path[hidden.end..].iter().map(name));
        // No object alone keeps it, and no root refers to it: other roots lead to it, too.
        let has_several = tree.parent(tree.node(held)) == Some(tree.root());
        Some(format!("{}{}", if has_several { "several roots, for example: " } else { "" }, steps.join(" → ")))
    }
}

#[cfg(test)]
mod tests {
    use crate::suspects::{Suspects, find};
    use remora_heap::findings::Subscriptions;
    use remora_heap::{Builder, DominatorTree, HeapGraph, Object, ObjectIx, RootKind, Type, TypeFlags, TypeIx};
    use remora_heap_file::State;

    /// A large object that two objects with such roots refer to.
    fn services(kind: RootKind) -> HeapGraph {
        let mut builder = Builder::new();
        for name in ["App.Host", "App.Services"] {
            let flags = TypeFlags::default();
            builder.add_type(Type { name: name.into(), assembly: "App".into(), flags }).expect("room");
        }
        for (address, of, bytes, references) in
            [(0x1000, 0, 24, &[0x2000][..]), (0x1100, 0, 24, &[0x2000]), (0x2000, 1, 1000, &[])]
        {
            let object = Object { address, type_ix: TypeIx(of), bytes };
            builder.add_object(object, references.iter().copied()).expect("room");
        }
        builder.add_root(0x1000, kind).expect("room");
        builder.add_root(0x1100, kind).expect("room");
        let mut graph = builder.finish().expect("room");
        graph.note_root(ObjectIx(0), RootKind::Stack, "in App.Program.Main()".to_owned());
        graph
    }

    #[test]
    fn regression_a_suspect_with_several_roots_was_held_by_a_root_of_unknown_kind() {
        let shown = |kind| {
            let graph = services(kind);
            let tree = DominatorTree::new(&graph);
            let (state, subscriptions, all) = (State::default(), Subscriptions::default(), find(&graph, &tree));
            let suspects =
                Suspects { graph: &graph, tree: &tree, state: &state, subscriptions: &subscriptions, all: &all };
            (suspects.text().to_string(), suspects.json())
        };
        let (text, json) = shown(RootKind::Stack);
        let expected = "several roots, for example: stack in App.Program.Main() → App.Host → App.Services\n";
        assert!(text.contains(&format!("held by  {expected}")), "{text}");
        assert!(!text.contains("name it by"), "{text}");
        let path = json[0].path_from_root.as_ref().expect("a path");
        let objects: Vec<u64> = path.objects.iter().map(|object| object.address).collect();
        assert_eq!((&*path.root, &objects[..]), ("stack in App.Program.Main()", &[0x1000, 0x2000][..]));
        assert_eq!((json[0].probably_held_by, &json[0].name_it_by), (None, &None));
        // No root was seen: only then the command is useful.
        let (text, json) = shown(RootKind::Inferred);
        assert!(text.contains("name it by"), "{text}");
        assert!(json[0].path_from_root.is_none() && json[0].name_it_by.is_some());
    }
}
