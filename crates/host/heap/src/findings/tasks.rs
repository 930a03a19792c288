//! Pending tasks, with the async method of each.
//!
//! A task's fields hold its state. Without them all tasks are counted: a completed task may be kept for its result.

use super::Looked;
use super::kinds::{Kinds, bare};
use super::values::{Column, Numbers, Wishes};
use crate::types::TypeIx;
use std::cmp::Reverse;

/// Base class of all tasks.
const TASK: &str = "System.Threading.Tasks.Task";
/// The state field of a task. It is completed if one of these bits is set: RanToCompletion, Canceled, Faulted.
/// Source: `System.Private.CoreLib/src/System/Threading/Tasks/Task.cs`, the same from 3.1 to 10.
const STATE: &str = "m_stateFlags";
const DONE: i64 = 0x100_0000 | 0x40_0000 | 0x20_0000;
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
}

/// Tasks of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The type.
    pub type_ix: TypeIx,
    /// Their async method: `App.Shop.OrderAsync`.
    pub method: Option<String>,
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
}

impl Plan {
    pub(super) fn of(kinds: Kinds<'_>, wishes: &mut Wishes) -> Plan {
        Plan { states: kinds.each(|index| kinds.derives_from(index, TASK).then(|| wishes.add(index, STATE))) }
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
            .map(|row| TaskRow {
                type_ix: row.type_ix,
                method: method(looked, kinds, row.type_ix),
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
        }
    }
}

/// The number of pending tasks, if the state of all `count` is known.
fn pending((known, waiting): (u64, u64), count: u64) -> Option<u64> {
    (known == count).then_some(waiting)
}

/// The async method whose state a type's objects hold.
fn method(looked: Looked<'_>, kinds: Kinds<'_>, of: TypeIx) -> Option<String> {
    let graph = looked.graph;
    if !BOXES.contains(&&*bare(&graph.type_at(of).name)) {
        return None;
    }
    let machine = kinds.argument(of, graph.facts(of).arguments.len().checked_sub(1)?)?;
    let name = &graph.type_at(machine).name;
    let at = name.rfind(MACHINE)?;
    Some(format!("{}{}", &name[..at], &name[at + MACHINE.len()..]))
}
