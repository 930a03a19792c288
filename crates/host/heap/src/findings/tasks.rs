//! Pending tasks, with the async method of each.
//!
//! A task's fields hold its state and its continuation. Without them all tasks are counted: a completed task may be kept for its result.

use super::Looked;
use super::kinds::{Kinds, bare};
use super::values::{Column, Numbers, Wishes};
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::types::TypeIx;
use std::cmp::Reverse;

/// Base class of all tasks.
const TASK: &str = "System.Threading.Tasks.Task";
/// The state field of a task. It is completed if one of these bits is set: RanToCompletion, Canceled, Faulted.
/// Source: `System.Private.CoreLib/src/System/Threading/Tasks/Task.cs`, the same from 3.1 to 10.
const STATE: &str = "m_stateFlags";
const DONE: i64 = 0x100_0000 | 0x40_0000 | 0x20_0000;
/// The field with what runs after a task: a task (an async method's, or one like `Task.WhenAll`'s), a delegate of one, an object with such a
/// delegate, or a list of these.
/// Source: the same file (AddTaskContinuation, UnsafeSetContinuationForAwait), the same from 3.1 to 10.
const CONTINUATION: &str = "m_continuationObject";
/// The state of an async method after its first suspension. The last type argument is the compiler's state machine type.
/// Source: `System.Private.CoreLib/src/System/Runtime/CompilerServices/AsyncTaskMethodBuilderT.cs`.
const BOXES: [&str; 2] = [
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder.AsyncStateMachineBox",
    "System.Runtime.CompilerServices.AsyncTaskMethodBuilder.DebugFinalizableAsyncStateMachineBox",
];
/// The name of the state machine's type argument.
const MACHINE: &str = ".StateMachine";

/// Tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Async methods and types of other tasks, most pending first.
    pub rows: Vec<TaskRow>,
    /// All tasks.
    pub count: u64,
    /// Pending tasks; `None` if unknown.
    pub pending: Option<u64>,
    /// Who waits for whom: a task, and a pending one that continues it. Ascending. Empty without field values.
    pub awaits: Vec<(ObjectIx, ObjectIx)>,
    /// Pending async methods that await no task, each with the object of the `ValueTask` that it awaits, if that is known. It may also run.
    /// Ascending. Empty without field values.
    pub others: Vec<(ObjectIx, Option<ObjectIx>)>,
}

/// Tasks of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The type.
    pub type_ix: TypeIx,
    /// Their async method: `App.Shop.OrderAsync`.
    pub method: Option<String>,
    /// The type that the compiler made of this method.
    pub machine: Option<TypeIx>,
    /// Number of tasks.
    pub count: u64,
    /// Pending ones among them.
    pub pending: Option<u64>,
    /// Their retained size.
    pub retained: u64,
}

/// Which types are tasks, and where their state is.
pub(super) struct Plan {
    /// For each type.
    states: Vec<Option<Column>>,
    continuations: Vec<Option<Column>>,
}

impl Plan {
    pub(super) fn of(kinds: Kinds<'_>, wishes: &mut Wishes) -> Plan {
        let mut field = |name| kinds.each(|index| kinds.derives_from(index, TASK).then(|| wishes.add(index, name)));
        Plan { states: field(STATE), continuations: field(CONTINUATION) }
    }

    /// Whether an object is a task.
    pub(super) fn is_task(&self, graph: &HeapGraph, object: ObjectIx) -> bool {
        self.states[graph.type_ix(object).0 as usize].is_some()
    }

    /// Whether an object is a pending task.
    pub(super) fn is_pending(&self, graph: &HeapGraph, numbers: &Numbers, object: ObjectIx) -> bool {
        let state = self.states[graph.type_ix(object).0 as usize].and_then(|column| numbers.at(column, object));
        state.is_some_and(|state| state & DONE == 0)
    }

    /// What a task continues with.
    pub(super) fn continuation(&self, graph: &HeapGraph, numbers: &Numbers, task: ObjectIx) -> Option<ObjectIx> {
        let column = self.continuations[graph.type_ix(task).0 as usize]?;
        graph.object_at(numbers.at(column, task)?.cast_unsigned())
    }
}

impl Tasks {
    pub(super) fn of(looked: Looked<'_>, kinds: Kinds<'_>, plan: &Plan, numbers: &Numbers) -> Tasks {
        let Looked { graph, rows, values, .. } = looked;
        // For each type: objects with a known state, and pending ones among them.
        let mut states = vec![(0_u64, 0_u64); plan.states.len()];
        if values.are_known() {
            for object in graph.objects() {
                let index = graph.type_ix(object).0 as usize;
                let Some(state) = plan.states[index].and_then(|column| numbers.at(column, object)) else { continue };
                states[index].0 += 1;
                states[index].1 += u64::from(state & DONE == 0);
            }
        }
        let tasks = rows.iter().filter(|row| plan.states[row.type_ix.0 as usize].is_some());
        let mut found: Vec<TaskRow> = tasks
            .map(|row| (row, machine(looked, kinds, row.type_ix)))
            .map(|(row, machine)| TaskRow {
                type_ix: row.type_ix,
                method: machine.and_then(|machine| method(&graph.type_at(machine).name)),
                machine,
                count: row.totals.count,
                pending: pending(states[row.type_ix.0 as usize], row.totals.count),
                retained: row.totals.retained,
            })
            .collect();
        found.sort_by_key(|row| (Reverse(row.pending.unwrap_or(row.count)), Reverse(row.count), row.type_ix));
        let pending = found.iter().map(|row| row.pending).sum::<Option<u64>>();
        Tasks {
            count: found.iter().map(|row| row.count).sum(),
            pending: pending.filter(|_| values.are_known()),
            rows: found,
            awaits: Vec::new(),
            others: Vec::new(),
        }
    }
}

/// The number of pending tasks, if the state of all `count` is known.
fn pending((known, waiting): (u64, u64), count: u64) -> Option<u64> {
    (known == count).then_some(waiting)
}

/// The compiler's type for the async method whose state a type's objects hold.
fn machine(looked: Looked<'_>, kinds: Kinds<'_>, of: TypeIx) -> Option<TypeIx> {
    let graph = looked.graph;
    if !BOXES.contains(&&*bare(&graph.type_at(of).name)) {
        return None;
    }
    let machine = kinds.argument(of, graph.facts(of).arguments.len().checked_sub(1)?)?;
    method(&graph.type_at(machine).name).map(|_| machine)
}

/// The method, from the name of its type.
fn method(machine: &str) -> Option<String> {
    let at = machine.rfind(MACHINE)?;
    Some(format!("{}{}", &machine[..at], &machine[at + MACHINE.len()..]))
}
