//! What a report finds by itself, in a program that was made to have it in known numbers.
#![forbid(unsafe_code)]

use remora_e2e::{Target, on_every_runtime, remora};
use serde_json::Value;

#[test]
fn what_wastes_room_and_who_is_forgotten_is_found_with_its_numbers() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "found", &[]);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("found.remora-heap");
        let (process, file) = (target.pid().to_string(), file.to_str().expect("a name"));
        let told = remora(["heap", "-p", &process, "--json", "-o", file]).succeeded().json();
        assert_eq!(told["complete"], Value::Bool(true), "{told:#}");
        let finalizers = &told["findings"]["finalizers"]["types"];
        let of = |name: &str| {
            finalizers.as_array().expect("types").iter().find(|row| row["type"] == name).map(|row| row["count"].clone())
        };
        for (name, count) in [
            ("Found.Finalized", Some(6)),
            ("Found.Inherits", Some(4)),
            ("Found.Again", Some(2)),
            ("Found.NoFinalizer", None),
            ("Found.NoFinalizerEither", None),
        ] {
            assert_eq!(of(name), count.map(Value::from), "{name}");
        }
    });
}
