//! Collections with far more capacity than content.
//!
//! A collection's fields hold the number of used slots. Without the fields, the finding counts references where that is sound.
//! Every collection here clears unused slots, so a reference slot without a reference is unused or holds null.

use super::kinds::{CORE, Kinds, REFERENCE, bare};
use super::values::{Column, Numbers, Wishes};
use super::waste::{Collector, FEWEST, Slots, Waste};
use crate::bits::Bits;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;

/// Type arguments of a collection.
const MOST_ARGUMENTS: usize = 2;
/// Size of a bucket: the index of the first entry with a hash.
const BUCKET: u64 = 4;

/// Oversized collections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collections {
    /// Those of known usage.
    pub waste: Waste,
    /// Collections of unknown usage: their fields are not in the snapshot.
    pub not_judged: u64,
    /// Bytes of their slots.
    pub not_judged_bytes: u64,
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
        let (mut waste, mut found) = (Collector::new(graph, kinds), Collections::default());
        for object in graph.objects() {
            let Some(planned) = plan.of_type[graph.type_ix(object).0 as usize] else { continue };
            let Some(Room { places, used, is_exact, each, array }) = planned.room(kinds, graph, numbers, object) else {
                continue;
            };
            // An array that two collections share counts once.
            if !theirs.insert(array.0) {
                continue;
            }
            match used {
                Some(used) => waste.add(object, Slots { places, used, each, is_exact }),
                None if places < FEWEST => {}
                None => {
                    found.not_judged += 1;
                    found.not_judged_bytes += places * each;
                }
            }
        }
        Collections { waste: waste.finish(), ..found }
    }
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
