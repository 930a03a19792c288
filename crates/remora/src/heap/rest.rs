//! What a table leaves out, and what can be looked at next: no answer ends where somebody does not know how to go on.

use crate::console::{Page, counted, line};
use std::path::PathBuf;

/// How many rows a table or list leaves out.
pub(crate) fn more(count: usize, shown: usize) -> Page {
    match count.saturating_sub(shown) {
        0 => Page::default(),
        left => line(format!("and {} (--top shows more)", counted(left as u64, "other"))),
    }
}

/// Where a snapshot is, and what shows more of it than its report; of the two of a watch what compares them.
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
    fn what_is_left_out_is_counted_and_nothing_is_said_of_nothing() {
        let told = [(20, 20), (3, 20), (21, 20), (1_234_567, 0)].map(|(count, shown)| more(count, shown));
        assert_eq!(
            told.each_ref().map(|told| &**told),
            ["", "", "and 1 other (--top shows more)\n", "and 1,234,567 others (--top shows more)\n"]
        );
    }

    #[test]
    fn whoever_has_a_file_is_told_what_to_do_with_it() {
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
