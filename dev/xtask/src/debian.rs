//! Programs from Debian's packages: installed when missing, so a bare machine needs no preparation.

use crate::outcome::{Context, Outcome};
use crate::process;
use std::process::Command;

/// Installs `packages` unless all `programs` exist. `purpose` is shown to the user.
///
/// # Errors
/// The packages cannot be installed; the message has the command to run as root.
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
        // A fresh machine has no package lists yet.
        process::output(Command::new("apt-get").arg("update"))?;
        install()
    });
    installed.map(drop).context(|| format!("cannot install {names} (as root: `apt-get install {names}`): {purpose}"))
}
