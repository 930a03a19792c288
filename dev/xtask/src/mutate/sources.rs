//! Faults of Remora outside of its agent's logic: `dev/xtask/broken-sources.toml` changes single expressions of the sources.
//!
//! A copy of the repository gets all of them at once, each behind a switch, so it is built once. The sources themselves hold no switches.

use crate::outcome::{Context, Outcome, bail};
use crate::{packages, process, tidy};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The list.
pub const LIST: &str = "dev/xtask/broken-sources.toml";
/// The variable that selects a change. Live targets inherit it from the test.
pub const VARIABLE: &str = "REMORA_BROKEN_SOURCE";

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    broken: Vec<Change>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Its name: `SendSeconds`.
    pub name: String,
    /// What is done wrong then.
    pub wrong: String,
    /// The clauses whose tests must fail.
    pub clauses: Vec<String>,
    /// The source file.
    pub file: String,
    /// Text that the file has once, with `from` in it. Without it, the file has `from` once.
    pub within: Option<String>,
    /// An expression, or statements that end in `;`.
    pub from: String,
    /// What comes instead.
    pub to: String,
    /// The package with the tests, or one of its test programs: `remora-e2e::startup`. Without it, the package of the file.
    pub tests_in: Option<String>,
    /// The tests to run. Without them, all that assert the clauses for Remora.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Whether it is built by itself, without a switch: constants and types have none. Tests that no longer compile have noticed it.
    #[serde(default)]
    pub apart: bool,
}

impl Change {
    /// The package with its tests, and one of its test programs.
    pub fn tests_in(&self) -> Outcome<(String, Option<String>)> {
        let Some(tests_in) = &self.tests_in else { return Ok((package_of(&self.file)?, None)) };
        Ok(match tests_in.split_once("::") {
            Some((package, program)) => (package.to_owned(), Some(program.to_owned())),
            None => (tests_in.clone(), None),
        })
    }

    /// `text` with this change, behind a switch if it is not for a build of its own.
    fn made_in(&self, text: &str) -> Outcome<String> {
        let within = self.within.as_deref().unwrap_or(&self.from);
        let (name, file) = (&self.name, &self.file);
        if text.matches(within).count() != 1 || within.matches(&self.from).count() != 1 {
            bail!("{LIST}: {name}: {file} does not have `{}` exactly once; name more of it in `within`", self.from);
        }
        let (from, to) = (&self.from, &self.to);
        // Some places run often, some must not allocate.
        let is_on = format!(
            "{{ static IS_ON: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new(); \
             *IS_ON.get_or_init(|| ::std::env::var_os(\"{VARIABLE}\").is_some_and(|fault| fault == \"{name}\")) }}"
        );
        let new = match (self.apart, from.ends_with(';')) {
            (true, _) => to.clone(),
            (false, true) => format!("if {is_on} {{ {to} }} else {{ {from} }}"),
            (false, false) => format!("match {is_on} {{ true => {{ {to} }} false => {{ {from} }} }}"),
        };
        Ok(text.replace(within, &within.replace(from.as_str(), &new)))
    }
}

/// The list.
fn read() -> Outcome<Vec<Change>> {
    let text = fs::read_to_string(crate::root().join(LIST)).context(|| format!("cannot read {LIST}"))?;
    let list: List = toml::from_str(&text).context(|| format!("{LIST} cannot be read"))?;
    Ok(list.broken)
}

/// All of them, each checked: its file has what it changes.
pub fn changes() -> Outcome<Vec<Change>> {
    let all = read()?;
    changed(all.iter())?;
    Ok(all)
}

/// The files with changes, and their new text.
fn changed<'a>(all: impl Iterator<Item = &'a Change>) -> Outcome<BTreeMap<&'a str, String>> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for change in all {
        let file = change.file.as_str();
        let text = match files.remove(file) {
            Some(text) => text,
            None => fs::read_to_string(crate::root().join(file)).context(|| format!("{LIST}: cannot read {file}"))?,
        };
        files.insert(file, change.made_in(&text)?);
    }
    Ok(files)
}

/// The package of a source file, by the nearest `Cargo.toml`.
fn package_of(file: &str) -> Outcome<String> {
    for folder in Path::new(file).ancestors().skip(1) {
        let Ok(text) = fs::read_to_string(crate::root().join(folder).join("Cargo.toml")) else { continue };
        let manifest: toml::Table = toml::from_str(&text).context(|| format!("{} is no TOML", folder.display()))?;
        if let Some(name) = manifest.get("package").and_then(|package| package.get("name")?.as_str()) {
            return Ok(name.to_owned());
        }
    }
    bail!("{LIST}: {file} is in no package")
}

/// A copy of the repository with all changes.
#[derive(Debug)]
pub struct BrokenCopy {
    /// Its root.
    pub root: PathBuf,
}

impl BrokenCopy {
    /// Makes it, or brings it up to date. Files that stay the same keep their times, so little is built anew.
    /// What is built by itself is left out.
    pub fn make() -> Outcome<BrokenCopy> {
        let root = crate::target_folder()?.join("broken");
        let (all, list) = (tidy::tracked_files()?, read()?);
        let changed = changed(list.iter().filter(|change| !change.apart))?;
        for file in &all {
            if file == "Cargo.toml" {
                continue;
            }
            let new = match changed.get(file.as_str()) {
                Some(text) => text.clone().into_bytes(),
                None => match fs::read(crate::root().join(file)) {
                    Ok(bytes) => bytes,
                    // Deleted, and git does not know yet.
                    Err(_) => continue,
                },
            };
            put(&root.join(file), &new)?;
        }
        allow_unused(&root.join("Cargo.toml"))?;
        remove_others(&root, &root, &|file| all.iter().any(|own| file == own))?;
        Ok(BrokenCopy { root })
    }

    /// Does something while the copy has this change. Returns what it returns.
    pub fn with<T>(&self, change: &Change, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let path = self.root.join(&change.file);
        let before = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
        put(&path, change.made_in(&before)?.as_bytes())?;
        let done = work();
        put(&path, before.as_bytes())?;
        done
    }

    /// Whether the library of a package compiles: a change must not break more than what it is about.
    pub fn check(&self, package: &str) -> Outcome<()> {
        process::output(self.cargo(process::cargo()).args(["check", "--quiet", "--lib", "--package", package]))
            .map(drop)
    }

    /// Builds the command in it, and the SDK's example profilers. Returns the folder with both.
    pub fn build(&self) -> Outcome<PathBuf> {
        let mut command = self.cargo(process::cargo());
        process::run(command.args(["build", "--package", "remora", "--package", "corprof", "--bins", "--examples"]))?;
        Ok(self.root.join("target/debug"))
    }

    /// Builds the test programs of these packages. Returns the arguments with which nextest runs them as they are: else it asks cargo about
    /// each of some hundred runs.
    pub fn built_tests(&self, wanted: &[&str]) -> Outcome<Vec<String>> {
        let mut list = self.cargo(process::cargo_tool(packages::provide("nextest")?.join("cargo-nextest")));
        list.args(["nextest", "list", "--list-type", "binaries-only", "--message-format", "json"]).args(wanted);
        let mut about = self.cargo(process::cargo());
        about.args(["metadata", "--format-version", "1"]);
        let mut arguments = Vec::new();
        for (kind, command) in [("binaries-metadata", &mut list), ("cargo-metadata", &mut about)] {
            let file = self.root.join("target").join(kind).with_extension("json");
            fs::write(&file, process::output(command)?).context(|| format!("cannot write {}", file.display()))?;
            arguments.extend([format!("--{kind}"), file.display().to_string()]);
        }
        Ok(arguments)
    }

    /// A cargo command that works in it. What the registries provide is built once for both (`build-dir`, since cargo 1.91).
    pub fn cargo(&self, mut command: std::process::Command) -> std::process::Command {
        if let Ok(own) = crate::target_folder() {
            command.env("CARGO_BUILD_BUILD_DIR", own);
        }
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", self.root.join("target"));
        command
    }
}

/// A switch makes parentheses and variables unused, and their warnings hide everything else.
fn allow_unused(manifest: &Path) -> Outcome<()> {
    let own = fs::read_to_string(crate::root().join("Cargo.toml")).context(|| "cannot read Cargo.toml")?;
    let head = "[workspace.lints.rust]\n";
    put(manifest, own.replace(head, &format!("{head}unused = {{ level = \"allow\", priority = -1 }}\n")).as_bytes())
}

/// Writes a file, unless it is as it should be.
fn put(path: &Path, new: &[u8]) -> Outcome<()> {
    if fs::read(path).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, new)
    };
    write().context(|| format!("cannot write {}", path.display()))
}

/// Deletes what the repository no longer has.
fn remove_others(root: &Path, folder: &Path, is_own: &dyn Fn(&str) -> bool) -> Outcome<()> {
    for path in crate::folders::listed(folder)? {
        let Ok(name) = path.strip_prefix(root) else { continue };
        if name == Path::new("target") {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            remove_others(root, &path, is_own)?;
        } else if !is_own(&name.to_string_lossy()) {
            fs::remove_file(&path).context(|| format!("cannot delete {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(within: Option<&str>, from: &str, to: &str) -> Change {
        Change {
            name: "Name".into(),
            wrong: "Does it wrong.".into(),
            clauses: vec!["DET-04".into()],
            file: "dev/xtask/src/main.rs".into(),
            within: within.map(str::to_owned),
            from: from.into(),
            to: to.into(),
            tests_in: None,
            tests: Vec::new(),
            apart: false,
        }
    }

    #[test]
    fn a_change_is_behind_a_switch_and_what_is_there_twice_is_refused() {
        let switched = change(None, "one()", "two()").made_in("let a = one();").unwrap();
        assert!(switched.starts_with("let a = match { static IS_ON"), "{switched}");
        assert!(switched.ends_with("== \"Name\")) } { true => { two() } false => { one() } };"), "{switched}");
        let statement = change(None, "one();", "").made_in("{ one(); }").unwrap();
        assert!(statement.starts_with("{ if ") && statement.ends_with("{  } else { one(); } }"), "{statement}");
        assert!(change(None, "one()", "two()").made_in("one() + one()").is_err());
        let second = change(Some("b = one()"), "one()", "two()").made_in("a = one(); b = one();").unwrap();
        assert!(second.starts_with("a = one(); b = match "), "{second}");
        let apart = Change { apart: true, ..change(None, "one()", "two()") };
        assert_eq!(apart.made_in("const A: u32 = one();").unwrap(), "const A: u32 = two();");
    }

    #[test]
    fn a_change_belongs_to_the_package_of_its_file_unless_it_names_another_one() {
        assert_eq!(change(None, "a", "b").tests_in().unwrap(), ("xtask".to_owned(), None));
        let of_program = Change { tests_in: Some("remora-e2e::startup".into()), ..change(None, "a", "b") };
        assert_eq!(of_program.tests_in().unwrap(), ("remora-e2e".to_owned(), Some("startup".to_owned())));
    }
}
