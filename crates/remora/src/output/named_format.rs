//! Formats by the name after `--format`, and by the extension of a file.

use super::destination::Destination;
use crate::failure::{Failure, Place};
use std::path::Path;

/// The formats that a command writes.
pub(crate) trait NamedFormat: Copy {
    /// Every format, in listed order.
    fn all() -> impl Iterator<Item = Self>;

    /// The name on the command line.
    fn name(self) -> &'static str;

    /// The extension of such files.
    fn ending(self) -> &'static str;

    /// The format called `name`, by its name or by its extension, upper or lower case.
    fn from_name(name: &str) -> Result<Self, Failure> {
        let lower = name.to_ascii_lowercase();
        let called = |format: &Self| {
            [format.name(), format.ending(), format.ending().trim_start_matches('.')].contains(&lower.as_str())
        };
        Self::all().find(called).ok_or_else(|| unknown::<Self>(name))
    }

    /// The format by the extension of `path`.
    fn from_path(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let lower = name.to_ascii_lowercase();
        Self::all().find(|format| lower.ends_with(format.ending())).ok_or_else(|| unknown::<Self>(&name))
    }

    /// The format of a result. An explicit name overrides the extension.
    fn resolve(name: Option<&str>, destination: &Destination, example: &'static str) -> Result<Self, Failure> {
        match (name, destination) {
            (Some(name), _) => Self::from_name(name),
            (None, Destination::Stdout) => Err(Failure::StdoutWithoutFormat { example }),
            // A directory's name has no format, whatever its ending.
            (None, Destination::File { path, .. }) if path.is_dir() => {
                Err(Failure::IsDirectory(Place::File(path.clone())))
            }
            (None, Destination::File { path, .. }) => Self::from_path(path),
        }
    }
}

fn unknown<F: NamedFormat>(given: &str) -> Failure {
    let known: Vec<String> = F::all().map(|format| format!("{} ({})", format.name(), format.ending())).collect();
    Failure::UnknownFormat { given: given.to_owned(), known: known.join(", ") }
}
