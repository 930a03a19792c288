//! The files of snapshots, and the commands that analyse them further.

use crate::console::{Page, line};
use std::path::PathBuf;

/// The files, and the command that shows more than the report; for the two files of a watch, the command that compares them.
pub(super) fn kept(files: &[PathBuf]) -> Page {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let next = match &files[..] {
        [] => return Page::default(),
        [file] => format!(
            "next: `remora heap view {file}` in the browser, `remora heap show {file} TYPE` for what keeps a type's objects alive"
        ),
        files => {
            format!("next: `remora heap diff {}`, `remora heap view FILE` of either in the browser", files.join(" "))
        }
    };
    files.iter().map(|file| line(format!("kept in {file}"))).sum::<Page>() + line(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_file_learns_what_to_do_with_it() {
        let files = |names: &[&str]| kept(&names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(files(&[]), Page::default());
        expect_test::expect![[r"
            kept in a.remora-heap
            next: `remora heap view a.remora-heap` in the browser, `remora heap show a.remora-heap TYPE` for what keeps a type's objects alive
        "]]
        .assert_eq(&files(&["a.remora-heap"]));
        expect_test::expect![[r"
            kept in a.before.remora-heap
            kept in a.after.remora-heap
            next: `remora heap diff a.before.remora-heap a.after.remora-heap`, `remora heap view FILE` of either in the browser
        "]]
        .assert_eq(&files(&["a.before.remora-heap", "a.after.remora-heap"]));
    }
}
