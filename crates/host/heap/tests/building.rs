//! From addresses to indexes: any order, what is given twice, what leads nowhere, what is too large.

mod graphs;

use graphs::{Plain, Random, numbers};
use remora_heap::{
    Builder, Completeness, Error, HeapGraph, Limits, Object, ObjectIx, RootKind, Type, TypeFlags, TypeIx,
};

fn object(address: u64) -> Object {
    Object { address, type_ix: TypeIx(0), bytes: 24 }
}

fn some_type() -> Type {
    Type { name: "N.T".into(), assembly: "A".into(), flags: TypeFlags::ARRAY | TypeFlags(1 << 30) }
}

#[track_caller]
fn same(graph: &HeapGraph, plain: &Plain, about: &str) {
    assert_eq!(graph.object_count(), plain.count(), "{about}");
    assert_eq!(graph.reference_count(), plain.references.iter().map(Vec::len).sum::<usize>(), "{about}");
    for index in 0..plain.count() {
        let object = ObjectIx(index as u32);
        assert_eq!(graph.address(object), plain.address(index), "{about}");
        assert_eq!(graph.bytes(object), plain.bytes[index], "{about}");
        assert_eq!(graph.type_ix(object).0, plain.types_of[index], "{about}");
        assert_eq!(numbers(graph.references(object)), plain.references[index], "{about}");
    }
    assert_eq!(numbers(graph.roots().iter().map(|root| root.object)), plain.roots, "{about}");
    assert!(graph.completeness().is_complete(), "{about}");
}

#[test]
fn any_order_gives_the_same_graph() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut plain = random.plain(30);
        if seed % 4 == 0 {
            plain.bytes.iter_mut().step_by(3).for_each(|bytes| *bytes += u64::from(u32::MAX) - 50);
        }
        same(&plain.graph(), &plain, &format!("seed {seed}, ascending"));
        let mut order: Vec<usize> = (0..plain.count()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        let mut builder = plain.builder();
        order.iter().for_each(|&object| plain.add(&mut builder, object));
        plain.roots.iter().for_each(|&root| builder.add_root(plain.address(root), RootKind::Static).unwrap());
        same(&builder.finish().unwrap(), &plain, &format!("seed {seed}, shuffled"));
    }
}

#[test]
fn a_graph_that_is_worth_two_threads_is_resolved_as_a_small_one() {
    let mut random = Random::new(5);
    let count = 100_000;
    let references = (0..count).map(|_| (0..3).map(|_| random.below(count)).collect()).collect();
    let plain = Plain { types: 1, types_of: vec![0; count], bytes: vec![24; count], references, roots: vec![7] };
    same(&plain.graph(), &plain, "ascending");
    let mut builder = plain.builder();
    (count / 2..count).chain(0..count / 2).for_each(|object| plain.add(&mut builder, object));
    builder.add_root(plain.address(7), RootKind::Static).unwrap();
    same(&builder.finish().unwrap(), &plain, "the second range first");
}

#[test]
fn whatever_is_left_out_is_counted() {
    for shuffled in [false, true] {
        let mut builder = Builder::new();
        builder.add_type(some_type()).unwrap();
        let first = [0x2000, 0, 0x2000, 0x1fff, 0x2001, 1 << 48, u64::MAX, 0x1000];
        builder.add_object(object(0x1000), first).unwrap();
        if shuffled {
            builder.add_object(object(0x3000), [0x1000]).unwrap();
        }
        builder.add_object(object(0x2000), [0x5000, 0x1000]).unwrap();
        if !shuffled {
            builder.add_object(object(0x3000), [0x1000]).unwrap();
        }
        // Known already, null, and beyond any process.
        for address in [0x1000, 0, 1 << 48] {
            let refused = builder.add_object(object(address), [0x3000]);
            refused.unwrap();
        }
        builder.add_root(0x3000, RootKind::Stack).unwrap();
        builder.add_root(0x3008, RootKind::Stack).unwrap();
        builder.completeness_mut().ranges_unwalked = 2;
        let graph = builder.finish().unwrap();
        let expected = Completeness {
            ranges_unwalked: 2,
            objects_refused: 3,
            references_dangling: 5,
            roots_dangling: 1,
            references_null: 1,
            ..Completeness::default()
        };
        assert_eq!(graph.completeness(), &expected);
        let references: Vec<_> = graph.objects().map(|object| numbers(graph.references(object))).collect();
        assert_eq!(references, [vec![1, 1, 0], vec![0], vec![0]], "twice is two references");
        assert_eq!(numbers(graph.roots().iter().map(|root| root.object)), [2]);
    }
}

#[test]
fn references_that_lead_nowhere_leave_no_gap() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let plain = random.plain(20);
        let mut dangling = 0;
        let [mut ascending, mut descending] = [plain.builder(), plain.builder()];
        let mut described: Vec<(Object, Vec<u64>)> = Vec::new();
        for index in 0..plain.count() {
            let mut references = Vec::new();
            for &target in &plain.references[index] {
                let nowhere = random.below(3);
                dangling += nowhere as u64;
                references.extend((0..nowhere).map(|_| plain.address(target) + 8));
                references.push(plain.address(target));
            }
            let type_ix = TypeIx(plain.types_of[index]);
            described.push((Object { address: plain.address(index), type_ix, bytes: plain.bytes[index] }, references));
        }
        described.iter().for_each(|(object, references)| ascending.add_object(*object, references.clone()).unwrap());
        described.into_iter().rev().for_each(|(object, references)| descending.add_object(object, references).unwrap());
        for graph in [ascending.finish().unwrap(), descending.finish().unwrap()] {
            assert_eq!(graph.completeness().references_dangling, dangling, "seed {seed}");
            let found: Vec<_> = graph.objects().map(|object| numbers(graph.references(object))).collect();
            assert_eq!(found, plain.references, "seed {seed}");
        }
    }
}

#[test]
fn an_unknown_type_is_named_so_and_counted() {
    let mut builder = Builder::new();
    builder.add_object(Object { address: 16, type_ix: TypeIx(1), bytes: 8 }, []).unwrap();
    builder.add_object(Object { address: 32, type_ix: TypeIx(0), bytes: 8 }, []).unwrap();
    builder.add_type(some_type()).unwrap();
    let graph = builder.finish().unwrap();
    assert_eq!(graph.type_of(ObjectIx(0)).name, "[unknown type]");
    assert_eq!(graph.type_of(ObjectIx(1)), &some_type());
    assert!(graph.type_of(ObjectIx(1)).flags.contains(TypeFlags(1 << 30)), "an unknown bit is carried");
    assert_eq!(graph.completeness().types_unknown, 1);
}

#[test]
fn objects_are_found_by_where_they_begin_and_by_what_is_in_them() {
    let mut builder = Builder::new();
    builder.add_type(some_type()).unwrap();
    builder.add_object(object(0x1000), []).unwrap();
    builder.add_object(Object { bytes: 5 << 32, ..object(0x10_0000) }, []).unwrap();
    let graph = builder.finish().unwrap();
    assert_eq!(graph.bytes(ObjectIx(1)), 5 << 32);
    assert_eq!((graph.object_at(0x1000), graph.object_at(0x1008)), (Some(ObjectIx(0)), None));
    let around = [0xfff, 0x1000, 0x1017, 0x1018, 0x10_0000 + (5 << 32) - 1, 0x10_0000 + (5 << 32)];
    let expected = [None, Some(ObjectIx(0)), Some(ObjectIx(0)), None, Some(ObjectIx(1)), None];
    assert_eq!(around.map(|address| graph.object_around(address)), expected);
}

#[test]
fn what_is_beyond_the_limits_is_refused_by_name() {
    let limits = Limits { objects: 2, references: 2, types: 1, roots: 1, bytes: 100 };
    let refused = |result: Result<(), Error>, expected: &str| match result {
        Err(Error::TooMany { what, .. }) => assert_eq!(what, expected),
        other => panic!("{expected}: {other:?}"),
    };
    let mut builder = Builder::with_limits(limits);
    builder.add_type(some_type()).unwrap();
    refused(builder.add_type(some_type()).map(|_| ()), "types");
    builder.add_object(object(16), [48, 0, 48]).unwrap();
    refused(builder.add_object(object(48), [16]), "references");
    builder.add_object(object(48), []).unwrap();
    refused(builder.add_object(object(80), []), "objects");
    builder.add_root(16, RootKind::Other).unwrap();
    refused(builder.add_root(16, RootKind::Other), "roots");
    let mut builder = Builder::with_limits(limits);
    refused(builder.add_object(Object { bytes: 101, ..object(16) }, []), "bytes");
    let mut builder = Builder::new();
    refused(builder.add_object(Object { bytes: u64::MAX, ..object(16) }, []), "bytes");
}
