//! Counts allocated objects: each as a leaf below the innermost traced call, by type.
//!
//! With ENABLE_OBJECT_ALLOCATED the runtime allocates every object in its own code, and calls ObjectAllocated for it, on the allocating
//! thread and with the object protected from the GC (gchelpers.cpp, PublishObjectAndNotify; the flag is immutable).

use crate::functions::type_name;
use crate::id_map::IdMap;
use crate::state::State;
use crate::threads;
use corprof::{Alive, ClassId, HResult, Info, ObjectId, Startup, sys};
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Type arguments inside type arguments, and arrays of arrays, at most.
const MAXIMUM_DEPTH: u32 = 6;
/// Bytes of a name that are not made longer.
const LONG_NAME: usize = 400;

/// Types with a name, at most.
const MOST_TYPES: usize = 1 << 15;

/// How many have one.
static NAMED: AtomicUsize = AtomicUsize::new(0);
/// The number of the type of all others; 0 for none.
static OTHER: AtomicU32 = AtomicU32::new(0);
/// By class, the number of its type.
static CLASSES: IdMap<{ 1 << 16 }> = IdMap::new();

/// What the runtime must report for it. MONITOR_CLASS_LOADS: the runtime reuses the ids of unloaded classes.
pub const LOW_MASK: u32 =
    sys::COR_PRF_MONITOR_OBJECT_ALLOCATED | sys::COR_PRF_ENABLE_OBJECT_ALLOCATED | sys::COR_PRF_MONITOR_CLASS_LOADS;

/// An object was allocated on the calling thread.
pub fn count(state: &State, info: &Info<Startup, Alive>, object: ObjectId, class: ClassId) {
    if state.table.is_stopped() {
        return;
    }
    // The runtime answers without the padding of the last word: seen with int[1], 28 bytes, while the thread's counter grew by 32.
    let bytes = (info.get_object_size2(object).unwrap_or_default() as u64).next_multiple_of(8);
    let here = &raw const bytes as usize as u64;
    match (type_of(state, info, class), threads::current(state)) {
        (Some(ty), Some(thread)) => state.table.allocate(thread, ty, bytes, here, &state.clock),
        _ => state.table.lose_object(bytes),
    }
}

/// A class is unloaded.
pub fn forget(class: ClassId) {
    CLASSES.forget(class.0);
}

/// Makes the type of objects whose own has no room.
pub fn prepare(state: &State) {
    if let Some(other) = state.table.add_type("[other types]") {
        OTHER.store(other.0, Ordering::Relaxed);
    }
}

fn type_of(state: &State, info: &Info<Startup, Alive>, class: ClassId) -> Option<u32> {
    if let Some(number) = CLASSES.get(class.0) {
        return Some(number);
    }
    let other = Some(OTHER.load(Ordering::Relaxed)).filter(|other| *other != 0);
    // Methods need records, too. And a class without a place here would take a record for each of its objects.
    if NAMED.load(Ordering::Relaxed) >= MOST_TYPES || !CLASSES.has_room(class.0) {
        return other;
    }
    // Several threads may name a class at once. Each has a record then, and the recorder merges records of one name.
    NAMED.fetch_add(1, Ordering::Relaxed);
    let mut name = String::new();
    if describe(info, class, MAXIMUM_DEPTH, &mut name).is_err() {
        name.push_str("[unknown type]");
    }
    let Some(number) = state.table.add_type(&name) else { return other };
    CLASSES.put(class.0, number.0);
    Some(number.0)
}

/// Appends the name: `Shop.Order`, `System.Collections.Generic.List<Shop.Order>`, `int[,]` as `System.Int32[,]`.
fn describe(info: &Info<Startup, Alive>, class: ClassId, depth: u32, name: &mut String) -> Result<(), HResult> {
    if depth == 0 || name.len() > LONG_NAME {
        name.push('…');
        return Ok(());
    }
    if let Some(array) = info.is_array_class(class)? {
        describe(info, array.class, depth - 1, name)?;
        let commas = (array.rank as usize).saturating_sub(1).min(32);
        let _ = write!(name, "[{}]", ",".repeat(commas));
        return Ok(());
    }
    let facts = info.get_class_id_info2(class)?;
    let metadata = info.get_module_metadata(facts.module)?.ok_or(HResult::E_FAIL)?;
    name.push_str(&type_name(&metadata, facts.token)?);
    for (index, argument) in facts.type_arguments.iter().enumerate() {
        name.push_str(if index == 0 { "<" } else { ", " });
        describe(info, *argument, depth - 1, name)?;
    }
    if !facts.type_arguments.is_empty() {
        name.push('>');
    }
    Ok(())
}
