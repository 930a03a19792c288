//! `cargo xtask tidy`: checks beyond a formatter and a linter. Files state their purpose, named paths exist, and no file names a path of
//! the author's machine.

pub mod names;
mod rust_files;

use crate::outcome::{Context, Outcome, bail};
use crate::{contract, process};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Machine folders that no file may name.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// The pages that list names and files of the past.
const OLD_NAMES: &str = "docs/design/appendix/0020-names";

/// The page with the threat table.
const SECURITY: &str = "SECURITY.md";

/// Files under other rules: third-party, generated, or not text.
const NOT_OURS: [&str; 2] = ["Cargo.lock", "LICENSE"];

/// Checks every file of the repository and names each finding.
pub fn run(_: &[String]) -> Outcome<()> {
    let files = tracked_files()?;
    let mut findings = Vec::new();
    for file in &files {
        let Ok(text) = fs::read_to_string(crate::root().join(file)) else { continue };
        findings.extend(check(file, &text).into_iter().map(|(line, what)| (file.clone(), line, what)));
    }
    findings.extend(tests_that_are_not_there(&files).into_iter().map(|(line, what)| (SECURITY.into(), line, what)));
    if findings.is_empty() {
        println!("tidy: {} files", files.len());
        return contract::run(&["--check".into()]);
    }
    for (file, line, what) in &findings {
        eprintln!("{file}:{line}: {what}");
    }
    // It has printed its findings already.
    let _ = contract::run(&["--check".into()]);
    bail!("{} untidy places", findings.len())
}

/// Names of tests in the threat table that no file has.
fn tests_that_are_not_there(files: &[String]) -> Vec<(usize, String)> {
    let read = |file: &String| fs::read_to_string(crate::root().join(file)).ok();
    let code: Vec<String> = files.iter().filter(|file| file.ends_with(".rs")).filter_map(read).collect();
    let table = read(&SECURITY.into()).unwrap_or_default();
    let is_there = |name: &str| code.iter().any(|text| text.contains(&format!("fn {name}(")));
    names_of_tests(&table)
        .filter(|(_, name)| !is_there(name))
        .map(|(line, name)| (line, format!("no test is called `{name}`")))
        .collect()
}

/// Lines and names between backticks that read like those of tests: several words of letters with underscores.
fn names_of_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_one = |name: &&str| {
        name.matches('_').count() > 3
            && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.lines()
        .enumerate()
        .flat_map(move |(at, line)| line.split('`').skip(1).step_by(2).filter(is_one).map(move |name| (at + 1, name)))
}

/// The findings in one file of any kind: line (0: the whole file), and message.
fn check(file: &str, text: &str) -> Vec<(usize, String)> {
    if NOT_OURS.iter().any(|name| file.contains(name)) || is_test_data(file) {
        return Vec::new();
    }
    let mut findings = lines(text);
    if file.ends_with(".rs") {
        findings.extend(rust_files::check(text, |path| exists(file, path)));
        findings.extend(names::check(text));
    }
    if file.ends_with(".md") && file != "fuzz/README.md" && !file.starts_with(OLD_NAMES) {
        findings.extend(rust_files::missing_paths(text.lines().enumerate(), |path| exists(file, path)));
    }
    if file == "Cargo.toml" {
        findings.extend(uncommented_dependencies(text));
    }
    findings
}

/// Findings that apply to every line.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut add = |what: String| findings.push((number + 1, what));
        if line.ends_with([' ', '\t', '\r']) {
            add("the line ends in white space".into());
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| names_path(line, path)) {
            add(format!("`{path}` is a folder of one machine"));
        }
        for word in [concat!("TO", "DO"), concat!("FIX", "ME")] {
            if line.contains(word) && !line.contains('#') {
                add(format!("`{word}` without the number of an issue (`#12`)"));
            }
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push((text.lines().count(), "the file does not end in a line end".into()));
    }
    findings
}

/// Whether `line` contains `path` at the beginning of a path, not inside another (`/proc/self/root/`).
fn names_path(line: &str, path: &str) -> bool {
    let continues = |character: char| character.is_alphanumeric() || "/}._-~$*".contains(character);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(continues))
}

/// Each third-party line of `[workspace.dependencies]` without a comment above it or above its group.
fn uncommented_dependencies(text: &str) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let (mut inside, mut commented) = (false, false);
    for (number, line) in text.lines().enumerate() {
        match line.trim() {
            header if header.starts_with('[') => inside = header == "[workspace.dependencies]",
            "" => commented = false,
            comment if comment.starts_with('#') => commented = true,
            dependency if inside && !commented && !dependency.contains("path = \"") => {
                findings.push((number + 1, "a dependency without a comment that says why".into()));
            }
            _ => {}
        }
    }
    findings
}

/// Files that a test reads or compares: their content is the point.
fn is_test_data(file: &str) -> bool {
    ["/fixtures/", "/golden/", "/corpus/", "/abi/", "/assets/"].iter().any(|folder| file.contains(folder))
}

/// Whether a path in `file` exists: from the root, from the file's folder, or from its crate.
fn exists(file: &str, path: &str) -> bool {
    let root = crate::root();
    let mut folder = Path::new(file).parent();
    if root.join(path).exists() {
        return true;
    }
    while let Some(base) = folder {
        if root.join(base).join(path).exists() || root.join(base).join("src").join(path).exists() {
            return true;
        }
        folder = base.parent();
    }
    false
}

/// The files that git tracks, and new ones that it does not ignore.
pub fn tracked_files() -> Outcome<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(crate::root()).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = process::output(&mut git).context(|| "tidy looks at the files that git knows")?;
    Ok(listed.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_lines(text: &str, expected: &[(usize, &str)]) {
        let found = lines(text);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((line, what), (expected_line, words)) in found.iter().zip(expected) {
            assert_eq!(line, expected_line);
            assert!(what.contains(words), "`{words}` is not in `{what}`");
        }
    }

    #[test]
    fn each_kind_of_untidy_line_is_found() {
        check_lines("fine\n", &[]);
        check_lines("a \nb", &[(1, "white space"), (2, "does not end")]);
        check_lines(concat!("see /ro", "ot/x\nsee /proc/1/ro", "ot/x\n"), &[(1, "one machine")]);
        check_lines(concat!("// TO", "DO later\n// TO", "DO(#12) later\n"), &[(1, "without the number")]);
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "[workspace.dependencies]\nown = { path = \"crates/own\" }\n# Why.\nserde = \"1\"\nserde_json = \"1\"\n\nlog = \"1\"\n[other]\nx = 1\n";
        assert_eq!(uncommented_dependencies(manifest).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [7]);
    }
}
