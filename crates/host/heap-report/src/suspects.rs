//! Suspects, as text: objects that retain much of the heap, and where below them it accumulates.

use remora_heap::{DominatorTree, HeapGraph, Node};
use remora_terminal::size::shown;
use remora_terminal::{counted, grouped, percent};
use std::collections::HashMap;

/// A suspect retains at least one of this many parts of the heap: there are at most as many.
const PART: u64 = 10;
/// Memory accumulates at the last object that still retains this many tenths of the suspect's retained size.
const TOGETHER: u64 = 8;

/// A sentence for each suspect, largest first.
pub(crate) fn sentences(graph: &HeapGraph, tree: &DominatorTree) -> Vec<String> {
    let whole = tree.retained(tree.root());
    let great = tree
        .biggest(tree.root(), PART as usize)
        .into_iter()
        .filter(|node| tree.retained(*node) >= whole.div_ceil(PART));
    great.filter_map(|node| sentence(graph, tree, node, whole)).collect()
}

fn sentence(graph: &HeapGraph, tree: &DominatorTree, node: Node, whole: u64) -> Option<String> {
    // Unreached objects have no dominator object.
    let holder = name(graph, tree, node)?;
    let (bytes, count) = (tree.retained(node), tree.retained_count(node));
    let objects = counted(count, "object");
    let mut text = format!("{holder} keeps {} of the heap: {} in {objects}", percent(bytes, whole), shown(bytes));
    let pile = pile(tree, node);
    if pile != node {
        text += &format!("; it accumulates under {}", name(graph, tree, pile)?);
    }
    if let Some((of, count, bytes)) = most_below(graph, tree, pile) {
        let bytes = shown(bytes);
        text += &match count {
            1 => format!(", mostly one {of} ({bytes} of its own)"),
            many => format!(", mostly {} objects of {of} ({bytes} of their own)", grouped(many)),
        };
    }
    Some(text)
}

/// `MyApp.Cache (at 0x7f0012345678)`.
pub(crate) fn name(graph: &HeapGraph, tree: &DominatorTree, node: Node) -> Option<String> {
    let object = tree.object(node)?;
    Some(format!("{} (at {:#x})", graph.type_of(object).name, graph.address(object)))
}

/// The last object down the tree that still retains nearly all of `node`'s retained size; below it the memory is spread over many objects.
/// In a list, each element retains a little less than the one before. The result is then a place early in the list, not its end.
fn pile(tree: &DominatorTree, node: Node) -> Node {
    let enough = tree.retained(node) / 10 * TOGETHER;
    let mut pile = node;
    while let Some(&next) = tree.biggest(pile, 1).first() {
        if tree.retained(next) < enough {
            break;
        }
        pile = next;
    }
    pile
}

/// The type with most bytes below `node`, at any depth: name, number, and size of its objects.
fn most_below(graph: &HeapGraph, tree: &DominatorTree, node: Node) -> Option<(String, u64, u64)> {
    let mut by_type = HashMap::<_, (u64, u64)>::new();
    for below in tree.nodes_under(node) {
        let Some(object) = tree.object(below) else { continue };
        let sum = by_type.entry(graph.type_ix(object)).or_default();
        sum.0 += 1;
        sum.1 += graph.bytes(object);
    }
    let (of, (count, bytes)) = by_type.into_iter().max_by_key(|(of, (_, bytes))| (*bytes, std::cmp::Reverse(*of)))?;
    Some((graph.type_at(of).name.clone(), count, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap::{Builder, Object, RootKind, Type, TypeFlags};

    /// A root with a chain of `nodes` nodes, each with a leaf of its own.
    fn chain(nodes: u64) -> HeapGraph {
        let mut builder = Builder::new();
        let mut of = |name: &str| {
            let flags = TypeFlags::default();
            builder.add_type(Type { name: name.into(), assembly: "Known".into(), flags }).expect("there is room")
        };
        let (holder, node, leaf) = (of("Known.Holder"), of("Known.Node"), of("Known.Leaf"));
        let mut add = |address, type_ix, bytes, references: &[u64]| {
            builder.add_object(Object { address, type_ix, bytes }, references.iter().copied()).expect("there is room");
        };
        add(0x1000, holder, 24, &[0x10000]);
        for index in 0..nodes {
            let next = if index + 1 < nodes { 0x10000 + (index + 1) * 64 } else { 0 };
            add(0x10000 + index * 64, node, 32, &[next, 0x10020 + index * 64]);
            add(0x10020 + index * 64, leaf, 24, &[]);
        }
        builder.add_root(0x1000, RootKind::Static).expect("there is room");
        builder.finish().expect("there is room")
    }

    #[test]
    fn a_long_list_piles_up_near_its_beginning_as_the_many_that_it_is_made_of() {
        let graph = chain(1000);
        let tree = DominatorTree::new(&graph);
        let sentences = sentences(&graph, &tree);
        assert_eq!(sentences.len(), 1);
        assert!(
            sentences[0].starts_with("Known.Holder (at 0x1000) keeps 100.0% of the heap: 54.7 KiB in 2,001 objects")
        );
        let pile = tree.object(pile(&tree, tree.biggest(tree.root(), 1)[0])).expect("an object");
        let kept = tree.retained(tree.node(pile));
        assert!((44_000..48_000).contains(&kept), "{kept}");
        assert!(sentences[0].contains("objects of Known.Node"), "{}", sentences[0]);
    }

    #[test]
    fn one_object_is_not_called_objects() {
        let graph = chain(1);
        let text = sentences(&graph, &DominatorTree::new(&graph)).pop().unwrap_or_default();
        assert!(text.ends_with(", mostly one Known.Node (32 B of its own)"), "{text}");
    }

    #[test]
    fn who_holds_little_is_no_suspect() {
        let mut builder = Builder::new();
        for index in 1..=20_u64 {
            let object = Object { address: index * 64, type_ix: remora_heap::TypeIx(0), bytes: 24 };
            builder.add_object(object, []).expect("there is room");
            builder.add_root(index * 64, RootKind::Handle).expect("there is room");
        }
        let graph = builder.finish().expect("there is room");
        assert_eq!(sentences(&graph, &DominatorTree::new(&graph)), Vec::<String>::new());
    }
}
