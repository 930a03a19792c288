//! The files of snapshots, and the commands that analyse them further.

use crate::console::{Page, line};
use std::path::PathBuf;

/// The files, and the commands that show more than the report: `wanted` is the type or object to start with. For the two files of a watch,
/// the command that compares them.
pub(super) fn kept(files: &[PathBuf], wanted: Option<&str>) -> Page {
    let files: Vec<String> = files.iter().map(|file| quoted(&file.display().to_string())).collect();
    let next = match (&files[..], wanted) {
        ([], _) => return Page::default(),
        ([file], Some(wanted)) => {
            vec![format!("remora heap show {file} {}", quoted(wanted)), format!("remora heap view {file}"), later(file)]
        }
        ([file], None) => vec![format!("remora heap view {file}"), later(file)],
        (several, _) => {
            let last = several.last().map(|file| format!("remora heap view {file}"));
            std::iter::once(format!("remora heap diff {}", files.join(" "))).chain(last).collect()
        }
    };
    let next = next.iter().enumerate().map(|(place, next)| {
        let head = if place == 0 { "next: " } else { "      " };
        line(format!("{head}{next}"))
    });
    files.iter().map(|file| line(format!("kept in {file}"))).sum::<Page>() + next.sum()
}

/// What shows growth.
fn later(file: &str) -> String {
    format!("remora heap diff {file} LATER  (a second snapshot: what has grown)")
}

/// As a shell reads it as one word.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "@%+=:,./-_".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_file_comes_with_its_next_steps() {
        let files = |names: &[&str], wanted| kept(&names.iter().map(PathBuf::from).collect::<Vec<_>>(), wanted);
        assert_eq!(files(&[], None), Page::default());
        expect_test::expect![[r#"
            kept in a.remora-heap
            next: remora heap show a.remora-heap 'App.Cache<string>'
                  remora heap view a.remora-heap
                  remora heap diff a.remora-heap LATER  (a second snapshot: what has grown)
        "#]]
        .assert_eq(&files(&["a.remora-heap"], Some("App.Cache<string>")));
        expect_test::expect![[r#"
            kept in a.remora-heap
            next: remora heap view a.remora-heap
                  remora heap diff a.remora-heap LATER  (a second snapshot: what has grown)
        "#]]
        .assert_eq(&files(&["a.remora-heap"], None));
        expect_test::expect![[r"
            kept in 'a b.before.remora-heap'
            kept in 'a b.after.remora-heap'
            next: remora heap diff 'a b.before.remora-heap' 'a b.after.remora-heap'
                  remora heap view 'a b.after.remora-heap'
        "]]
        .assert_eq(&files(&["a b.before.remora-heap", "a b.after.remora-heap"], None));
    }

    #[test]
    fn a_quote_in_a_name_stays_in_it() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("@0x7f00"), "@0x7f00");
    }
}
