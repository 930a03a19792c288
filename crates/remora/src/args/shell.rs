//! Flags of `remora completions` and `remora man`.

use clap::Args;
use std::path::PathBuf;

/// Flags of `remora completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Flags of `remora man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where to write them
    pub(crate) directory: PathBuf,
}
