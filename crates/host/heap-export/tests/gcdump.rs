//! `.gcdump`, read back by a reader of its own, after the format's description: recursive, by tags and versions, with the whole file in
//! memory. It shares nothing with the writer.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_heap::HeapGraph;
use remora_heap_export::Format;
use std::collections::BTreeMap;
use support::{Facts, exported, huge, of_graph, ring, small};

/// A file that is being read.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.bytes[self.at..self.at + N].try_into().unwrap();
        self.at += N;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn int(&mut self) -> i32 {
        i32::from_le_bytes(self.take())
    }

    fn count(&mut self) -> usize {
        usize::try_from(self.int()).unwrap()
    }

    fn long(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }

    fn string(&mut self) -> Option<String> {
        let count = self.int();
        if count < 0 {
            return None;
        }
        let unit = |reader: &mut Self| match reader.byte() {
            first @ ..0x80 => u16::from(first),
            first @ 0xc0..0xe0 => u16::from(first & 0x1f) << 6 | u16::from(reader.byte() & 0x3f),
            first @ 0xe0..0xf0 => {
                let second = u16::from(reader.byte() & 0x3f);
                u16::from(first & 0xf) << 12 | second << 6 | u16::from(reader.byte() & 0x3f)
            }
            first => panic!("no beginning of a character: {first:#x}"),
        };
        let units: Vec<u16> = (0..count).map(|_| unit(self)).collect();
        Some(String::from_utf16(&units).unwrap())
    }

    /// The beginning of an object: its type's name and version.
    fn begin(&mut self) -> (String, i32) {
        assert_eq!(self.take(), [4, 4, 1], "an object whose type is an object whose type is none");
        let (version, reader, name) = (self.int(), self.int(), self.string().unwrap());
        assert!(reader <= version);
        assert_eq!(self.byte(), 6);
        (name, version)
    }

    /// Seven bits a byte with the sign in the first.
    fn packed(&mut self) -> i32 {
        let mut byte = self.byte();
        let mut number = i32::from((byte << 1) as i8 >> 1);
        while byte & 0x80 != 0 {
            byte = self.byte();
            number = number << 7 | i32::from(byte & 0x7f);
        }
        number
    }
}

/// What a dump says.
#[derive(Debug)]
struct Dump {
    /// Name, size and module.
    types: Vec<(String, i32, Option<String>)>,
    nodes: Vec<Node>,
    root: usize,
    total: i64,
    log: String,
    ticks: i64,
    process: (String, i32),
    tool: String,
}

#[derive(Debug)]
struct Node {
    of: usize,
    bytes: u64,
    to: Vec<usize>,
    address: i64,
}

fn read(bytes: &[u8]) -> Dump {
    let mut reader = Reader { bytes, at: 0 };
    assert_eq!(reader.string().unwrap(), "!FastSerialization.1");
    assert_eq!(reader.begin(), ("GCHeapDump".to_owned(), 10));
    assert_eq!(reader.begin(), ("Graphs.MemoryGraph".to_owned(), 1));
    let total = reader.long();
    let root = reader.count();
    let types: Vec<_> =
        (0..reader.count()).map(|_| (reader.string().unwrap(), reader.int(), reader.string())).collect();
    let places: Vec<usize> = (0..reader.count()).map(|_| reader.int() as u32 as usize).collect();
    let length = reader.count();
    let records = &bytes[reader.at..reader.at + length];
    reader.at += length;
    assert_eq!(reader.count(), places.len());
    let addresses: Vec<i64> = places.iter().map(|_| reader.long()).collect();
    assert_eq!(reader.take(), [8, 1], "of 64 bits");
    assert_eq!(reader.byte(), 6, "the graph's end");
    assert_eq!(reader.byte(), 1, "of 64 bits, as older readers want it");
    assert_eq!([f32::from_le_bytes(reader.take()), f32::from_le_bytes(reader.take())], [1.0, 1.0]);
    assert_eq!(reader.take(), [1, 1], "neither of JavaScript nor of segments");
    let log = reader.string().unwrap();
    let ticks = reader.long();
    assert_eq!(reader.string(), None, "no machine");
    let process = (reader.string().unwrap(), reader.int());
    assert_eq!((reader.long(), reader.long(), reader.int()), (0, 0, 0));
    assert_eq!(
        (reader.byte(), reader.int(), reader.byte()),
        (12, 0, 1),
        "a region to skip, number 0, with nothing in it"
    );
    let skipped = reader.at;
    assert_eq!(reader.byte(), 13);
    let tool = reader.string().unwrap();
    assert_eq!(reader.take(), [6, 6]);
    let table = reader.at;
    assert_eq!((reader.count(), reader.count()), (1, skipped));
    let trailer = reader.at;
    assert_eq!((reader.count(), reader.count()), (table, trailer));
    assert_eq!(reader.at, bytes.len());
    let nodes = nodes(records, &places, &types, &addresses);
    Dump { types, nodes, root, total, log, ticks, process, tool }
}

fn nodes(records: &[u8], places: &[usize], types: &[(String, i32, Option<String>)], addresses: &[i64]) -> Vec<Node> {
    let mut reader = Reader { bytes: records, at: 0 };
    // That of a node that nobody told of; a reader takes who has it for one.
    assert_eq!((reader.packed(), reader.packed(), types[0].0.as_str()), (0, 0, "UNDEFINED"));
    let one = |(index, place): (usize, &usize)| {
        assert_eq!(reader.at, *place, "one after the other");
        let head = reader.packed();
        let of = usize::try_from(head >> 1).unwrap();
        let bytes = if head & 1 == 1 { reader.packed() } else { types[of].1 };
        let count = reader.packed();
        let to = (0..count).map(|_| usize::try_from(index as i32 + reader.packed()).unwrap()).collect();
        Node { of, bytes: u64::try_from(bytes).unwrap(), to, address: addresses[index] }
    };
    let nodes: Vec<Node> = places.iter().enumerate().map(one).collect();
    assert_eq!(reader.at, records.len());
    assert!(nodes.iter().flat_map(|node| &node.to).all(|to| *to < nodes.len()));
    nodes
}

/// What stands for roots, by the kind that it stands for.
const KINDS: [(&str, &str); 8] = [
    ("[local vars]", "stack"),
    ("[static vars]", "static"),
    ("[inferred roots]", "inferred"),
    ("[other roots]", "other"),
    ("[strong Handles]", "handle"),
    ("[pinning Handles]", "pinned"),
    ("[finalizer Handles]", "finalizer"),
    ("[Dependent Handles]", "dependent"),
];

/// The same as of the graph: nodes at an address are objects.
fn facts(dump: &Dump) -> Facts {
    let name = |node: &Node| {
        let (name, _, module) = &dump.types[node.of];
        format!("{}!{name}", module.as_deref().unwrap_or_default())
    };
    let mut facts = Facts::default();
    let kinds = BTreeMap::from(KINDS.map(|(name, kind)| (format!("!{name}"), kind)));
    for node in &dump.nodes {
        let is_object = node.address != 0;
        if is_object {
            let entry = facts.types.entry(name(node)).or_default();
            entry.0 += 1;
            entry.1 += node.bytes;
        }
        for to in node.to.iter().map(|to| &dump.nodes[*to]).filter(|to| to.address != 0) {
            if is_object {
                *facts.edges.entry((name(node), name(to))).or_default() += 1;
            } else {
                *facts.roots.entry((kinds[&name(node)].to_owned(), name(to))).or_default() += 1;
            }
        }
    }
    facts
}

fn expected(graph: &HeapGraph) -> Facts {
    of_graph(graph, |known| format!("{}!{}", known.assembly, known.name))
}

#[test]
fn everything_is_read_back_exactly() {
    for graph in [small(), ring(100_000), remora_heap::Builder::new().finish().unwrap()] {
        let dump = read(&exported(&graph, Format::GcDump));
        assert_eq!(facts(&dump), expected(&graph));
        let addresses: Vec<u64> = graph.objects().map(|object| graph.address(object)).collect();
        let read: Vec<u64> = dump.nodes.iter().map(|node| node.address as u64).filter(|at| *at != 0).collect();
        assert_eq!(read, addresses);
        assert_eq!(dump.total as u64, graph.objects().map(|object| graph.bytes(object)).sum::<u64>());
    }
}

#[test]
fn all_roots_are_below_one_node_under_the_names_that_readers_know() {
    let dump = read(&exported(&small(), Format::GcDump));
    let name = |node: usize| dump.types[dump.nodes[node].of].0.as_str();
    assert_eq!((name(dump.root), dump.nodes[dump.root].bytes), ("[.NET Roots]", 0));
    let below = |node: usize| dump.nodes[node].to.iter().copied().filter(|to| dump.nodes[*to].address == 0);
    let names: Vec<&str> = below(dump.root).map(name).collect();
    assert_eq!(names, ["[local vars]", "[static vars]", "[inferred roots]", "[other roots]"]);
    let names: Vec<&str> = below(dump.root).flat_map(below).map(name).collect();
    assert_eq!(names, ["[strong Handles]", "[pinning Handles]", "[finalizer Handles]", "[Dependent Handles]"]);
}

#[test]
fn an_object_of_more_than_31_bits_is_reported_in_pieces_of_which_none_is_lost() {
    let dump = read(&exported(&huge(), Format::GcDump));
    let name = |node: &Node| dump.types[node.of].0.clone();
    let mut sums = BTreeMap::<String, (u64, u64)>::new();
    for node in dump.nodes.iter().filter(|node| node.bytes > 0) {
        let sum = sums.entry(name(node)).or_default();
        *sum = (sum.0 + 1, sum.1 + node.bytes);
    }
    let rest = sums["[the rest of objects that are too large for this format]"];
    assert_eq!((sums.len(), sums["byte[]"].0, rest.0), (2, 3, 7));
    assert_eq!(sums["byte[]"].1 + rest.1, 13_000_000_007 + 3_000_000_000 + 24);
    assert_eq!(dump.total, 13_000_000_007 + 3_000_000_000 + 24);
    // All are reached: each piece from the one before it.
    let mut reached = vec![false; dump.nodes.len()];
    let mut left = vec![dump.root];
    while let Some(node) = left.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            left.extend(&dump.nodes[node].to);
        }
    }
    assert!(reached.iter().all(|reached| *reached));
}

#[test]
fn what_is_known_of_it_and_what_is_missing_is_said() {
    let dump = read(&exported(&small(), Format::GcDump));
    assert_eq!(
        dump.log,
        "Shop (4711), .NET 8.0.4: NOT all of the heap\n3 ranges of the heap were not walked to their end"
    );
    assert_eq!((dump.process, dump.tool), (("Shop".to_owned(), 4711), "remora".to_owned()));
    // 2023-11-14 22:13:20.1234567, counted from the year 1 in units of 100 ns.
    assert_eq!(dump.ticks, 638_355_968_001_234_567);
}
