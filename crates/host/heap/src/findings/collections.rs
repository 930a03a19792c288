//! Collections that have far more room than content.
//!
//! How many of its places a collection uses stands in its fields. Without these it is told by references where that is honest: an unused
//! place is cleared in every collection here, so that among places of references those without one are unused, or hold null.

use super::kinds::{CORE, Kinds, REFERENCE, bare};
use super::values::{Column, Numbers, Wishes};
use crate::bits::Bits;
use crate::graph::{HeapGraph, ObjectIx};
use crate::types::TypeIx;
use std::cmp::Reverse;

/// Collections with less room are left out: what could be saved is little.
const FEWEST: u64 = 16;
/// So many are named one by one.
const WORST: usize = 1000;
/// Type arguments of a collection.
const MOST_ARGUMENTS: usize = 2;
/// A bucket: the number of the first entry with a hash.
const BUCKET: u64 = 4;

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collections {
    /// By type; those that waste most come first.
    pub rows: Vec<CollectionRow>,
    /// Those that waste most, the greatest first.
    pub worst: Vec<Oversized>,
    /// Bytes of the unused places of all of them.
    pub wasted: u64,
    /// Collections of which nobody can say how much they use: their fields are not in the snapshot.
    pub not_judged: u64,
    /// Bytes of their places.
    pub not_judged_bytes: u64,
}

/// The collections of one type of which more than half is unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionRow {
    /// Their type.
    pub type_ix: TypeIx,
    /// How many there are.
    pub count: u64,
    /// Places in them.
    pub places: u64,
    /// Places that are used.
    pub used: u64,
    /// Bytes of those that are not.
    pub wasted: u64,
    /// Whether that was read in their fields. Else as many are taken to be used as there are references: null is taken for unused, and of an
    /// entry whose key and value are references both count, so that it may be half as many.
    pub is_exact: bool,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized {
    /// The collection.
    pub object: ObjectIx,
    /// Places in it.
    pub places: u64,
    /// Places that are used.
    pub used: u64,
    /// Bytes of those that are not.
    pub wasted: u64,
}

/// How a collection keeps its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// In one array; places hold its only type argument.
    Places,
    /// In one array of numbers or characters: only fields say how much of it is used.
    Plain,
    /// In an array of entries, of which there are as many as numbers in another array.
    Hashed,
    /// In chains that begin in one array: an unused place is one without a chain.
    Chains,
    /// In an array of references with a number each.
    Numbered,
}

/// A collection of the runtime's library: where it is, how it keeps its content, which field says how much it uses, and which how much of that
/// is free again.
struct Known {
    name: &'static str,
    store: Store,
    used: Option<&'static str>,
    free: Option<&'static str>,
}

const fn known(name: &'static str, store: Store, used: Option<&'static str>, free: Option<&'static str>) -> Known {
    Known { name, store, used, free }
}

/// Files of dotnet/runtime in `src/libraries`, the same fields from 3.1 to 10 unless said otherwise:
/// `System.Private.CoreLib/src/System/Collections/Generic/{List,Queue,Dictionary,HashSet}.cs`, `System.Collections/src/System/Collections/Generic/Stack.cs`,
/// `System.Private.CoreLib/src/System/{Text/StringBuilder,IO/MemoryStream}.cs`,
/// `System.Collections.Concurrent/src/System/Collections/Concurrent/ConcurrentDictionary.cs`,
/// `System.Private.CoreLib/src/System/Collections/Concurrent/ConcurrentQueueSegment.cs`.
/// A HashSet of 3.1 counts in `_count` what it holds, and has no `_freeCount`.
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

/// The libraries that have had them.
const LIBRARIES: [&str; 3] = [CORE, "System.Collections", "System.Collections.Concurrent"];

/// What is a collection, and which of its fields are wanted.
pub(super) struct Plan {
    /// For each type.
    of_type: Vec<Option<Planned>>,
}

#[derive(Clone, Copy)]
struct Planned {
    store: Store,
    used: Option<Column>,
    free: Option<Column>,
    /// Whether a place that is used has a reference: told by the type's arguments.
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

/// The room of one collection.
struct Room {
    places: u64,
    used: Option<u64>,
    is_exact: bool,
    each: u64,
    /// Where the content is.
    array: ObjectIx,
}

impl Collections {
    /// The collections; those arrays of references that are theirs go into `theirs`.
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
            // What two share is no one's more than once.
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
    /// `None` for one without any room.
    fn room(&self, kinds: Kinds<'_>, graph: &HeapGraph, numbers: &Numbers, object: ObjectIx) -> Option<Room> {
        let (array, places, each) = match self.store {
            Store::Places | Store::Plain => {
                let (array, within) = arrays(kinds, graph, object).next()?;
                let Some(each) = within.each() else {
                    // Values whose size is not known: how many there are is not either.
                    return Some(Room { places: within.bytes, used: None, is_exact: false, each: 1, array });
                };
                (array, within.bytes / each, each)
            }
            Store::Hashed => hashed(kinds, graph, object)?,
            Store::Chains => {
                // Of locks there are few, and their counts are numbers. A place is a reference, or since .NET 8 a value that holds just one.
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

/// The arrays that an object refers to, in the order of its references.
fn arrays<'a>(
    kinds: Kinds<'a>,
    graph: &'a HeapGraph,
    object: ObjectIx,
) -> impl Iterator<Item = (ObjectIx, super::kinds::Places)> + 'a {
    graph.references(object).filter_map(move |target| Some((target, kinds.places(target)?)))
}

/// The entries of a hashed collection, how many there are, and what one takes, its bucket included.
fn hashed(kinds: Kinds<'_>, graph: &HeapGraph, object: ObjectIx) -> Option<(ObjectIx, u64, u64)> {
    let mut both = arrays(kinds, graph, object);
    let (first, second) = (both.next()?, both.next()?);
    // Buckets are numbers of four bytes; the order of the two follows from the layout.
    let is_buckets = |array: &(ObjectIx, super::kinds::Places)| array.1.each() == Some(BUCKET);
    let (buckets, entries) = if is_buckets(&first) { (first, second) } else { (second, first) };
    let places = buckets.1.count().filter(|places| *places > 0 && is_buckets(&buckets))?;
    Some((entries.0, places, entries.1.bytes / places + BUCKET))
}
