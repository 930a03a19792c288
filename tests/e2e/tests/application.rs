//! The first table of a recording names the method that somebody must change, and what its threads wait for. The first lines of a snapshot
//! name what accumulates, and who holds it.
#![forbid(unsafe_code)]

use remora_e2e::read_back::{ReadBack, Stack, array, number, report};
use remora_e2e::{Recorded, Recording, Runtime, Start, Target, on_a_terminal, on_every_runtime, remora};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::Instant;

/// Records the shop with one of its problems.
fn shop(runtime: &Runtime, problem: &str, event: &str) -> Recorded {
    let mut target = Target::start(runtime, "shop", &[problem]);
    // The methods that are to be found were compiled by then.
    remora_e2e::until("the first orders", || target.ask_number("orders") > 20);
    let recorded = Recording::start(&target, &["--event", event, "--duration", "3s"]).finish();
    recorded.is_clean();
    recorded
}

/// The application's part of a report about all threads.
fn application(recorded: &Recorded) -> Value {
    report(&recorded.output())["parts"][0]["application"].clone()
}

fn names<'a>(rows: &'a Value, field: &str) -> Vec<&'a str> {
    array(rows).iter().map(|row| row[field].as_str().unwrap_or_default()).collect()
}

/// What a terminal of 80 columns and 24 lines shows first of a recording.
fn first_screen(recorded: &Recorded) -> Vec<String> {
    let mut lines = on_a_terminal(80, [OsStr::new("report"), recorded.output().as_os_str()]);
    lines.truncate(24);
    fits(&lines);
    lines
}

/// No line is longer than the terminal is wide. It would break it inside a word.
#[track_caller]
fn fits(lines: &[String]) {
    let too_long = lines.iter().find(|line| line.chars().count() > 80);
    assert_eq!(too_long, None, "{lines:#?}");
}

/// The method that keeps the CPU busy is in the first row, in JSON and on the first screen with its line.
#[track_caller]
fn is_charged_to(recorded: &Recorded, methods: &[&str]) {
    let application = application(recorded);
    let first = application["methods"][0]["name"].as_str().unwrap_or_default();
    assert!(methods.iter().any(|method| first.starts_with(method)), "{application:#}");
    let screen = first_screen(recorded);
    let row = screen.iter().skip_while(|line| !line.contains("application method, with calls outside")).nth(1);
    let row = row.unwrap_or_else(|| panic!("{screen:#?}"));
    let is_named = methods.iter().any(|method| row.contains(method.trim_end_matches('(')));
    assert!(is_named && row.contains("shop.cs:"), "{screen:#?}");
}

#[test]
fn time_is_charged_to_the_method_that_causes_it_in_the_framework_and_in_the_runtime() {
    on_every_runtime(|runtime| {
        let throws = shop(runtime, "exceptions", "cpu");
        is_charged_to(&throws, &["Importer.Parse("]);
        has_problem(&throws, "exceptions", "Importer.Parse(");
        is_charged_to(&shop(runtime, "churn", "cpu"), &["Basket.With(", "Basket.Add("]);
        is_charged_to(&shop(runtime, "async", "cpu"), &["Checkout.Similarity(", "Checkout.Score("]);
    });
}

/// The report names a problem, and the method; the first screen has both in words, with the line.
#[track_caller]
fn has_problem(recorded: &Recorded, problem: &str, method: &str) {
    let application = application(recorded);
    let screen = first_screen(recorded).join(" ").replace("   ", " ");
    let words = format!("problem: {}. ", problem.replace('-', " "));
    let place = format!("{} (shop.cs:", method.trim_end_matches('('));
    assert!(screen.contains(&words) && screen.contains(&place), "{screen}");
    let is_named =
        |row: &Value| row["problem"] == problem && row["method"].as_str().is_some_and(|name| name.starts_with(method));
    assert!(array(&application["findings"]).iter().any(is_named), "{application:#}");
    let file = recorded.output();
    let page = remora(["convert", &file.to_string_lossy(), "--format", "html", "-o", "-"]).succeeded().text();
    let words = words.trim_start_matches("problem: ");
    assert!(page.contains(words) && page.contains(&place), "the page has it, too");
}

#[test]
fn blocked_time_is_charged_to_the_method_that_waits_and_its_wait_is_known() {
    on_every_runtime(|runtime| {
        let starved = shop(runtime, "starvation", "wall");
        let of_tasks = application(&starved);
        let waits = |application: &Value, method: &str| -> Vec<(String, u64)> {
            let rows = array(&application["blocked"]).iter();
            let of_method = rows.filter(|row| row["method"].as_str().is_some_and(|name| name.starts_with(method)));
            of_method
                .map(|row| (row["wait"].as_str().unwrap_or_default().to_owned(), number(&row["threads"])))
                .collect()
        };
        // On a busy machine they also wait for a CPU.
        let is_of_many = |kind: &'static str| move |(wait, threads): &(String, u64)| wait == kind && *threads > 1;
        assert!(waits(&of_tasks, "PriceService.PriceOf(").iter().any(is_of_many("task")), "{of_tasks:#}");
        has_problem(&starved, "sync-over-async", "PriceService.PriceOf(");
        let starts = names(&of_tasks["entry_points"], "kind");
        assert!(starts.contains(&"pool") && starts.contains(&"thread"), "{of_tasks:#}");
        assert!(first_screen(&starved).iter().any(|line| line.contains("waits for")), "waits come first");
        // The main thread reads its standard input.
        assert!(waits(&of_tasks, "Shop.Main(").iter().any(|(wait, _)| wait == "io"), "{of_tasks:#}");
        let convoy = shop(runtime, "convoy", "wall");
        let of_locks = application(&convoy);
        // Up to .NET 9, a `lock` statement calls the runtime without a method of the framework. Its IL says what it waits for.
        assert!(waits(&of_locks, "Inventory.Reserve(").iter().any(is_of_many("lock")), "{of_locks:#}");
        has_problem(&convoy, "lock-convoy", "Inventory.Reserve(");
        assert!(names(&of_locks["blocked"], "wait").contains(&"idle-runtime"), "{of_locks:#}");
    });
}

/// Records the program whose threads are blocked.
fn blocked(runtime: &Runtime, arguments: &[&str], event: &str) -> Value {
    let target = Target::start(runtime, "blocked", arguments);
    let recorded = Recording::start(&target, &["--event", event, "--duration", "3s"]).finish();
    recorded.is_clean();
    application(&recorded)
}

/// The finding of a problem.
#[track_caller]
fn finding<'a>(application: &'a Value, problem: &str) -> &'a Value {
    let found = array(&application["findings"]).iter().find(|row| row["problem"] == problem);
    found.unwrap_or_else(|| panic!("{application:#}"))
}

#[test]
fn each_way_to_wait_has_its_kind() {
    on_every_runtime(|runtime| {
        let application = blocked(runtime, &["kinds"], "wall");
        let waits = |method: &str| -> Vec<&str> {
            let of_it = |row: &&Value| row["method"].as_str().is_some_and(|name| name.starts_with(method));
            array(&application["blocked"]).iter().filter(of_it).filter_map(|row| row["wait"].as_str()).collect()
        };
        let kinds = [
            ("Kinds.Take(", "queue-empty"),
            ("Kinds.Add(", "queue-full"),
            ("Kinds.Semaphore(", "semaphore"),
            ("Kinds.Event(", "event"),
            ("Kinds.Countdown(", "event"),
            ("Kinds.Barrier(", "barrier"),
            ("Kinds.ReadThere(", "rw-lock"),
            ("Kinds.Result(", "task"),
            ("Kinds.WaitAll(", "task"),
            ("Kinds.WaitAny(", "task"),
        ];
        for (method, wait) in kinds {
            assert!(waits(method).contains(&wait), "{method}: {application:#}");
        }
        // It starts tasks, and waits for none.
        assert!(!waits("Kinds.StartTasks(").contains(&"task"), "{application:#}");
    });
}

#[test]
fn a_problem_of_many_places_is_found_although_each_place_has_little_of_it() {
    on_every_runtime(|runtime| {
        let application = blocked(runtime, &["spread"], "wall");
        for (problem, method) in [("sync-over-async", "Spread.Get"), ("lock-convoy", "Spread.Take")] {
            let found = finding(&application, problem);
            assert!(number(&found["place_count"]) > 3 && array(&found["places"]).len() == 3, "{found:#}");
            let is_one_of_them = |place: &Value| {
                let is_named = place["method"].as_str().is_some_and(|name| name.starts_with(method));
                is_named
                    && number(&place["line"]) > 0
                    && number(&place["nanoseconds"]) * 2 < number(&found["nanoseconds"])
            };
            assert!(array(&found["places"]).iter().all(is_one_of_them), "{found:#}");
        }
    });
}

#[test]
fn a_loop_that_only_awaits_a_yield_spins() {
    on_every_runtime(|runtime| {
        let application = blocked(runtime, &["spin", "taskyield"], "cpu");
        let found = finding(&application, "spinning");
        assert!(found["method"].as_str().is_some_and(|name| name.starts_with("Blocked.YieldTasks(")), "{found:#}");
    });
}

#[test]
fn a_first_recording_fits_80_columns_and_ends_with_the_answer_above_the_prompt() {
    let mut target = Target::start(&Runtime::newest(), "shop", &["convoy"]);
    remora_e2e::until("the first orders", || target.ask_number("orders") > 20);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.html");
    let process = target.pid().to_string();
    let words = ["record", "-e", "wall", "-d", "1s", "-p", &process, "-o", file.to_str().expect("a name")];
    let lines = on_a_terminal(80, words);
    fits(&lines);
    // Below the receipt of two lines and the name of the file there is only the answer.
    let end = lines.iter().skip_while(|line| !line.starts_with("Receipt: clean."));
    let end: Vec<&str> = end.skip(2).skip_while(|line| !line.starts_with("in short: ")).map(String::as_str).collect();
    assert!(
        (1..=3).contains(&end.len()) && end.concat().contains("lock convoy, threads wait in Inventory.Reserve"),
        "{lines:#?}"
    );
    assert!(lines.len() < 60, "{lines:#?}");
}

#[test]
fn rows_of_application_methods_are_those_of_the_stacks_that_another_reader_sees() {
    let recorded = shop(&Runtime::newest(), "churn", "wall");
    let read = ReadBack::of(&recorded);
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &read.stacks {
        // Only the shop has sources.
        let frames = stack.frames.iter().rev().map(|frame| &read.frames[*frame]);
        let mut of_shop = frames.filter(|frame| frame.file.ends_with("shop.cs") || frame.file.ends_with("shop.dll"));
        if let Some(nearest) = of_shop.next() {
            *expected.entry(nearest.name.clone()).or_default() += stack.weight;
        }
    }
    let shown = application(&recorded);
    let rows: BTreeMap<String, u64> = array(&shown["methods"])
        .iter()
        .map(|row| {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            (name, number(&row["self_nanoseconds"]) + number(&row["caused_nanoseconds"]))
        })
        .collect();
    assert_eq!(rows, expected);
}

/// The program's own count of its pauses is the truth.
#[test]
fn a_thread_that_collects_is_in_a_gc_for_as_long_as_the_runtime_says() {
    for runtime in Runtime::from_major(8) {
        let mut target = Target::start(&runtime, "gc", &["1", "200000"]);
        remora_e2e::until("a collection", || target.ask_number("paused") > 0);
        let (begun, before) = (Instant::now(), target.ask_number("paused"));
        let recorded =
            Recording::start(&target, &["--event", "wall", "--frequency", "1999", "--duration", "4s"]).finish();
        let (took, paused) = (begun.elapsed(), target.ask_number("paused") - before);
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        let of_allocator: Vec<_> = read.stacks.iter().filter(|stack| stack.thread.starts_with("allocator")).collect();
        let weight = |stacks: &mut dyn Iterator<Item = &&Stack>| stacks.map(|stack| stack.weight).sum::<u64>() as f64;
        let in_gc = weight(&mut of_allocator.iter().filter(|stack| read.names(stack).contains(&"[GC]")));
        let (found, expected) = (in_gc / weight(&mut of_allocator.iter()), paused as f64 / took.as_nanos() as f64);
        assert!(
            expected > 0.03 && (found - expected).abs() < 0.3 * expected + 0.02,
            "{runtime:?}: {found:.3}, not {expected:.3}"
        );
    }
}

/// Its threads are known by the name that the runtime gives them.
#[test]
fn threads_of_the_server_collector_run_for_gc() {
    for runtime in Runtime::from_major(8) {
        let start = Start::managed(&runtime, "gc").args(["1", "1000000"]).env("DOTNET_gcServer", "1");
        let mut target = start.env("DOTNET_gcConcurrent", "0").ready();
        let mut recording = Recording::start(&target, &["--frequency", "999"]);
        recording.wait_until_it_samples();
        (0..40).for_each(|_| assert_eq!(target.ask("collect"), "collected"));
        let recorded = recording.stop();
        recorded.is_clean();
        let text = folded(&recorded, &[]);
        let of_collector = || text.lines().filter(|line| line.starts_with(".NET Server GC"));
        let (all, in_gc) = (weight(of_collector()), weight(of_collector().filter(|line| line.contains(";[GC]"))));
        assert!(all > 50_000, "{runtime:?}: {all} microseconds");
        assert!(in_gc * 10 > all * 9, "{runtime:?}: {in_gc} of {all}: {text}");
    }
}

/// The recording as stacks with their weights.
fn folded(recorded: &Recorded, flags: &[&str]) -> String {
    let file = recorded.output();
    let arguments = ["convert", file.to_str().unwrap_or_default(), "--format", "folded", "-o", "-"];
    remora(arguments.into_iter().chain(flags.iter().copied())).succeeded().text()
}

fn weight<'a>(lines: impl Iterator<Item = &'a str>) -> u64 {
    lines.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<u64>().unwrap_or(0)).sum()
}

#[test]
fn a_run_of_runtime_frames_is_one_frame_unless_each_of_them_is_wanted() {
    // This runtime has no symbols.
    let recorded = shop(&Runtime::major_is(8), "churn", "cpu");
    let (shown, expanded) = (folded(&recorded, &[]), folded(&recorded, &["--expand-runtime"]));
    assert!(!shown.contains("libcoreclr.so+0x") && expanded.contains("libcoreclr.so+0x"), "{shown}");
    for purpose in [";[GC]", ";[runtime]", ";[thread start];System."] {
        assert!(shown.contains(purpose), "{purpose}: {shown}");
    }
    assert_eq!(weight(shown.lines()), weight(expanded.lines()));
}

/// The first command of somebody whose memory grows: its JSON, and what a terminal of 80 columns and 24 lines shows first.
fn first_look(runtime: &Runtime, problem: &str) -> (Value, String) {
    let mut target = Target::start(runtime, "shop", &[problem]);
    remora_e2e::until("many orders", || target.ask_number("orders") > 1000);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    let process = target.pid().to_string();
    let json = remora(["heap", "-p", &process, "--json", "-o", &file("a.remora-heap")]).succeeded().json();
    let lines = on_a_terminal(80, ["heap", "-p", &process, "-o", &file("b.remora-heap")]);
    let screen = lines.iter().take(24).map(|line| format!("{line}\n")).collect();
    (json, screen)
}

/// Whether the line of `screen` that begins with `label` contains `text`, and fits.
#[track_caller]
fn shows(screen: &str, label: &str, text: &str) {
    let line = screen.lines().find(|line| line.starts_with(label)).unwrap_or_default();
    assert!(line.contains(text) && line.chars().count() <= 80, "{label} {text}\n{screen}");
}

#[test]
fn an_event_that_nobody_leaves_is_on_the_first_screen_with_its_publisher_and_its_subscribers() {
    on_every_runtime(|runtime| {
        let (json, screen) = first_look(runtime, "events");
        let suspect = &json["suspect_details"][0];
        assert_eq!(suspect["event"], "Tracking.Prices.Changed", "{suspect:#}");
        assert_eq!(suspect["holder"]["type"], "Tracking.Prices", "{suspect:#}");
        assert_eq!(suspect["holder"]["held_by"], "static Tracking.prices", "{suspect:#}");
        assert_eq!(suspect["accumulates"]["type"], "Tracking.Order", "{suspect:#}");
        assert!(number(&suspect["accumulates"]["count"]) > 1000, "{suspect:#}");
        shows(&screen, "held by ", " static Tracking.prices");
        shows(&screen, "event ", " Tracking.Prices.Changed");
        shows(&screen, "accumulates ", "× Tracking.Order: ");
    });
}

#[test]
fn a_cache_without_a_limit_is_on_the_first_screen_with_its_field_and_what_accumulates_in_it() {
    on_every_runtime(|runtime| {
        let (json, screen) = first_look(runtime, "cache");
        let suspect = &json["suspect_details"][0];
        assert_eq!(suspect["event"], Value::Null, "{suspect:#}");
        let cache = "System.Collections.Concurrent.ConcurrentDictionary<string, string>";
        assert_eq!(suspect["place"]["type"], cache, "{suspect:#}");
        assert_eq!(suspect["holder"]["held_by"], "static Catalogue.descriptions", "{suspect:#}");
        assert_eq!(suspect["accumulates"]["type"], "System.String", "{suspect:#}");
        shows(&screen, "held by ", " static Catalogue.descriptions");
        shows(&screen, "accumulates ", "× System.String: ");
    });
}
