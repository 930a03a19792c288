//! The .NET runtimes for tests and the demo: installed ones, and ones rebuilt from packages.
//!
//! Tests always run on 3.1.23, 8.0.4 and 9.0.7, and on every root in `REMORA_DOTNET_ROOTS`.
//! A missing runtime is a failure: a matrix with silent holes would prove nothing.

use crate::outcome::{Context, Outcome, bail};
use crate::{cache, frameworks, packages};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// An installation of .NET: the folder with the `dotnet` launcher.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Runtime {
    /// The newest `Microsoft.NETCore.App` in it, as numbers.
    pub version: Vec<u32>,
    /// The folder.
    pub root: PathBuf,
}

impl Runtime {
    /// The runtime under `root`; `None` if there is none.
    pub fn at(root: &Path) -> Option<Runtime> {
        if !root.join("dotnet").is_file() {
            return None;
        }
        let entries = fs::read_dir(root.join("shared/Microsoft.NETCore.App")).ok()?;
        let version = entries.flatten().filter_map(|entry| numbers(&entry.file_name().to_string_lossy())).max()?;
        Some(Runtime { version, root: root.to_path_buf() })
    }

    /// The launcher.
    pub fn launcher(&self) -> PathBuf {
        self.root.join("dotnet")
    }

    /// The folder with the assemblies of one framework in its newest version.
    pub fn framework(&self, name: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.root.join("shared").join(name)).ok()?;
        let versions =
            entries.flatten().filter_map(|entry| Some((numbers(&entry.file_name().to_string_lossy())?, entry.path())));
        versions.max().map(|(_, path)| path)
    }

    /// The version as text.
    pub fn version_text(&self) -> String {
        self.version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
    }

    /// Whether the product supports it: 3.1, or 6 to 10.
    fn is_supported(&self) -> bool {
        matches!(self.version[..], [3, 1, ..] | [6..=10, ..])
    }
}

/// .NET Core 3.1.23, fetched if necessary.
pub fn dotnet_3_1() -> Outcome<Runtime> {
    expect_runtime(&packages::provide("dotnet-3-1")?)
}

/// .NET 8.0.4, fetched if necessary.
pub fn dotnet_8() -> Outcome<Runtime> {
    expect_runtime(&packages::provide("dotnet-8")?)
}

/// .NET 9.0.7 with ASP.NET Core, rebuilt from an application that contains both.
pub fn dotnet_9() -> Outcome<Runtime> {
    let (application, launcher) = (packages::provide("self-contained")?, dotnet_8()?.launcher());
    expect_runtime(&cache::provide("runtimes/9.0.7", |folder| frameworks::rebuild(&application, folder, &launcher))?)
}

/// Every runtime that the tests run on.
pub fn matrix() -> Outcome<Vec<Runtime>> {
    let mut runtimes = vec![dotnet_3_1()?, dotnet_8()?, dotnet_9()?];
    for root in std::env::split_paths(&std::env::var_os("REMORA_DOTNET_ROOTS").unwrap_or_default()) {
        if root.as_os_str().is_empty() {
            continue;
        }
        match Runtime::at(&root) {
            Some(runtime) => runtimes.push(runtime),
            None => bail!(
                "REMORA_DOTNET_ROOTS names {}, which is not the root of a .NET installation (it has no `dotnet` with shared/Microsoft.NETCore.App beside it)",
                root.display()
            ),
        }
    }
    Ok(runtimes)
}

/// The folders of these runtimes as one variable.
pub fn joined(matrix: &[Runtime]) -> Outcome<OsString> {
    let roots = matrix.iter().map(|runtime| &runtime.root);
    std::env::join_paths(roots).context(|| "the folder of a runtime has a colon in its name")
}

/// A runtime for the demo: the newest supported installed one, otherwise .NET 8.0.4, fetched.
pub fn installed_or_fetched() -> Outcome<Runtime> {
    let installed = installed_roots().iter().filter_map(|root| Runtime::at(root)).filter(Runtime::is_supported).max();
    match installed {
        Some(runtime) => Ok(runtime),
        None => dotnet_8(),
    }
}

/// .NET installations on this machine, in the usual places.
pub fn installed_roots() -> Vec<PathBuf> {
    let mut roots = Vec::new();
    let mut add = |root: PathBuf| {
        if root.is_dir() && !roots.contains(&root) {
            roots.push(root);
        }
    };
    if let Some(root) = std::env::var_os("DOTNET_ROOT") {
        add(root.into());
    }
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        if let Ok(launcher) = folder.join("dotnet").canonicalize()
            && let Some(root) = launcher.parent()
        {
            add(root.to_path_buf());
        }
    }
    for root in ["/usr/share/dotnet", "/usr/lib/dotnet", "/usr/lib64/dotnet", "/opt/dotnet"] {
        add(root.into());
    }
    if let Some(home) = std::env::var_os("HOME") {
        add(Path::new(&home).join(".dotnet"));
    }
    roots
}

fn expect_runtime(root: &Path) -> Outcome<Runtime> {
    match Runtime::at(root) {
        Some(runtime) => Ok(runtime),
        None => bail!("{} holds no .NET runtime any more: delete that folder and run again", root.display()),
    }
}

/// The numbers of a version; a suffix after a hyphen (a preview) is ignored.
fn numbers(version: &str) -> Option<Vec<u32>> {
    let release = version.split('-').next()?;
    release.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(numbers("10.0.12"), Some(vec![10, 0, 12]));
        assert_eq!(numbers("9.0.0-preview.1"), Some(vec![9, 0, 0]));
        assert_eq!(numbers("latest"), None);
        assert!(numbers("10.0.12") > numbers("9.0.7"));
    }

    #[test]
    fn only_versions_that_the_product_supports_are_taken_from_the_machine() {
        let supported = |version: &[u32]| Runtime { version: version.into(), root: PathBuf::new() }.is_supported();
        for version in [&[3, 1, 23][..], &[6, 0, 1], &[8, 0, 4], &[10, 0, 0]] {
            assert!(supported(version), "{version:?}");
        }
        for version in [&[2, 1, 30][..], &[3, 0, 3], &[5, 0, 17], &[11, 0, 0]] {
            assert!(!supported(version), "{version:?}");
        }
    }
}
