//! Collections with far more capacity than content.
//!
//! A collection's fields hold the number of used slots. Without the fields, the finding counts references where that is sound.
//! Every collection here clears unused slots, so a reference slot without a reference is unused or holds null.

use super::kinds::{CORE, Kinds, REFERENCE, bare};
use super::values::{Column, Numbers, Wishes};
use crate::bits::Bits;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;
use std::cmp::Reverse;

/// Collections with less capacity are omitted: they waste little.
const FEWEST: u64 = 16;
/// Maximum collections listed individually.
const WORST: usize = 1000;
/// Type arguments of a collection.
const MOST_ARGUMENTS: usize = 2;
/// Size of a bucket: the index of the first entry with a hash.
const BUCKET: u64 = 4;

/// Oversized collections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collections {
    /// By type, most waste first.
    pub rows: Vec<CollectionRow>,
    /// The collections that waste most, largest first.
    pub worst: Vec<Oversized>,
    /// Bytes of all their unused slots.
    pub wasted: u64,
    /// Collections of unknown usage: their fields are not in the snapshot.
    pub not_judged: u64,
    /// Bytes of their slots.
    pub not_judged_bytes: u64,
}

/// The collections of one type that are more than half unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionRow {
    /// Their type.
    pub type_ix: TypeIx,
    /// Number of collections.
    pub count: u64,
    /// Their slots.
    pub places: u64,
    /// Used slots.
    pub used: u64,
    /// Bytes of the unused slots.
    pub wasted: u64,
    /// Whether usage was read from fields. Otherwise it is the number of references: null counts as unused.
    /// An entry whose key and value are both references counts twice, so actual usage may be half.
    pub is_exact: bool,
}

/// One collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized {
    /// The collection.
    pub object: ObjectIx,
    /// Its slots.
    pub places: u64,
    /// Used slots.
    pub used: u64,
    /// Bytes of the unused slots.
    pub wasted: u64,
}

/// How a collection stores its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// In one array; its slots hold the only type argument.
    Places,
    /// In one array of numbers or characters: only fields hold its usage.
    Plain,
    /// In an array of entries, as many as another array has numbers.
    Hashed,
    /// In chains that begin in one array: a slot without a chain is unused.
    Chains,
    /// In an array of references with a number each.
    Numbered,
}

/// A collection of the runtime's library: its names, its storage, and the fields with its usage and its free entries.
struct Known {
    name: &'static str,
    store: Store,
    used: Option<&'static str>,
    free: Option<&'static str>,
}

const fn known(name: &'static str, store: Store, used: Option<&'static str>, free: Option<&'static str>) -> Known {
    Known { name, store, used, free }
}

/// Files of dotnet/runtime in `src/libraries`, the same fields from 3.1 to 10 unless noted:
/// `System.Private.CoreLib/src/System/Collections/Generic/{List,Queue,Dictionary,HashSet}.cs`,
/// `System.Collections/src/System/Collections/Generic/Stack.cs`,
/// `System.Private.CoreLib/src/System/{Text/StringBuilder,IO/MemoryStream}.cs`,
/// `System.Collections.Concurrent/src/System/Collections/Concurrent/ConcurrentDictionary.cs`,
/// `System.Private.CoreLib/src/System/Collections/Concurrent/ConcurrentQueueSegment.cs`.
/// In 3.1, `_count` of a HashSet is the number of its items, and there is no `_freeCount`.
const KNOWN: [Known; 9] = [
    known("System.Collections.Generic.List", Store::Places, Some("_size"), None),
    known("System.Collections.Generic.Queue", Store::Places, Some("_size"), None),
    known("System.Collections.Generic.Stack", Store::Places, Some("_size"), None),
    known("System.Collections.Generic.Dictionary", Store::Hashed, Some("_count"), Some("_freeCount")),
    known("System.Collections.Generic.HashSet", Store::Hashed, Some("_count"), Some("_freeCount")),
    known("System.Text.StringBuilder", Store::Plain, Some("m_ChunkLength"), None),
    known("System.IO.MemoryStream", Store::Plain, Some("_length"), None),
    known("System.Collections.Concurrent.ConcurrentDictionary.Tables", Store::Chains, None, None),
    known("System.Collections.Concurrent.ConcurrentQueueSegment", Store::Numbered, None, None),
];

/// The assemblies that have contained them.
const LIBRARIES: [&str; 3] = [CORE, "System.Collections", "System.Collections.Concurrent"];

/// Which types are collections, and the fields needed.
pub(super) struct Plan {
    /// For each type.
    of_type: Vec<Option<Planned>>,
}

#[derive(Clone, Copy)]
struct Planned {
    store: Store,
    used: Option<Column>,
    free: Option<Column>,
    /// Whether a used slot has a reference, from the type's arguments.
    holds_references: bool,
}

impl Plan {
    pub(super) fn of(graph: &HeapGraph, kinds: Kinds<'_>, wishes: &mut Wishes) -> Plan {
        let of_type = kinds.each(|index| {
            let (at, known) = kinds.line(index).find_map(|at| Some((at, known_as(graph, at)?)))?;
            let mut arguments = (0..MOST_ARGUMENTS).map_while(|place| kinds.argument(at, place));
            Some(Planned {
                store: known.store,
                used: known.used.map(|field| wishes.add(index, field)),
                free: known.free.map(|field| wishes.add(index, field)),
                holds_references: arguments.any(|argument| kinds.is_reference(argument) == Some(true)),
            })
        });
        Plan { of_type }
    }
}

fn known_as(graph: &HeapGraph, at: TypeIx) -> Option<&'static Known> {
    let known = graph.type_at(at);
    if !LIBRARIES.contains(&&*known.assembly) {
        return None;
    }
    let name = bare(&known.name);
    KNOWN.iter().find(|known| known.name == name)
}

/// The storage of one collection.
struct Room {
    places: u64,
    used: Option<u64>,
    is_exact: bool,
    each: u64,
    /// The array with its content.
    array: ObjectIx,
}

impl Collections {
    /// Finds oversized collections; adds their arrays of references to `theirs`.
    pub(super) fn of(
        kinds: Kinds<'_>,
        graph: &HeapGraph,
        plan: &Plan,
        numbers: &Numbers,
        theirs: &mut Bits,
    ) -> Collections {
        let none = |type_ix| CollectionRow { type_ix, count: 0, places: 0, used: 0, wasted: 0, is_exact: true };
        let mut rows = kinds.each(none);
        let mut found = Collections::default();
        for object in graph.objects() {
            let type_ix = graph.type_ix(object);
            let Some(planned) = plan.of_type[type_ix.0 as usize] else { continue };
            let Some(room) = planned.room(kinds, graph, numbers, object) else { continue };
            // An array that two collections share counts once.
            if !theirs.insert(room.array.0) {
                continue;
            }
            let Some(used) = room.used else {
                found.not_judged += u64::from(room.places >= FEWEST);
                found.not_judged_bytes += if room.places >= FEWEST { room.places * room.each } else { 0 };
                continue;
            };
            let used = used.min(room.places);
            if room.places < FEWEST || used * 2 >= room.places {
                continue;
            }
            let wasted = (room.places - used) * room.each;
            let row = &mut rows[type_ix.0 as usize];
            row.count += 1;
            row.places += room.places;
            row.used += used;
            row.wasted += wasted;
            row.is_exact &= room.is_exact;
            found.worst.push(Oversized { object, places: room.places, used, wasted });
            if found.worst.len() >= 2 * WORST {
                keep_worst(&mut found.worst);
            }
        }
        keep_worst(&mut found.worst);
        rows.retain(|row| row.count > 0);
        rows.sort_by_key(|row| (Reverse(row.wasted), row.type_ix));
        found.wasted = rows.iter().map(|row| row.wasted).sum();
        found.rows = rows;
        found
    }
}

fn keep_worst(worst: &mut Vec<Oversized>) {
    worst.sort_by_key(|one| (Reverse(one.wasted), one.object));
    worst.truncate(WORST);
}

impl Planned {
    /// `None` for a collection without storage.
    fn room(&self, kinds: Kinds<'_>, graph: &HeapGraph, numbers: &Numbers, object: ObjectIx) -> Option<Room> {
        let (array, places, each) = match self.store {
            Store::Places | Store::Plain => {
                let (array, within) = arrays(kinds, graph, object).next()?;
                let Some(each) = within.each() else {
                    // Without the size of values, their number is unknown, too.
                    return Some(Room { places: within.bytes, used: None, is_exact: false, each: 1, array });
                };
                (array, within.bytes / each, each)
            }
            Store::Hashed => hashed(kinds, graph, object)?,
            Store::Chains => {
                // There are few locks, and their counts are numbers. A slot is a reference, or since .NET 8 a value with just one
                // reference.
                let (array, within) = arrays(kinds, graph, object).max_by_key(|(_, within)| within.bytes)?;
                (array, within.bytes / REFERENCE, REFERENCE)
            }
            Store::Numbered => {
                let (array, within) = arrays(kinds, graph, object).next()?;
                (array, within.bytes / (2 * REFERENCE), 2 * REFERENCE)
            }
        };
        let used = self.used.and_then(|column| numbers.count(column, object));
        let free = self.free.and_then(|column| numbers.count(column, object)).unwrap_or(0);
        let counted = used.map(|used| used.saturating_sub(free));
        let seen = || {
            let is_seen = self.holds_references && self.store != Store::Plain || self.store == Store::Chains;
            is_seen.then(|| graph.references(array).len() as u64)
        };
        Some(Room { places, used: counted.or_else(seen), is_exact: counted.is_some(), each, array })
    }
}

/// The arrays an object refers to, in the order of its references.
fn arrays<'a>(
    kinds: Kinds<'a>,
    graph: &'a HeapGraph,
    object: ObjectIx,
) -> impl Iterator<Item = (ObjectIx, super::kinds::Places)> + 'a {
    graph.references(object).filter_map(move |target| Some((target, kinds.places(target)?)))
}

/// The entries of a hashed collection, their number, and the size of one, its bucket included.
fn hashed(kinds: Kinds<'_>, graph: &HeapGraph, object: ObjectIx) -> Option<(ObjectIx, u64, u64)> {
    let mut both = arrays(kinds, graph, object);
    let (first, second) = (both.next()?, both.next()?);
    // Buckets are four-byte numbers; the order of the two arrays follows from the layout.
    let is_buckets = |array: &(ObjectIx, super::kinds::Places)| array.1.each() == Some(BUCKET);
    let (buckets, entries) = if is_buckets(&first) { (first, second) } else { (second, first) };
    let places = buckets.1.count().filter(|places| *places > 0 && is_buckets(&buckets))?;
    Some((entries.0, places, entries.1.bytes / places + BUCKET))
}
