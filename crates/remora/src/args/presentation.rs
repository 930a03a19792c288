//! Flags for how a recording is shown, shared by commands.

use crate::output::FileFormat;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use remora_export::Format;
use remora_profile::{ApplicationRule, Profile, fold_runtime_frames, fold_runtime_frames_and_keep_them};

/// Which code is the application's.
#[derive(Debug, Args)]
pub(crate) struct ApplicationArgs {
    /// Assemblies of the application, like 'Shop.*' [default: all but those of .NET, System.* and Microsoft.*]
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    application: Vec<String>,
}

impl ApplicationArgs {
    /// The rule that these flags state.
    pub(crate) fn rule(&self) -> ApplicationRule {
        ApplicationRule { assemblies: self.application.clone() }
    }
}

/// How frames of the runtime without symbols are shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct RuntimeFramesArgs {
    /// Show each frame of the runtime, not one for a run of them without symbols
    #[arg(long)]
    expand_runtime: bool,
}

impl RuntimeFramesArgs {
    /// The profile with the frames that are shown, for a file of this format. The page can show the others, too.
    pub(crate) fn shown(self, profile: Profile, format: Option<FileFormat>) -> Profile {
        match format {
            _ if self.expand_runtime => profile,
            Some(FileFormat::Export(Format::Html)) => fold_runtime_frames_and_keep_them(profile),
            _ => fold_runtime_frames(profile),
        }
    }
}
