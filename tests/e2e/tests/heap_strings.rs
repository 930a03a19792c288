//! `remora heap --strings` on live runtimes: the contents of strings, which are stored only on request.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Target, on_every_runtime, remora};
use remora_holds::holds;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The number of equal strings, and the bytes of one: two words, the length, the characters and a zero.
const COPIES: u64 = 1000;
const SAME: &str = "the same text again and again";
const BYTES: u64 = 22 + 2 * 29;

/// A string of unique characters: even a compressed file contains it verbatim.
const UNLIKE: &str = "\u{a3f7}\u{91c2}\u{c0a1}\u{8b4e}\u{c3d9}\u{97e5}\u{bd13}\u{9a6c}";

/// Whether a file contains that string.
fn has_characters(file: &Path) -> bool {
    let characters: Vec<u8> = UNLIKE.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::read(file).unwrap().windows(characters.len()).any(|window| window == characters)
}

#[test]
fn gch_06_strings_are_reported_with_their_characters_and_those_that_are_there_again_are_counted() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "texts", &[]);
        let directory = tempfile::tempdir().unwrap();
        let (process, file) = (target.pid().to_string(), directory.path().join("texts.remora-heap"));
        let file = file.to_str().unwrap();
        let take = ["heap", "--process-id", &process, "--strings", "--json", "-o", file];
        let shown = remora(take).succeeded().json();
        let strings = &shown["strings"];
        let repeated = strings["repeated"].as_array().unwrap();
        let same = repeated.iter().find(|row| row["text"] == SAME).unwrap_or_else(|| panic!("{strings:#}"));
        // The literal itself is one more.
        assert_eq!(same["count"], COPIES + 1);
        let number = |row: &Value, what: &str| row[what].as_u64().unwrap();
        assert_eq!((number(same, "bytes"), number(same, "wasted")), ((COPIES + 1) * BYTES, COPIES * BYTES));
        assert_eq!(repeated[0], *same, "nothing wastes more");
        let row = shown["types"].as_array().unwrap().iter().find(|row| row["type"] == "System.String").unwrap();
        let pair = |row: &Value| (number(row, "count"), number(row, "bytes"));
        holds!(GCH_06 rem, pair(strings) == pair(row), "every string of the heap is among them");
        assert!(number(strings, "not_compared") >= 1, "the very long one, and what the runtime has of its kind");

        // Every kind of string, by its address.
        let all = remora(["heap", "show", file, "string", "--json", "--top", "20000"]).succeeded().json();
        let of_size = |bytes: u64| {
            let rows = all["objects"].as_array().unwrap().iter().filter(move |row| number(row, "bytes") == bytes);
            let addresses = rows.map(|row| format!("@{:#x}", number(row, "address")));
            let texts = addresses.map(|at| remora(["heap", "show", file, &at, "--json"]).succeeded().json());
            texts.map(|one| one["text"].as_str().unwrap().to_owned())
        };
        assert!(of_size(22 + 2 * 10_000).any(|text| text.contains("xxxx") && text.contains("10,000 characters")));
        assert!(of_size(22 + 2 * 4).any(|text| text == "\"a\u{1f600}\u{fffd}\""));
        assert!(of_size(22 + 2 * 15).any(|text| text == "\"a \\\"quoted\\\"\\nline\""));
        let text = remora(["heap", "report", file]).succeeded().text();
        assert!(text.contains("would be saved") && text.contains(SAME), "{text}");
        assert_eq!(target.ask_number("count"), COPIES + 4);
        assert!(has_characters(Path::new(file)));
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "nobody else can read what the application said");
        assert!(number(&shown, "fork_nanoseconds") > 0, "also of a copy that has ended before anybody looked");
    });
}

#[test]
fn gch_06_without_being_asked_for_no_text_of_the_application_is_in_a_snapshot() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "texts", &[]);
        let directory = tempfile::tempdir().unwrap();
        let (process, file) = (target.pid().to_string(), directory.path().join("texts.remora-heap"));
        let shown =
            remora(["heap", "--process-id", &process, "--json", "-o", file.to_str().unwrap()]).succeeded().json();
        holds!(GCH_06 rem, shown["strings"] == Value::Null);
        assert!(!has_characters(&file));
    });
}
