//! What every package is made of: the command, what it writes about itself, and the documents of the repository.

use crate::{Outcome, third_party};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The command's name.
pub(crate) const COMMAND: &str = "remora";
/// Both licences; the user chooses one.
pub(crate) const LICENSES: [(&str, &str); 2] = [
    ("LICENSE-APACHE", include_str!("../../../LICENSE-APACHE")),
    ("LICENSE-MIT", include_str!("../../../LICENSE-MIT")),
];
pub(crate) const README: &str = include_str!("../../../README.md");
pub(crate) const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

/// The completions of one shell.
pub(crate) struct Completions {
    /// The shell, as `remora completions` names it.
    shell: &'static str,
    /// The name under which the shell looks for the file.
    pub(crate) file: &'static str,
    /// Where Debian's shells look for it, below `/usr/share`.
    pub(crate) debian_folder: &'static str,
}

/// The completions that are packed.
pub(crate) const COMPLETIONS: [Completions; 3] = [
    Completions { shell: "bash", file: "remora", debian_folder: "bash-completion/completions" },
    Completions { shell: "fish", file: "remora.fish", debian_folder: "fish/vendor_completions.d" },
    Completions { shell: "zsh", file: "_remora", debian_folder: "zsh/vendor-completions" },
];

/// What the command brings.
pub(crate) struct Contents {
    pub(crate) command: Vec<u8>,
    /// Manual pages by file name.
    pub(crate) manual: BTreeMap<String, Vec<u8>>,
    /// One script for each of [`COMPLETIONS`].
    pub(crate) completions: Vec<Vec<u8>>,
    /// The licences of the crates in the command.
    pub(crate) third_party: String,
}

impl Contents {
    /// Reads and runs the command.
    pub(crate) fn of(command: &Path) -> Outcome<Contents> {
        let bytes = fs::read(command)
            .map_err(|error| format!("cannot read {}: {error}; build it with `cargo xtask dist`", command.display()))?;
        let folder = tempfile::tempdir()?;
        run(Command::new(command).arg("man").arg(folder.path()))?;
        let mut manual = BTreeMap::new();
        for page in fs::read_dir(folder.path())? {
            let page = page?;
            manual.insert(page.file_name().to_string_lossy().into_owned(), fs::read(page.path())?);
        }
        let scripts = COMPLETIONS.iter().map(|of| run(Command::new(command).args(["completions", of.shell])));
        let completions = scripts.collect::<Outcome<_>>()?;
        Ok(Contents { command: bytes, manual, completions, third_party: third_party::licenses()? })
    }
}

/// Runs the command; returns what it prints.
fn run(command: &mut Command) -> Outcome<Vec<u8>> {
    let output = command.output().map_err(|error| format!("{command:?} does not start: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}
