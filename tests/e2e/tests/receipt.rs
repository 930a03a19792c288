//! Leftovers of a recording: the receipt's statements, compared with independent queries of the kernel.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::number;
use remora_e2e::{
    Facts, Recorded, Recording, Runtime, RuntimeMessages, Start, Target, diagnostics, message_ids, on_every_runtime,
    on_runtimes, on_runtimes_at_once,
};
use remora_holds::holds;
use serde_json::Value;
use std::path::PathBuf;

/// Recordings one after another in one process.
const ROUNDS: usize = 25;
/// Rounds after which permanent effects of the first attach and the target's own start are over.
const SETTLED: usize = 4;
/// The kinds of facts in the receipt.
const KINDS: [&str; 12] = [
    "child",
    "descriptor",
    "event-session",
    "file",
    "gc-mode",
    "mapping",
    "profiler-slot",
    "signal-disposition",
    "signal-mask",
    "socket",
    "thread",
    "timer",
];

#[test]
fn det_14_det_04_det_10_nothing_is_left_of_what_was_there() {
    on_every_runtime(|runtime| {
        for (program, arguments, event) in [
            ("busy", &["2"][..], "cpu"),
            ("threads", &["30", "1"], "wall"),
            ("gc", &["1"], "wall"),
            ("collectible", &[], "cpu"),
        ] {
            let mut target = Target::start(runtime, program, arguments);
            let recording = Recording::begun(&target, &["--event", event, "--frequency", "500"]);
            let before = recording.before().clone();
            let during = Facts::of(target.pid());
            // Otherwise there would be nothing to remove.
            assert!(during.library_is_mapped(), "{program}");
            assert!(during.threads.values().any(|name| name.starts_with("remora-")), "{:?}", during.threads);
            assert!(during.maps.iter().any(|map| map.name.starts_with("/memfd:remora-")), "{:?}", during.remora());
            assert_eq!(sockets(&during).len(), sockets(&before).len() + 1, "{program}");
            assert_ne!(during.dispositions, before.dispositions, "{program}");
            let placed = placed_files(&during);
            assert!(!placed.is_empty(), "{program}");
            assert!(placed.iter().all(|path| !path.exists()), "unlinked while it is used: {placed:?}");

            let recorded = recording.stop();
            let after = Facts::of(target.pid());
            is_clean(&recorded, runtime);
            holds!([DET_04 DET_14] clr rem, left_for_good(&target, &before) == Vec::<String>::new(), "{program}");
            holds!(DET_10 clr rem, !after.library_is_mapped(), "{program}");
            assert_eq!(after.children, before.children, "{program}");
            assert_eq!(sockets(&after), sockets(&before), "{program}");
            assert!(placed.iter().all(|path| !path.exists()), "{placed:?}");
            new_threads_are_the_runtimes_own(&before, &after, runtime);
            goes_on(&mut target);
        }
    });
}

#[test]
fn att_15_the_runtime_logs_our_attach_and_our_detach() {
    // Before .NET 8 the runtime publishes no entries (`att_15_…` in tests/conformance).
    on_runtimes(&Runtime::from_major(8), |runtime| {
        let mut target = Target::start(runtime, "busy", &["1"]);
        let messages = RuntimeMessages::of(target.pid());
        let recorded = Recording::of(&target, &[]);
        // The runtime serves the next attach after our detach, so all our entries are written by then.
        assert!(diagnostics::attach_profiler(target.pid(), &[1; 16], "/nowhere/libabsent.so", &[]).is_err());
        let texts = messages.texts();
        let (asked, loaded, leaving, left, absent) = ("[0x2512].", "[0x2507].", "[0x2513].", "[0x2514].", "[0x2504].");
        holds!(ATT_15 clr rem, message_ids(&texts) == [asked, loaded, leaving, left, asked, absent], "{texts:#?}");
        is_clean(&recorded, runtime);
        goes_on(&mut target);
    });
}

#[test]
fn det_14_the_receipt_counts_what_the_kernel_counts() {
    on_every_runtime(|runtime| {
        // A tiering thread ends by itself when nothing is left to compile.
        let target = Start::managed(runtime, "idle")
            .env("DOTNET_TieredCompilation", "0")
            .env("COMPlus_TieredCompilation", "0")
            .ready();
        // The first attach makes the runtime create its detach thread: the second changes nothing at all.
        Recording::of(&target, &["--event", "wall"]).is_clean();
        let before = Facts::of(target.pid());
        let recorded = Recording::of(&target, &["--event", "wall"]);
        let after = Facts::of(target.pid());
        is_clean(&recorded, runtime);
        for (side, facts) in [("before", &before), ("after", &after)] {
            let shown = &recorded.receipt[side];
            for (what, count) in [
                ("threads", facts.threads.len()),
                ("descriptors", facts.descriptors.len()),
                ("children", facts.children.len()),
                ("timers", 0),
            ] {
                // The runtime may not yet have closed its end of the last process info request.
                let closing = u64::from((side, what) == ("before", "descriptors"));
                let possible = count as u64..=count as u64 + closing;
                holds!(DET_14 rem, possible.contains(&number(&shown[what])), "{what} {side}: {shown} for {count}");
            }
            let mask = |what: &str| u64::from_str_radix(shown[what].as_str().unwrap_or_default(), 16).unwrap();
            assert_eq!((mask("signals_ignored"), mask("signals_caught")), facts.dispositions, "{side}");
        }
        holds!(DET_14 clr rem, after.threads == before.threads);
        holds!(DET_14 clr rem, after.descriptors == before.descriptors);
        assert_eq!(after.blocked, before.blocked);
    });
}

#[test]
fn det_12_det_14_after_many_rounds_under_load_nothing_has_grown() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "gc", &["2"]);
        let mut settled = None;
        for round in 0..ROUNDS {
            let event = if round % 2 == 0 { "cpu" } else { "wall" };
            let recorded =
                Recording::start(&target, &["--duration", "100ms", "--frequency", "1000", "--event", event]).finish();
            holds!(DET_12 clr rem, recorded.receipt["clean"] == true, "round {round}: {:#}", recorded.receipt);
            recorded.ended_with(0);
            if round + 1 == SETTLED {
                settled = Some(Facts::of(target.pid()));
            }
        }
        let (settled, after) = (settled.unwrap(), Facts::of(target.pid()));
        assert_eq!(left_for_good(&target, &settled), Vec::<String>::new());
        // The runtime's pools may have one thread more or less; a leak in each round would be 21.
        assert!(after.threads.len() <= settled.threads.len() + 3, "{:?}\n{:?}", settled.threads, after.threads);
        holds!(DET_14 clr rem, lasting(&after) == lasting(&settled));
        // A running GC maps and unmaps; a leaked library, stack or ring in each round would be 42 and more.
        assert!(
            after.maps.len() <= settled.maps.len() + 20,
            "from {} to {} mappings",
            settled.maps.len(),
            after.maps.len()
        );
        goes_on(&mut target);
    });
}

/// In a program that does not allocate, a leak of one page in each recording shows. glibc reserves 64 MiB at once for the memory of new
/// threads, whatever they are, and keeps it: that happens in single rounds.
#[test]
fn det_14_recordings_keep_no_address_space() {
    const OF_GLIBC: usize = 3;
    on_runtimes_at_once(&Runtime::all(), |runtime| {
        let target = Target::start(runtime, "busy", &["1"]);
        let size = || Facts::of(target.pid()).maps.iter().map(|map| map.end - map.start).sum::<u64>();
        Recording::of(&target, &[]).is_clean();
        let grown: Vec<i64> = (0..4 * OF_GLIBC)
            .map(|round| {
                let before = size();
                let event = if round % 2 == 0 { "cpu" } else { "wall" };
                let recorded = Recording::start(&target, &["-d", "100ms", "--frequency", "1000", "--event", event]);
                recorded.finish().ended_with(0);
                size() as i64 - before as i64
            })
            .collect();
        holds!(DET_14 clr rem, grown.iter().filter(|bytes| **bytes > 0).count() <= OF_GLIBC, "{grown:?}");
    });
}

#[test]
fn det_14_concurrent_collection_is_never_switched_off() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "gc", &["1"]);
        // Otherwise there would be nothing to disable.
        assert!(collects_in_the_background(&mut target), "before the recording");
        for event in ["cpu", "wall"] {
            let recording = Recording::begun(&target, &["--event", event]);
            holds!(DET_14 clr rem, collects_in_the_background(&mut target), "during a recording: {event}");
            let recorded = recording.stop();
            is_clean(&recorded, runtime);
            assert_eq!(recorded.receipt["kinds"]["gc-mode"], "not-looked-at");
            assert_eq!(recorded.receipt["not_looked_at"]["gc-mode"], "nothing of the kind was touched");
            holds!(DET_14 clr rem, collects_in_the_background(&mut target), "after a recording: {event}");
        }
        goes_on(&mut target);
    });
}

#[test]
fn det_15_the_time_handed_to_the_runtime_is_a_measured_one() {
    // Without a given time, .NET waits two and a half seconds before it checks whether the library may be unloaded, on any machine. One
    // recording with a faster detach is proof enough: a slow machine cannot make a wrong one fast.
    const WITHOUT_A_TIME: f64 = 2500.0;
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "busy", &["1"]);
        let detach = (0..3).map(|_| {
            let recorded = Recording::of(&target, &[]);
            is_clean(&recorded, runtime);
            recorded.receipt["timings"]["detach_ms"].as_f64().unwrap()
        });
        let quickest = detach.fold(f64::INFINITY, f64::min);
        assert!(quickest >= 300.0, "the runtime itself waits 300 ms: {quickest}");
        holds!(DET_15 clr rem, quickest < WITHOUT_A_TIME, "{quickest} ms");
    });
}

#[test]
fn det_14_a_receipt_of_what_is_really_left_is_not_clean_and_neither_is_the_exit_status() {
    const UNCLEAN: i32 = 40;
    on_runtimes(&Runtime::from_major(6), |runtime| {
        use remora_e2e::{ForeignProfiler, Kind};
        let mut target = Target::start(runtime, "busy", &["1"]);
        let recording = Recording::begun(&target, &[]);
        // A main profiler's attach and detach make the runtime miscount the others: ours must not request its detach.
        assert_eq!(ForeignProfiler::attach(&target, Kind::Main).unwrap().detach(), Ok(()));
        let recorded = recording.stop();
        recorded.ended_with(UNCLEAN);
        let facts = Facts::of(target.pid());
        assert!(facts.library_is_mapped());
        holds!(DET_14 rem, recorded.receipt["clean"] == false);
        for kind in ["mapping", "profiler-slot"] {
            assert_eq!(recorded.receipt["kinds"][kind], "left", "{:#}", recorded.receipt);
        }
        for left in recorded.receipt["left"].as_array().unwrap() {
            for field in ["kind", "what", "why"] {
                assert!(left[field].as_str().is_some_and(|text| !text.is_empty()), "{left}");
            }
        }
        let text = &recorded.finished.json()["receipt"];
        assert_eq!(text, &recorded.receipt, "the file and the answer are the same receipt");
        goes_on(&mut target);
    });
}

/// The receipt is clean, and complete.
#[track_caller]
fn is_clean(recorded: &Recorded, runtime: &Runtime) {
    recorded.is_clean();
    let receipt = &recorded.receipt;
    assert_eq!(receipt["left"], Value::Array(Vec::new()));
    for kind in KINDS {
        let verdict = &receipt["kinds"][kind];
        let wanted = match kind {
            // Nothing touches these, so nothing is checked.
            "gc-mode" | "event-session" => &["not-looked-at"][..],
            "thread" => &["clean", "allowed"],
            _ => &["clean"],
        };
        assert!(wanted.iter().any(|wanted| verdict == wanted), "{kind}: {verdict}");
    }
    assert_eq!(receipt["kinds"].as_object().map(serde_json::Map::len), Some(KINDS.len()));
    let allowed = receipt["allowed"].as_array().unwrap();
    assert!(allowed.len() <= usize::from(runtime.major() >= 6), "{allowed:?}");
    assert!(
        allowed.iter().all(|one| one["why"].as_str().is_some_and(|why| why.contains("detach thread"))),
        "{allowed:?}"
    );
    for timing in ["attach_ms", "recording_ms", "detach_ms"] {
        assert!(receipt["timings"][timing].as_f64().is_some_and(|time| time > 0.0), "{timing}: {receipt:#}");
    }
    assert_eq!(receipt["process"], "running");
    assert_eq!(receipt["runtime"], runtime.name());
}

/// At most one new thread, on .NET 6 and later, and none of ours.
#[track_caller]
fn new_threads_are_the_runtimes_own(before: &Facts, after: &Facts, runtime: &Runtime) {
    let new: Vec<&str> = after
        .threads
        .iter()
        .filter(|(id, _)| !before.threads.contains_key(id))
        .map(|(_, name)| name.as_str())
        .collect();
    // Threads of the application and its pools start and end independently.
    let detach = new.iter().filter(|name| **name == ".NET EventPipe").count();
    assert!(detach <= usize::from(runtime.major() >= 6), "{new:?}");
    assert!(!new.iter().any(|name| name.contains("remora")), "{new:?}");
}

/// The files placed for the target, unlinked or not.
fn placed_files(facts: &Facts) -> Vec<PathBuf> {
    let ours = facts.maps.iter().filter(|map| map.name.contains("libremora_agent") && !map.name.starts_with("/memfd:"));
    ours.map(|map| PathBuf::from(map.name.trim_end_matches(" (deleted)"))).collect()
}

/// Leftovers of ours that stay. While the runtime's own signal handler runs, its thread blocks that signal: only for this are there more
/// looks.
fn left_for_good(target: &Target, before: &Facts) -> Vec<String> {
    let mut before = before.clone();
    before.blocked.retain(|_, mask| *mask == 0);
    let mut looks = (0..100).map(|_| Facts::of(target.pid()).left_since(&before));
    let is_of_a_handler = |what: &String| what.starts_with("thread ") && what.contains(" blocks ");
    let mut left = looks.next().unwrap();
    while !left.is_empty() && left.iter().all(is_of_a_handler) {
        let Some(again) = looks.next() else { break };
        left = again;
    }
    left
}

/// Descriptors, without those that the runtime opens for a moment to read the memory limits.
fn lasting(facts: &Facts) -> Vec<&str> {
    let mut links: Vec<&str> = facts.descriptors.values().map(String::as_str).collect();
    links.retain(|link| !link.starts_with("/sys/") && !link.starts_with("/proc/"));
    links
}

fn sockets(facts: &Facts) -> Vec<&str> {
    facts.descriptors.values().map(String::as_str).filter(|link| link.starts_with("socket:")).collect()
}

/// The runtime tells the program the GC's kind. One background GC is proof: with concurrent GC disabled there is none. (When memory is
/// short, the runtime may choose a blocking GC for any one of them.)
fn collects_in_the_background(target: &mut Target) -> bool {
    const TRIES: usize = 20;
    (0..TRIES).any(|_| target.ask("full") != "blocking")
}

fn goes_on(target: &mut Target) {
    let first = target.ask_number("count");
    while target.ask_number("count") == first {}
}
