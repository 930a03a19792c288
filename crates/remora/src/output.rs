//! Destinations of results: checked before the target is contacted, and written so that a partial file never has the final name.

mod destination;
mod folder;
mod format;
mod name;
mod named_format;
mod spool;

pub(crate) use destination::{Destination, FOR_ALL, Reserve, directory_of};
pub(crate) use folder::{Folder, Unfinished};
pub(crate) use format::FileFormat;
pub(crate) use name::default_output;
pub(crate) use named_format::NamedFormat;
pub(crate) use spool::{HeapSpool, Named, Spool, StreamSpool};

use crate::failure::Failure;
use jiff::Zoned;
use remora_profile::{ApplicationRule, Profile};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// Before a command starts: an output in the place of one that gets its name after the process.
pub(crate) fn provisional_output(ending: &str) -> Destination {
    Destination::of(&default_output(&"remora".into(), &Zoned::now(), ending), false)
}

/// The result of `-o`, `--format` and `--force`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    /// The destination.
    pub(crate) destination: Destination,
    /// The format.
    pub(crate) format: FileFormat,
}

impl Output {
    /// Resolves the flags. An explicit name overrides the extension.
    pub(crate) fn resolve(path: &Path, format: Option<&str>, force: bool) -> Result<Output, Failure> {
        let destination = Destination::of(path, force);
        let format = FileFormat::resolve(format, &destination, "folded")?;
        Ok(Output { destination, format })
    }

    /// Checks whether it can be written, as far as possible without writing.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.destination {
            Destination::Stdout if self.format.is_binary() && io::stdout().is_terminal() => {
                Err(Failure::BinaryToTerminal { format: self.format.ending().to_owned() })
            }
            destination => destination.check(),
        }
    }

    /// Writes `profile`; `rule` says which code is the application's.
    pub(crate) fn write(&self, profile: &Profile, rule: &ApplicationRule) -> Result<(), Failure> {
        self.destination.write(|out| {
            let mut out = BufWriter::with_capacity(1 << 16, out);
            self.format.write(profile, rule, &mut out)?;
            out.flush()
        })
    }
}
