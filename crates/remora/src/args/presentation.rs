//! Flags for how a recording is shown, shared by commands.

use clap::Args;
use remora_profile::{ApplicationRule, Profile, fold_runtime_frames};

/// Which code is the application's.
#[derive(Debug, Args)]
pub(crate) struct ApplicationArgs {
    /// Assemblies of the application, like 'Shop.*' [default: all but those of .NET, System.* and Microsoft.*]
    #[arg(long, value_name = "PATTERN")]
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
    /// The profile with the frames that are shown.
    pub(crate) fn shown(self, profile: Profile) -> Profile {
        if self.expand_runtime { profile } else { fold_runtime_frames(profile) }
    }
}
