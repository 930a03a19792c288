//! What musl keeps of Remora: which of it is allowed to be left, and when.

mod tree;

use remora_receipt::{Facts, Kind, ProfilerSlot, Receipt, find_left_overs, find_what_musl_keeps, find_what_stays};
use tree::{PROCESS, Status, Tree};

const LIBRARY: &str = "libremora_agent-0123456789abcdef-musl.so";

fn mapped() -> String {
    format!("7f00-7f02 r-xp 00000000 08:01 42 /tmp/{LIBRARY}\n")
}

/// A recording on musl after which everything went as it should.
fn facts() -> Facts {
    Facts {
        agent_thread_name: "remora".into(),
        library: LIBRARY.into(),
        slot: ProfilerSlot::NotificationOnly,
        attach_completed: true,
        detach_confirmed: true,
        musl: true,
        runtime: ".NET 9.0.9".into(),
        ..Facts::default()
    }
}

#[test]
fn mapped_but_inert_on_musl_is_allowed_once_detached() {
    let receipt = |facts: &Facts| {
        let tree = Tree::new();
        let before = tree.snapshot();
        tree.append("100/maps", &mapped());
        Receipt::between(&before, &tree.snapshot(), facts)
    };
    let detached = receipt(&facts());
    assert!(detached.clean(), "{:?}", detached.left);
    assert_eq!(detached.allowed.len(), 1);
    assert!(detached.allowed[0].why.contains("musl never unmaps"));
    assert!(!receipt(&Facts { detach_confirmed: false, ..facts() }).clean());
}

/// On musl a library is used again: that it was there before, and did nothing, says nothing about this attach.
#[test]
fn the_library_of_this_attach_is_not_inert_because_it_was_there_before() {
    let receipt = |facts: &Facts| {
        let tree = Tree::new();
        tree.append("100/maps", &mapped());
        let before = tree.snapshot();
        Receipt::between(&before, &tree.snapshot(), facts)
    };
    assert!(receipt(&facts()).clean());
    let not_detached = receipt(&Facts { detach_confirmed: false, ..facts() });
    let kinds: Vec<Kind> = not_detached.left.iter().map(|left| left.kind).collect();
    assert_eq!(kinds, [Kind::Mapping, Kind::ProfilerSlot]);
    let another = Facts { detach_confirmed: false, library: "libremora_agent-1.so".into(), ..facts() };
    assert!(receipt(&another).clean(), "one of an earlier version is inert");
}

#[test]
fn the_file_of_the_library_stays_on_musl_and_nowhere_else() {
    // Any file that is there.
    let path = std::env::current_exe().expect("this test");
    let receipt = |kept: Option<std::path::PathBuf>| {
        let facts = Facts { placed: vec![path.clone()], kept, ..facts() };
        let tree = Tree::new();
        let (before, mut after) = (tree.snapshot(), tree.snapshot());
        after.look_for(&facts.placed);
        Receipt::between(&before, &after, &facts)
    };
    let kept = receipt(Some(path.clone()));
    assert!(kept.clean(), "{:?}", kept.left);
    assert_eq!(kept.allowed.iter().map(|left| left.kind).collect::<Vec<_>>(), [Kind::File]);
    let left = receipt(None).left;
    assert!(matches!(&left[..], [left] if left.kind == Kind::File && left.why.contains("not taken away")), "{left:?}");
}

/// The library is mapped before, while and after it is at work. Afterwards it holds no place among the runtime's profilers.
#[test]
fn what_musl_keeps_is_left_only_while_an_agent_runs() {
    let tree = Tree::new();
    tree.append("100/maps", &mapped());
    assert_eq!(find_left_overs(tree.path(), PROCESS), []);
    assert_eq!(find_what_stays(tree.path(), PROCESS), Vec::<String>::new());
    assert_eq!(find_what_musl_keeps(tree.path(), PROCESS).len(), 1);
    tree.thread(300, 9000, Status::named("remora"));
    let kinds: Vec<Kind> = find_left_overs(tree.path(), PROCESS).iter().map(|left| left.kind).collect();
    assert_eq!(kinds, [Kind::Mapping, Kind::Thread]);
    assert_eq!(find_what_musl_keeps(tree.path(), PROCESS), Vec::<String>::new());
}
