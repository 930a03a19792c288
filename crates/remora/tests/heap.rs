//! `remora heap` with files, without a target: report, conditions, convert, diff; complete and broken snapshots.

#[allow(dead_code, reason = "this test uses a part")]
mod command;

use command::{Directory, golden, remora};
use expect_test::expect;
use remora_heap_file::{State, TypeRow, Writer};
use remora_heap_stream::{ARRAY_CLASS, CLASS, END, FIRST_CLASS, PLAIN_CLASS, RANGE, distance, written};
use serde_json::Value;

const BASE: u64 = 0x7f00_0000_0000;
/// Sizes of a cache, its array, and a string.
const CACHE: u64 = 40;
const ARRAY: u64 = 8 * 1024;
const TEXT: u64 = 1024;

/// How a snapshot ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// The forked copy did not send everything.
    Interrupted,
    /// The recorder died before it wrote names.
    Cut,
}

/// The stream of a cache with an array of `texts` strings.
fn stream(texts: u64) -> Vec<u8> {
    let (array, text) = (BASE + CACHE, |index: u64| BASE + CACHE + ARRAY + index * TEXT);
    let mut numbers = vec![RANGE, 2, BASE, CACHE + ARRAY + texts * TEXT];
    numbers.extend([CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 0]);
    numbers.extend([CLASS, 0x71, ARRAY_CLASS, 0x70, 0x12, 1]);
    numbers.extend([CLASS, 0x72, PLAIN_CLASS, 0x80, 0x0200_0004, 0, 0]);
    numbers.extend([FIRST_CLASS, CACHE, distance(BASE, array), 0, FIRST_CLASS + 1, ARRAY]);
    numbers.extend((0..texts).map(|index| distance(array, text(index))).chain([0]));
    numbers.extend((0..texts).flat_map(|_| [FIRST_CLASS + 2, TEXT, 0]));
    numbers.push(END);
    numbers.push(texts + 2);
    written(&numbers)
}

/// Writes a snapshot with `texts` strings into a directory; returns its path.
fn snapshot(directory: &Directory, name: &str, texts: u64, end: End) -> String {
    snapshot_of("Shop", directory, name, texts, end)
}

/// The same, for an application of this name.
fn snapshot_of(application: &str, directory: &Directory, name: &str, texts: u64, end: End) -> String {
    snapshot_of_types(application, directory, name, (texts, end), ["App.Cache, App", "object[], Core", "string, Core"])
}

/// The same, with these types of the cache, its array and the strings, each with its assembly.
fn snapshot_of_types(
    application: &str,
    directory: &Directory,
    name: &str,
    (texts, end): (u64, End),
    types: [&str; 3],
) -> String {
    let path = directory.path(name);
    let mut writer = Writer::create(Vec::new()).expect("memory can be written to");
    writer.stream(&stream(texts)).expect("memory can be written to");
    if end == End::Cut {
        // Data after the last complete chunk of the stream was never written.
        std::fs::write(&path, writer.output()).expect("written");
        return path;
    }
    let rows = (0..).zip(types).map(|(flags, of)| {
        let (name, assembly) = of.rsplit_once(", ").expect("both");
        let assembly = if assembly == "Core" { "System.Private.CoreLib" } else { assembly };
        TypeRow { name: name.into(), assembly: assembly.into(), flags, ..TypeRow::default() }
    });
    let rows: Vec<TypeRow> = rows.collect();
    writer.types(&rows).expect("memory can be written to");
    let state = State {
        process_id: 4711,
        application: application.into(),
        runtime: ".NET 8.0.4".into(),
        complete: end == End::Whole,
        ..State::default()
    };
    let bytes = writer.finish(&state).expect("memory can be written to");
    std::fs::write(&path, bytes).expect("written");
    path
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 1, End::Whole);
    let pipe = directory.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
    let _socket = std::os::unix::net::UnixListener::bind(directory.path("socket")).expect("bound");
    for (given, kind) in [(pipe, "a pipe"), (directory.path("socket"), "a socket"), ("/dev/zero".into(), "a device")] {
        let commands: [&[&str]; 5] = [
            &["report", &given],
            &["show", &given, "string"],
            &["diff", &file, &given],
            &["view", &given],
            &["convert", &given, "-o", &directory.path("a.gcdump")],
        ];
        for command in commands {
            let message = remora(["heap"].iter().chain(command)).fails(30);
            assert_eq!(
                message,
                format!(
                    "remora: {given} is {kind}, and no file; write the snapshot into a file first: it is read more than once"
                )
            );
        }
    }
}

/// Reading the pipe again, to detect its format, would wait for another writer.
#[test]
fn a_pipe_without_a_recording_is_not_waited_for_after_its_end() {
    let directory = Directory::new();
    let pipe = directory.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "PK").expect("somebody reads")
    });
    let message = remora(["report", &pipe]).fails(30);
    writer.join().expect("it wrote");
    assert!(message.contains("not a Remora recording"), "{message}");
}

#[test]
fn a_condition_that_is_met_ends_with_a_status_of_its_own_after_the_report() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 100, End::Whole);
    let report = |conditions: &[&str]| {
        let flags = conditions.iter().flat_map(|condition| ["--fail-if", condition]);
        remora(["heap", "report", &file].into_iter().chain(flags))
    };
    let ran = report(&["count('string') > 100", "retained(\"App.Cache\") >= 100KiB"]);
    assert_eq!(ran.code, 43, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Shop (4711), .NET 8.0.4\n"), "{}", ran.stdout);
    let reported: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("--fail-if")).collect();
    expect![[r#"
        [
            "--fail-if is not met: count('string') > 100: here 100 objects of string",
            "--fail-if is met: retained(\"App.Cache\") >= 100KiB: here 108 KiB (110,632 B) of App.Cache",
        ]
    "#]]
    .assert_debug_eq(&reported);
    let message = format!(
        "remora: {file} meets a condition of --fail-if: retained(\"App.Cache\") >= 100KiB: here 108 KiB (110,632 B) of App.Cache; \
         `remora heap show {file} TYPE` shows what keeps objects of a type alive\n"
    );
    assert_eq!(ran.stderr, message);
    report(&["count('string') > 100", "bytes() < 1KB"]).succeeds();
}

#[test]
fn a_condition_on_a_type_that_is_unknown_or_ambiguous_is_a_usage_error_after_the_report() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 100, End::Whole);
    for (condition, why) in [
        ("count('App.Gone') > 0", "no object of this snapshot is of a type called App.Gone, "),
        ("count('cache') > 0", "no object of this snapshot is of a type called cache, "),
    ] {
        // Another condition that is met does not hide it.
        let ran = remora(["heap", "report", &file, "--fail-if", "count() > 1", "--fail-if", condition]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        let message = format!("remora: --fail-if cannot be evaluated: {condition}: {why}");
        assert!(ran.stderr.starts_with(&message) && ran.stdout.contains("\n--fail-if cannot"), "{}", ran.stderr);
    }
    remora(["heap", "report", &file, "--fail-if", "count('Cache') > 1"]).succeeds();
}

#[test]
fn conditions_and_what_became_of_them_are_in_the_json() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 100, End::Whole);
    let ran =
        remora(["heap", "report", &file, "--json", "--fail-if", "count('Cache') >= 1", "--fail-if", "bytes() < 1"]);
    assert_eq!(ran.code, 43, "{}", ran.stderr);
    let expected = serde_json::json!([
        { "condition": "count('Cache') >= 1", "type": "App.Cache", "assembly": "App", "value": 1, "outcome": "met" },
        { "condition": "bytes() < 1", "type": null, "assembly": null, "value": 110_632, "outcome": "not-met" },
    ]);
    assert_eq!(json(&ran.stdout)["conditions"], expected);
    assert_eq!(json(&remora(["heap", "report", &file, "--json"]).succeeds())["conditions"], serde_json::json!([]));
}

#[test]
fn part_of_a_heap_does_not_prove_that_a_condition_is_not_met() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 100, End::Interrupted);
    let ran = remora(["heap", "report", &file, "--fail-if", "count('string') > 100"]);
    assert_eq!(ran.code, 42, "{}", ran.stderr);
    let line = "--fail-if is not proven, neither way, since this is not all of the heap, or types in it have no names: count('string') > 100: here 100 objects of string";
    assert!(ran.stdout.lines().any(|reported| reported == line), "{}", ran.stdout);
    // The existing part is enough.
    assert_eq!(remora(["heap", "report", &file, "--fail-if", "count('string') > 99"]).code, 43);
}

#[test]
fn a_condition_that_is_none_is_refused_where_it_is_none() {
    expect![[r#"remora: invalid value 'retained("A") = 5' for '--fail-if <CONDITION>': at character 15 there is `= 5`, and one of > >= < <= is expected; see `remora heap report --help`"#]]
        .assert_eq(&remora(["heap", "report", "x", "--fail-if", "retained(\"A\") = 5"]).fails(2));
}

#[test]
fn a_snapshot_is_converted_by_extension_or_by_name() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 100, End::Whole);
    for (name, begin) in
        [("out.heapsnapshot", &b"{\"snapshot\":{"[..]), ("OUT.GCDump", b"\x14\0\0\0!FastSerialization.1")]
    {
        let out = directory.path(name);
        let ran = remora(["heap", "convert", &file, "-o", &out]);
        assert_eq!((ran.code, ran.stderr), (0, format!("wrote {out}\n")));
        assert!(std::fs::read(&out).expect("it is there").starts_with(begin), "{name}");
        let refused = remora(["heap", "convert", &file, "-o", &out]).fails(20);
        assert_eq!(
            refused,
            format!("remora: {out} exists and is not overwritten; add --force, or give -o another name")
        );
        remora(["heap", "convert", &file, "-o", &out, "--force"]).succeeds();
    }
    let reported = json(&remora(["heap", "convert", &file, "-o", "-", "--format", "heapsnapshot"]).succeeds());
    assert_eq!(reported["snapshot"]["remora"]["complete"], true);
    // The root, one kind of roots, and the objects.
    assert_eq!(reported["snapshot"]["node_count"], 104);
    assert_eq!(directory.names().len(), 3, "nothing else is left: {:?}", directory.names());
}

#[test]
fn what_cannot_be_converted_is_refused() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 3, End::Whole);
    expect![[r#"remora: unknown format "out.html": there are heapsnapshot (.heapsnapshot), gcdump (.gcdump), parquet (.parquet); give -o a file with one of these extensions, or --format one of these names"#]]
        .assert_eq(&remora(["heap", "convert", &file, "-o", "out.html"]).fails(2));
    expect![
        "remora: standard output has no extension that says the format; add --format, for example --format heapsnapshot"
    ]
    .assert_eq(&remora(["heap", "convert", &file, "-o", "-"]).fails(2));
    expect!["remora: /dev/full cannot be written: the disk is full (no space left); free some space, or give -o a place on another disk"]
        .assert_eq(&remora(["heap", "convert", &file, "-o", "/dev/full", "--format", "gcdump"]).fails(21));
    let other = directory.path("a.html");
    std::fs::write(&other, "<html>").expect("written");
    let message = remora(["heap", "convert", &other, "-o", "-", "--format", "gcdump"]).fails(30);
    assert!(message.contains("not a heap snapshot: it does not begin with RMHEAP"), "{message}");
}

#[test]
fn tables_are_files_beside_each_other() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 100, End::Whole);
    let out = directory.path("out.parquet");
    remora(["heap", "convert", &file, "-o", &out]).succeeds();
    let names = ["objects", "references", "roots", "types"].map(|table| format!("out.{table}.parquet"));
    assert_eq!(directory.names()[1..], names);
    for name in &names {
        let bytes = std::fs::read(directory.path(name)).expect("it is there");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
    std::fs::remove_file(directory.path("out.types.parquet")).expect("removed");
    let message = remora(["heap", "convert", &file, "-o", &out]).fails(20);
    assert!(message.contains("out.objects.parquet exists and is not overwritten"), "{message}");
    assert_eq!(directory.names().len(), 4, "where one cannot be written, none is");
    remora(["heap", "convert", &file, "-o", &out, "--force"]).succeeds();
    expect!["remora: tables are several files, and standard output is one; give -o a name, FILE.parquet"]
        .assert_eq(&remora(["heap", "convert", &file, "-o", "-", "--format", "parquet"]).fails(2));
}

#[test]
fn part_of_a_heap_is_converted_and_reported() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 3, End::Interrupted);
    let out = directory.path("out.heapsnapshot");
    let ran = remora(["heap", "convert", &file, "-o", &out]);
    assert_eq!(ran.code, 42, "{}", ran.stderr);
    assert!(ran.stderr.contains("does not hold all of the heap"), "{}", ran.stderr);
    let reported = json(&std::fs::read_to_string(&out).expect("it is there"));
    assert_eq!(reported["snapshot"]["remora"]["account"][0], "Shop (4711), .NET 8.0.4: NOT all of the heap");
}

#[test]
fn a_file_without_names_says_so() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 300_000, End::Cut);
    let ran = remora(["heap", "report", &file]);
    assert_eq!(ran.code, 42, "{}", ran.stderr);
    let head = "of which process is not known: the file ends before that, and before the names of types\nNOT all of the heap: ";
    assert!(ran.stdout.starts_with(head), "{}", ran.stdout);
    assert!(ran.stdout.contains("note: the file ends early"), "{}", ran.stdout);
}

#[test]
fn a_difference_shows_what_shrank_as_what_grew_and_what_it_leaves_out() {
    let directory = Directory::new();
    let before = snapshot(&directory, "a.remora-heap", 200, End::Whole);
    let after = snapshot(&directory, "b.remora-heap", 100, End::Whole);
    expect![[r#"
        before: Shop (4711), .NET 8.0.4: 208 KiB in 202 objects
        after:  Shop (4711), .NET 8.0.4: 108 KiB in 102 objects
        in all: -100 KiB, -100 objects

        application types, by growth of their retained size
        retained  own  objects  now  type
        -100 KiB    0        0    1  App.Cache

        types of the framework, by growth of their retained size
        retained       own  objects  now  type
        -100 KiB  -100 KiB     -100  100  string
                         0        0    1  1 more (--top shows them)
    "#]]
    .assert_eq(&remora(["heap", "diff", &before, &after, "--top", "1"]).succeeds());
    let all = json(&remora(["heap", "diff", &before, &after, "--top", "1", "--json"]).succeeds());
    assert_eq!(all["types"].as_array().map(Vec::len), Some(3), "JSON has all");
    assert_eq!((&all["before"]["objects"], &all["after"]["bytes"]), (&202.into(), &110_632.into()));
    assert_eq!(all["notes"], serde_json::json!([]));
    let same = remora(["heap", "diff", &before, &before]).succeeds();
    let nothing = "Nothing has changed: every type has as many objects and bytes as before, and retains as much.\n";
    assert!(same.ends_with(nothing), "{same}");
}

#[test]
fn a_difference_shows_who_holds_what_has_grown_and_on_which_new_paths() {
    let directory = Directory::new();
    let before = snapshot(&directory, "a.remora-heap", 0, End::Whole);
    let after = snapshot(&directory, "b.remora-heap", 100, End::Whole);
    expect![[r#"
        before: Shop (4711), .NET 8.0.4: 8.04 KiB in 2 objects
        after:  Shop (4711), .NET 8.0.4: 108 KiB in 102 objects
        in all: +100 KiB, +100 objects

        application types, by growth of their retained size
        retained  own  objects  now  type
        +100 KiB    0        0    1  App.Cache

        types of the framework, by growth of their retained size
        retained       own  objects  now  type
        +100 KiB  +100 KiB     +100  100  string
        +100 KiB         0        0    1  object[]

        growing holders: objects that no other object alone keeps
        retained      now  object                         held by
        +100 KiB  108 KiB  App.Cache (at 0x7f0000000000)

        suspect      100.0% of the heap: 108 KiB in 102 objects
        held by      a static field, a local variable or a handle
        name it by   remora heap -p 4711 --roots
        object       App.Cache (at 0x7f0000000000)
        accumulates  100 × string: 100 KiB, retained 100 KiB

        new paths to roots, of objects of the types that grew most
        objects  path
            100  a root that is not known → App.Cache → object[] → string
    "#]]
    .assert_eq(&remora(["heap", "diff", &before, &after]).succeeds());
    let shown = json(&remora(["heap", "diff", &before, &after, "--json"]).succeeds());
    let row = &shown["holders"][0];
    assert_eq!((&row["retained_before"], &row["retained_after"]), (&8232.into(), &110_632.into()));
    assert_eq!(shown["new_paths"][0]["types"], serde_json::json!(["App.Cache", "object[]", "string"]));
    let own = shown["types"].as_array().expect("rows").iter().filter(|row| row["application"] == true);
    assert_eq!(own.map(|row| &row["type"]).collect::<Vec<_>>(), ["App.Cache"]);
    assert_eq!(shown["suspect_details"][0]["accumulates"]["type"], "string");
    // What shrinks has no holder that grows, and no new path.
    let shrunk = json(&remora(["heap", "diff", &after, &before, "--json"]).succeeds());
    for part in ["holders", "suspect_details", "new_paths"] {
        assert_eq!(shrunk[part], serde_json::json!([]), "{part}");
    }
}

#[test]
fn a_difference_of_two_programs_says_so() {
    let directory = Directory::new();
    let before = snapshot(&directory, "a.remora-heap", 2, End::Whole);
    let after = snapshot_of("Orders", &directory, "b.remora-heap", 3, End::Whole);
    let reported = remora(["heap", "diff", &before, &after]).succeeds();
    let note =
        "the two are of different programs, Shop and Orders: types that are called the same need not be the same";
    assert!(reported.contains(&format!("objects\nnote: {note}\n\napplication types,")), "{reported}");
    assert_eq!(json(&remora(["heap", "diff", &before, &after, "--json"]).succeeds())["notes"][0], note);
}

#[test]
fn a_table_that_is_cut_says_how_much_it_leaves_out() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 4, End::Whole);
    let reported = remora(["heap", "report", &file, "--top", "1"]).succeeds();
    let types = reported.split("\nholders").next().unwrap_or_default();
    assert!(types.ends_with("  2 more (--top shows them)\n"), "{reported}");
    // The array and four strings; what they retain is in what the cache retains.
    let row = types.lines().last().unwrap_or_default();
    assert!(row.trim_start().starts_with("12.0 KiB  ") && row.contains("  5  "), "{reported}");
    assert!(!remora(["heap", "report", &file]).succeeds().contains("--top"), "nothing is left out");
}

#[test]
fn types_of_one_name_were_alike_now_they_have_their_assembly_and_are_found_by_it() {
    let directory = Directory::new();
    let types = ["App.Cache, App", "object[], Core", "App.Cache, Other"];
    let file = snapshot_of_types("Shop", &directory, "a.remora-heap", (4, End::Whole), types);
    let reported = remora(["heap", "report", &file]).succeeds();
    for row in ["  App.Cache, App\n", "  App.Cache, Other\n", "  object[]\n"] {
        assert!(reported.contains(row), "{row}: {reported}");
    }
    assert!(!reported.contains("App.Cache\n") && !reported.contains("object[], "), "{reported}");
    let of_holder = json(&remora(["heap", "report", &file, "--json"]).succeeds())["suspect_details"].clone();
    assert!(of_holder.to_string().contains("\"App.Cache, App\""), "{of_holder:#}");
    let shown = remora(["heap", "show", &file, "App.Cache, Other"]).succeeds();
    assert!(shown.contains("App.Cache, App (at 0x"), "it refers to them: {shown}");
    let fails = |condition: &str| remora(["heap", "report", &file, "--fail-if", condition]).code;
    assert_eq!(fails("count('App.Cache, Other') > 3"), 43);
    assert_eq!(fails("count('App.Cache, App') > 3"), 0);
    assert_eq!(fails("count('App.Cache') > 3"), 2, "either is meant");
    let other = snapshot_of_types("Shop", &directory, "b.remora-heap", (9, End::Whole), types);
    let grown = remora(["heap", "diff", &file, &other]).succeeds();
    assert!(grown.contains("  App.Cache, App\n") && grown.contains("  App.Cache, Other\n"), "{grown}");
}

#[test]
fn a_file_of_the_other_kind_is_reported_with_the_command_that_shows_it() {
    let directory = Directory::new();
    let (snapshot, recording) = (snapshot(&directory, "a.remora-heap", 4, End::Whole), golden());
    let reported =
        format!("remora: {snapshot} is a heap snapshot, and no recording; `remora heap report {snapshot}` shows it");
    assert_eq!(remora(["report", &snapshot]).fails(30), reported);
    assert_eq!(remora(["convert", &snapshot, "-o", &directory.path("a.html")]).fails(30), reported);
    let reported =
        format!("remora: {recording} is a recording, and no heap snapshot; `remora report {recording}` shows it");
    for command in
        [&["report", recording][..], &["show", recording, "A"], &["view", recording], &["diff", recording, &snapshot]]
    {
        assert_eq!(remora(std::iter::once(&"heap").chain(command)).fails(30), reported);
    }
}
