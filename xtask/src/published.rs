//! Programs as others publish them, which carry their runtime with them: tests record what is not made for tests.

use crate::cache;
use crate::outcome::{Context, Outcome};
use crate::packages::{self, Package};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder with `self-contained`, a folder of files with a launcher, and `single-file`, one file with all of them in it.
pub fn provide() -> Outcome<PathBuf> {
    cache::provide("programs/published-1", |folder| {
        unpack(&packages::DOTNET_9_APPLICATION, &folder.join("self-contained"))?;
        unpack(&packages::SINGLE_FILE_APPLICATION, &folder.join("single-file"))
    })
}

fn unpack(package: &Package, folder: &Path) -> Outcome<()> {
    fs::create_dir(folder).context(|| format!("cannot make {}", folder.display()))?;
    package.unpack_into(folder)
}
