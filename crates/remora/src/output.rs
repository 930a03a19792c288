//! Where results go: checked before anything is asked of a target, written so that a half-written file never stands under the final name.

mod destination;
mod folder;
mod format;
mod name;
mod spool;

pub(crate) use destination::{Destination, directory_of};
pub(crate) use folder::{Folder, Unfinished};
pub(crate) use format::FileFormat;
pub(crate) use name::default_output;
pub(crate) use spool::{HeapSpool, Named, Spool, StreamSpool};

use crate::failure::{Failure, Place};
use remora_profile::Profile;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// What `-o`, `--format` and `--force` mean together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    /// Where.
    pub(crate) destination: Destination,
    /// In which format.
    pub(crate) format: FileFormat,
}

impl Output {
    /// Makes sense of the flags. A name given explicitly beats the extension.
    pub(crate) fn resolve(path: &Path, format: Option<&str>, force: bool) -> Result<Output, Failure> {
        let destination = Destination::of(path, force);
        let format = match (format, &destination) {
            (Some(name), _) => FileFormat::from_name(name)?,
            (None, Destination::Stdout) => return Err(Failure::StdoutWithoutFormat { example: "folded" }),
            // It is no name with a format at its end, whatever it is called.
            (None, Destination::File { path, .. }) if path.is_dir() => {
                return Err(Failure::IsDirectory(Place::File(path.clone())));
            }
            (None, Destination::File { path, .. }) => FileFormat::from_path(path)?,
        };
        Ok(Output { destination, format })
    }

    /// Whether it can be written, as far as that can be told without writing it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.destination {
            Destination::Stdout if self.format.is_binary() && io::stdout().is_terminal() => {
                Err(Failure::BinaryToTerminal { format: self.format.ending().to_owned() })
            }
            destination => destination.check(),
        }
    }

    /// Writes `profile`.
    pub(crate) fn write(&self, profile: &Profile) -> Result<(), Failure> {
        self.destination.write(|out| {
            let mut out = BufWriter::with_capacity(1 << 16, out);
            self.format.write(profile, &mut out)?;
            out.flush()
        })
    }
}
