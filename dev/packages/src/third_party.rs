//! The licences of the crates inside the command. Most of them ask that their text goes with every copy.
//!
//! cargo knows the crates, and each brings its texts. A text that several crates share is there once.

use crate::Outcome;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// The file's name.
pub(crate) const FILE: &str = "LICENSES-THIRD-PARTY";
/// The crates that are built: the command, and the libraries that it embeds.
const BUILT: [&str; 2] = ["remora", "remora-agent"];
/// How the names of files with licences begin.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// The texts, each below the crates that it is of.
pub(crate) fn licenses() -> Outcome<String> {
    let metadata = metadata()?;
    let mut crates_by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in linked(&metadata) {
        let name = format!("{} {} ({})", text(&package["name"]), text(&package["version"]), text(&package["license"]));
        let texts = texts(Path::new(text(&package["manifest_path"])))
            .map_err(|error| format!("cannot read the licences of {name}: {error}"))?;
        for text in texts {
            crates_by_text.entry(text).or_default().insert(name.clone());
        }
    }
    let mut sections: Vec<(Vec<String>, String)> =
        crates_by_text.into_iter().map(|(text, crates)| (crates.into_iter().collect(), text)).collect();
    sections.sort();
    let section = |(crates, text): (Vec<String>, String)| format!("{}\n\n{text}\n\n{:=<80}\n\n", crates.join("\n"), "");
    Ok(sections.into_iter().map(section).collect())
}

/// The crates from elsewhere that the built ones contain, directly or through others.
fn linked(metadata: &Value) -> Vec<&Value> {
    let packages = || array(&metadata["packages"]);
    let is_own = |package: &Value| package["source"].is_null();
    let built = packages().filter(|package| is_own(package) && BUILT.contains(&text(&package["name"])));
    let mut open: Vec<&str> = built.map(|package| text(&package["id"])).collect();
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let node = array(&metadata["resolve"]["nodes"]).find(|node| text(&node["id"]) == id);
        let dependencies = node.map(|node| array(&node["deps"])).into_iter().flatten();
        // What only builds or tests a crate has a kind.
        let linked =
            dependencies.filter(|dependency| array(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null()));
        open.extend(linked.map(|dependency| text(&dependency["pkg"])));
    }
    packages()
        .filter(|package| !is_own(package) && reached.contains(text(&package["id"])) && !is_macro(package))
        .collect()
}

/// Whether a crate runs in the compiler only.
fn is_macro(package: &Value) -> bool {
    array(&package["targets"]).any(|target| array(&target["kind"]).any(|kind| kind == "proc-macro"))
}

/// The texts of a crate's licences.
fn texts(manifest: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(manifest.parent().unwrap_or(manifest))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|beginning| name.starts_with(beginning)) {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(io::Error::other(format!(
            "no file's name begins with {}; if it has another name, add that to third_party.rs",
            NAMES.join(", ")
        )));
    }
    paths.iter().map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).trim().replace("\r\n", "\n"))).collect()
}

fn metadata() -> Outcome<Value> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_inside_the_command_are_listed() {
        let licenses = licenses().expect("the crates of this workspace");
        let listed = |name: &str| licenses.lines().any(|line| line.starts_with(&format!("{name} ")));
        // Of the command, of a crate below it, of the libraries.
        for inside in ["clap", "parquet", "libc"] {
            assert!(listed(inside), "{inside}");
        }
        // Of tests, of the compiler, of builds, our own.
        for outside in ["jsonschema", "serde_derive", "ar", "remora-heap"] {
            assert!(!listed(outside), "{outside}");
        }
        assert!(licenses.contains("Permission is hereby granted"));
    }
}
