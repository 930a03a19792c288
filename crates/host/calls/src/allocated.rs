//! Sums of allocations by type and by method.

use crate::model::{Calls, MethodIx};
use crate::totals::outermost;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Objects and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Allocated {
    /// With headers and padding.
    pub bytes: u64,
    /// How many.
    pub objects: u64,
}

impl Allocated {
    /// Both together.
    #[must_use]
    pub fn with(self, other: Allocated) -> Allocated {
        Allocated { bytes: self.bytes.saturating_add(other.bytes), objects: self.objects.saturating_add(other.objects) }
    }
}

/// What one type or one method has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatedBy<T> {
    /// Index of the type, or the method; `None` outside of traced methods.
    pub of: T,
    /// All of it.
    pub sum: Allocated,
    /// Its largest part: the method that allocates most of the type, or the type of which the method allocates most.
    pub most: usize,
    /// That part.
    pub part: Allocated,
}

/// Sums by type, most bytes first. `most` is the index of a method, or the number of methods for code that is not traced.
pub fn by_type(calls: &Calls) -> Vec<AllocatedBy<usize>> {
    let outside = calls.methods.len();
    sums(calls, |ty, by| (ty, by.map_or(outside, |method| method.0 as usize)))
}

/// Sums by the method that allocates, most bytes first. `most` is the index of a type.
pub fn by_method(calls: &Calls) -> Vec<AllocatedBy<Option<MethodIx>>> {
    sums(calls, |ty, by| (by, ty))
}

/// What a method allocates, on all paths and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodAllocations {
    /// The method.
    pub method: MethodIx,
    /// By itself.
    pub own: Allocated,
    /// With all that it calls, each object once, however deep it calls itself.
    pub total: Allocated,
}

/// Sums by method with all that it calls, most bytes first. Methods that allocate nothing are left out.
pub fn with_callees(calls: &Calls) -> Vec<MethodAllocations> {
    let empty = |index: usize| MethodAllocations {
        method: MethodIx(index as u32),
        own: Allocated::default(),
        total: Allocated::default(),
    };
    let mut all: Vec<MethodAllocations> = (0..calls.methods.len()).map(empty).collect();
    let mut totals = vec![Allocated::default(); calls.nodes.len()];
    for one in &calls.allocations {
        let Some(node) = one.by.map(|node| node.0 as usize) else { continue };
        let sum = Allocated { bytes: one.bytes, objects: one.objects };
        totals[node] = totals[node].with(sum);
        let own = &mut all[calls.nodes[node].method.0 as usize].own;
        *own = own.with(sum);
    }
    // Callees come after their callers.
    let outermost = outermost(calls);
    for (index, node) in calls.nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent.map(|parent| parent.0 as usize) {
            totals[parent] = totals[parent].with(totals[index]);
        }
        if outermost[index] {
            let total = &mut all[node.method.0 as usize].total;
            *total = total.with(totals[index]);
        }
    }
    all.retain(|one| one.total.objects > 0);
    all.sort_by_key(|one| (Reverse(one.total), one.method));
    all
}

fn sums<T: Copy + Ord + std::hash::Hash>(
    calls: &Calls,
    keys: impl Fn(usize, Option<MethodIx>) -> (T, usize),
) -> Vec<AllocatedBy<T>> {
    let mut parts: HashMap<T, HashMap<usize, Allocated>> = HashMap::new();
    for one in &calls.allocations {
        let (of, part) = keys(one.ty, one.by.map(|node| calls.nodes[node.0 as usize].method));
        let sum = parts.entry(of).or_default().entry(part).or_default();
        *sum = sum.with(Allocated { bytes: one.bytes, objects: one.objects });
    }
    let mut all: Vec<AllocatedBy<T>> = parts
        .into_iter()
        .filter_map(|(of, parts)| {
            let (most, part) = parts.iter().max_by_key(|(index, part)| (**part, Reverse(**index)))?;
            let sum = parts.values().fold(Allocated::default(), |sum, part| sum.with(*part));
            Some(AllocatedBy { of, sum, most: *most, part: *part })
        })
        .collect();
    all.sort_by_key(|one| (Reverse(one.sum), one.of));
    all
}
