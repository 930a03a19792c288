//! The tables of allocated objects: by type, and by the method that allocates.

use crate::console::{Page, line};
use remora_calls::{Allocated, Calls, by_method, by_type};
use remora_terminal::{Table, grouped, percent, size};

/// The place of objects that no traced method allocates.
const OUTSIDE: &str = "[outside of traced methods]";

/// The row of objects for which the memory had no room.
const LOST: &str = "[type and callers not known]";

/// Both tables.
pub(super) fn tables(calls: &Calls, top: usize) -> Page {
    let methods: Vec<&str> = calls.methods.iter().map(|method| method.name.as_str()).chain([OUTSIDE]).collect();
    let (types, places) = (by_type(calls), by_method(calls));
    let lost = Allocated { bytes: calls.losses.object_bytes, objects: calls.losses.objects };
    let all = types.iter().fold(lost, |sum, one| sum.with(one.sum));
    let rest = (lost.objects > 0).then(|| (lost, LOST.to_owned()));
    let of_types = rest.clone().into_iter().chain(types.iter().map(|one| {
        let part = percent(one.part.bytes, one.sum.bytes);
        (one.sum, format!("{}: {part} by {}", calls.types[one.of], methods[one.most]))
    }));
    let of_methods = rest.into_iter().chain(places.iter().map(|one| {
        let name = methods[one.of.map_or(calls.methods.len(), |method| method.0 as usize)];
        (one.sum, format!("{name}: {} {}", percent(one.part.bytes, one.sum.bytes), calls.types[one.most]))
    }));
    line(format!("allocated {} in {} objects", size::shown(all.bytes), grouped(all.objects)))
        + line("")
        + table("type, and the method that allocates most of it", of_types, all, top)
        + line("")
        + table("method, and the type that it allocates most", of_methods, all, top)
}

fn table(of: &str, rows: impl Iterator<Item = (Allocated, String)>, all: Allocated, top: usize) -> Page {
    let mut table = Table::new(&["objects", "size", "share", of]);
    (0..3).for_each(|column| table.align_right(column));
    table.let_last_go_below();
    let cells = |sum: Allocated| [grouped(sum.objects), size::shown(sum.bytes), percent(sum.bytes, all.bytes)];
    let (mut others, mut count) = (Allocated::default(), 0);
    for (at, (sum, text)) in rows.enumerate() {
        if at < top {
            table.row(cells(sum).into_iter().chain([text]));
        } else {
            (others, count) = (others.with(sum), count + 1);
        }
    }
    table.more(count, cells(others), (3, ""));
    table.render()
}
