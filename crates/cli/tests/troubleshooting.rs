//! docs/troubleshooting.md has a heading for every message of an error type that a user can see, and no other headings.
//!
//! The messages are read from the sources: what is written there is what is shown, with `…` for each thing that differs.

use std::collections::BTreeSet;
use std::path::Path;

/// Where messages are written.
const SOURCES: [&str; 13] = [
    "crates/cli/src/failure.rs",
    "crates/cli/src/preconditions.rs",
    "crates/cli/src/heap/take.rs",
    "crates/cli/src/record/plan.rs",
    "crates/trigger/src/error.rs",
    "crates/trigger/src/check.rs",
    "crates/collector/src/error.rs",
    "crates/heap/src/error.rs",
    "crates/heap-export/src/lib.rs",
    "crates/heap-file/src/error.rs",
    "crates/heap-view/src/error.rs",
    "crates/recording/src/error.rs",
    "crates/receipt/src/error.rs",
];

/// What stands before a message in them.
const MARKS: [&str; 5] =
    ["#[error(", "Check::failed(", "let found = format!(", "check.found = format!(", "return usage("];

#[test]
fn every_message_has_its_heading() {
    let page = read("docs/troubleshooting.md");
    let headings: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(headings.len(), page.lines().filter(|line| line.starts_with("### ")).count(), "a heading stands twice");
    let messages: BTreeSet<String> = SOURCES.iter().flat_map(|source| messages(&read(source))).collect();
    assert!(messages.len() > 60, "{messages:#?}");
    let missing: Vec<&String> = messages.iter().filter(|message| !headings.contains(message.as_str())).collect();
    assert!(missing.is_empty(), "without a heading: {missing:#?}");
    let stale: Vec<&&str> = headings.iter().filter(|heading| !messages.contains(**heading)).collect();
    assert!(stale.is_empty(), "headings that no message has: {stale:#?}");
}

#[test]
fn every_code_of_the_runtime_is_in_the_table() {
    let page = read("docs/troubleshooting.md");
    let table = read("crates/trigger/src/hresult.rs");
    let names = table.split('"').filter(|text| {
        text.len() > 5 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
    });
    let missing: Vec<&str> = names.filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_message_is_cut_before_its_remedy_and_its_variables_are_left_open() {
    let source = "#[error(\"{0}\")]\n#[error(\n  \"no {what} in {}: \\\n   {0:?}; look\", .path)]\nlet found = format!(\"x y\");";
    assert_eq!(messages(source), ["no … in …: …", "x y"]);
}

/// The messages in a source, without their remedies.
fn messages(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default().replace("\\\"", "\u{201d}");
    let joined = without_continuations(&source);
    let mut found = Vec::new();
    for mark in MARKS {
        for after in joined.split(mark).skip(1) {
            let after = after.trim_start();
            let after = after.strip_prefix("NAME,").unwrap_or(after).trim_start();
            let after = after.strip_prefix("format!(").unwrap_or(after);
            let Some(text) = after.strip_prefix('"').and_then(|text| text.split('"').next()) else { continue };
            let message = open(text.split("; ").next().unwrap_or_default());
            // What is nothing but another message has that one's heading, and a single word is a check's name.
            if message.chars().any(char::is_alphabetic) && message.contains(' ') {
                found.push(message);
            }
        }
    }
    found
}

/// A string that is written on two lines is one.
fn without_continuations(source: &str) -> String {
    let mut pieces = source.split("\\\n");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |joined, piece| joined + piece.trim_start())
}

/// `…` for each `{…}`.
fn open(text: &str) -> String {
    let mut pieces = text.split('{');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |opened, piece| opened + "…" + piece.split_once('}').map_or("", |(_, rest)| rest))
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
