//! What probably fills a heap, in words: who holds much of it, and where under that it piles up.

use super::size::shown;
use crate::console::{counted, percent, plain};
use remora_heap::{DominatorTree, HeapGraph, Node};

/// Who holds at least a part of so many of the heap is worth a sentence.
const PART: u64 = 10;
/// How many are told of.
const MOST: usize = 3;
/// What is handed on to one object goes on there: at least this of ten parts.
const HANDED_ON: u64 = 8;

/// A sentence for each, the greatest first.
pub(crate) fn sentences(graph: &HeapGraph, tree: &DominatorTree) -> Vec<String> {
    let whole = tree.retained(tree.root());
    let great = tree.biggest(tree.root(), MOST).into_iter().filter(|node| tree.retained(*node) >= whole.div_ceil(PART));
    great.filter_map(|node| sentence(graph, tree, node, whole)).collect()
}

fn sentence(graph: &HeapGraph, tree: &DominatorTree, node: Node, whole: u64) -> Option<String> {
    // What nothing holds is no object's doing.
    let holder = name(graph, tree, node)?;
    let (bytes, count) = (tree.retained(node), tree.retained_count(node));
    let objects = counted(count, "object");
    let mut text = format!("{holder} keeps {} of the heap: {} in {objects}", percent(bytes, whole), shown(bytes));
    let heap = pile(tree, node);
    if heap != node {
        text += &format!("; it piles up under {}", name(graph, tree, heap)?);
    }
    if let Some((of, count, bytes)) = most_below(graph, tree, heap) {
        text += &format!(", mostly as {} of {} ({})", counted(count, "object"), plain(&of), shown(bytes));
    }
    Some(text)
}

/// `MyApp.Cache (at 0x7f0012345678)`.
pub(crate) fn name(graph: &HeapGraph, tree: &DominatorTree, node: Node) -> Option<String> {
    let object = tree.object(node)?;
    Some(format!("{} (at {:#x})", plain(&graph.type_of(object).name), graph.address(object)))
}

/// Where what `node` holds is no longer handed on to a single object.
fn pile(tree: &DominatorTree, node: Node) -> Node {
    let mut node = node;
    while let Some(&next) = tree.biggest(node, 1).first() {
        if tree.retained(next) < tree.retained(node) / 10 * HANDED_ON {
            break;
        }
        node = next;
    }
    node
}

/// The type of which there is most directly under `node`: how many, and what they hold.
fn most_below(graph: &HeapGraph, tree: &DominatorTree, node: Node) -> Option<(String, u64, u64)> {
    let mut by_type = std::collections::HashMap::<_, (u64, u64)>::new();
    for child in tree.children(node) {
        let Some(object) = tree.object(child) else { continue };
        let sum = by_type.entry(graph.type_ix(object)).or_default();
        sum.0 += 1;
        sum.1 += tree.retained(child);
    }
    let (of, (count, bytes)) = by_type.into_iter().max_by_key(|(of, (_, bytes))| (*bytes, std::cmp::Reverse(*of)))?;
    Some((graph.type_at(of).name.clone(), count, bytes))
}
