//! `cargo xtask soak`: prepares the end-to-end tests' environment, and runs `tests/e2e/src/bin/soak` in a separate mount namespace.

use crate::outcome::{Failure, Outcome};
use crate::test_run::{self, Environment};
use crate::{process, target_folder};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// CI's arguments: a fixed number of rounds and seed, and at most half an hour on the slowest machine. Other seeds are run by hand.
const IN_CI: [&str; 5] = ["0.5", "--rounds", "300", "--seed", "6"];

/// Runs the soak with the program's arguments.
pub fn run(arguments: &[String]) -> Outcome<()> {
    let mut command = command(&test_run::prepare()?)?;
    process::show(command.args(arguments))?;
    // Replaces this process, so that Ctrl-C has one listener.
    Err(Failure::new(format!("cannot start unshare (package util-linux): {}", command.exec())))
}

/// Runs CI's soak.
pub fn in_ci(live: &Environment) -> Outcome<()> {
    process::run(command(live)?.args(IN_CI))
}

fn command(live: &Environment) -> Outcome<Command> {
    process::run(process::cargo().args(["build", "--package", "remora-e2e", "--bin", "soak"]))?;
    let folder = target_folder()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    // Under nohup every child ignores SIGHUP, but some rounds end by it.
    command.args(["env", "--default-signal=HUP"]).arg(folder.join("debug/soak"));
    command.current_dir(crate::root()).env("REMORA_SOAK_LOGS", folder.join("soak")).env_remove("TMPDIR");
    command.envs(live.iter().map(|(name, value)| (name, value)));
    Ok(command)
}
