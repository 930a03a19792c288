//! The dominator tree beside one that is found by taking each object away, and on graphs that break recursion and slow walks.

mod graphs;

use graphs::{Plain, Random, chain};
use remora_heap::{DominatorTree, Node, ObjectIx};

/// The objects above a node, itself included, ascending.
fn above(tree: &DominatorTree, node: Node) -> Vec<usize> {
    let mut objects = Vec::new();
    let mut next = Some(node);
    while let Some(node) = next {
        objects.extend(tree.object(node).map(|object| object.0 as usize));
        next = tree.parent(node);
    }
    objects.sort_unstable();
    objects
}

#[track_caller]
fn check(plain: &Plain, about: &str) {
    let graph = plain.graph();
    let tree = DominatorTree::new(&graph);
    let expected = plain.dominators();
    for (object, (dominators, living)) in expected.iter().enumerate() {
        let node = tree.node(ObjectIx(object as u32));
        assert_eq!(tree.object(node), Some(ObjectIx(object as u32)), "{about}");
        assert_eq!(&above(&tree, node), dominators, "{about}: above {object} of {plain:?}");
        assert_eq!(tree.is_unreached(node), !living, "{about}: {object} of {plain:?}");
        let below = || (0..plain.count()).filter(|&other| expected[other].0.contains(&object));
        let retained: u64 = below().map(|other| plain.bytes[other]).sum();
        assert_eq!(tree.retained(node), retained, "{about}: {object} of {plain:?}");
        assert_eq!(tree.retained_count(node), below().count() as u64, "{about}: {object} of {plain:?}");
    }
    check_shape(&tree, plain, about);
}

/// What holds of any tree: each node is the child of its parent, and all are below the root.
#[track_caller]
fn check_shape(tree: &DominatorTree, plain: &Plain, about: &str) {
    let mut children = 0;
    for node in tree.nodes() {
        for child in tree.children(node) {
            children += 1;
            assert_eq!(tree.parent(child), Some(node), "{about}");
            assert!(tree.dominates(node, child) && !tree.dominates(child, node), "{about}");
        }
    }
    assert_eq!(children + 1, tree.nodes().len(), "{about}");
    assert_eq!(tree.parent(tree.root()), None);
    assert_eq!(tree.retained(tree.root()), plain.bytes.iter().sum::<u64>(), "{about}");
    assert_eq!(tree.retained_count(tree.root()), plain.count() as u64, "{about}");
    assert_eq!(tree.unreached().is_some(), plain.dominators().iter().any(|(_, living)| !living), "{about}");
}

#[test]
fn it_is_what_taking_each_object_away_shows() {
    for seed in 0..4000 {
        check(&Random::new(seed).plain(12), &format!("seed {seed}"));
    }
    for seed in 0..40 {
        check(&Random::new(seed).plain(60), &format!("large seed {seed}"));
    }
}

/// Graphs of several buckets and worth several threads, near and far references mixed.
#[test]
fn large_graphs_are_what_going_round_until_nothing_changes_shows() {
    for (seed, near) in [(1, 100), (2, 99), (3, 90), (4, 0)] {
        let mut random = Random::new(seed);
        let count = 150_000;
        let mut plain = Plain { types: 1, types_of: vec![0; count], bytes: vec![8; count], ..Plain::default() };
        for object in 0..count {
            let degree = random.below(5);
            let reach = |random: &mut Random| if random.below(100) < near { 40 } else { count };
            let target = |random: &mut Random| {
                let reach = reach(random);
                (object + random.below(reach)) % count
            };
            plain.references.push((0..degree).map(|_| target(&mut random)).collect());
        }
        plain.roots = (0..50).map(|_| random.below(count)).collect();
        let tree = DominatorTree::new(&plain.graph());
        let mut living = 0;
        for (object, expected) in graphs::immediate_dominators(&plain).into_iter().enumerate() {
            let node = tree.node(ObjectIx(object as u32));
            assert_eq!(tree.is_unreached(node), expected.is_none(), "seed {seed}, {object}");
            let Some(expected) = expected else { continue };
            living += 1;
            let found = tree.parent(node).and_then(|above| tree.object(above));
            assert_eq!(found.map(|above| above.0 as usize), expected, "seed {seed}, {object}");
        }
        assert!((count / 2..count).contains(&living), "seed {seed}: {living} of {count} are alive");
    }
}

#[test]
fn a_dead_object_holds_no_living_one() {
    // 0 is held and refers to 1. 2 is dead and refers to 1 and 3.
    let references = vec![vec![1], vec![], vec![1, 3], vec![]];
    let plain = Plain { types: 1, types_of: vec![0; 4], bytes: vec![8, 16, 32, 64], references, roots: vec![0] };
    check(&plain, "a dead referrer");
    let tree = DominatorTree::new(&plain.graph());
    assert_eq!(tree.parent(tree.node(ObjectIx(1))), Some(tree.node(ObjectIx(0))));
    let unreached = tree.unreached().unwrap();
    assert_eq!((tree.retained(unreached), tree.retained_count(unreached)), (96, 2));
    assert_eq!(tree.parent(tree.node(ObjectIx(3))), Some(tree.node(ObjectIx(2))));
}

#[test]
fn nothing_has_a_root_and_nothing_else() {
    let tree = DominatorTree::new(&Plain::default().graph());
    assert_eq!((tree.nodes().len(), tree.unreached(), tree.retained(tree.root())), (1, None, 0));
    assert_eq!(tree.biggest(tree.root(), 3), []);
}

#[test]
fn lists_of_millions_need_no_stack() {
    const COUNT: usize = 3_000_000;
    let back_to_the_first = |object| if object + 1 == COUNT { vec![0] } else { Vec::new() };
    let two_ways = |object: usize| vec![object.saturating_sub(1), object];
    let forks = |object: usize| vec![(object + 2).min(COUNT - 1)];
    for (about, graph) in [
        ("a list", chain(COUNT, |_| Vec::new())),
        ("a ring", chain(COUNT, back_to_the_first)),
        ("a doubly linked list", chain(COUNT, two_ways)),
    ] {
        let tree = DominatorTree::new(&graph);
        let last = tree.node(ObjectIx(COUNT as u32 - 1));
        assert_eq!(tree.parent(last), Some(tree.node(ObjectIx(COUNT as u32 - 2))), "{about}");
        assert_eq!(tree.retained(tree.node(ObjectIx(1))), 24 * (COUNT as u64 - 1), "{about}");
    }
    let tree = DominatorTree::new(&chain(COUNT, forks));
    assert!(tree.children(tree.node(ObjectIx(0))).count() > COUNT / 2, "each second object can be left out");
}

#[test]
fn a_list_whose_end_refers_to_millions_that_are_held_elsewhere_is_no_walk_of_millions_for_each() {
    // The first half is a list; its last object refers to each of the other half, and so does the first.
    const HALF: usize = 400_000;
    let others = |object: usize| {
        let all = (HALF..2 * HALF).collect::<Vec<_>>();
        if object == 0 || object == HALF - 1 { all } else { Vec::new() }
    };
    let mut plain = Plain { types: 1, types_of: vec![0; 2 * HALF], bytes: vec![1; 2 * HALF], ..Plain::default() };
    plain.references = (0..HALF).map(|object| if object + 1 < HALF { vec![object + 1] } else { Vec::new() }).collect();
    plain.references[0].extend(others(0));
    plain.references[HALF - 1].extend(others(HALF - 1));
    plain.references.resize(2 * HALF, Vec::new());
    plain.roots = vec![0];
    let tree = DominatorTree::new(&plain.graph());
    let first = tree.node(ObjectIx(0));
    assert_eq!(tree.children(first).count(), HALF + 1);
    assert_eq!(tree.retained(tree.node(ObjectIx(1))), HALF as u64 - 1);
}

#[test]
fn the_biggest_come_first_and_are_as_many_as_asked() {
    let bytes = vec![5, 90, 90, 1, 40];
    let plain = Plain { types: 1, types_of: vec![0; 5], bytes, references: vec![vec![]; 5], roots: (0..5).collect() };
    let tree = DominatorTree::new(&plain.graph());
    let biggest =
        |count| graphs::numbers(tree.biggest(tree.root(), count).into_iter().filter_map(|node| tree.object(node)));
    assert_eq!(biggest(9), [1, 2, 4, 0, 3]);
    assert_eq!(biggest(2), [1, 2]);
    assert_eq!(biggest(0), [0_usize; 0]);
}
