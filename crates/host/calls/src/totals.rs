//! Sums by method.

use crate::model::{Calls, MethodIx};
use std::collections::HashSet;

/// The calls of a method on all paths and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodTotals {
    /// The method.
    pub method: MethodIx,
    /// Calls, those without a place in a tree included.
    pub calls: u64,
    /// Time of its calls, each instant once, however deep it calls itself. Nanoseconds.
    pub total: u64,
    /// Time in itself, nanoseconds.
    pub own: u64,
    /// Its longest call, nanoseconds.
    pub longest: u64,
    /// Calls that ended by an exception.
    pub exceptions: u64,
    /// Calls that had not ended.
    pub active: u64,
}

/// The methods that were called, those with most time of their own first.
pub fn method_totals(calls: &Calls) -> Vec<MethodTotals> {
    let empty = |index: usize| MethodTotals {
        method: MethodIx(index as u32),
        calls: calls.methods[index].lost,
        total: 0,
        own: 0,
        longest: 0,
        exceptions: 0,
        active: 0,
    };
    let mut all: Vec<MethodTotals> = (0..calls.methods.len()).map(empty).collect();
    let outermost = outermost(calls);
    for (node, is_outermost) in calls.nodes.iter().zip(outermost) {
        let sum = &mut all[node.method.0 as usize];
        sum.calls = sum.calls.saturating_add(node.calls);
        sum.own = sum.own.saturating_add(node.own);
        sum.longest = sum.longest.max(node.longest);
        sum.exceptions = sum.exceptions.saturating_add(node.exceptions);
        sum.active += u64::from(node.is_active);
        if is_outermost {
            sum.total = sum.total.saturating_add(node.total);
        }
    }
    all.retain(|sum| sum.calls > 0);
    all.sort_by(|one, other| {
        let name = |sum: &MethodTotals| &calls.methods[sum.method.0 as usize].name;
        other.own.cmp(&one.own).then_with(|| name(one).cmp(name(other)))
    });
    all
}

/// For each node, whether none of its callers is of the same method.
pub(crate) fn outermost(calls: &Calls) -> Vec<bool> {
    // A walk in depth-first order: the path to a node is what was not left again.
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); calls.nodes.len()];
    let mut pending = Vec::new();
    for (index, node) in calls.nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => children[parent.0 as usize].push(index),
            None => pending.push((index, false)),
        }
    }
    let mut path: HashSet<MethodIx> = HashSet::new();
    let mut outermost = vec![false; calls.nodes.len()];
    while let Some((index, is_left)) = pending.pop() {
        let method = calls.nodes[index].method;
        if is_left {
            if outermost[index] {
                path.remove(&method);
            }
            continue;
        }
        outermost[index] = path.insert(method);
        pending.push((index, true));
        pending.extend(children[index].iter().map(|child| (*child, false)));
    }
    outermost
}
