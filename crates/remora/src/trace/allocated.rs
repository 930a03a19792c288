//! The tables of allocated objects: by type, by the method that allocates, and by method with all that it calls.

use crate::console::{Page, line};
use remora_calls::{Allocated, Calls, MethodAllocations, by_method, by_type, with_callees};
use remora_terminal::{Table, grouped, percent, size};

/// The place of objects that no traced method allocates.
const OUTSIDE: &str = "[outside of traced methods]";

/// The row of objects for which the memory had no room.
const LOST: &str = "[type and callers not known]";

/// All tables.
pub(super) fn tables(calls: &Calls, top: usize, shown: impl Fn(&Table) -> Page) -> Page {
    let methods: Vec<&str> = calls.methods.iter().map(|method| method.name.as_str()).chain([OUTSIDE]).collect();
    let (types, places) = (by_type(calls), by_method(calls));
    let lost = Allocated { bytes: calls.losses.object_bytes, objects: calls.losses.objects };
    let all = types.iter().fold(lost, |sum, one| sum.with(one.sum));
    let rest = (lost.objects > 0).then(|| Row { sum: lost, of: LOST.to_owned(), most: String::new() });
    let of_types = rest.clone().into_iter().chain(types.iter().map(|one| {
        let most = format!("{} by {}", percent(one.part.bytes, one.sum.bytes), methods[one.most]);
        Row { sum: one.sum, of: calls.types[one.of].clone(), most }
    }));
    let of_methods = rest.into_iter().chain(places.iter().map(|one| {
        let name = methods[one.of.map_or(calls.methods.len(), |method| method.0 as usize)];
        let most = format!("{} {}", percent(one.part.bytes, one.sum.bytes), calls.types[one.most]);
        Row { sum: one.sum, of: name.to_owned(), most }
    }));
    let tables = [
        table(["type", "most of it"], of_types, all, top),
        table(["method, by itself", "most of it"], of_methods, all, top),
        callees(calls, &methods, all, top),
    ];
    line(format!("allocated {} in {} objects", size::shown(all.bytes), grouped(all.objects)))
        + tables.iter().map(|table| line("") + shown(table)).sum()
}

/// A row of a table.
#[derive(Clone)]
struct Row {
    sum: Allocated,
    of: String,
    /// Its largest part, share first: a long name may lose its middle.
    most: String,
}

fn table([of, most]: [&str; 2], rows: impl Iterator<Item = Row>, all: Allocated, top: usize) -> Table {
    let mut table = Table::new(&["objects", "size", "share", of, most]);
    (0..3).for_each(|column| table.align_right(column));
    table.let_last_go_below();
    let cells = |sum: Allocated| [grouped(sum.objects), size::shown(sum.bytes), percent(sum.bytes, all.bytes)];
    let (mut others, mut count) = (Allocated::default(), 0);
    for (at, Row { sum, of, most }) in rows.enumerate() {
        if at < top {
            table.row(cells(sum).into_iter().chain([of, most]));
        } else {
            (others, count) = (others.with(sum), count + 1);
        }
    }
    table.more(count, cells(others), (3, ""));
    table
}

/// The methods with all that they call. Their sizes have parts in common, so those that are not shown have no sum.
fn callees(calls: &Calls, methods: &[&str], all: Allocated, top: usize) -> Table {
    let mut table = Table::new(&["objects", "size", "share", "by itself", "method, with all that it calls"]);
    (0..4).for_each(|column| table.align_right(column));
    table.let_last_go_below();
    let rows = with_callees(calls);
    for MethodAllocations { method, own, total } in rows.iter().take(top) {
        let numbers = [grouped(total.objects), size::shown(total.bytes), percent(total.bytes, all.bytes)];
        let own = size::shown(own.bytes);
        table.row(numbers.into_iter().chain([own, methods[method.0 as usize].to_owned()]));
    }
    table.more(rows.len().saturating_sub(top), [], (4, ""));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_calls::{Allocation, Method, MethodIx, Node, NodeIx, Thread, ThreadIx};

    const LONG: &str = "Company.Product.Feature.Subfeature.Orders.OrderRepositoryFactory";

    /// `Main` calls `Load` (16 bytes), which calls itself (16 bytes).
    fn calls() -> Calls {
        let method = |name: String| Method { name, module: String::new(), token: 0, lost: 0, parameters: Vec::new() };
        let node = |parent: Option<u32>, method| Node {
            parent: parent.map(NodeIx),
            thread: ThreadIx(0),
            method: MethodIx(method),
            calls: 1,
            total: 0,
            own: 0,
            longest: 0,
            exceptions: 0,
            is_active: false,
        };
        let allocation =
            |node| Allocation { by: Some(NodeIx(node)), thread: ThreadIx(0), ty: 0, objects: 1, bytes: 16 };
        Calls {
            methods: vec![method("Program.Main".into()), method(format!("{LONG}.Load"))],
            nodes: vec![node(None, 0), node(Some(0), 1), node(Some(1), 1)],
            threads: vec![Thread { id: 1, name: String::new() }],
            counts_objects: true,
            types: vec![format!("{LONG}.Order")],
            allocations: vec![allocation(1), allocation(2)],
            ..Calls::default()
        }
    }

    #[test]
    fn a_method_has_what_it_calls_once_however_deep_it_calls_itself() {
        let text = tables(&calls(), 20, |table| table.rendered(None)).to_string();
        let below: Vec<&str> = text.lines().skip_while(|line| !line.contains("all that it calls")).skip(1).collect();
        let rows: Vec<Vec<&str>> = below.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["2", "32", "B", "100.0%", "0", "B", "Program.Main"], "{text}");
        assert_eq!(rows[1][..6], ["2", "32", "B", "100.0%", "32", "B"], "{text}");
    }

    /// Once, the share was in the middle of a cell, where long names lose what does not fit.
    #[test]
    fn regression_the_share_of_the_largest_part_was_cut_at_eighty_columns() {
        let text = tables(&calls(), 20, |table| table.rendered(Some(80))).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("100.0% by Company.") && text.contains("100.0% Company."), "{text}");
    }
}
