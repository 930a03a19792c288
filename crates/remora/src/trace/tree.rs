//! The call tree as text: for each thread, each method below the one that calls it.

use remora_calls::{Allocation, Calls, NodeIx};
use remora_terminal::duration::show_short;
use remora_terminal::{grouped, plain, size};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

/// Columns of indentation; deeper methods are not indented more.
const DEEPEST: usize = 100;

/// The text. Callees are in order of their time.
pub(crate) fn render(calls: &Calls) -> String {
    let mut children: HashMap<Option<NodeIx>, Vec<NodeIx>> = HashMap::new();
    for (index, node) in calls.nodes.iter().enumerate() {
        children.entry(node.parent).or_default().push(NodeIx(index as u32));
    }
    let node = |index: NodeIx| &calls.nodes[index.0 as usize];
    let sorted = |list: Option<&Vec<NodeIx>>| {
        let mut list = list.cloned().unwrap_or_default();
        list.sort_by_key(|index| Reverse(node(*index).total));
        list
    };
    let outermost = sorted(children.get(&None));
    let mut objects: HashMap<Option<NodeIx>, Vec<&Allocation>> = HashMap::new();
    calls.allocations.iter().for_each(|one| objects.entry(one.by).or_default().push(one));
    let mut text = String::new();
    for (index, thread) in calls.threads.iter().enumerate() {
        let name = if thread.name.is_empty() { "thread".to_owned() } else { plain(&thread.name) };
        let _ = writeln!(text, "{name} ({})", thread.id);
        let _ = writeln!(
            text,
            "{:>12} {:>10} {:>10} {:>10} {:>10} {:>8}",
            "calls", "total", "self", "mean", "longest", "thrown"
        );
        let (own, others) =
            objects.remove(&None).unwrap_or_default().into_iter().partition(|one| one.thread.0 as usize == index);
        objects.insert(None, others);
        allocated(&mut text, calls, own, 0);
        let of_it = outermost.iter().filter(|root| node(**root).thread.0 as usize == index);
        let mut pending: Vec<(NodeIx, usize)> = of_it.rev().map(|root| (*root, 0)).collect();
        while let Some((index, depth)) = pending.pop() {
            let node = node(index);
            let mean = node.total.checked_div(node.calls).unwrap_or_default();
            let [total, own, mean, longest] = [node.total, node.own, mean, node.longest].map(show_short);
            let (count, thrown) = (grouped(node.calls), grouped(node.exceptions));
            let _ = write!(text, "{count:>12} {total:>10} {own:>10} {mean:>10} {longest:>10} {thrown:>8}  ");
            let _ = writeln!(text, "{:width$}{}", "", plain(&calls.method(node).name), width = depth.min(DEEPEST));
            let own = objects.remove(&Some(index)).unwrap_or_default();
            allocated(&mut text, calls, own, (depth + 1).min(DEEPEST));
            pending.extend(sorted(children.get(&Some(index))).into_iter().rev().map(|child| (child, depth + 1)));
        }
        text.push('\n');
    }
    text
}

/// Lines for the objects that one node allocates, below it; those with most bytes first.
fn allocated(text: &mut String, calls: &Calls, mut own: Vec<&Allocation>, width: usize) {
    own.sort_by_key(|one| Reverse(one.bytes));
    for one in own {
        let (count, bytes, name) = (grouped(one.objects), size::shown(one.bytes), plain(&calls.types[one.ty]));
        let _ = writeln!(text, "{:67}{:width$}new {name}: {count} objects, {bytes}", "", "");
    }
}
