//! What a release is: a version, and the commit with its time. All times in packages are that time, so that a package can be reproduced.

use crate::Outcome;
use std::process::Command;

/// The release that is packed.
pub(crate) struct Release {
    pub(crate) version: &'static str,
    pub(crate) commit: String,
    /// Seconds since 1970: `SOURCE_DATE_EPOCH`, else the commit's time.
    pub(crate) seconds: u64,
}

impl Release {
    /// The release of the checked-out commit.
    pub(crate) fn of_the_repository() -> Outcome<Release> {
        let mut git = Command::new("git");
        git.args(["-C", env!("CARGO_MANIFEST_DIR"), "log", "-1", "--format=%H %ct"]);
        let output = git.output().map_err(|error| format!("cannot start git (install it): {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some((commit, committed)) = text.trim().split_once(' ') else {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!("git names no commit; pack from a clone of the repository: {}", reason.trim()).into());
        };
        let chosen = std::env::var("SOURCE_DATE_EPOCH").ok();
        let seconds = chosen.as_deref().unwrap_or(committed);
        let seconds =
            seconds.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is `{seconds}`; set it to seconds since 1970"))?;
        Ok(Release { version: env!("CARGO_PKG_VERSION"), commit: commit.to_owned(), seconds })
    }
}
