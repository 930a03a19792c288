//! `remora trace --arguments -- CMD`: arguments and results of calls, compared with the program's own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Finished, Remora, Runtime, Target, on_every_runtime, on_runtimes};
use remora_holds::holds;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// UTF-16 units that are kept of a string, if all arguments of the call have room.
const LONGEST_TEXT: usize = 256;
/// The first version that does not damage registers when a method with a structure is asked for its arguments.
const FIRST_WITH_STRUCTURES: u32 = 8;
/// Methods with a structure, or a type that can be one, among their parameters. The first two return one of 16 bytes.
const WITH_STRUCTURES: [&str; 8] = [
    "Passed.Cases.Money",
    "Passed.Cases.Named",
    "Passed.Cases.Dated",
    "Passed.Cases.Lasting",
    "Passed.Cases.Structures",
    "Passed.Cases.ByBufferGeneric",
    "Passed.Shelf..ctor",
    "Passed.Shelf.Count",
];
/// The exit code of `remora` for wrong options, from docs/reference/exit-codes.md.
const USAGE: i32 = 2;

/// `remora trace --arguments FLAGS -- dotnet PROGRAM ARGUMENTS`, run to its end. Returns the call tree, too.
fn run(runtime: &Runtime, folder: &Path, flags: &[&str], program: &[&str]) -> (Finished, Value) {
    let file = folder.join("a.calls.json");
    let mut command = Remora::command();
    command.current_dir(folder).args(["trace", "--arguments", "-o", file.to_str().unwrap()]).args(flags).arg("--");
    command.arg(runtime.launcher()).arg(Target::assembly(program[0])).args(&program[1..]);
    let finished = Remora::spawn(command).finish();
    (finished, serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
}

/// A value: of which method, of which parameter or of the result, and the value itself.
type Passed = (String, String, Value);

/// The program's own list.
fn passed(text: &str) -> Vec<Passed> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("value "));
    let parsed = lines.map(|line| {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        (words[0].to_owned(), words[1].to_owned(), serde_json::from_str(words[2]).unwrap())
    });
    parsed.collect()
}

/// The program's own list of the values of enums that have names, sorted.
fn named(text: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("enum ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The same, as recorded.
fn recorded_names(calls: &[(String, &Value)]) -> Vec<String> {
    let mut found = Vec::new();
    for (method, call) in calls {
        let arguments = call["arguments"].as_array().unwrap().iter();
        found.extend(
            arguments.filter_map(|one| Some(format!("{method} {} {}", one["name"].as_str()?, one["enum"].as_str()?))),
        );
        found.extend(call["result_enum"].as_str().map(|name| format!("{method} result {name}")));
    }
    found.sort();
    found
}

/// The recorded calls with the names of their methods.
fn calls(tree: &Value) -> Vec<(String, &Value)> {
    let methods = tree["methods"].as_array().unwrap();
    let name = |call: &Value| {
        let node = &tree["nodes"][call["node"].as_u64().unwrap() as usize];
        let method = methods.iter().find(|method| method["index"] == node["method"]).unwrap();
        method["name"].as_str().unwrap().to_owned()
    };
    tree["recorded_calls"].as_array().unwrap().iter().map(|call| (name(call), call)).collect()
}

/// The recorded values of these calls.
fn recorded(calls: &[(String, &Value)], results: &[Passed]) -> Vec<Passed> {
    let mut found = Vec::new();
    for (method, call) in calls {
        for argument in call["arguments"].as_array().unwrap() {
            found.push((method.clone(), argument["name"].as_str().unwrap().to_owned(), argument["value"].clone()));
        }
        // In JSON, a null string and no result are the same.
        if results.iter().any(|(named, name, _)| named == method && name == "result") {
            found.push((method.clone(), "result".to_owned(), call["result"].clone()));
        } else {
            assert_eq!(call["result"], Value::Null, "{method}");
        }
    }
    found
}

/// A long string as it is kept.
fn cut((method, name, value): Passed) -> Passed {
    let cut = value.as_str().map(|text| text.chars().take(LONGEST_TEXT).collect());
    (method, name, cut.map_or(value, Value::String))
}

fn sorted(mut values: Vec<Passed>) -> Vec<String> {
    values.sort_by_key(|value| format!("{value:?}"));
    values.into_iter().map(|(method, name, value)| format!("{method} {name} {value}")).collect()
}

#[test]
fn elt_01_arguments_and_results_are_those_that_the_program_passed() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let flags = [
            "--methods",
            "Passed.Cases.*",
            "--methods",
            "Passed.Shelf.*",
            "--exclude",
            "*.Values",
            "--exclude",
            "*<>c*",
        ];
        let (finished, tree) = run(runtime, folder.path(), &flags, &["arguments"]);
        // The program checks its own values: 8 would mean that a hook has changed one.
        assert_eq!(finished.code(), 7, "{finished}");
        let mut passed = passed(&finished.text());
        assert!(passed.len() > 100, "{finished}");
        if runtime.major() < FIRST_WITH_STRUCTURES {
            let is_shown = |method: &str| !WITH_STRUCTURES.contains(&method);
            let is_returned = |method: &str| !WITH_STRUCTURES[..2].contains(&method);
            passed.retain(|(method, name, _)| if name == "result" { is_returned(method) } else { is_shown(method) });
        }
        let (long, short): (Vec<_>, Vec<_>) = calls(&tree).into_iter().partition(|(_, call)| {
            let mut arguments = call["arguments"].as_array().unwrap().iter();
            arguments.any(|argument| argument["value"].as_str().is_some_and(|text| text.len() >= LONGEST_TEXT))
        });
        let is_long = |(_, _, value): &Passed| value.as_str().is_some_and(|text| text.len() > LONGEST_TEXT);
        let of_long = passed.iter().position(is_long).unwrap();
        holds!(
            ELT_01 clr rem, sorted(recorded(&short, &passed)) == sorted(passed[..of_long].to_vec()),
            "{}", runtime.name()
        );
        let names = named(&finished.text());
        assert!(names.len() > 8, "{names:?}");
        assert_eq!(recorded_names(&calls(&tree)), names, "{}", runtime.name());
        // The last call: its strings are cut, the second one where the room for a call's arguments ends.
        let [(_, long)] = &long[..] else { panic!("{long:?}") };
        let whole = &cut(passed[of_long].clone()).2;
        assert_eq!((&long["arguments"][0]["value"], &long["result"]), (whole, whole));
        assert_eq!(long["arguments"][1]["value"], Value::Null);
        let second = long["arguments"][2]["value"].as_str().unwrap();
        assert!(second.len() > 200 && whole.as_str().unwrap().starts_with(second), "{second}");
        let thrown: Vec<_> = calls(&tree).into_iter().filter(|(_, call)| call["exception"] == true).collect();
        assert_eq!(thrown.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>(), ["Passed.Cases.Throws"]);
        let losses = tree["losses"].as_object().unwrap();
        assert!(losses.values().all(|count| count == 0), "{losses:?} on {}", runtime.name());
        let mode = std::fs::metadata(folder.path().join("a.calls.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "arguments are data of the application");
    });
}

#[test]
fn elt_01_hooks_that_get_arguments_count_exactly_and_change_no_value() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        // No call is that slow: the arguments of every call are read nevertheless.
        let flags = ["--methods", "*", "--exclude", "Tally.*", "--slower-than", "1h"];
        let (finished, tree) = run(runtime, folder.path(), &flags, &["calls"]);
        assert_eq!(finished.code(), 7, "{finished}");
        let methods = tree["methods"].as_array().unwrap();
        let mut compared = 0;
        for line in finished.text().lines().filter_map(|line| line.strip_prefix("count ")) {
            let words: Vec<&str> = line.split(' ').collect();
            // Compilers number state machines.
            let is_it = |name: &str| {
                let (before, after) = name.split_once(">d__").map_or((name, ""), |(before, after)| (before, after));
                let method = after.rsplit_once('.').map_or(String::new(), |(_, method)| format!(">.{method}"));
                format!("{before}{method}") == words[0]
            };
            let found = methods.iter().find(|method| is_it(method["name"].as_str().unwrap()));
            let found = found.unwrap_or_else(|| panic!("{line} on {}", runtime.name()));
            let own = (words[1].parse().unwrap(), words[2].parse().unwrap());
            holds!(
                ELT_01 clr rem, (found["calls"].as_u64().unwrap(), found["exceptions"].as_u64().unwrap()) == own,
                "{line}"
            );
            compared += 1;
        }
        assert!(compared > 50, "{finished}");
        for (name, count) in tree["losses"].as_object().unwrap() {
            // Thousands of paths have no room for arguments.
            assert!(count == 0 || name == "calls_without_arguments", "{name} {count} on {}", runtime.name());
        }
    });
}

#[test]
fn calls_on_more_paths_than_there_is_room_for_are_counted_and_reported() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let folder = remora_e2e::folder();
        let (finished, tree) = run(runtime, folder.path(), &["--methods", "Passed.Cases.Deep"], &["arguments", "deep"]);
        assert_eq!(tree["methods"][0]["calls"], 20_000);
        let with = calls(&tree).into_iter().filter(|(_, call)| !call["arguments"].as_array().unwrap().is_empty());
        let (with, without) = (with.count() as u64, tree["losses"]["calls_without_arguments"].as_u64().unwrap());
        assert!(with > 4000 && without > 1000, "{with} {without}");
        assert!(finished.text().contains("calls had no room for arguments"), "{finished}");
    });
}

#[test]
fn only_calls_that_last_long_enough_and_not_more_than_wanted_have_arguments() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let folder = remora_e2e::folder();
        let flags = ["--methods", "Passed.Cases.Waits", "--slower-than", "20ms"];
        let (finished, tree) = run(runtime, folder.path(), &flags, &["arguments", "slow"]);
        let slow: Vec<_> = calls(&tree).into_iter().map(|(_, call)| call["arguments"][0]["value"].clone()).collect();
        assert!(slow.contains(&Value::from(30)), "{tree}");
        assert_eq!(tree["methods"][0]["calls"], 1000);
        let text = finished.text();
        assert!(text.contains("Passed.Cases.Waits(milliseconds=30) = 30 [thread "), "{finished}");
        let folder = remora_e2e::folder();
        let flags = ["--methods", "Passed.Cases.Waits", "--limit", "5"];
        let (finished, tree) = run(runtime, folder.path(), &flags, &["arguments", "slow"]);
        let with = calls(&tree).into_iter().filter(|(_, call)| call["result"] != Value::Null).count();
        assert_eq!((with, &tree["methods"][0]["calls"]), (5, &Value::from(1000)));
        assert!(finished.text().contains("995 calls came when enough others had arguments"), "{finished}");
    });
}

#[test]
fn arguments_need_chosen_methods_and_calls() {
    let launcher = Runtime::newest().launcher();
    for (flags, words) in [
        (&["--arguments"][..], &["--methods"][..]),
        (&["--slower-than", "1ms"], &["--arguments"]),
        (&["--limit", "3"], &["--arguments"]),
        (&["--arguments", "--methods", "*", "--event", "alloc-exact"], &["alloc-exact"]),
        (&["--arguments", "--methods", "*", "--long", "1ms"], &["--long"]),
    ] {
        let mut command = Remora::command();
        command.arg("trace").args(flags).arg("--").arg(&launcher).arg(Target::assembly("arguments"));
        Remora::spawn(command).finish().failed_with(USAGE, words);
    }
}
