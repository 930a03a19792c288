//! The forms of `holds!`: what each asserts, and what it records.

use remora_holds::{FOLDER, Place, holds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// The message of the panic of `body`.
fn panic_of(body: impl FnOnce()) -> String {
    let cause = catch_unwind(AssertUnwindSafe(body)).expect_err("it does not hold");
    let text = cause.downcast_ref::<String>().cloned();
    text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[test]
fn a_comparison_that_fails_shows_clauses_condition_message_and_both_sides() {
    let one = 1;
    let message = panic_of(|| holds!([DET_04 DET_06] sim, one + 1 == 3, "after {}", "all"));
    assert_eq!(message, "DET-04, DET-06 does not hold: `one + 1 == 3`: after all\n  left: 2\n right: 3");
    let message = panic_of(|| holds!(DET_14 rem, vec!["a"] == ["b"]));
    assert_eq!(message, "DET-14 does not hold: `vec![\"a\"] == [\"b\"]`\n  left: [\"a\"]\n right: [\"b\"]");
}

#[test]
fn any_other_condition_is_asserted_as_a_whole() {
    let (yes, no) = (true, false);
    for message in [
        panic_of(|| holds!(DET_14 rem, no)),
        panic_of(|| holds!(DET_14 rem, yes && 1 == 2)),
        panic_of(|| holds!(DET_14 rem, 1 == 1 && no, "{no}")),
        panic_of(|| holds!(DET_14 rem, no || 1 == 2)),
        panic_of(|| holds!(DET_14 rem, 1 != 1)),
        panic_of(|| holds!(DET_14 rem, [1, 2].iter().any(|number| number % 3 == 0), "none of {}", 2)),
        panic_of(|| holds!(DET_14 rem, matches!(1, 2 | 3))),
    ] {
        assert!(message.starts_with("DET-14 does not hold: `") && !message.contains("left:"), "{message}");
    }
    holds!(DET_14 sim rem, no || 1 == 1);
    holds!(DET_14 rem, "a" == String::from("a"), "with a message");
    holds!(DET_14 rem, !no,);
}

#[test]
fn a_live_runtime_without_a_world_is_a_mistake() {
    assert!(panic_of(|| holds!(DET_14 clr, true)).contains("no world is set"));
    Place::current().in_world("clr 8.0.4").inside(|| holds!(DET_14 clr, true));
}

/// Runs in a process of its own for the test below.
#[test]
fn what_is_recorded() {
    holds!(ATT_01 rem, 1 == 1);
    let _ = catch_unwind(|| holds!(ATT_02 rem, 1 == 2));
    Place::current().in_world("sim 8").inside(|| {
        for _ in 0..3 {
            holds!([ATT_03 ATT_04] sim clr, true);
        }
    });
}

#[test]
fn each_assertion_that_held_is_one_line_in_the_folder_and_one_that_failed_is_none() {
    let folder = std::env::temp_dir().join(format!("remora-holds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let own = std::env::current_exe().expect("this program");
    let ran = Command::new(own).args(["--exact", "what_is_recorded"]).env(FOLDER, &folder).output().expect("it runs");
    let files: Vec<_> = std::fs::read_dir(&folder).expect("it is there").flatten().collect();
    let lines: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let text = std::fs::read_to_string(file.path()).expect("a file");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    assert!(ran.status.success(), "{ran:?}");
    let heads: Vec<&str> = lines.iter().filter_map(|line| line.split(", \"package\"").next()).collect();
    let expected = [("ATT-01", "rem"), ("ATT-03", "sim 8"), ("ATT-04", "sim 8")]
        .map(|(clause, world)| format!(r#"{{"holds": "{clause}", "world": "{world}", "test": "what_is_recorded""#));
    assert_eq!(heads, expected);
    assert!(lines[0].contains(r#""binary": "holds""#) && lines[0].contains("tests/holds.rs:"), "{}", lines[0]);
}
