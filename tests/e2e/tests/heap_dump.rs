//! Compares heap snapshots with the runtime's own heap dump of the same process, type by type.
#![forbid(unsafe_code)]

#[path = "support/heap.rs"]
mod heap;
#[path = "support/heap_dump.rs"]
mod heap_dump;

use heap::snapshot;
use heap_dump::{Dump, Sum, short};
use remora_e2e::{Target, on_every_runtime, remora};
use remora_holds::holds;
use std::collections::{BTreeMap, BTreeSet};

/// The number of objects of each kind.
const ROUNDS: u64 = 40;

/// The objects of each type, in a snapshot by the command.
fn taken(target: &Target, folder: &std::path::Path, name: &str) -> BTreeMap<String, Sum> {
    let (process, file) = (target.pid().to_string(), folder.join(name));
    let command = ["heap", "-p", &process, "--json", "-o", file.to_str().expect("a name")];
    let answer = remora(command).succeeded().json();
    assert_eq!(answer["receipt"]["clean"], true, "{answer:#}");
    let graph = snapshot(&file).graph;
    let mut sums = BTreeMap::<String, Sum>::new();
    for object in graph.objects() {
        let sum = sums.entry(short(&graph.type_of(object).name)).or_default();
        sum.add(graph.bytes(object), graph.references(object).len() as u64);
    }
    sums
}

#[test]
fn gch_02_the_runtimes_own_heap_dump_of_the_same_process_agrees_type_by_type() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "kinds", &[&ROUNDS.to_string()]);
        let folder = tempfile::tempdir().expect("a folder");
        // First, sessions and snapshots leave their permanent entries in the runtime's own lists.
        Dump::rehearse(target.pid());
        taken(&target, folder.path(), "first.remora-heap");
        assert_eq!(target.ask("settle"), "settled");
        let before = taken(&target, folder.path(), "before.remora-heap");
        let mut dump = Dump::of(target.pid()).by_short_name();
        let after = taken(&target, folder.path(), "after.remora-heap");

        let [before, after] = [before, after].map(|sums| if runtime.major() < 5 { without_ranks(&sums) } else { sums });
        with_whole_empty_string(&mut dump);
        let names: BTreeSet<&String> = before.keys().chain(dump.keys()).chain(after.keys()).collect();
        let of = |sums: &BTreeMap<String, Sum>, name: &str| sums.get(name).copied().unwrap_or_default();
        let is_between = |name: &str| {
            let (dump, before, after) = (of(&dump, name), of(&before, name), of(&after, name));
            dump.is_between(before, after)
        };
        // For types that the program has not used in between, all three are equal.
        let others: Vec<String> = names
            .iter()
            .filter(|name| !is_between(name))
            .map(|name| format!("{name}: {:?}, {:?}, {:?}", of(&before, name), of(&dump, name), of(&after, name)))
            .collect();
        holds!(GCH_02 clr rem, others.is_empty(), "the dump has, between two snapshots, otherwise: {others:#?}");
        let moved = names.iter().filter(|name| of(&before, name) != of(&after, name)).count();
        assert!(moved < names.len() / 20, "the program did not stand still: {moved} of {} types", names.len());
        assert_eq!((of(&dump, "Member").count, of(&dump, "Sixteen[]").references), (1000 * ROUNDS, 12 * ROUNDS));
    });
}

/// The dump reports 22 bytes for the empty string, as its class does. The profiling API reports 24, the minimum of any object.
fn with_whole_empty_string(dump: &mut BTreeMap<String, Sum>) {
    dump.get_mut("String").expect("there are strings").bytes += 2;
}

/// Before .NET 5 the dump lacks the rank of arrays.
fn without_ranks(sums: &BTreeMap<String, Sum>) -> BTreeMap<String, Sum> {
    let mut all = BTreeMap::<String, Sum>::new();
    for (name, sum) in sums {
        all.entry(name.replace("[,]", "[]")).or_default().join(*sum);
    }
    all
}
