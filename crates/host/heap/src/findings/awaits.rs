//! Who waits for whom: a pending task's continuation is the async method that awaits it.
//!
//! The direction follows from the field: the reference from a task to another that it awaits itself looks the same in the graph. So this
//! needs field values.

use super::delegates::Delegates;
use super::kinds::{Kinds, bare};
use super::tasks::{Plan, Tasks};
use super::values::Numbers;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;

/// `System.Private.CoreLib/src/System/Threading/Tasks/TaskContinuation.cs`.
const WITH_DELEGATE: &str = "System.Threading.Tasks.AwaitTaskContinuation";
const LIST: &str = "System.Collections.Generic.List";
/// Maximum continuations read of one task.
const MOST: usize = 1 << 16;

/// For each task that waits for a pending one: both. Ascending.
pub(super) fn awaits(
    graph: &HeapGraph,
    kinds: Kinds<'_>,
    delegates: &Delegates<'_>,
    plan: &Plan,
    numbers: &Numbers,
) -> Vec<(ObjectIx, ObjectIx)> {
    let have_delegates = kinds.each(|index| kinds.derives_from(index, WITH_DELEGATE));
    let are_lists = kinds.each(|index| bare(&graph.type_at(index).name) == LIST);
    let is = |known: &[bool], object: ObjectIx| known[graph.type_ix(object).0 as usize];
    // The task that goes on in `object`.
    let goes_on = |object: ObjectIx| {
        let delegate = match is(&have_delegates, object) {
            true => graph.references(object).find(|one| delegates.is_one(*one)),
            false => delegates.is_one(object).then_some(object),
        };
        let task = delegate.map_or(Some(object), |delegate| delegates.target(delegate));
        task.filter(|task| plan.is_task(graph, *task))
    };
    let mut found = Vec::new();
    for task in graph.objects().filter(|object| plan.is_pending(graph, numbers, *object)) {
        let Some(next) = plan.continuation(graph, numbers, task) else { continue };
        let listed = graph.references(next).take(usize::from(is(&are_lists, next)));
        let listed: Vec<ObjectIx> = listed.flat_map(|items| graph.references(items)).take(MOST).collect();
        let all = if is(&are_lists, next) { listed } else { vec![next] };
        found.extend(all.into_iter().filter_map(goes_on).map(|waiting| (waiting, task)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Assemblies and names of objects behind a `ValueTask` that hold the async method that awaits it, as it holds them: of a channel's pending
/// reads and writes, and of a socket's.
const SOURCES: [(&str, &str); 2] =
    [("System.Threading.Channels", "System.Threading.Channels."), ("System.Net.Sockets", SOCKET_OPERATION)];
const SOCKET_OPERATION: &str = "System.Net.Sockets.Socket.AwaitableSocketAsyncEventArgs";

/// Such an object has few references. The bound is for arrays in a hostile snapshot.
const FEW: usize = 64;

/// The pending async methods that await no task, each with the object of the `ValueTask` that it awaits, if that is known. Ascending.
pub(super) fn others(
    graph: &HeapGraph,
    kinds: Kinds<'_>,
    plan: &Plan,
    numbers: &Numbers,
    tasks: &Tasks,
) -> Vec<(ObjectIx, Option<ObjectIx>)> {
    let mut are_methods = kinds.each(|_| false);
    let methods = tasks.rows.iter().filter(|row| row.method.is_some());
    methods.for_each(|row| are_methods[row.type_ix.0 as usize] = true);
    let are_sources = kinds.each(|index| {
        let of = graph.type_at(index);
        SOURCES.iter().any(|(assembly, name)| of.assembly == *assembly && of.name.starts_with(name))
    });
    let is = |known: &[bool], object: ObjectIx| known[graph.type_ix(object).0 as usize];
    let awaits_task = |task| tasks.awaits.binary_search_by_key(&task, |(waiting, _)| *waiting).is_ok();
    // Each refers to the other one: a channel that the method only uses does not refer to it.
    let source = |task| {
        let mut sources = graph.references(task).filter(|object| is(&are_sources, *object));
        sources.find(|source| graph.references(*source).take(FEW).any(|back| back == task))
    };
    let pending =
        graph.objects().filter(|object| is(&are_methods, *object) && plan.is_pending(graph, numbers, *object));
    pending.filter(|task| !awaits_task(*task)).map(|task| (task, source(task))).collect()
}
