//! What async methods of the application wait for: the chain of awaited tasks below each, chains of the same methods together.

use super::{MANY, Shown};
use crate::columns::more;
use remora_heap::findings::TaskRow;
use remora_heap::{ObjectIx, TypeIx};
use remora_terminal::{Page, grouped, line};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Maximum tasks of a chain.
const DEEPEST: usize = 32;
/// Maximum different chains: those of further ones are not counted.
const MOST: usize = 10_000;
/// The end of a chain without a task.
const NO_TASK: &str = "no pending task (it runs, is queued, or awaits something else)";
/// Bytes of a suspect that matters more than some pending tasks.
const LARGE: u64 = 5 << 20;

#[derive(Debug, Serialize)]
pub(super) struct AwaitsJson {
    /// Number of tasks of the first async method.
    count: u64,
    /// From an async method of the application to the task, or the operation of a channel or socket, that is waited for.
    path: Vec<String>,
}

/// Chains of the same methods.
struct Chain {
    /// `None` at the end: no pending task.
    path: Vec<Option<TypeIx>>,
    count: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> Vec<AwaitsJson> {
    let names = Names::of(shown);
    let chain = |chain: Chain| AwaitsJson { count: chain.count, path: names.path(shown, &chain.path) };
    chains(shown, &names).into_iter().map(chain).collect()
}

/// The chains as text.
pub(crate) struct Waits {
    pub(crate) page: Page,
    /// Number of tasks of the most frequent chain.
    pub(crate) most: u64,
    /// `40 × async App.Poller.PollAsync waits for System.Threading.Tasks.Task`: its ends.
    pub(crate) in_short: String,
}

impl Waits {
    /// `None` without chains.
    pub(crate) fn of(shown: &Shown<'_>) -> Option<Waits> {
        let names = Names::of(shown);
        let all = chains(shown, &names);
        let lines = all.iter().take(shown.top).map(|chain| {
            let path = names.path(shown, &chain.path).join(" awaits ");
            line(format!("{} × {path}", grouped(chain.count)))
        });
        let page = line("what async methods wait for:") + lines.sum::<Page>() + more(all.len(), shown.top);
        let first = all.first()?;
        let path = names.path(shown, &first.path);
        let in_short = format!("{} × {} waits for {}", grouped(first.count), path.first()?, path.last()?);
        Some(Waits { page, most: first.count, in_short })
    }

    /// Whether several tasks wait in the same way.
    pub(crate) fn are_alike(&self) -> bool {
        self.most > 1
    }

    /// Whether they come before the suspects, the largest of which retains this much: if very many wait alike, or several and no suspect
    /// is large. A request that hangs costs some kilobytes, so the suspects of such a heap are the framework's own objects.
    pub(crate) fn are_first(&self, largest_suspect: u64) -> bool {
        self.most >= MANY || self.are_alike() && largest_suspect < LARGE
    }
}

/// The rows of all types of tasks.
struct Names<'a>(HashMap<TypeIx, &'a TaskRow>);

impl<'a> Names<'a> {
    fn of(shown: &Shown<'a>) -> Names<'a> {
        Names(shown.findings.tasks.rows.iter().map(|row| (row.type_ix, row)).collect())
    }

    fn path(&self, shown: &Shown<'_>, path: &[Option<TypeIx>]) -> Vec<String> {
        let name = |at: TypeIx| self.0.get(&at).map_or_else(|| shown.name(at), |row| shown.task(row));
        path.iter().map(|at| at.map_or_else(|| NO_TASK.to_owned(), name)).collect()
    }

    fn own_methods(&self, shown: &Shown<'_>) -> HashSet<TypeIx> {
        let own = self.0.values().filter(|row| row.method.is_some() && shown.is_own(row));
        own.map(|row| row.type_ix).collect()
    }
}

/// The chains that begin in an async method of the application which no other one waits for, most first.
fn chains(shown: &Shown<'_>, names: &Names<'_>) -> Vec<Chain> {
    let awaits = &shown.findings.tasks.awaits;
    // Of a task that waits for several, nobody knows which one keeps it waiting. Its chain ends there.
    let next = |task: ObjectIx| {
        let first = awaits.partition_point(|(waiting, _)| *waiting < task);
        let mut all = awaits[first..].iter().take_while(|(waiting, _)| *waiting == task);
        all.next().map(|(_, awaited)| *awaited).filter(|_| all.next().is_none())
    };
    let of = |task: ObjectIx| shown.graph.type_ix(task);
    let own = names.own_methods(shown);
    let others = &shown.findings.tasks.others;
    let waiting = awaits.iter().map(|(task, _)| *task).chain(others.iter().map(|(task, _)| *task));
    let mut waiting: Vec<ObjectIx> = waiting.filter(|task| own.contains(&of(*task))).collect();
    waiting.sort_unstable();
    waiting.dedup();
    // What the last task of a chain awaits, if that is no task. Of the framework's methods only what is known is worth a word.
    let end = |last: ObjectIx| {
        let at = others.binary_search_by_key(&last, |(task, _)| *task).ok()?;
        let source = others[at].1.map(of);
        (source.is_some() || own.contains(&of(last))).then_some(source)
    };
    let mut inner = HashSet::new();
    for task in &waiting {
        let mut below = next(*task);
        while let Some(task) = below.filter(|task| inner.insert(*task)) {
            below = next(task);
        }
    }
    let mut counts = HashMap::<Vec<Option<TypeIx>>, u64>::new();
    for task in waiting.into_iter().filter(|task| !inner.contains(task)) {
        let tasks: Vec<ObjectIx> = std::iter::successors(Some(task), |task| next(*task)).take(DEEPEST).collect();
        let mut path: Vec<Option<TypeIx>> = tasks.iter().map(|task| Some(of(*task))).collect();
        path.extend(tasks.last().and_then(|last| end(*last)));
        if counts.len() < MOST || counts.contains_key(&path) {
            *counts.entry(path).or_default() += 1;
        }
    }
    let mut chains: Vec<Chain> = counts.into_iter().map(|(path, count)| Chain { path, count }).collect();
    chains.sort_by(|one, other| (Reverse(one.count), &one.path).cmp(&(Reverse(other.count), &other.path)));
    chains
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap::findings::{Findings, Looked, NoValues, Tasks};
    use remora_heap::{Builder, DominatorTree, HeapGraph, Object, Type, TypeFlags};

    /// An object for each of these types, at 0x1000, 0x1020 and so on.
    fn graph(types: &[(&str, &str)], of: &[u32]) -> HeapGraph {
        let mut builder = Builder::new();
        for (name, assembly) in types {
            let flags = TypeFlags::default();
            builder.add_type(Type { name: (*name).into(), assembly: (*assembly).into(), flags }).expect("room");
        }
        for (address, of) in (0x1000..).step_by(32).zip(of) {
            builder.add_object(Object { address, type_ix: TypeIx(*of), bytes: 24 }, []).expect("room");
        }
        builder.finish().expect("room")
    }

    fn row(type_ix: u32, method: Option<&str>) -> TaskRow {
        let method = method.map(str::to_owned);
        let machine = method.is_some().then_some(TypeIx(type_ix));
        TaskRow { type_ix: TypeIx(type_ix), method, machine, count: 1, pending: Some(1), retained: 24 }
    }

    #[test]
    fn chains_begin_at_the_outermost_method_of_the_application_and_end_where_several_are_waited_for() {
        let core = "System.Private.CoreLib";
        let types = [("App.Outer", "App"), ("App.Inner", "App"), ("System.Lock", core), ("System.All", core)];
        // Outer, inner, lock; the same again; an outer one that waits for all of two; one that waits in a circle.
        let graph = graph(&types, &[0, 1, 2, 0, 1, 2, 0, 3, 2, 2, 1, 1]);
        let tree = DominatorTree::new(&graph);
        let looked = Looked { graph: &graph, tree: &tree, rows: &[], values: &NoValues };
        let awaits = [(0, 1), (1, 2), (3, 4), (4, 5), (6, 7), (7, 8), (7, 9), (10, 11), (11, 10)];
        let rows =
            vec![row(0, Some("App.Outer")), row(1, Some("App.Inner")), row(2, Some("System.Lock")), row(3, None)];
        let awaits = awaits.map(|(waiting, task)| (ObjectIx(waiting), ObjectIx(task))).to_vec();
        let tasks = Tasks { rows, count: 12, pending: Some(12), awaits, ..Tasks::default() };
        let findings = Findings { tasks, ..Findings::new(looked) };
        let shown = Shown { findings: &findings, graph: &graph, bytes: 0, top: 5 };
        let chains: Vec<(u64, String)> =
            json(&shown).into_iter().map(|chain| (chain.count, chain.path.join(" > "))).collect();
        let expected =
            [(2, "async App.Outer > async App.Inner > async System.Lock"), (1, "async App.Outer > System.All")];
        assert_eq!(chains, expected.map(|(count, path)| (count, path.to_owned())));
        let waits = Waits::of(&shown).expect("two chains");
        let text = waits.page.to_string();
        assert!(text.contains("2 × async App.Outer awaits async App.Inner awaits async System.Lock\n"), "{text}");
        assert_eq!((waits.most, &*waits.in_short), (2, "2 × async App.Outer waits for async System.Lock"));
    }

    #[test]
    fn regression_async_methods_that_await_no_task_were_left_out_of_the_chains() {
        let types = [
            ("App.Poll", "App"),
            ("System.Delay", "System.Private.CoreLib"),
            ("System.Threading.Channels.AsyncOperation<int>", "System.Threading.Channels"),
        ];
        let graph = graph(&types, &[0, 0, 0, 0, 1, 2, 2]);
        let tree = DominatorTree::new(&graph);
        let looked = Looked { graph: &graph, tree: &tree, rows: &[], values: &NoValues };
        let object = ObjectIx;
        let others = vec![(object(1), Some(object(5))), (object(2), Some(object(6))), (object(3), None)];
        let rows = vec![row(0, Some("App.Poll")), row(1, None)];
        let tasks = Tasks { rows, count: 5, pending: Some(5), awaits: vec![(object(0), object(4))], others };
        let findings = Findings { tasks, ..Findings::new(looked) };
        let shown = Shown { findings: &findings, graph: &graph, bytes: 0, top: 5 };
        let chains = json(&shown);
        assert_eq!(chains.iter().map(|chain| chain.count).sum::<u64>(), 4, "all that are pending");
        assert_eq!((chains[0].count, &*chains[0].path[1]), (2, types[2].0));
        let ends: Vec<&str> = chains[1..].iter().map(|chain| &*chain.path[1]).collect();
        assert_eq!(ends, [NO_TASK, "System.Delay"]);
    }

    #[test]
    fn chains_come_first_if_no_suspect_is_large_or_very_many_wait() {
        let first = |most, largest| Waits { page: Page::default(), most, in_short: String::new() }.are_first(largest);
        assert_eq!(
            [first(1, 0), first(2, 260 << 10), first(40, LARGE), first(100, 1 << 30)],
            [false, true, false, true]
        );
    }
}
