//! Scheduled timers, by the type they call.
//!
//! A timer is in one of the runtime's queues exactly while it is scheduled. Then the queue, or another timer in it, refers to the timer.

use super::delegates::Delegates;
use super::kinds::{Kinds, captures_nothing, written_in};
use crate::bits::Bits;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Source: `System.Private.CoreLib/src/System/Threading/Timer.cs` of dotnet/runtime (TimerQueue.LinkTimer, UnlinkTimer), and the counts
/// that `tests/e2e/tests/heap_findings.rs` verifies from 3.1 to 10.
const TIMER: &str = "System.Threading.TimerQueueTimer";
const QUEUE: &str = "System.Threading.TimerQueue";
/// A timer's reference that is neither its callback nor its state object.
const CONTEXT: &str = "System.Threading.ExecutionContext";

/// Timers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timers {
    /// By the type they call, most scheduled first.
    pub rows: Vec<TimerRow>,
    /// All timers.
    pub count: u64,
    /// Scheduled ones.
    pub scheduled: u64,
}

/// Timers that call one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerRow {
    /// The type with the callback; of a lambda that captured nothing, the state object's; `None` if both are unknown.
    pub calls: Option<TypeIx>,
    /// Number of timers.
    pub count: u64,
    /// Scheduled ones among them.
    pub scheduled: u64,
}

impl Timers {
    pub(super) fn of(graph: &HeapGraph, kinds: Kinds<'_>, delegates: &Delegates<'_>) -> Timers {
        let are_timers = kinds.each(|index| kinds.is_of_runtime(index, TIMER));
        let are_queues = kinds.each(|index| kinds.is_of_runtime(index, QUEUE));
        let is_timer = |object: ObjectIx| are_timers[graph.type_ix(object).0 as usize];
        let mut queued = Bits::new(graph.object_count());
        let mut timers = Vec::new();
        for object in graph.objects() {
            let index = graph.type_ix(object).0 as usize;
            if are_timers[index] || are_queues[index] {
                graph
                    .references(object)
                    .filter(|target| is_timer(*target))
                    .for_each(|target| _ = queued.insert(target.0));
            }
            if are_timers[index] {
                timers.push(object);
            }
        }
        let mut rows = BTreeMap::<Option<TypeIx>, TimerRow>::new();
        for timer in &timers {
            let calls = calls(graph, kinds, delegates, *timer, &|object| {
                is_timer(object) || are_queues[graph.type_ix(object).0 as usize]
            });
            let row = rows.entry(calls).or_insert(TimerRow { calls, count: 0, scheduled: 0 });
            row.count += 1;
            row.scheduled += u64::from(queued.contains(timer.0));
        }
        let mut rows: Vec<TimerRow> = rows.into_values().collect();
        rows.sort_by_key(|row| (Reverse(row.scheduled), Reverse(row.count), row.calls));
        Timers { count: timers.len() as u64, scheduled: rows.iter().map(|row| row.scheduled).sum(), rows }
    }
}

fn calls(
    graph: &HeapGraph,
    kinds: Kinds<'_>,
    delegates: &Delegates<'_>,
    timer: ObjectIx,
    is_of_queue: &dyn Fn(ObjectIx) -> bool,
) -> Option<TypeIx> {
    let callback = graph.references(timer).find(|target| delegates.is_one(*target))?;
    let target = delegates.target(callback).map(|target| graph.type_ix(target));
    let says_nothing = |index: TypeIx| captures_nothing(&graph.type_at(index).name);
    match target.filter(|index| !says_nothing(*index)) {
        Some(index) => Some(index),
        None => {
            let is_handed = |object: &ObjectIx| {
                *object != callback && !is_of_queue(*object) && !kinds.is_of_runtime(graph.type_ix(*object), CONTEXT)
            };
            let handed = graph.references(timer).find(is_handed).map(|object| graph.type_ix(object));
            handed.or(target.filter(|index| written_in(&graph.type_at(*index).name).is_some()))
        }
    }
}
