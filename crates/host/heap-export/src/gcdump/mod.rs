//! The dumps of `dotnet-gcdump`, for PerfView and Visual Studio: a `GCHeapDump` with a `Graphs.MemoryGraph`, in the serialization of
//! `stream`.
//! The layout follows their versions 10 and 1 (`GCHeapDump.cs`, `graph.cs` and `MemoryGraph.cs` of github.com/microsoft/perfview, their
//! `ToStream`).
//!
//! Nodes are first the objects, in order, then the pieces of objects that are too large, then the roots.
//! Roots are one node for all, and below it one for each kind present, under the names that readers know.
//! A reader takes the node with the first record for undefined, so a record that belongs to no node precedes all others.

mod roots;
mod stream;

use crate::rest::{NAME, Rest};
use crate::{About, Format, TooLarge, refuse_above};
use remora_heap::{HeapGraph, ObjectIx};
use roots::Groups;
use std::io::{self, Write};
use stream::Stream;

/// Nodes, and the bytes of their records, are counted in 31 bits.
const NODES_MOST: u64 = i32::MAX as u64;
const RECORDS_MOST: u64 = i32::MAX as u64;
/// Records contain the type doubled.
const TYPES_MOST: u64 = (i32::MAX / 2) as u64;
/// File offsets have 32 bits.
const FILE_MOST: u64 = u32::MAX as u64;
/// Bytes of a node outside its record: its offset and an address.
const PER_NODE: u64 = 12;
/// Enough for everything that exists once.
const BESIDE: u64 = 1 << 20;
/// Larger objects are split into pieces.
const LARGEST: u64 = i32::MAX as u64;

/// 100 ns between the year 1 and 1970.
const TICKS_OF_1970: u64 = 621_355_968_000_000_000;

pub(crate) fn check(graph: &HeapGraph) -> Result<(), TooLarge> {
    let plan = Plan::of(graph);
    let nodes = plan.node_count();
    let names: u64 = graph.types().iter().map(|known| 12 + 3 * (known.name.len() + known.assembly.len()) as u64).sum();
    refuse_above(Format::GcDump, [("objects", nodes, NODES_MOST), ("types", plan.types().count() as u64, TYPES_MOST)])?;
    let records = plan.records_length();
    let whole = nodes * PER_NODE + records + names + BESIDE;
    refuse_above(Format::GcDump, [("bytes of objects' records", records, RECORDS_MOST), ("bytes", whole, FILE_MOST)])
}

pub(crate) fn write(graph: &HeapGraph, about: &About, out: &mut dyn Write) -> io::Result<()> {
    let plan = Plan::of(graph);
    let mut stream = Stream::begin(out)?;
    stream.begin_object("GCHeapDump", 10, 8)?;
    stream.begin_object("Graphs.MemoryGraph", 1, 0)?;
    plan.write(&mut stream)?;
    stream.end_object()?;
    // A 64-bit process; nothing was sampled, so each node counts once.
    stream.put(&[1])?;
    stream.put(&1_f32.to_le_bytes())?;
    stream.put(&1_f32.to_le_bytes())?;
    // JavaScript and segments: none.
    stream.null()?;
    stream.null()?;
    stream.text(Some(&about.account().join("\n")))?;
    stream.i64((TICKS_OF_1970 + about.taken_unix_nanoseconds / 100) as i64)?;
    // The machine's name is left out for privacy.
    stream.text(None)?;
    stream.text(Some(&about.application))?;
    stream.i32(about.process_id as i32)?;
    stream.i64(0)?;
    stream.i64(0)?;
    // No sampled types.
    stream.i32(0)?;
    stream.skippable_null()?;
    stream.tagged_text("remora")?;
    stream.end_object()?;
    stream.end()
}

/// The nodes of the file.
struct Plan<'a> {
    graph: &'a HeapGraph,
    rest: Rest,
    groups: Groups,
    /// For each type the size of its first object, which the file stores with the type.
    sizes: Vec<Option<u32>>,
}

impl<'a> Plan<'a> {
    fn of(graph: &'a HeapGraph) -> Plan<'a> {
        let rest = Rest::of(graph, LARGEST);
        let mut sizes = vec![None; graph.types().len()];
        for object in graph.objects() {
            // No larger than `LARGEST`.
            sizes[graph.type_ix(object).0 as usize].get_or_insert(rest.bytes(graph, object) as u32);
        }
        Plan { graph, rest, groups: Groups::of(graph), sizes }
    }

    fn node_count(&self) -> u64 {
        (self.graph.object_count() + self.rest.pieces.len() + self.groups.names.len()) as u64
    }

    /// Types: that of the unused record, the graph's, that of pieces, and one for each group of roots.
    fn types(&self) -> impl Iterator<Item = (&str, u32, Option<&str>)> {
        let nobodys = std::iter::once(("UNDEFINED", 0, None));
        let known = self.graph.types().iter().zip(&self.sizes);
        let known = known.map(|(known, size)| (known.name.as_str(), size.unwrap_or(0), Some(known.assembly.as_str())));
        let piece = std::iter::once((NAME, 0, None));
        nobodys.chain(known).chain(piece).chain(self.groups.names.iter().map(|name| (*name, 0, None)))
    }

    fn write(&self, stream: &mut Stream) -> io::Result<()> {
        let bytes: u64 = self.graph.objects().map(|object| self.graph.bytes(object)).sum();
        stream.i64(bytes as i64)?;
        stream.i32(self.first_group() as i32)?;
        stream.i32(self.types().count() as i32)?;
        for (name, size, assembly) in self.types() {
            stream.text(Some(name))?;
            stream.i32(size as i32)?;
            stream.text(assembly.filter(|assembly| !assembly.is_empty()))?;
        }
        stream.i32(self.node_count() as i32)?;
        let mut record = NOBODYS.to_vec();
        let mut at = 0;
        for node in 0..self.node_count() {
            at += record.len() as u32;
            stream.put(&at.to_le_bytes())?;
            self.record(node, &mut record);
        }
        stream.i32(at as i32 + record.len() as i32)?;
        stream.put(&NOBODYS)?;
        for node in 0..self.node_count() {
            self.record(node, &mut record);
            stream.put(&record)?;
        }
        self.addresses(stream)?;
        stream.tagged_byte(1)
    }

    /// A node's record, with all numbers packed:
    ///
    /// - the type, doubled, plus 1 if the next number is present
    /// - the size, if it differs from the type's own
    /// - the number of references
    /// - the distance of each target
    fn record(&self, node: u64, record: &mut Vec<u8>) {
        record.clear();
        let (objects, first_group) = (self.graph.object_count() as u64, self.first_group());
        let types = self.graph.types().len();
        if node < objects {
            self.object(ObjectIx(node as u32), record);
        } else if node < first_group {
            let piece = self.rest.pieces[(node - objects) as usize];
            put_head(record, types + 1, Some(piece.bytes));
            put_references(record, u64::from(piece.goes_on), (0..1).filter(|_| piece.goes_on).map(|_| 1));
        } else {
            let group = (node - first_group) as usize;
            let far = |to: u64| to as i64 - node as i64;
            let below = self.groups.below(group).map(|below| far(first_group + below as u64));
            let held = self.groups.held(self.graph, group).map(|object| far(object.0.into()));
            put_head(record, types + 2 + group, None);
            let count = self.groups.below(group).count() + self.groups.held(self.graph, group).count();
            put_references(record, count as u64, below.chain(held));
        }
    }

    fn object(&self, object: ObjectIx, record: &mut Vec<u8>) {
        let of = self.graph.type_ix(object).0 as usize;
        let bytes = self.rest.bytes(self.graph, object);
        let is_types_own = self.sizes[of].is_some_and(|size| u64::from(size) == bytes);
        put_head(record, of + 1, (!is_types_own).then_some(bytes));
        let far = |to: u64| to as i64 - i64::from(object.0);
        let piece = self.rest.first_of(object).map(|piece| far((self.graph.object_count() + piece) as u64));
        let references = self.graph.references(object);
        let count = references.len() as u64 + u64::from(piece.is_some());
        put_references(record, count, references.map(|to| far(to.0.into())).chain(piece));
    }

    fn records_length(&self) -> u64 {
        let mut record = NOBODYS.to_vec();
        let mut sum = record.len() as u64;
        for node in 0..self.node_count() {
            self.record(node, &mut record);
            sum += record.len() as u64;
        }
        sum
    }

    /// Pieces and groups have no address.
    fn addresses(&self, stream: &mut Stream) -> io::Result<()> {
        stream.i32(self.node_count() as i32)?;
        for object in self.graph.objects() {
            stream.i64(self.graph.address(object) as i64)?;
        }
        (self.graph.object_count() as u64..self.node_count()).try_for_each(|_| stream.i64(0))
    }

    /// The node number of all roots together.
    fn first_group(&self) -> u64 {
        (self.graph.object_count() + self.rest.pieces.len()) as u64
    }
}

/// Type 0, with that type's size, without references.
const NOBODYS: [u8; 2] = [0, 0];

fn put_head(record: &mut Vec<u8>, type_ix: usize, bytes: Option<u64>) {
    pack(record, type_ix as i64 * 2 + i64::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        pack(record, bytes as i64);
    }
}

fn put_references(record: &mut Vec<u8>, count: u64, far: impl Iterator<Item = i64>) {
    pack(record, count as i64);
    far.for_each(|far| pack(record, far));
}

/// Seven bits a byte, the highest first, as few as hold the number with its sign. The highest bit of a byte marks that more follow.
fn pack(record: &mut Vec<u8>, number: i64) {
    let fits = |bits: u32| number >> (bits - 1) == 0 || number >> (bits - 1) == -1;
    for more in (1..=4).rev().filter(|more| !fits(7 * more)) {
        record.push((number >> (7 * more)) as u8 & 0x7f | 0x80);
    }
    record.push(number as u8 & 0x7f);
}

#[cfg(test)]
mod tests {
    use super::pack;

    #[test]
    fn a_number_takes_as_few_bytes_as_hold_it_with_its_sign() {
        let cases: [(i64, &[u8]); 9] = [
            (0, &[0]),
            (63, &[63]),
            (64, &[0x80, 64]),
            (-1, &[0x7f]),
            (-64, &[0x40]),
            (-65, &[0xff, 0x3f]),
            (8191, &[0xbf, 0x7f]),
            (i32::MAX.into(), &[0x87, 0xff, 0xff, 0xff, 0x7f]),
            (i32::MIN.into(), &[0xf8, 0x80, 0x80, 0x80, 0]),
        ];
        for (number, bytes) in cases {
            let mut packed = Vec::new();
            pack(&mut packed, number);
            assert_eq!(packed, bytes, "{number}");
        }
    }
}
