//! Restricts the source of a crate: unsafe code, printing, reading the environment, exiting.
//!
//! Searches the text without parsing. Tests within a file do not count.

use super::edges::{Member, Workspace};
use super::rules::Rules;
use crate::outcome::{Context, Outcome};
use std::fs;
use std::path::{Path, PathBuf};

/// Text that only printing crates may contain.
const PRINTING: [&str; 9] = [
    "println!",
    "print!(",
    "eprintln!",
    "eprint!(",
    "process::exit",
    "env::var",
    "env::args",
    "env::set_var",
    "env::remove_var",
];

/// Every crate with unsafe code or printing that may not have it.
pub fn violations(workspace: &Workspace, rules: &Rules) -> Outcome<Vec<String>> {
    let mut violations = Vec::new();
    for member in &workspace.members {
        for root in &member.roots {
            let text = fs::read_to_string(root).context(|| format!("cannot read {}", root.display()))?;
            violations.extend(unsafe_violation(member, &text, rules));
            if !rules.prints.allowed.contains(&member.name)
                && let Some(folder) = root.parent()
            {
                let may = |file: &PathBuf| rules.prints.files.keys().any(|known| file.ends_with(known));
                for file in rust_files(folder)?.into_iter().filter(|file| !may(file)) {
                    let text = fs::read_to_string(&file).context(|| format!("cannot read {}", file.display()))?;
                    violations.extend(printing(&text).map(|(line, word)| {
                        format!(
                            "{}:{line}: `{word}`, but {} may not ([prints] in layers.toml)",
                            file.display(),
                            member.name
                        )
                    }));
                }
            }
        }
    }
    Ok(violations)
}

fn unsafe_violation(member: &Member, root: &str, rules: &Rules) -> Option<String> {
    let forbids = root.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    let may = rules.r#unsafe.contains_key(&member.name);
    (!forbids && !may).then(|| {
        format!("{} does not carry #![forbid(unsafe_code)] and is not in [unsafe] of layers.toml", member.name)
    })
}

/// The lines that print, with the matching text.
fn printing(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let shipped = text.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    let code = shipped.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(number, line)| Some((number + 1, *PRINTING.iter().find(|word| line.contains(**word))?)))
}

/// The Rust files below `folder`, without pure test files.
pub(super) fn rust_files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context(|| format!("cannot list {}", folder.display()))?.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "tests" {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_is_found_outside_of_comments_and_tests() {
        let text = "// println!(1)\nfn f() {\n    eprintln!(\"x\");\n}\n#[cfg(test)]\nmod tests { fn g() { std::process::exit(1) } }\n";
        assert_eq!(printing(text).collect::<Vec<_>>(), [(3, "println!")]);
    }

    #[test]
    fn unsafe_code_is_forbidden_unless_it_is_listed() {
        let rules = Rules { r#unsafe: [("agent".to_owned(), String::new())].into(), ..Rules::default() };
        let member = |name: &str| Member { name: name.into(), ..Member::default() };
        assert!(unsafe_violation(&member("wire"), "//! x\n", &rules).is_some());
        assert!(unsafe_violation(&member("wire"), "//! x\n#![forbid(unsafe_code)]\n", &rules).is_none());
        assert!(unsafe_violation(&member("wire"), "//! x\n// #![forbid(unsafe_code)]\n", &rules).is_some());
        assert!(unsafe_violation(&member("agent"), "//! x\n", &rules).is_none());
    }
}
