//! Every judgement, on made-up `/proc` trees: one test for each way in which something can be left, or only seem so.

mod tree;

use remora_receipt::{
    AgentThread, Error, EventSession, Facts, GcMode, Kind, Left, Outcome, ProfilerCount, ProfilerSlot, Receipt,
    Snapshot, Task, Verdict, find_left_overs, find_what_stays,
};
use std::path::PathBuf;
use tree::{PROCESS, STARTED, Status, Tree, stat};

const SIGNAL: u32 = 41;
const SIGNAL_BIT: u64 = 1 << 40;
const LIBRARY: &str = "7000-9000 r-xp 00000000 08:01 77                 /tmp/a b/libremora_agent-1.so (deleted)\n";

/// A recording on .NET 8 after which everything went as it should.
fn facts() -> Facts {
    Facts {
        agent_threads: vec![AgentThread { id: 200, start_time: None }],
        agent_thread_name: "remora".into(),
        signal: Some(SIGNAL),
        socket_inodes: vec![555],
        memory_name: Some("remora-ring".into()),
        slot: ProfilerSlot::NotificationOnly,
        attach_completed: true,
        detach_confirmed: true,
        attach: 5_200_000,
        recording: 5_000_000_000,
        detach: 301_000_000,
        runtime: ".NET 8.0.4".into(),
        ..Facts::default()
    }
}

/// The same, with a file that was placed and taken away again.
fn facts_with_file() -> Facts {
    Facts { placed: vec!["/nowhere/libremora_agent-1.so".into()], ..facts() }
}

/// The receipt after `change` was done to the process.
fn receipt(facts: &Facts, change: impl FnOnce(&Tree)) -> Receipt {
    let tree = Tree::new();
    let before = tree.snapshot();
    change(&tree);
    let mut after = tree.snapshot();
    after.look_for(&facts.placed);
    Receipt::between(&before, &after, facts)
}

/// Asserts that exactly one thing of that kind is left, whose description holds `part`.
fn assert_left(receipt: &Receipt, kind: Kind, part: &str) {
    assert!(!receipt.clean());
    let only = match receipt.left.as_slice() {
        [only] => only,
        other => panic!("one residue was expected, not {other:?}"),
    };
    assert_eq!(only.kind, kind);
    let text = format!("{}: {}", only.what, only.why);
    assert!(text.contains(part), "{text:?} should hold {part:?}");
    assert_eq!(find_in_json(receipt, "clean"), "false");
}

fn find_in_json(receipt: &Receipt, key: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(&receipt.to_json()).expect("it is JSON");
    json[key].to_string()
}

#[test]
fn nothing_changed_is_clean() {
    let receipt = receipt(&facts(), |_| {});
    assert_eq!((receipt.left.as_slice(), receipt.allowed.as_slice()), (&[][..], &[][..]));
    assert!(receipt.clean());
    assert_eq!(find_in_json(&receipt, "clean"), "true");
}

#[test]
fn a_server_that_changes_by_itself_is_clean() {
    let receipt = receipt(&facts(), |tree| {
        tree.append("100/maps", "3000-4000 rw-p 00000000 00:00 0 \n5000-6000 r--p 0 08:01 9 /srv/remora-app/App.dll\n");
        tree.thread(300, 9000, Status { blocked: 0x10, ..Status::named(".NET TP Worker") });
        tree.descriptor(9, "socket:[777]");
        tree.descriptor(10, "anon_inode:[perf_event]");
        tree.child(400, "convert", 'S', "1000-2000 r-xp 0 08:01 5 /usr/bin/convert\n");
        tree.write("100/timers", "ID: 0\nsignal: 14/0\nnotify: signal/pid.100\nClockID: 1\n");
        tree.write("100/status", &status_text(|status| status.caught |= 1 << 9));
    });
    assert!(receipt.clean(), "{:?}", receipt.left);
    assert_eq!((receipt.before.threads, receipt.after.threads), (3, 4));
    assert_eq!((receipt.before.descriptors, receipt.after.descriptors), (2, 4));
    assert_eq!((receipt.after.children, receipt.after.timers), (1, 1));
}

/// The text of the process's `status`, changed.
fn status_text(change: impl FnOnce(&mut Status)) -> String {
    let mut status = Status::named("dotnet");
    change(&mut status);
    let tree = Tree::new();
    tree.thread(1, 1, status);
    std::fs::read_to_string(tree.path().join("100/task/1/status")).expect("just written")
}

#[test]
fn a_mapped_library_is_left() {
    let receipt = receipt(&facts(), |tree| tree.append("100/maps", LIBRARY));
    assert_left(&receipt, Kind::Mapping, "/tmp/a b/libremora_agent-1.so (deleted), 8 KiB: the runtime let go of it");
}

#[test]
fn an_unconfirmed_detach_leaves_the_slot_and_the_gc_mode() {
    let facts = Facts { detach_confirmed: false, gc_mode: GcMode::OffUntilDetach, ..facts() };
    let with_library = receipt(&facts, |tree| tree.append("100/maps", LIBRARY));
    let kinds: Vec<Kind> = with_library.left.iter().map(|left| left.kind).collect();
    assert_eq!(kinds, [Kind::Mapping, Kind::ProfilerSlot, Kind::GcMode]);
    // Unmapped is detached, though the word did not come through.
    assert!(receipt(&facts, |_| {}).clean());
}

#[test]
fn a_library_that_must_stay_inert_is_left_with_its_reason() {
    let reason = "ProfilerAttachComplete did not come, since a main profiler has left this process before";
    let facts = Facts { inert: Some(reason.into()), attach_completed: false, detach_confirmed: false, ..facts() };
    let receipt = receipt(&facts, |tree| tree.append("100/maps", LIBRARY));
    let kinds: Vec<Kind> = receipt.left.iter().map(|left| left.kind).collect();
    assert_eq!(kinds, [Kind::Mapping, Kind::ProfilerSlot]);
    assert!(receipt.left.iter().all(|left| left.why.contains(reason)));
}

#[test]
fn what_an_earlier_recording_left_is_said_to_be_earlier() {
    let tree = Tree::new();
    tree.append("100/maps", LIBRARY);
    let before = tree.snapshot();
    let receipt = Receipt::between(&before, &tree.snapshot(), &facts());
    assert_left(&receipt, Kind::Mapping, "an earlier one left it");
}

#[test]
fn shared_memory_is_left_as_mapping_and_descriptor() {
    let mapped = receipt(&facts(), |tree| {
        tree.append("100/maps", "3000-4000 rw-s 00000000 00:01 8   /memfd:remora-ring (deleted)\n")
    });
    assert_left(&mapped, Kind::Mapping, "shared memory");
    let open = receipt(&facts(), |tree| tree.descriptor(12, "/memfd:remora-ring (deleted)"));
    assert_left(&open, Kind::Descriptor, "descriptor 12: /memfd:remora-ring");
    let other_name = Facts { memory_name: Some("ring".into()), ..facts() };
    let open = receipt(&other_name, |tree| tree.descriptor(12, "/memfd:ring (deleted)"));
    assert_left(&open, Kind::Descriptor, "descriptor 12: /memfd:ring");
}

#[test]
fn a_socket_is_left_by_its_inode() {
    assert_left(&receipt(&facts(), |tree| tree.descriptor(12, "socket:[555]")), Kind::Socket, "descriptor 12");
}

#[test]
fn perf_events_are_left_if_the_recording_used_them() {
    let facts = Facts { perf_events: true, ..facts() };
    let open = receipt(&facts, |tree| tree.descriptor(12, "anon_inode:[perf_event]"));
    assert_left(&open, Kind::Descriptor, "1 perf events");
    let mapped = receipt(&facts, |tree| tree.append("100/maps", "3000-4000 rw-s 0 00:0e 8 anon_inode:[perf_event]\n"));
    assert_left(&mapped, Kind::Mapping, "1 perf event buffers");
}

#[test]
fn a_thread_is_left_by_id_in_the_targets_numbering() {
    let receipt = receipt(&facts(), |tree| {
        tree.thread(6000, 9000, Status { namespace_id: Some(200), ..Status::named("renamed") })
    });
    assert_left(&receipt, Kind::Thread, "thread 6000 \"renamed\": the agent's thread did not end");
}

#[test]
fn a_thread_id_used_again_is_not_the_agents() {
    let facts = Facts { agent_threads: vec![AgentThread { id: 200, start_time: Some(8000) }], ..facts() };
    assert!(receipt(&facts, |tree| tree.thread(200, 9000, Status::named(".NET TP Worker"))).clean());
    let same = receipt(&facts, |tree| tree.thread(200, 8000, Status::named(".NET TP Worker")));
    assert_left(&same, Kind::Thread, "thread 200");
}

#[test]
fn a_thread_is_left_by_name_unless_the_application_is_called_so() {
    let named = receipt(&facts(), |tree| tree.thread(300, 9000, Status::named("remora-writer")));
    assert_left(&named, Kind::Thread, "carries the name");
    let tree = Tree::new();
    tree.write("100/status", &status_text(|status| status.name = "remora-demo".into()));
    tree.thread(100, STARTED, Status::named("remora-demo"));
    let before = tree.snapshot();
    tree.thread(300, 9000, Status::named("remora-demo"));
    assert!(Receipt::between(&before, &tree.snapshot(), &facts()).clean());
}

#[test]
fn the_runtimes_own_detach_thread_is_allowed_and_named() {
    let change = |tree: &Tree| {
        tree.thread(302, 9002, Status::named(".NET EventPipe"));
        tree.thread(301, 9001, Status::named(".NET EventPipe"));
        tree.thread(303, 9003, Status::named(".NET TP Worker"));
    };
    let on_eight = receipt(&facts(), change);
    assert!(on_eight.clean(), "{:?}", on_eight.left);
    assert_eq!(on_eight.allowed.len(), 1);
    assert_eq!(on_eight.allowed[0].what, "thread 301 \".NET EventPipe\"");
    let on_three = Facts { runtime: ".NET Core 3.1.23".into(), ..facts() };
    assert_eq!(receipt(&on_three, change).allowed, []);
    let without_attach = Facts { slot: ProfilerSlot::None, ..facts() };
    assert_eq!(receipt(&without_attach, change).allowed, []);
}

#[test]
fn children_are_left_by_id_by_library_or_by_name() {
    let facts = Facts { children: vec![400], ..facts() };
    let plain = "1000-2000 r-xp 0 08:01 5 /usr/bin/x\n";
    assert_left(&receipt(&facts, |tree| tree.child(400, "x", 'S', plain)), Kind::Child, "it did not end");
    assert_left(&receipt(&facts, |tree| tree.child(401, "x", 'S', LIBRARY)), Kind::Child, "a forked copy");
    assert_left(&receipt(&facts, |tree| tree.child(402, "remora", 'Z', "")), Kind::Child, "exit status");
    assert!(receipt(&facts, |tree| tree.child(403, "x", 'Z', "")).clean());
    // It is being recorded itself.
    let another = "1000-2000 r-xp 0 08:01 5 /tmp/libremora_agent-0123456789abcdef.so\n";
    let facts = Facts { library: "libremora_agent-1.so".into(), ..facts };
    assert!(receipt(&facts, |tree| tree.child(404, "x", 'S', another)).clean());
    assert_left(&receipt(&facts, |tree| tree.child(401, "x", 'S', LIBRARY)), Kind::Child, "a forked copy");
}

/// A child of the target forked once more, without exec: the library stayed mapped there, and the receipt was clean.
#[test]
fn regression_a_child_of_a_child_that_kept_the_library_was_not_seen() {
    let grandchild = |tree: &Tree| {
        tree.child(400, "x", 'S', "");
        tree.write("400/task/400/children", "401 ");
        tree.child_of(400, 401, "y", LIBRARY);
    };
    let lists_none = |tree: &Tree| {
        grandchild(tree);
        for list in ["100/task/100", "100/task/101", "100/task/102", "400/task/400"] {
            std::fs::remove_file(tree.path().join(list).join("children")).expect("it is there");
        }
    };
    for receipt in [receipt(&facts(), grandchild), receipt(&facts(), lists_none)] {
        assert_left(&receipt, Kind::Child, "a forked copy");
        assert_eq!(receipt.after.children, 1, "only these are counted as children");
    }
    let tree = Tree::new();
    grandchild(&tree);
    assert!(find_left_overs(tree.path(), tree::PROCESS).iter().any(|left| left.what.starts_with("process 401")));
}

/// On a busy machine, a child took seconds to execute its program.
#[test]
fn regression_a_child_of_the_target_itself_was_called_a_copy_since_a_library_stays_in_both() {
    let stays = LIBRARY.replace("-1.so", "-2-stays.so");
    let tree = Tree::new();
    tree.append("100/maps", &stays);
    let before = tree.snapshot();
    tree.child(401, "x", 'S', &stays);
    let receipt = Receipt::between(&before, &tree.snapshot(), &facts());
    assert!(receipt.clean(), "{receipt}");
    tree.child(402, "x", 'S', &format!("{stays}{LIBRARY}"));
    let receipt = Receipt::between(&before, &tree.snapshot(), &facts());
    assert_left(&receipt, Kind::Child, "a forked copy");
}

#[test]
fn children_are_searched_for_where_the_kernel_lists_none() {
    let tree = Tree::new();
    for thread in [100, 101, 102] {
        std::fs::remove_file(tree.path().join(format!("100/task/{thread}/children"))).expect("it is there");
    }
    tree.write("400/stat", &stat(400, PROCESS, 7000, 'S'));
    tree.write("400/status", &status_text(|_| {}));
    tree.write("401/stat", &stat(401, 1, 7000, 'S'));
    let children: Vec<u32> = tree.snapshot().children.iter().map(|child| child.id).collect();
    assert_eq!(children, [400]);
}

#[test]
fn a_timer_of_the_recordings_signal_is_left() {
    let timer = |signal: u32| format!("ID: 0\nsignal: {signal}/0\nnotify: signal/tid.101\nClockID: -6\n");
    let left = receipt(&facts(), |tree| tree.write("100/timers", &timer(SIGNAL)));
    assert_left(&left, Kind::Timer, "timer 0 of signal 41, signal/tid.101");
    assert!(receipt(&facts(), |tree| tree.write("100/timers", &timer(14))).clean());
}

#[test]
fn the_recordings_signal_must_be_as_before() {
    let ignored =
        receipt(&facts(), |tree| tree.write("100/status", &status_text(|status| status.ignored |= SIGNAL_BIT)));
    assert_left(&ignored, Kind::SignalDisposition, "signal 41 is ignored: it was left to the system before");
    let handled =
        receipt(&facts(), |tree| tree.write("100/status", &status_text(|status| status.caught |= SIGNAL_BIT)));
    assert_left(&handled, Kind::SignalDisposition, "signal 41 is handled");
}

#[test]
fn a_pending_signal_is_left() {
    let process =
        receipt(&facts(), |tree| tree.write("100/status", &status_text(|status| status.shared_pending |= SIGNAL_BIT)));
    assert_left(&process, Kind::SignalDisposition, "signal 41 is pending for the process");
    let thread = receipt(&facts(), |tree| {
        tree.thread(102, STARTED + 2, Status { pending: SIGNAL_BIT, ..Status::named(".NET Finalizer") })
    });
    assert_left(&thread, Kind::SignalDisposition, "signal 41 is pending for thread 102");
}

#[test]
fn a_changed_mask_is_left() {
    let receipt = receipt(&facts(), |tree| {
        tree.thread(102, STARTED + 2, Status { blocked: SIGNAL_BIT, ..Status::named(".NET Finalizer") })
    });
    assert_left(&receipt, Kind::SignalMask, "thread 102 \".NET Finalizer\" blocks signal 41");
}

#[test]
fn a_thread_that_was_inside_libc_before_is_not_taken_for_changed() {
    let tree = Tree::new();
    tree.thread(102, STARTED + 2, Status { blocked: !0, ..Status::named(".NET Finalizer") });
    let before = tree.snapshot();
    tree.thread(102, STARTED + 2, Status::named(".NET Finalizer"));
    let quiet = tree.snapshot();
    assert!(Receipt::between(&before, &quiet, &facts()).clean());
    assert_left(&Receipt::between(&quiet, &before, &facts()), Kind::SignalMask, "thread 102");
}

#[test]
fn a_placed_file_is_left_and_one_not_looked_for_is_not_clean() {
    let tree = Tree::new();
    let (there, gone) = (tree.path().join("100/stat"), tree.path().join("gone/libremora_agent-1.so"));
    let with = |placed: Vec<PathBuf>| receipt(&Facts { placed, ..facts() }, |_| {});
    assert_left(&with(vec![there.clone()]), Kind::File, "not taken away");
    assert!(with(vec![gone]).clean());
    let snapshot = tree.snapshot();
    let nobody_looked = Receipt::between(&snapshot, &snapshot, &Facts { placed: vec![there], ..facts() });
    assert_left(&nobody_looked, Kind::File, "nobody looked");
}

#[test]
fn a_main_profiler_leaves_the_wrong_count_on_six_and_later_only() {
    let mut main = Facts { slot: ProfilerSlot::Main, ..facts() };
    assert_left(&receipt(&main, |_| {}), Kind::ProfilerSlot, "one notification-only profiler too few");
    main.count = ProfilerCount::Right;
    assert!(receipt(&main, |_| {}).clean());
    let on_three = Facts { runtime: ".NET Core 3.1.23".into(), ..main };
    assert!(receipt(&on_three, |_| {}).clean());
}

/// One that came for something else, was not called since a main profiler had left before, and stays: it was not said beforehand.
#[test]
fn what_had_to_stay_so_that_the_next_one_is_called_is_left_once_and_named_from_then_on() {
    let mapped = LIBRARY.replace(".so", "-stays.so");
    let stayed = vec![mapped.split('/').next_back().unwrap().replace(" (deleted)", "").trim().to_owned()];
    let repaired = Facts { stayed: stayed.clone(), ..facts() };
    let first = receipt(&repaired, |tree| tree.append("100/maps", &mapped));
    let why = |receipt: &Receipt, kind| receipt.left_of(kind).map(|left| left.why.clone()).collect::<String>();
    assert!(why(&first, Kind::Mapping).contains("a main profiler had left before"), "{first}");
    assert!(why(&first, Kind::ProfilerSlot).contains("with it the next one was called"), "{first}");
    let tree = Tree::new();
    tree.append("100/maps", &mapped);
    let with_it = tree.snapshot();
    let next = Receipt::between(&with_it, &with_it, &facts());
    assert!(next.clean() && next.allowed.iter().any(|left| left.what.contains("-stays.so")), "{next}");
    // Where nothing came after it that was called, nobody knows.
    for unseen in
        [Facts { attach_completed: false, ..repaired.clone() }, Facts { slot: ProfilerSlot::Main, ..repaired.clone() }]
    {
        let receipt = receipt(&unseen, |tree| tree.append("100/maps", &mapped));
        assert!(why(&receipt, Kind::Mapping).contains("the next command shows"), "{receipt}");
        assert!(!receipt.to_string().contains("was called"), "{receipt}");
    }
    // Beside one that was said to stay it is told apart by its name.
    let main = Facts {
        slot: ProfilerSlot::Main,
        count: ProfilerCount::SetRight,
        staying: vec!["libremora_agent-2-stays.so".into()],
        ..repaired.clone()
    };
    let both = receipt(&main, |tree| {
        tree.append("100/maps", &mapped);
        tree.append("100/maps", &LIBRARY.replace("-1.so", "-2-stays.so"));
    });
    assert!(why(&both, Kind::Mapping).contains("a main profiler had left before"), "{both}");
    let allowed: Vec<Kind> = both.allowed.iter().map(|left| left.kind).collect();
    assert_eq!(
        (both.left_of(Kind::Mapping).count(), &allowed[..]),
        (1, &[Kind::Mapping, Kind::ProfilerSlot][..]),
        "{both}"
    );
    // One that came to look and does not go is not one that was said to stay, whatever it is called.
    let stuck = Facts { staying: vec![], stayed: vec![], ..main };
    assert_eq!(receipt(&stuck, |tree| tree.append("100/maps", &mapped)).left_of(Kind::Mapping).count(), 1);
    // Where none was called, nothing is right again.
    let gave_up = Facts { inert: Some("nobody calls".into()), ..repaired };
    let receipt = receipt(&gave_up, |tree| tree.append("100/maps", &mapped));
    for kind in [Kind::Mapping, Kind::ProfilerSlot] {
        assert!(why(&receipt, kind).contains("until the process ends: nobody calls"), "{receipt}");
    }
}

/// A library in memory cannot be given another name.
#[test]
fn what_stays_in_memory_is_known_from_then_on_by_doing_nothing() {
    let mapped = "7f0000000000-7f0000002000 r-xp 00000000 00:01 9   /memfd:libremora_agent-3.so (deleted)\n";
    let stayed = Facts { stayed: vec!["libremora_agent-3.so".into()], ..facts() };
    let first = receipt(&stayed, |tree| tree.append("100/maps", mapped));
    assert!(first.left_of(Kind::Mapping).all(|left| left.why.contains("a main profiler had left before")), "{first}");
    let tree = Tree::new();
    tree.append("100/maps", mapped);
    let with_it = tree.snapshot();
    assert!(Receipt::between(&with_it, &with_it, &facts()).clean());
    assert!(find_left_overs(tree.path(), PROCESS).iter().all(Left::may_stay_on_purpose));
    // One that still runs is an agent's.
    tree.thread(300, 9000, Status::named("remora"));
    let running = tree.snapshot();
    assert_left(&Receipt::between(&running, &with_it, &facts()), Kind::Mapping, "an earlier one left it");
    assert!(!find_left_overs(tree.path(), PROCESS).iter().any(Left::may_stay_on_purpose));
    // One that came meanwhile and should have gone is left.
    assert_left(&receipt(&facts(), |tree| tree.append("100/maps", mapped)), Kind::Mapping, "holds a reference");
}

#[test]
fn what_could_not_be_read_is_never_clean() {
    let cases = [
        ("100/maps", "100/maps", Kind::Mapping),
        ("100/timers", "100/timers", Kind::Timer),
        ("100/status", "100/status", Kind::SignalDisposition),
        ("100/task/102/status", "100/task/102", Kind::Thread),
    ];
    for (path, named, kind) in cases {
        let receipt = receipt(&facts(), |tree| tree.spoil(path));
        let unread: Vec<_> =
            receipt.left_of(kind).filter(|left| left.why.contains("could not be read after")).collect();
        assert_eq!(unread.len(), 1, "{path}: {:?}", receipt.left);
        assert!(unread[0].what.ends_with(named));
    }
    let no_descriptors = receipt(&facts(), |tree| {
        std::fs::remove_dir_all(tree.path().join("100/fd")).expect("it is there");
        tree.write("100/fd", "");
    });
    assert_left(&no_descriptors, Kind::Descriptor, "could not be read after");
    let before = Tree::new();
    before.spoil("100/maps");
    let receipt = Receipt::between(&before.snapshot(), &Tree::new().snapshot(), &facts());
    assert_left(&receipt, Kind::Mapping, "could not be read before");
}

#[test]
fn an_empty_address_space_is_of_a_process_that_is_ending_and_not_clean() {
    assert_left(&receipt(&facts(), |tree| tree.write("100/maps", "")), Kind::Mapping, "just ending");
}

#[test]
fn a_thread_that_vanishes_is_passed_over() {
    let receipt = receipt(&facts(), |tree| {
        std::fs::remove_file(tree.path().join("100/task/102/status")).expect("it is there");
    });
    assert!(receipt.clean(), "{:?}", receipt.left);
    assert_eq!(receipt.after.threads, 2);
}

#[test]
fn a_process_that_has_ended_is_gone() {
    let tree = Tree::new();
    assert!(matches!(Snapshot::take(tree.path(), 7), Err(Error::Gone { process_id: 7 })));
    for thread in [100, 101] {
        tree.write(&format!("100/task/{thread}/stat"), &stat(thread, 1, STARTED, 'Z'));
    }
    tree.write("100/stat", &stat(PROCESS, 1, STARTED, 'Z'));
    // The main thread has ended and others live on: the process is there, and is read through one of them.
    tree.write("100/task/102/maps", LIBRARY);
    tree.write("100/task/102/fd/none", "");
    assert_eq!(tree.snapshot().mappings.ours.len(), 1);
    tree.write("100/task/102/stat", &stat(102, 1, STARTED, 'Z'));
    assert!(matches!(Snapshot::take(tree.path(), PROCESS), Err(Error::Gone { .. })));
    assert_eq!(find_left_overs(tree.path(), PROCESS), []);
    assert_eq!(find_left_overs(tree.path(), 7), []);
}

#[test]
fn a_process_that_ended_leaves_only_files() {
    let tree = Tree::new();
    let before = tree.snapshot();
    let placed = vec![tree.path().join("100/stat")];
    let receipt = Receipt::of_ended(&before, &Facts { placed, ..facts() });
    assert_left(&receipt, Kind::File, "not taken away");
    assert_eq!(receipt.outcome, Outcome::Ended);
    tree.write("100/stat", &stat(PROCESS, 1, STARTED + 10, 'S'));
    tree.append("100/maps", LIBRARY);
    let another = Receipt::between(&before, &tree.snapshot(), &facts());
    assert_eq!((another.outcome, another.clean()), (Outcome::Ended, true));
    assert!(
        another.to_string().starts_with("Receipt: clean. Process 100 (.NET 8.0.4) ended meanwhile; no file is left.\n")
    );
}

#[test]
fn left_overs_are_found_by_name_alone() {
    let tree = Tree::new();
    assert_eq!(find_left_overs(tree.path(), PROCESS), []);
    tree.append("100/maps", &LIBRARY.replace(".so", "-stays.so"));
    assert_eq!(find_left_overs(tree.path(), PROCESS), [], "it stays on purpose");
    let stays = find_what_stays(tree.path(), PROCESS);
    assert!(matches!(&stays[..], [path] if path.contains("-stays.so")), "{stays:?}");
    tree.append("100/maps", LIBRARY);
    tree.append("100/maps", LIBRARY);
    assert!(find_left_overs(tree.path(), PROCESS)[0].why.contains("no thread of it runs"));
    assert_eq!(find_what_stays(tree.path(), PROCESS), stays);
    tree.descriptor(12, "/memfd:remora-ring (deleted)");
    tree.thread(300, 9000, Status::named("remora"));
    tree.child(400, "x", 'S', LIBRARY);
    let kinds: Vec<Kind> = find_left_overs(tree.path(), PROCESS).iter().map(|left| left.kind).collect();
    assert_eq!(kinds, [Kind::Mapping, Kind::Thread, Kind::Descriptor, Kind::Child]);
    assert!(!find_left_overs(tree.path(), PROCESS)[0].why.contains("no thread of it runs"));
    tree.spoil("100/maps");
    assert!(find_left_overs(tree.path(), PROCESS)[0].why.contains("could not be read"));
}

#[test]
fn the_json_has_the_promised_fields() {
    let receipt = receipt(&facts_with_file(), |tree| tree.append("100/maps", LIBRARY));
    let json: serde_json::Value = serde_json::from_str(&receipt.to_json()).expect("it is JSON");
    assert_eq!(json["clean"], false);
    assert_eq!(json["left"][0]["kind"], "mapping");
    assert_eq!(json["left"][0]["what"], "/tmp/a b/libremora_agent-1.so (deleted), 8 KiB");
    assert_eq!(json["allowed"], serde_json::json!([]));
    assert_eq!(json["timings"], serde_json::json!({"attach_ms": 5.2, "recording_ms": 5000.0, "detach_ms": 301.0}));
    assert_eq!((&json["before"]["mappings"], &json["after"]["mappings"]), (&1.into(), &2.into()));
    assert_eq!(json["before"]["resident_bytes"], 1 << 20);
    assert_eq!(json["kinds"]["mapping"], "left");
    assert_eq!(json["kinds"]["socket"], "clean");
    assert_eq!(json["kinds"]["gc-mode"], "not-looked-at");
    assert_eq!(json["not_looked_at"]["gc-mode"], "nothing of the kind was touched");
    assert_eq!(json["not_looked_at"].as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn a_clean_text_has_two_lines_and_another_one_marks_every_kind() {
    let clean = receipt(&facts_with_file(), |tree| tree.thread(301, 9001, Status::named(".NET EventPipe"))).to_string();
    let wanted = "\
Receipt: clean. Nothing of Remora is left in process 100 (.NET 8.0.4).
  attach 5.2 ms · recording 5.0 s · detach 301 ms · ~ .NET's detach thread
";
    assert_eq!(clean, wanted);
    for (task, name) in [(Task::Snapshot, "snapshot"), (Task::Watch, "watch")] {
        let receipt = receipt(&Facts { task, ..facts_with_file() }, |_| {});
        let reported = receipt.to_string();
        assert!(reported.contains(&format!("attach 5.2 ms · {name} 5.0 s · detach 301 ms")), "{reported}");
        let json: serde_json::Value = serde_json::from_str(&receipt.to_json()).unwrap();
        assert_eq!((&json["task"], &json["timings"]["recording_ms"]), (&name.into(), &5000.0.into()));
    }
    let unclean = receipt(&facts(), |tree| {
        for number in 20..30 {
            tree.descriptor(number, "/memfd:remora-ring (deleted)");
        }
        tree.append("100/maps", LIBRARY);
        tree.thread(301, 9001, Status::named(".NET EventPipe"));
    })
    .to_string();
    assert!(unclean.starts_with("Receipt: NOT clean."), "{unclean}");
    assert!(unclean.contains("✗ mapping") && unclean.contains("✗ and 8 more"), "{unclean}");
    assert!(unclean.contains("gc-mode, event-session: not looked at") && unclean.contains("→ 4 threads"), "{unclean}");
    assert!(unclean.contains("\n  ~ thread 301 \".NET EventPipe\": the runtime's own detach thread"), "{unclean}");
    assert!(unclean.lines().count() <= 13, "{unclean}");
}

#[test]
fn what_was_not_looked_at_is_not_called_clean() {
    let reported = |facts: &Facts| {
        let receipt = receipt(facts, |_| {});
        assert!(receipt.clean(), "{:?}", receipt.left);
        receipt.not_looked_at.iter().map(|(kind, _)| kind.name()).collect::<Vec<_>>()
    };
    assert_eq!(reported(&facts_with_file()), ["gc-mode", "event-session"]);
    let measured = Facts { gc_mode: GcMode::OffUntilDetach, event_session: EventSession::Ended, ..facts_with_file() };
    assert_eq!(reported(&measured), Vec::<&str>::new());
    let no_inode = receipt(&Facts { socket_inodes: Vec::new(), ..facts_with_file() }, |_| {});
    assert_eq!(no_inode.verdict(Kind::Socket), Verdict::NotLookedAt("the system did not show which one the agent had"));
    assert!(no_inode.to_string().contains("· socket: not looked at, since the system did not show"), "{no_inode}");
    // The runtime's own sampler loads nothing and places nothing.
    let own = Facts { event_session: EventSession::Ended, ..Facts::default() };
    assert_eq!(
        reported(&own),
        ["timer", "signal-disposition", "signal-mask", "file", "socket", "profiler-slot", "gc-mode"]
    );
}

#[test]
fn a_session_of_events_that_could_not_be_ended_is_left() {
    let facts = Facts { event_session: EventSession::NotEnded("it did not answer".into()), ..Facts::default() };
    let running = receipt(&facts, |_| {});
    assert_left(&running, Kind::EventSession, "it did not answer");
    assert!(Receipt::of_ended(&Tree::new().snapshot(), &facts).clean(), "it went with the process");
}
