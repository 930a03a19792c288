//! Indexes made and read back: right, damaged, cut, of another snapshot, made up.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_heap::layout::Layouts;
use remora_heap::{
    Allowance, Builder, DominatorTree, HeapGraph, Object, ObjectIx, Referrers, RootKind, ShortestPaths, Type,
    TypeFlags, Ways, tables,
};
use remora_heap_view::{Error, Index, Key, Parts, make};
use std::collections::BTreeMap;
use std::io::{self, Write};
use support::{
    ARRAY, HOSTILE, KEY, ORPHAN, TEXTS, about, bytes_of, index_of, index_of_shop, opened, ring, shop, shop_layouts,
};

/// Bytes of the header, of these its fields and their checksum, and of a block.
const HEADER: usize = 128;
const SUM: usize = 72;
const BLOCK: usize = 16 << 10;

/// The numbers of a list.
fn all(index: &Index, list: remora_heap_view::List) -> Vec<u32> {
    index.part(list, 0..list.length).unwrap().into_iter().map(|id| id.number()).collect()
}

fn check(graph: &HeapGraph) {
    let index = index_of(graph);
    let (tree, paths, referrers) = (DominatorTree::new(graph), ShortestPaths::new(graph), Referrers::new(graph));
    assert_eq!((index.objects(), index.references()), (graph.object_count() as u64, graph.reference_count() as u64));
    let retained = |object: ObjectIx| tree.retained(tree.node(object));
    for object in graph.objects() {
        let (id, node) = (index.id(object.0).unwrap(), tree.node(object));
        let record = index.record(id).unwrap();
        assert_eq!((record.address, record.own), (graph.address(object), graph.bytes(object)));
        assert_eq!(
            (record.retained, u64::from(record.retained_count)),
            (tree.retained(node), tree.retained_count(node))
        );
        assert_eq!(record.type_ix, Some(graph.type_ix(object).0));
        let above = tree.parent(node).unwrap();
        let beside = if above == tree.root() { index.all() } else { index.unreached() };
        assert_eq!(record.dominator.unwrap().number(), tree.object(above).map_or(beside.number(), |above| above.0));
        let children: Vec<u32> = all(&index, record.children);
        assert!(children.is_sorted_by_key(|child| std::cmp::Reverse(retained(ObjectIx(*child)))));
        assert_eq!(sorted(children), sorted(tree.children(node).map(|child| tree.object(child).unwrap().0)));
        assert_eq!(all(&index, record.references), graph.references(object).map(|to| to.0).collect::<Vec<_>>());
        let from = all(&index, record.referrers);
        assert!(from.is_sorted_by_key(|from| std::cmp::Reverse(retained(ObjectIx(*from)))));
        assert_eq!(sorted(from), sorted(referrers.of(object).map(|from| from.0)));
        let path = paths.to(graph, object);
        assert_eq!(record.distance as usize, path.as_ref().map_or(0, |path| path.objects.len()));
        assert_eq!(record.origin.map(|id| id.number()), path.as_ref().map(|path| path.objects[0].0));
        let step = path.and_then(|path| path.objects.iter().rev().nth(1).map(|next| next.0));
        assert_eq!(record.step.map(|id| id.number()), step);
        let kinds = graph.roots().iter().filter(|root| root.object == object).map(|root| root.kind);
        assert_eq!(record.roots, kinds.collect::<Vec<_>>());
        assert_eq!(index.object_before(graph.address(object)).unwrap().unwrap().0, id);
    }
    check_types(graph, &index, &tree);
}

fn sorted(numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}

fn check_types(graph: &HeapGraph, index: &Index, tree: &DominatorTree) {
    let totals: BTreeMap<u32, _> = tables::by_type(graph, tree).iter().map(|row| (row.type_ix.0, row.totals)).collect();
    assert_eq!(index.types().len(), graph.types().len());
    for (place, (entry, known)) in index.types().iter().zip(graph.types()).enumerate() {
        let of = totals.get(&(place as u32)).copied().unwrap_or_default();
        assert_eq!((&entry.name, &entry.assembly), (&known.name, &known.assembly));
        assert_eq!((entry.count, entry.own, entry.retained), (of.count, of.bytes, of.retained));
        let objects = all(index, index.of_type(entry).unwrap());
        assert!(objects.is_sorted_by_key(|id| std::cmp::Reverse(tree.retained(tree.node(ObjectIx(*id))))));
        let own = graph.objects().filter(|object| graph.type_ix(*object).0 as usize == place);
        assert_eq!(sorted(objects), own.map(|object| object.0).collect::<Vec<_>>());
    }
}

#[test]
fn a_type_has_its_assembly_where_another_assembly_has_that_name() {
    let mut builder = Builder::new();
    for (at, (name, assembly)) in (1..).zip([("App.Node", "First"), ("App.Node", "Second"), ("App.Leaf", "First")]) {
        let of = Type { name: name.into(), assembly: assembly.into(), flags: TypeFlags::default() };
        let type_ix = builder.add_type(of).unwrap();
        builder.add_object(Object { address: at * 0x1000, type_ix, bytes: 24 }, []).unwrap();
    }
    let index = index_of(&builder.finish().unwrap());
    let shown: Vec<String> = index.types().iter().map(|of| of.shown()).collect();
    assert_eq!(shown, ["App.Node, First", "App.Node, Second", "App.Leaf"]);
}

#[test]
fn the_field_of_each_reference_is_the_one_that_the_layouts_show() {
    let (graph, layouts) = (shop(), shop_layouts());
    let index = index_of_shop();
    let ways = Ways::new(&graph, &layouts);
    let mut known = BTreeMap::<String, usize>::new();
    for from in graph.objects() {
        let record = index.record(index.id(from.0).expect("an object")).expect("it is there");
        for to in graph.references(from) {
            let fields = index.fields(&record).expect("it is readable");
            let to_id = index.id(to.0).expect("an object");
            let field = fields.and_then(|fields| fields.to(to_id, &Allowance::new(1 << 20)));
            assert_eq!(field, ways.between(from, to), "{from:?} to {to:?}");
            let kind = field.unwrap_or_else(|| "unknown".to_owned());
            let kind = if kind.starts_with('[') { "[]".to_owned() } else { kind };
            *known.entry(kind).or_default() += 1;
        }
    }
    let known: Vec<(&str, usize)> = known.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(known, [(support::HOSTILE_NAME, 1), ("[]", 100), ("orders", 1), ("text", 101), ("unknown", 1)]);
    // Without layouts, nothing is known.
    let index = index_of(&graph);
    let cache = index.record(index.id(0).expect("the cache")).expect("it is there");
    assert!(index.fields(&cache).expect("it is readable").is_none());
}

#[test]
fn everything_that_the_graph_says_is_in_the_index() {
    for graph in [shop(), ring(3_000), remora_heap::Builder::new().finish().unwrap()] {
        check(&graph);
    }
}

#[test]
fn all_and_what_no_root_reaches_stand_beside_the_objects() {
    let index = index_of(&shop());
    let whole = index.record(index.all()).unwrap();
    assert_eq!((whole.retained, whole.retained_count, whole.type_ix, whole.dominator), (17_982, 206, None, None));
    let unreached = index.record(index.unreached()).unwrap();
    assert_eq!((unreached.retained, unreached.retained_count, unreached.dominator), (130, 2, Some(index.all())));
    // The cache, what no root reaches, the hostile one, the text of both; not first, not last.
    assert_eq!(all(&index, whole.children)[1], index.unreached().number());
    assert_eq!(index.about.roots, BTreeMap::from([("inferred".to_owned(), 1), ("static".to_owned(), 1)]));
    assert_eq!(index.id(index.unreached().number() + 1), None);
    let complete = index_of(&ring(10));
    assert_eq!(complete.id(complete.unreached().number()), None, "there is nothing that no root reaches");
}

#[test]
fn an_object_is_found_by_any_address_in_it() {
    let index = index_of(&shop());
    let address = |at: u64| index.object_before(at).unwrap().map(|(_, record)| record.address);
    assert_eq!(address(0xfff), None);
    assert_eq!((address(ARRAY), address(ARRAY + 823)), (Some(ARRAY), Some(ARRAY)));
    assert_eq!((address(TEXTS - 1), address(u64::MAX)), (Some(0x3000 + 99 * 0x40), Some(ORPHAN + 0x100)));
    let (_, hostile) = index.object_before(HOSTILE).unwrap().unwrap();
    assert_eq!(hostile.roots, [RootKind::Inferred]);
}

#[test]
fn a_header_with_any_byte_changed_is_refused() {
    let bytes = bytes_of(&shop());
    for place in 0..HEADER {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[place] ^= change;
            assert!(matches!(opened(&damaged, KEY), Err(Error::Damaged(_))), "byte {place}");
        }
    }
}

#[test]
fn counts_that_are_absurd_are_refused_even_under_a_right_checksum() {
    let bytes = bytes_of(&shop());
    for field in 2..8 {
        let place = 8 + field * 8;
        let real = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
        let absurd =
            [0, real + 1, real.wrapping_sub(1), u64::from(u32::MAX), 1 << 32, 1 << 48, u64::MAX / 64, u64::MAX];
        for count in absurd.into_iter().filter(|count| *count != real) {
            let mut changed = bytes.clone();
            changed[place..place + 8].copy_from_slice(&count.to_le_bytes());
            let sum = crc32fast::hash(&changed[..SUM]);
            changed[SUM..SUM + 4].copy_from_slice(&sum.to_le_bytes());
            assert!(matches!(opened(&changed, KEY), Err(Error::Damaged(_))), "field {field}: {count}");
        }
    }
}

#[test]
fn a_file_of_another_length_is_refused() {
    let bytes = bytes_of(&shop());
    for cut in (0..bytes.len()).step_by(97).chain([HEADER, bytes.len() - 1]) {
        assert!(matches!(opened(&bytes[..cut], KEY), Err(Error::Damaged(_))), "cut at {cut}");
    }
    assert!(matches!(opened(&[&bytes[..], b"\0"].concat(), KEY), Err(Error::Damaged(_))));
}

#[test]
fn an_index_of_another_snapshot_is_refused() {
    let bytes = bytes_of(&shop());
    for other in [Key { length: 4712, ..KEY }, Key { digest: 0, ..KEY }] {
        let refused = opened(&bytes, other).unwrap_err().to_string();
        assert!(refused.contains("made of another snapshot"), "{refused}");
    }
}

/// Asks everything; whether all was answered.
fn ask_all(index: &Index) -> Result<(), Error> {
    let mut wrong = Ok(());
    for number in 0..index.objects() as u32 + 2 {
        let Some(id) = index.id(number) else { continue };
        let asked = index.record(id).and_then(|record| {
            for list in [record.children, record.references, record.referrers] {
                let there = index.part(list, 0..list.length)?;
                assert!(there.iter().all(|id| index.id(id.number()).is_some()), "it is handed on unchecked");
            }
            index.object_before(record.address).map(drop)
        });
        wrong = wrong.and(asked);
    }
    for entry in index.types() {
        wrong = wrong.and(index.of_type(entry).and_then(|list| index.part(list, 0..500)).map(drop));
    }
    wrong
}

#[test]
fn a_changed_byte_anywhere_is_noticed_by_who_reads_it() {
    let bytes = bytes_of(&shop());
    for place in (HEADER..bytes.len()).step_by(61).chain([bytes.len() - 1]) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        let asked = opened(&damaged, KEY).and_then(|index| ask_all(&index));
        assert!(matches!(asked, Err(Error::Damaged(_))), "byte {place}");
    }
}

/// The same bytes with checksums that are right.
fn resealed(mut bytes: Vec<u8>, data: usize) -> Vec<u8> {
    let sums: Vec<u8> =
        bytes[HEADER..HEADER + data].chunks(BLOCK).flat_map(|block| crc32fast::hash(block).to_le_bytes()).collect();
    bytes.truncate(HEADER + data);
    let of_all = crc32fast::hash(&sums);
    bytes.extend(sums);
    bytes.extend(of_all.to_le_bytes());
    bytes
}

#[test]
fn what_is_made_up_under_right_checksums_is_refused_or_answered_and_never_a_crash() {
    let bytes = bytes_of(&shop());
    let data = (0..).find(|data| HEADER + data + (data.div_ceil(BLOCK) + 1) * 4 == bytes.len()).unwrap();
    assert_eq!(resealed(bytes.clone(), data), bytes);
    let (mut refused, mut random) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    for round in 0..400 {
        let mut hostile = bytes.clone();
        for _ in 0..=round % 40 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = HEADER + (random >> 20) as usize % (data - 8);
            let value = [0, u64::MAX, random, 1 << 31, 207][random as usize >> 8 & 3];
            hostile[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        let asked = opened(&resealed(hostile, data), KEY).and_then(|index| ask_all(&index));
        refused += usize::from(matches!(asked, Err(Error::Damaged(_))));
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn a_cancel_and_a_full_disk_end_the_making() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let graph = shop();
    let made = |goes_on: &dyn Fn() -> bool, out: &mut dyn Write| {
        let (layouts, found) = (&Layouts::default(), &|_: &_| serde_json::Value::Null);
        make(Parts { graph: &graph, layouts, about: about(), found, key: KEY, goes_on }, out)
    };
    assert!(matches!(made(&|| false, &mut Vec::new()), Err(Error::Interrupted)));
    for room in [0, 100, 5_000, bytes_of(&graph).len() - 1] {
        let full = made(&|| true, &mut Full(room));
        assert!(matches!(full, Err(Error::Write(_))), "{room}");
    }
}
