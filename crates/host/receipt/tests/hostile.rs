//! Made-up `/proc` trees of targets that have more of something than any real one. Work is counted, not timed.

mod tree;

use remora_receipt::{Facts, Kind, Receipt, Snapshot};
use std::fs;
use tree::Tree;

/// Bytes that this thread has read of files.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").expect("the kernel counts them");
    let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    count.and_then(|count| count.parse().ok()).expect("a number")
}

/// Asserts that only this one thing was not looked at, and that no receipt is clean for that reason.
fn assert_passed_over(snapshot: &Snapshot, kind: Kind, part: &str) {
    let [unread] = snapshot.unread.as_slice() else { panic!("one was expected, not {:?}", snapshot.unread) };
    assert_eq!(unread.kind, kind);
    assert!(unread.error.contains(part), "{:?} should contain {part:?}", unread.error);
    let receipt = Receipt::between(&Tree::new().snapshot(), snapshot, &Facts::default());
    assert!(receipt.left_of(kind).any(|left| left.why.contains(part)), "{:?}", receipt.left);
}

/// A hundred children with the target's own 56 MB of mappings made a recording of a second last four minutes.
#[test]
fn children_that_share_the_targets_mappings_are_read_up_to_a_sum() {
    let tree = Tree::new();
    for id in 401..=404 {
        tree.child(id, "shares", 'S', "");
        let maps = fs::File::options().write(true).open(tree.path().join(format!("{id}/maps"))).expect("just written");
        maps.set_len(40 << 20).expect("it has room");
    }
    let before = bytes_read();
    let snapshot = tree.snapshot();
    let read = bytes_read() - before;
    assert!(read < 65 << 20, "{read} bytes");
    assert_eq!(snapshot.children.len(), 4);
    assert_passed_over(&snapshot, Kind::Child, "3 children were not looked at");
}

#[test]
fn children_are_looked_at_up_to_a_number() {
    let tree = Tree::new();
    tree.child(401, "one", 'S', "");
    tree.append("100/task/100/children", &"401 ".repeat(4099));
    let snapshot = tree.snapshot();
    assert_eq!(snapshot.children.len(), 4096);
    assert_passed_over(&snapshot, Kind::Child, "4 children were not looked at");
}

/// Each child has a thousand of its own, and so on.
#[test]
fn children_of_children_are_looked_at_up_to_a_number_in_all() {
    let tree = Tree::new();
    for parent in 1000..1010 {
        tree.child(parent, "parent", 'S', "");
        let list = |from: u32| (from..from + 1000).map(|id| format!("{id} ")).collect::<String>();
        tree.write(&format!("{parent}/task/{parent}/children"), &list(parent * 1000));
    }
    let snapshot = tree.snapshot();
    assert_eq!((snapshot.children.len(), snapshot.descendants.len()), (10, 0), "the others have ended meanwhile");
    assert_passed_over(&snapshot, Kind::Child, "914 children were not looked at");
}

#[test]
fn a_child_that_hides_a_library_behind_a_thousand_that_stay_is_not_called_clean() {
    let (tree, line) = (Tree::new(), |name: &str| format!("1000-2000 r-xp 0 08:01 5 /tmp/libremora_agent-{name}.so\n"));
    let staying: String = (0..1024).map(|number| line(&format!("{number}-stays"))).collect();
    tree.child(401, "hides", 'S', &(staying + &line("1")));
    assert_passed_over(&tree.snapshot(), Kind::Child, "1 children were not looked at");
}

/// 524,288 descriptors of a file with a path of 4 KiB took 3.6 GB, before and after.
#[test]
fn names_of_descriptors_are_kept_only_if_they_can_be_ours_and_up_to_a_sum() {
    let tree = Tree::new();
    let path = |number: u32, name: &str| format!("/tmp/{}/{name}{number}.so", "d".repeat(3900));
    (1000..1100).for_each(|number| tree.descriptor(number, &path(number, "other")));
    tree.descriptor(8, "anon_inode:[perf_event]");
    tree.descriptor(9, "/memfd:remora-ring (deleted)");
    let snapshot = tree.snapshot();
    let kept = format!("{snapshot:?}").len();
    assert!(kept < 64 << 10, "{kept} bytes");
    assert_eq!((snapshot.totals().descriptors, snapshot.unread.len()), (104, 0));
    (2000..2300).for_each(|number| tree.descriptor(number, &path(number, "libremora_agent-")));
    let snapshot = tree.snapshot();
    let kept = format!("{snapshot:?}").len();
    assert!(kept < 9 << 17, "{kept} bytes");
    assert_eq!(snapshot.totals().descriptors, 404);
    assert_passed_over(&snapshot, Kind::Descriptor, "descriptors were not looked at");
}

#[test]
fn descriptors_that_cannot_be_read_are_kept_once() {
    let tree = Tree::new();
    (1000..1100).for_each(|number| tree.write(&format!("100/fd/{number}"), ""));
    assert_passed_over(&tree.snapshot(), Kind::Descriptor, "Invalid argument");
}

/// 40,000 files with our library's name were compared with each other for two minutes.
#[test]
fn mappings_with_our_librarys_name_are_compared_up_to_a_number() {
    let tree = Tree::new();
    let line = |number: u32| format!("1000-2000 r--s 0 08:01 5 /tmp/libremora_agent-{number:x}.so (deleted)\n");
    tree.append("100/maps", &(0..40_000).map(line).collect::<String>());
    let snapshot = tree.snapshot();
    assert_eq!((snapshot.mappings.ours.len(), snapshot.totals().mappings), (1024, 40_001));
    assert_passed_over(&snapshot, Kind::Mapping, "38976 more mappings");
    let receipt = Receipt::between(&snapshot, &snapshot, &Facts::default());
    assert_eq!(receipt.left_of(Kind::Mapping).count(), 1024 + 2);
}
