//! Static fields in snapshots of live runtimes: their values, and the objects that they keep alive.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{HeldCopy, Remora, Runtime, Target, on_every_runtime, remora};
use remora_holds::holds;
use serde_json::Value;
use std::path::Path;

/// Takes a snapshot of the test program into `file`.
fn take(target: &Target, file: &Path, more: &[&str]) -> Value {
    let process = target.pid().to_string();
    let take = ["heap", "--process-id", &process, "-o", file.to_str().unwrap(), "--json"];
    remora(take.iter().chain(more)).succeeded().json()
}

fn show(file: &Path, what: &str) -> Value {
    remora(["heap", "show", file.to_str().unwrap(), what, "--json", "--top", "20000"]).succeeded().json()
}

/// The static fields of a type: name, type and value of each. A reference to neither a string nor a box is shown as its target's type.
fn fields(file: &Path, of: &str) -> Vec<[String; 3]> {
    let reported = show(file, of);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |field: &Value| [text(&field["name"]), text(&field["type"]), written(file, field)];
    reported["static_fields"].as_array().unwrap().iter().map(row).collect()
}

fn written(file: &Path, value: &Value) -> String {
    if let Some(text) = value["value"].as_str() {
        return text.to_owned();
    }
    if let Some(fields) = value["fields"].as_array() {
        let of = |field: &Value| format!("{}: {}", field["name"].as_str().unwrap(), written(file, field));
        return format!("{{{}}}", fields.iter().map(of).collect::<Vec<_>>().join(", "));
    }
    match value["address"].as_u64() {
        Some(address) => show(file, &format!("@{address:#x}"))["object"]["type"].as_str().unwrap().to_owned(),
        None => value["missing"].as_str().unwrap_or("nothing").to_owned(),
    }
}

#[track_caller]
fn are(reported: &[[String; 3]], expected: &[[&str; 3]]) {
    let reported: Vec<[&str; 3]> = reported.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    holds!(GCH_06 clr rem, reported == expected);
}

#[test]
fn gch_06_static_fields_are_reported_with_their_values_as_csharp_writes_them() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("values.remora-heap");
        take(&target, &file, &["--values"]);
        // Constants have no storage, and thread statics do not belong to the type.
        are(
            &fields(&file, "Known.Statics"),
            &[
                ["Number", "int", "123"],
                ["Text", "string", "\"static text\""],
                ["Instance", "Base", "Known.Derived"],
                ["At", "Point", "{X: 21, Y: 22}"],
                ["Shade", "Colour", "Colour.Green"],
                ["Since", "DateTime", "2015-05-05 00:00:00"],
                ["Cache", "Cached[]", "Known.Cached[]"],
                ["Pair", "KeyValuePair<string, Cached>", "{key: \"the key\", value: Known.Cached}"],
                ["Nothing", "object", "null"],
            ],
        );
    });
}

/// An object kept only by a static field shows that field as its root, with or without values and other options.
#[test]
fn gch_06_what_a_static_field_keeps_is_held_by_its_name() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        for more in ways(runtime) {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("values.remora-heap");
            let report = take(&target, &file, more);
            assert!(report["roots"]["static"].as_u64().unwrap() > 10, "{more:?}: {:#}", report["roots"]);
            assert_eq!(report["complete"], true, "{more:?}: {:#}", report["notes"]);
            let cached = show(&file, "Known.Cached[]");
            let path = &show(&file, &format!("@{:#x}", cached["objects"][0]["address"].as_u64().unwrap()))["path"];
            assert_eq!(path["root"], "static", "{more:?}");
            holds!(GCH_06 rem, path["root_note"] == "Known.Statics.Cache", "{more:?}");
            // The boxed one, too; a local may also be known to refer to it.
            let boxed = show(&file, "Known.Statics");
            let pair = boxed["static_fields"].as_array().unwrap().iter().find(|field| field["name"] == "Pair").unwrap();
            let path = &show(&file, &format!("@{:#x}", pair["address"].as_u64().unwrap()))["path"];
            assert_eq!(path["root_note"], "Known.Statics.Pair", "{more:?}");
        }
    });
}

/// Every option set that the runtime supports.
fn ways(runtime: &Runtime) -> &'static [&'static [&'static str]] {
    if runtime.major() >= 9 { &[&[], &["--roots"], &["--no-gc"]] } else { &[&[], &["--roots"]] }
}

#[test]
fn gch_06_without_being_asked_for_static_fields_have_names_and_references_and_no_values() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("values.remora-heap");
        take(&target, &file, &[]);
        are(
            &fields(&file, "Known.Statics"),
            &[
                ["Text", "string", "System.String"],
                ["Instance", "Base", "Known.Derived"],
                ["At", "Point", "Known.Point"],
                ["Since", "DateTime", "System.DateTime"],
                ["Cache", "Cached[]", "Known.Cached[]"],
                [
                    "Pair",
                    "KeyValuePair<string, Cached>",
                    "System.Collections.Generic.KeyValuePair<string, Known.Cached>",
                ],
                ["Nothing", "object", "null"],
            ],
        );
    });
}

/// Reading an unused class does not initialize it, and its static fields have no values.
#[test]
fn a_class_that_nobody_has_used_stays_as_it_is() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let directory = tempfile::tempdir().unwrap();
        for round in 0..2 {
            let file = directory.path().join(format!("values-{round}.remora-heap"));
            take(&target, &file, &["--values"]);
            let never = remora(["heap", "show", file.to_str().unwrap(), "Known.NeverTouched"]);
            never.failed_with(2, &["no static field belongs to one"]);
        }
    });
}

/// The runtime does not locate static fields of generic types: their objects are alive without a known root.
#[test]
fn gch_06_static_fields_of_generic_types_are_not_reported_and_what_they_keep_is_there() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("values.remora-heap");
        take(&target, &file, &["--values"]);
        are(&fields(&file, "Known.PerType<int>"), &[]);
        let kept = show(&file, "System.Collections.Generic.List<int>");
        let paths = kept["objects"].as_array().unwrap().iter();
        let path =
            |object: &Value| show(&file, &format!("@{:#x}", object["address"].as_u64().unwrap()))["path"].clone();
        assert!(paths.map(path).any(|path| path["root"] == "inferred"), "{kept:#}");
    });
}

/// Objects, where the copy needs work.
const MANY: &str = "2000000";

/// From .NET 7 on, numbers in static fields and the runtime's class data are in memory that a fork shares.
#[test]
fn regression_what_the_program_stores_in_static_fields_while_its_heap_is_walked_is_not_in_the_snapshot() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "values", &[MANY]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("values.remora-heap");
        let process = target.pid().to_string();
        let command = Remora::start(["heap", "-p", &process, "--values", "--json", "-o", file.to_str().unwrap()]);
        let copy = HeldCopy::of(&target, &command);
        assert_eq!(target.ask("later"), "later");
        copy.go_on();
        let reported = command.finish().succeeded().json();
        assert_eq!(
            (&reported["complete"], &reported["static_fields"]),
            (&true.into(), &true.into()),
            "{:#}",
            reported["notes"]
        );
        assert_eq!(fields(&file, "Known.Statics")[0], ["Number", "int", "123"]);
        let later = remora(["heap", "show", file.to_str().unwrap(), "Known.Later"]);
        later.failed_with(2, &["no static field belongs to one"]);
    });
}
