//! Programs that come from Debian's packages: installed when they are missing, so that a bare machine needs no preparation.

use crate::outcome::{Context, Outcome};
use crate::process;
use std::process::Command;

/// Sees to it that all `programs` are there, by installing `packages` if one is not. `purpose` says what for.
///
/// # Errors
/// The packages cannot be installed; the message names the command to give as root.
pub fn ensure(programs: &[&str], packages: &[&str], purpose: &str) -> Outcome<()> {
    if programs.iter().all(|program| process::is_installed(program)) {
        return Ok(());
    }
    let names = packages.join(" ");
    println!("installing Debian's {names}: {purpose}");
    let install = || {
        let mut command = Command::new("apt-get");
        command
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive");
        process::output(&mut command)
    };
    let installed = install().or_else(|_| {
        // A machine that has never looked has no lists of packages yet.
        process::output(Command::new("apt-get").arg("update"))?;
        install()
    });
    installed.map(drop).context(|| format!("cannot install {names} (as root: `apt-get install {names}`): {purpose}"))
}
