//! Objects without a box of their own, grouped by type: the children that the map leaves out, or everything below a box that shows no
//! other box.

use super::NoAnswer;
use crate::Index;
use crate::index::{List, Record};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Types that are told apart.
const GROUPS: usize = 6;
/// Children of one object that are followed: all up to this number, otherwise as many samples.
const FOLLOWED: u64 = 16;

/// Objects by type, those with most bytes first.
#[derive(Debug, Default, Serialize)]
pub(super) struct Groups {
    /// Whether the numbers follow from samples.
    about: bool,
    groups: Vec<Group>,
}

/// Objects of one type.
#[derive(Debug, Serialize)]
struct Group {
    /// Empty: further types.
    name: String,
    /// Number and bytes, of all or of the samples.
    nodes: f64,
    bytes: f64,
}

/// Number and bytes by type.
type Sums = BTreeMap<Option<u32>, (f64, f64)>;

impl Groups {
    /// The items of a list from an index on, by retained size: from all, or from `most` samples.
    pub(super) fn of_list(index: &Index, list: List, from: u64, most: u64) -> Result<Groups, NoAnswer> {
        let mut sums = Sums::new();
        for record in samples(index, list, from, most)? {
            add(&mut sums, &record, 1.0, (1.0, record.retained as f64));
        }
        // Of one type in the samples, so are probably all.
        let about = list.length.saturating_sub(from) > most && sums.len() > 1;
        Ok(Groups::named(index, sums, about))
    }

    /// Everything that an object keeps, by own size. Follows at most `most` objects, level by level: along a linked list, the values at
    /// an even pace with the nodes.
    pub(super) fn below(index: &Index, record: &Record, most: usize) -> Result<Groups, NoAnswer> {
        let mut sums = Sums::new();
        let mut about = false;
        let mut next = VecDeque::from([(record.clone(), 1.0)]);
        for _ in 0..most {
            let Some((above, scale)) = next.pop_front() else { break };
            let children = samples(index, above.children, 0, FOLLOWED)?;
            let found: u64 = children.iter().map(|child| child.retained).sum();
            let sampled = above.children.length > FOLLOWED;
            about |= sampled;
            // Samples stand for their siblings.
            let whole = above.retained.saturating_sub(above.own) as f64;
            let scale = if sampled { scale * whole / (found as f64).max(1.0) } else { scale };
            for child in children {
                add(&mut sums, &child, scale, (1.0, child.own as f64));
                if child.children.length > 0 {
                    next.push_back((child, scale));
                }
            }
        }
        Ok(Groups::named(index, sums, about || !next.is_empty()))
    }

    fn named(index: &Index, sums: Sums, about: bool) -> Groups {
        let name = |of: Option<u32>| of.map_or_else(String::new, |place| index.types()[place as usize].shown());
        let mut groups: Vec<Group> =
            sums.into_iter().map(|(of, (nodes, bytes))| Group { name: name(of), nodes, bytes }).collect();
        groups.sort_by(|one, other| other.bytes.total_cmp(&one.bytes));
        let others = groups.split_off(groups.len().min(GROUPS));
        if !others.is_empty() {
            let sum = |of: fn(&Group) -> f64| others.iter().map(of).sum();
            groups.push(Group { name: String::new(), nodes: sum(|one| one.nodes), bytes: sum(|one| one.bytes) });
        }
        Groups { about, groups }
    }
}

fn add(sums: &mut Sums, record: &Record, scale: f64, (nodes, bytes): (f64, f64)) {
    let sum = sums.entry(record.type_ix).or_default();
    *sum = (sum.0 + scale * nodes, sum.1 + scale * bytes);
}

/// The items of a list from an index on: all, or `most` of them at even distances.
fn samples(index: &Index, list: List, from: u64, most: u64) -> Result<Vec<Record>, NoAnswer> {
    let left = list.length.saturating_sub(from);
    let ids = if left <= most {
        index.part(list, from..list.length)?
    } else {
        let mut ids = Vec::new();
        for sample in 0..most {
            let place = from + left * sample / most;
            ids.extend(index.part(list, place..place + 1)?);
        }
        ids
    };
    ids.into_iter().map(|id| index.record(id).map_err(NoAnswer::from)).collect()
}
