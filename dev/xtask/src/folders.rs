//! Lists folders.

use crate::outcome::{Context, Outcome};
use std::fs;
use std::path::{Path, PathBuf};

/// The paths in a folder, in order.
pub fn listed(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Those with this extension.
pub fn with_extension(folder: &Path, extension: &str) -> Outcome<Vec<PathBuf>> {
    let mut paths = listed(folder)?;
    paths.retain(|path| path.extension().is_some_and(|its| its == extension));
    Ok(paths)
}

/// The last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
