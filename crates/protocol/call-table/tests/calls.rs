//! Calls as the hooks and the exception callbacks report them, with a clock that the test sets.
#![forbid(unsafe_code)]

use remora_call_table::{Call, Kind, NodeId, RESULT, Table, ThreadIndex, Values, layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table with room for so many nodes, and a clock.
struct World {
    words: Vec<AtomicU64>,
    now: Cell<u64>,
}

impl World {
    fn new(nodes: usize) -> World {
        World::of(nodes, false)
    }

    /// Arguments are kept, and every call is listed.
    fn with_values(nodes: usize) -> World {
        let world = World::of(nodes, true);
        world.table().set_header(layout::LONG_TICKS, 0);
        world.table().set_header(layout::VALUES_LEFT, 1000);
        world
    }

    fn of(nodes: usize, has_values: bool) -> World {
        let words: Vec<_> = (0..layout::size_in_bytes(nodes, has_values) / 8).map(|_| AtomicU64::new(0)).collect();
        words[layout::HAS_VALUES].store(has_values.into(), Ordering::Relaxed);
        let world = World { words, now: Cell::new(1000) };
        world.table().set_header(layout::LONG_TICKS, u64::MAX);
        world
    }

    fn table(&self) -> Table<'_> {
        Table::new(&self.words).expect("room for nodes")
    }

    fn thread(&self) -> ThreadIndex {
        self.table().begin_thread(7, self.now.get()).expect("a record")
    }

    /// A call of `method` begins `ticks` later, with this stack pointer of its caller.
    fn enter(&self, thread: ThreadIndex, method: u32, frame: u64, ticks: u64) {
        self.now.set(self.now.get() + ticks);
        let record = self.table().thread(thread).expect("it is there");
        self.table().enter(record, Call { method, frame }, &|| self.now.get());
    }

    fn leave(&self, thread: ThreadIndex, method: u32, frame: u64, ticks: u64) {
        self.now.set(self.now.get() + ticks);
        let record = self.table().thread(thread).expect("it is there");
        self.table().leave(record, Call { method, frame }, &|| self.now.get());
    }

    fn unwinds(&self, thread: ThreadIndex, method: Option<u32>) {
        let record = self.table().thread(thread).expect("it is there");
        self.table().unwind_begins(record, method, &|| self.now.get());
    }

    fn unwound(&self, thread: ThreadIndex, ticks: u64) {
        self.now.set(self.now.get() + ticks);
        let record = self.table().thread(thread).expect("it is there");
        self.table().unwind_ends(record, &|| self.now.get());
    }

    fn caught(&self, thread: ThreadIndex) {
        self.table().unwind_is_caught(self.table().thread(thread).expect("it is there"));
    }

    /// Path of methods, calls, ticks, ticks of callees, exceptions; sorted.
    fn tree(&self) -> Vec<(Vec<u32>, u64, u64, u64, u64)> {
        let table = self.table();
        let path = |mut id: NodeId| {
            let mut path = Vec::new();
            while let Some(node) = table.node(id).filter(|node| node.parent() != NodeId(0)) {
                path.insert(0, node.method());
                id = node.parent();
            }
            path
        };
        let inner = table.nodes().filter(|(_, node)| node.parent() != NodeId(0));
        let mut all: Vec<_> = inner
            .map(|(id, node)| (path(id), node.calls(), node.ticks(), node.child_ticks(), node.exceptions()))
            .collect();
        all.sort();
        all
    }

    fn count(&self, word: usize) -> u64 {
        self.table().header(word)
    }
}

#[test]
fn calls_are_counted_and_timed_by_path() {
    let world = World::new(64);
    let thread = world.thread();
    world.enter(thread, 1, 900, 0);
    for _ in 0..3 {
        world.enter(thread, 2, 800, 10);
        world.enter(thread, 1, 700, 1);
        world.leave(thread, 1, 700, 5);
        world.leave(thread, 2, 800, 1);
    }
    world.leave(thread, 1, 900, 4);
    let expected = [(vec![1], 1, 55, 21, 0), (vec![1, 2], 3, 21, 15, 0), (vec![1, 2, 1], 3, 15, 0, 0)];
    assert_eq!(world.tree(), expected);
    assert_eq!([layout::LOST, layout::FOUND_LATE, layout::UNMATCHED].map(|word| world.count(word)), [0; 3]);
}

#[test]
fn an_exception_ends_calls_when_it_unwinds_them_and_the_one_that_catches_goes_on() {
    let world = World::new(64);
    let thread = world.thread();
    world.enter(thread, 1, 900, 0);
    world.enter(thread, 2, 800, 1);
    world.enter(thread, 3, 700, 1);
    world.unwinds(thread, Some(3));
    world.unwound(thread, 5);
    world.unwinds(thread, None);
    world.unwound(thread, 1);
    // A finally block of 2 calls 4, which throws and catches itself.
    world.unwinds(thread, Some(2));
    world.enter(thread, 4, 600, 1);
    world.unwinds(thread, Some(4));
    world.caught(thread);
    world.leave(thread, 4, 600, 2);
    world.unwound(thread, 3);
    world.unwinds(thread, Some(1));
    world.caught(thread);
    world.leave(thread, 1, 900, 10);
    let expected =
        [(vec![1], 1, 24, 13, 0), (vec![1, 2], 1, 13, 7, 1), (vec![1, 2, 3], 1, 5, 0, 1), (vec![1, 2, 4], 1, 2, 0, 0)];
    assert_eq!(world.tree(), expected);
    assert_eq!(world.count(layout::FOUND_LATE), 0);
}

#[test]
fn a_call_that_was_unwound_unseen_ends_at_the_next_hook_by_its_frame() {
    let world = World::new(64);
    let thread = world.thread();
    world.enter(thread, 1, 900, 0);
    world.enter(thread, 2, 800, 1);
    world.enter(thread, 3, 700, 1);
    // Both are gone: another call has a frame above them.
    world.enter(thread, 4, 850, 1);
    world.leave(thread, 4, 850, 1);
    world.enter(thread, 2, 800, 1);
    world.leave(thread, 1, 900, 1);
    let expected =
        [(vec![1], 1, 6, 4, 0), (vec![1, 2], 2, 3, 1, 2), (vec![1, 2, 3], 1, 1, 0, 1), (vec![1, 4], 1, 1, 0, 0)];
    assert_eq!(world.tree(), expected);
    assert_eq!(world.count(layout::FOUND_LATE), 3);
}

#[test]
fn an_unwind_whose_end_is_not_reported_ends_the_call_when_its_caller_is_unwound() {
    let world = World::new(64);
    let thread = world.thread();
    world.enter(thread, 1, 900, 0);
    world.enter(thread, 2, 800, 1);
    world.unwinds(thread, Some(2));
    world.unwinds(thread, Some(1));
    world.unwound(thread, 1);
    assert_eq!(world.tree(), [(vec![1], 1, 2, 0, 1), (vec![1, 2], 1, 0, 0, 1)]);
    assert_eq!(world.table().thread(thread).expect("it is there").current(), NodeId(world.root(thread)));
}

impl World {
    fn root(&self, thread: ThreadIndex) -> u32 {
        self.table().thread(thread).expect("it is there").root().0
    }
}

#[test]
fn threads_have_trees_of_their_own_and_share_records_only_when_all_are_taken() {
    let world = World::new(1 << 13);
    let threads: Vec<ThreadIndex> = (0..layout::THREADS).map(|_| world.thread()).collect();
    assert_eq!(world.table().begin_thread(8, 1), None, "all are taken, and none has ended");
    world.enter(threads[3], 1, 900, 0);
    world.leave(threads[3], 1, 900, 1);
    world.table().end_thread(threads[3], 5);
    assert_eq!(world.table().begin_thread(8, 6), Some(threads[3]));
    assert_eq!(world.count(layout::SHARED_THREADS), 1);
    world.enter(threads[3], 1, 900, 0);
    world.leave(threads[3], 1, 900, 1);
    assert_eq!(world.tree(), [(vec![1], 2, 2, 0, 0)]);
}

#[test]
fn a_full_table_loses_the_place_of_calls_but_not_their_number() {
    let world = World::new(16);
    let thread = world.thread();
    let table = world.table();
    for method in 0..100 {
        assert_eq!(table.add_method(0, method, "m").map(|index| index.0), Some(method));
    }
    for method in 0..100 {
        world.enter(thread, method, 900, 1);
        // The callee of a call without a place counts below the next caller with one.
        world.enter(thread, 5, 800, 1);
        world.leave(thread, 5, 800, 1);
        world.leave(thread, method, 900, 1);
    }
    let in_trees: u64 = world.tree().iter().map(|(_, calls, ..)| calls).sum();
    let lost: u64 = table.methods().map(|(_, method)| method.lost).sum();
    assert_eq!((in_trees + lost, world.count(layout::LOST)), (200, lost));
    assert!(lost > 0 && in_trees > 0);
    assert_eq!(world.count(layout::UNMATCHED), lost);
}

#[test]
fn long_calls_are_listed_until_the_list_is_full() {
    let world = World::new(64);
    world.table().set_header(layout::LONG_TICKS, 10);
    let thread = world.thread();
    for ticks in [9, 10, 11] {
        world.enter(thread, 1, 900, 0);
        world.leave(thread, 1, 900, ticks);
    }
    let listed: Vec<_> = world.table().long_calls().map(|call| (call.start, call.ticks, call.threw)).collect();
    assert_eq!(listed, [(1009, 10, false), (1019, 11, false)]);
    world.table().set_header(layout::LONG_TAKEN, u64::MAX / 2);
    assert_eq!(world.table().long_calls().count(), 2, "a number from a damaged header");
}

#[test]
fn texts_and_names_come_back_and_are_cut_between_characters() {
    let world = World::new(16);
    let table = world.table();
    let text = |text| {
        let mut bytes = Vec::new();
        table.text(text, |byte| bytes.push(byte));
        String::from_utf8(bytes).expect("text")
    };
    for original in ["", "a", "Shop.Orders.Load", "é".repeat(3000).as_str()] {
        let stored = table.add_text(original).expect("room");
        assert_eq!(text(stored), original.chars().take(2048).collect::<String>());
    }
    let thread = table.thread(world.thread()).expect("it is there");
    thread.set_name("worker".as_bytes());
    assert_eq!(thread.name().0[..thread.name().1], *b"worker");
}

impl World {
    fn enter_with(&self, thread: ThreadIndex, method: u32, frame: u64, number: u64) {
        let mut values = Values::default();
        values.add_number(0, Kind::Unsigned, number);
        self.enter_values(thread, method, frame, &values);
    }

    fn enter_values(&self, thread: ThreadIndex, method: u32, frame: u64, values: &Values) {
        let record = self.table().thread(thread).expect("it is there");
        self.table().enter_with(record, Call { method, frame }, Some(values), &|| self.now.get());
    }

    fn leave_with(&self, thread: ThreadIndex, method: u32, frame: u64, result: u64) {
        let record = self.table().thread(thread).expect("it is there");
        let add = |values: &mut Values| values.add_number(RESULT, Kind::Unsigned, result);
        self.table().leave_with(record, Call { method, frame }, &|| self.now.get(), add);
    }

    /// Of each listed call, its values by position.
    fn listed(&self) -> Vec<Vec<(u8, u128)>> {
        let table = self.table();
        let values = |call: remora_call_table::LongCall| {
            let mut found = Vec::new();
            table.values(call.values, |value| found.push((value.position, value.bits)));
            found
        };
        table.long_calls().map(values).collect()
    }
}

#[test]
fn a_listed_call_has_its_own_arguments_and_result() {
    let world = World::with_values(64);
    let thread = world.thread();
    world.enter_with(thread, 1, 900, 10);
    world.enter_with(thread, 1, 800, 11);
    world.enter_with(thread, 2, 700, 12);
    world.unwinds(thread, Some(2));
    world.unwound(thread, 1);
    world.leave_with(thread, 1, 800, 21);
    world.enter_with(thread, 1, 800, 13);
    world.leave_with(thread, 1, 800, 23);
    let mut wide = Values::default();
    wide.add_wide(2, u128::MAX - 1);
    wide.add_number(3, Kind::Unsigned, 14);
    world.enter_values(thread, 1, 800, &wide);
    world.leave_with(thread, 1, 800, 25);
    // Nobody has read its arguments: those of the call before are not its own.
    world.enter_values(thread, 1, 800, &Values::default());
    world.leave_with(thread, 1, 800, 24);
    world.leave_with(thread, 1, 900, 20);
    let expected = [
        vec![(0, 12)],
        vec![(0, 11), (RESULT, 21)],
        vec![(0, 13), (RESULT, 23)],
        vec![(2, u128::MAX - 1), (3, 14), (RESULT, 25)],
        vec![(RESULT, 24)],
        vec![(0, 10), (RESULT, 20)],
    ];
    assert_eq!(world.listed(), expected);
    let expected = [(vec![1], 1), (vec![1, 1], 4), (vec![1, 1, 2], 1)];
    assert_eq!(world.tree().into_iter().map(|(path, calls, ..)| (path, calls)).collect::<Vec<_>>(), expected);
}

#[test]
fn strings_are_cut_and_what_has_no_room_is_left_out() {
    let world = World::with_values(64);
    let thread = world.thread();
    let units = |count: usize| (0..count).map(|unit| unit as u16);
    let mut values = Values::default();
    values.add_null(0);
    values.add_text(1, 5, units(5));
    values.add_text(2, 0, units(0));
    values.add_text(3, 100_000, units(100_000));
    values.add_text(4, 400, units(400));
    values.add_number(5, Kind::Signed, 1);
    world.enter_values(thread, 1, 900, &values);
    let record = world.table().thread(thread).expect("it is there");
    world.table().leave_with(record, Call { method: 1, frame: 900 }, &|| 2000, |values| {
        values.add_text(RESULT, 300, units(300));
    });
    let mut found = Vec::new();
    let call = world.table().long_calls().next().expect("listed");
    world.table().values(call.values, |value| {
        assert!(value.units().eq(units(value.units().count())));
        found.push((value.position, value.kind, value.length, value.units().count()));
    });
    // Text 4 has the words that remain of 127: 1 and 3, 1, 65, and its own head are taken.
    let expected = [
        (0, Kind::Null, 0, 0),
        (1, Kind::Text, 5, 5),
        (2, Kind::Text, 0, 0),
        (3, Kind::Text, 100_000, 256),
        (4, Kind::Text, 400, (127 - 1 - 3 - 1 - 65 - 1) * 4),
        (RESULT, Kind::Text, 300, 256),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_values_of_so_many_calls_are_kept_and_the_others_are_counted() {
    let world = World::with_values(64);
    world.table().set_header(layout::VALUES_LEFT, 2);
    let thread = world.thread();
    for number in 0..5 {
        assert_eq!(world.table().keeps_values(), number < 2);
        world.enter_with(thread, 1, 900, number);
        world.leave_with(thread, 1, 900, number);
    }
    assert_eq!(world.listed().iter().filter(|values| !values.is_empty()).count(), 2);
    assert_eq!((world.count(layout::VALUES_BEYOND), world.count(layout::VALUES_LOST)), (3, 0));
    // A number from a damaged header.
    world.table().set_header(layout::VALUES_LEFT, 9);
    world.table().set_header(layout::VALUES_TAKEN, u64::MAX / 2);
    world.enter_with(thread, 1, 900, 1);
    world.leave_with(thread, 1, 900, 1);
    assert_eq!(world.count(layout::VALUES_LOST), 1);
}
