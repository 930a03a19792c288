//! Roots that are inferred, paths, referrers, tables and differences, each beside the plainest answer.

mod graphs;

use graphs::{Plain, Random, chain, numbers};
use remora_heap::diff::{self, Snapshot};
use remora_heap::tables::{self, Totals};
use remora_heap::{DominatorTree, ObjectIx, Referrers, Root, RootKind, ShortestPaths};
use std::collections::BTreeMap;
use std::collections::HashMap;

fn plain(references: Vec<Vec<usize>>, roots: Vec<usize>) -> Plain {
    let count = references.len();
    Plain { types: 1, types_of: vec![0; count], bytes: vec![10; count], references, roots }
}

#[test]
fn one_root_is_inferred_for_each_component_that_none_refers_to() {
    for seed in 0..3000 {
        let plain = Random::new(seed).plain(14);
        let expected = plain.sources(&plain.reach(&plain.roots, None));
        let mut graph = plain.graph();
        assert_eq!(graph.infer_roots(), expected.len(), "seed {seed}");
        let inferred = &graph.roots()[plain.roots.len()..];
        assert!(inferred.iter().all(|root| root.kind == RootKind::Inferred));
        assert_eq!(numbers(inferred.iter().map(|root| root.object)), expected, "seed {seed}: {plain:?}");
        assert_eq!(DominatorTree::new(&graph).unreached(), None, "seed {seed}");
        assert_eq!(graph.infer_roots(), 0, "seed {seed}: all is held now");
    }
}

#[test]
fn a_ring_of_millions_is_held_once() {
    let mut graph = chain(1_000_000, |object| if object == 999_999 { vec![3] } else { vec![] });
    assert_eq!(graph.infer_roots(), 0);
    let mut ring = plain((0..1_000_000).map(|object| vec![(object + 1) % 1_000_000]).collect(), vec![]).graph();
    assert_eq!(ring.infer_roots(), 1);
    assert_eq!(ring.roots(), [Root { object: ObjectIx(0), kind: RootKind::Inferred }]);
}

#[test]
fn paths_are_real_and_none_is_shorter() {
    for seed in 0..2000 {
        let plain = Random::new(seed).plain(14);
        let graph = plain.graph();
        let paths = ShortestPaths::new(&graph);
        let mut layer = plain.roots.clone();
        let mut length = vec![None; plain.count()];
        for steps in 1.. {
            layer.retain(|&object| length[object].is_none());
            layer.iter().for_each(|&object| length[object] = Some(steps));
            layer = layer.iter().flat_map(|&object| plain.references[object].clone()).collect();
            if layer.is_empty() {
                break;
            }
        }
        let mut beginnings: HashMap<ObjectIx, u64> = HashMap::new();
        for object in graph.objects() {
            let path = paths.to(&graph, object);
            path.iter().for_each(|path| *beginnings.entry(path.objects[0]).or_default() += 1);
            assert_eq!(path.as_ref().map(|path| path.objects.len()), length[object.0 as usize], "seed {seed}");
            let Some(path) = path else { continue };
            assert_eq!((path.objects.first(), path.objects.last()), (Some(&path.root.object), Some(&object)));
            assert!(graph.roots().contains(&path.root));
            assert!(path.objects.windows(2).all(|pair| graph.references(pair[0]).any(|target| target == pair[1])));
        }
        let reported = paths.beginnings(graph.objects());
        assert!(reported.is_sorted_by(|one, other| one.1 >= other.1), "seed {seed}");
        assert_eq!(reported.into_iter().collect::<HashMap<_, _>>(), beginnings, "seed {seed}");
    }
}

#[test]
fn referrers_are_the_references_turned_round() {
    for seed in 0..1000 {
        let plain = Random::new(seed).plain(20);
        let graph = plain.graph();
        let referrers = Referrers::new(&graph);
        for object in graph.objects() {
            let mut expected = Vec::new();
            for (source, targets) in plain.references.iter().enumerate() {
                expected.extend(targets.iter().filter(|&&target| target == object.0 as usize).map(|_| source));
            }
            assert_eq!(numbers(referrers.of(object)), expected, "seed {seed}");
            assert_eq!(numbers(Referrers::of_one(&graph, object)), expected, "seed {seed}");
        }
    }
}

/// The totals of the objects of which `group` says the same.
fn grouped(plain: &Plain, group: impl Fn(usize) -> String) -> BTreeMap<String, Totals> {
    let dominators = plain.dominators();
    let mut totals: BTreeMap<String, Totals> = BTreeMap::new();
    for object in 0..plain.count() {
        let entry = totals.entry(group(object)).or_default();
        entry.count += 1;
        entry.bytes += plain.bytes[object];
        if dominators[object].0.iter().all(|&above| above == object || group(above) != group(object)) {
            let below = (0..plain.count()).filter(|&below| dominators[below].0.contains(&object));
            entry.retained += below.map(|below| plain.bytes[below]).sum::<u64>();
        }
    }
    totals
}

#[test]
fn tables_count_each_object_once() {
    for seed in 0..2000 {
        let plain = Random::new(seed).plain(14);
        let graph = plain.graph();
        let tree = DominatorTree::new(&graph);
        let rows = tables::by_type(&graph, &tree);
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.totals.retained)), "seed {seed}");
        let found: BTreeMap<String, Totals> =
            rows.iter().map(|row| (graph.type_at(row.type_ix).name.clone(), row.totals)).collect();
        assert_eq!(found, grouped(&plain, |object| format!("N.T{}", plain.types_of[object])), "seed {seed}: {plain:?}");
        let rows = tables::by_assembly(&graph, &tree);
        let found: BTreeMap<String, Totals> = rows.into_iter().map(|row| (row.assembly, row.totals)).collect();
        let expected = grouped(&plain, |object| format!("A{}", plain.types_of[object] % 2));
        assert_eq!(found, expected, "seed {seed}: {plain:?}");
    }
}

#[test]
fn a_difference_names_what_has_changed_and_what_has_grown_most_first() {
    let before =
        Plain { types: 4, types_of: vec![0, 0, 1, 3], bytes: vec![10, 20, 30, 5], ..plain(vec![vec![]; 4], vec![0]) };
    let after = Plain { types_of: vec![0, 2, 3, 0], bytes: vec![10, 500, 5, 21], ..before.clone() };
    let (graphs, mut rows) = ([before.graph(), after.graph()], Vec::new());
    for graph in &graphs {
        rows.push(tables::by_type(graph, &DominatorTree::new(graph)));
    }
    let [earlier, later] = [0, 1].map(|index| Snapshot { graph: &graphs[index], rows: &rows[index] });
    let changed = diff::by_type(earlier, later);
    let reported: Vec<_> =
        changed.iter().map(|row| (row.name.as_str(), row.before.count, row.after.count, row.growth())).collect();
    assert_eq!(reported, [("N.T2", 0, 1, 500), ("N.T0", 2, 2, 1), ("N.T1", 1, 0, -30)]);
    assert_eq!(changed[0].retained_growth(), 500);
    assert_eq!(changed[0].assembly, "A0");
    assert_eq!(diff::by_type(earlier, earlier), []);
}
