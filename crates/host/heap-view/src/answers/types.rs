//! The table of types: sorted, filtered, by pages.

use super::query::Query;
use super::{NoAnswer, Page};
use crate::Index;
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::ops::Range;

/// One type.
#[derive(Debug, Serialize)]
pub(super) struct TypeRow {
    r#type: usize,
    name: String,
    assembly: String,
    count: u64,
    own: u64,
    retained: u64,
}

impl TypeRow {
    pub(super) fn at(index: &Index, place: usize) -> TypeRow {
        let known = &index.types()[place];
        TypeRow {
            r#type: place,
            name: known.shown(),
            assembly: known.assembly.clone(),
            count: known.count,
            own: known.own,
            retained: known.retained,
        }
    }
}

/// The types whose name or assembly contains `filter`, sorted by `sort`, reversed by `turned`.
pub(super) fn types(index: &Index, query: &Query) -> Result<Page<TypeRow>, NoAnswer> {
    let order = order(query.text("sort"))?;
    let mut found = containing(index, query.text("filter"));
    found.sort_by(|one, other| order(index, *one, *other));
    match query.text("turned") {
        "" => {}
        "1" => found.reverse(),
        _ => return Err(NoAnswer::Senseless("turned makes no sense".to_owned())),
    }
    Ok(rows(index, &found, query.places()?))
}

/// The types whose name contains `text`: first the exact name, then exact simple names, then by retained size.
pub(super) fn named(index: &Index, text: &str, places: Range<u64>) -> Page<TypeRow> {
    let mut found = containing(index, text);
    let retained = |place: usize| Reverse(index.types()[place].retained);
    found.sort_by_key(|place| (likeness(&index.types()[*place].name, text), retained(*place)));
    rows(index, &found, places)
}

/// Rank of a name for `text`: lower is likelier.
fn likeness(name: &str, text: &str) -> u8 {
    let alike = |part: &str| part.eq_ignore_ascii_case(text);
    let end = name.find(['<', '[', '(']).unwrap_or(name.len());
    // Start of the simple name: after the last dot outside type arguments.
    let begin = name[..end].rfind('.').map_or(0, |dot| dot + 1);
    match () {
        () if name == text => 0,
        () if alike(name) => 1,
        () if alike(&name[begin..]) => 2,
        () if alike(&name[begin..end]) => 3,
        () => 4,
    }
}

fn rows(index: &Index, found: &[usize], places: Range<u64>) -> Page<TypeRow> {
    let from = places.start.min(found.len() as u64);
    let to = places.end.min(found.len() as u64);
    let rows = found[from as usize..to as usize].iter().map(|place| TypeRow::at(index, *place)).collect();
    Page { total: found.len() as u64, from, rows }
}

/// Types with objects whose name contains `text`.
fn containing(index: &Index, text: &str) -> Vec<usize> {
    let lower = text.trim().to_lowercase();
    let fits = |place: &usize| {
        let known = &index.types()[*place];
        let has = |name: &str| name.to_lowercase().contains(&lower);
        known.count > 0 && (lower.is_empty() || has(&known.name) || has(&known.assembly))
    };
    (0..index.types().len()).filter(fits).collect()
}

/// Objects and references that are looked at for one answer: some tenths of a second.
const MOST_LOOKED_AT: u64 = 1 << 16;
/// Types in it.
const MOST_REFERRING: usize = 50;

/// The types whose objects refer to objects of a type, the one with most references first.
#[derive(Debug, Serialize)]
pub(super) struct Referring {
    rows: Vec<ReferringRow>,
    /// Types beyond those.
    more: usize,
    /// Whether only the objects that retain most, or the first references, were looked at.
    cut: bool,
}

#[derive(Debug, Serialize)]
struct ReferringRow {
    r#type: u32,
    name: String,
    assembly: String,
    references: u64,
}

pub(super) fn referring(index: &Index, place: usize) -> Result<Referring, NoAnswer> {
    let objects = index.of_type(&index.types()[place])?;
    let mut cut = objects.length > MOST_LOOKED_AT;
    let mut counts: HashMap<u32, u64> = HashMap::new();
    let mut left = MOST_LOOKED_AT;
    for object in index.part(objects, 0..MOST_LOOKED_AT)? {
        let referrers = index.record(object)?.referrers;
        cut |= referrers.length > left;
        for referrer in index.part(referrers, 0..left)? {
            left -= 1;
            if let Some(known) = index.record(referrer)?.type_ix {
                *counts.entry(known).or_default() += 1;
            }
        }
    }
    let mut counts: Vec<(u32, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(known, count)| (Reverse(*count), *known));
    let rows = counts.iter().take(MOST_REFERRING).map(|(known, references)| {
        let of = &index.types()[*known as usize];
        ReferringRow { r#type: *known, name: of.shown(), assembly: of.assembly.clone(), references: *references }
    });
    Ok(Referring { more: counts.len().saturating_sub(MOST_REFERRING), rows: rows.collect(), cut })
}

type Order = fn(&Index, usize, usize) -> Ordering;

/// Numbers descending, names ascending.
fn order(name: &str) -> Result<Order, NoAnswer> {
    Ok(match name {
        "" | "retained" => |index, one, other| index.types()[other].retained.cmp(&index.types()[one].retained),
        "own" => |index, one, other| index.types()[other].own.cmp(&index.types()[one].own),
        "count" => |index, one, other| index.types()[other].count.cmp(&index.types()[one].count),
        "name" => |index, one, other| index.types()[one].name.cmp(&index.types()[other].name),
        _ => return Err(NoAnswer::Senseless("sort makes no sense".to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_a_name_finds_its_type_before_those_that_have_it_in_theirs() {
        let mut names =
            ["App.Nodes", "App.Node[]", "System.List<App.Node>", "App.Node<int>", "app.node", "Node", "App.Node"];
        names.sort_by_key(|name| likeness(name, "Node"));
        assert_eq!(names[..4], ["Node", "app.node", "App.Node", "App.Node[]"]);
        assert_eq!(names[4], "App.Node<int>");
        assert_eq!(likeness("App.Node", "app.node"), 1);
    }
}
