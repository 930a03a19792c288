//! Runs other programs: prints the command, and turns an exit status into a failure that names it.

use crate::outcome::{Context, Outcome, bail};
use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

/// Runs `command` on our own terminal; a status other than success is a failure.
pub fn run(command: &mut Command) -> Outcome<()> {
    show(command)?;
    let status = command.status().context(|| could_not_start(command))?;
    if !status.success() {
        bail!("`{}` ended with {status}", line_of(command));
    }
    Ok(())
}

/// Prints the command; dimmed on a terminal.
pub fn show(command: &Command) -> Outcome<()> {
    let line = line_of(command);
    let mut out = std::io::stdout();
    if out.is_terminal() { writeln!(out, "\x1b[2m$ {line}\x1b[0m") } else { writeln!(out, "$ {line}") }
        .and_then(|()| out.flush())
        .context(|| "cannot write to standard output")
}

/// Runs `command` quietly and returns its standard output; on failure, its standard error is the message.
pub fn output(command: &mut Command) -> Outcome<String> {
    let output = command.stdin(Stdio::null()).output().context(|| could_not_start(command))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}\n{}{}", line_of(command), output.status, stdout, stderr.trim_end());
    }
    Ok(stdout)
}

/// Whether `program` is on the path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A `cargo` command in the repository, with the cargo that runs us.
///
/// Without a terminal it does not list compiled crates, which would hide errors in a log.
pub fn cargo() -> Command {
    cargo_tool(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program that runs cargo, configured alike.
pub fn cargo_tool(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(crate::root());
    if !std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_QUIET", "true").env("CARGO_TERM_COLOR", "never");
    }
    command
}

/// SHA-256 of `bytes` in hexadecimal, by the coreutils program.
pub fn sha256(bytes: &[u8]) -> Outcome<String> {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context(|| "cannot start sha256sum (package coreutils)")?;
    let Some(mut stdin) = child.stdin.take() else { bail!("sha256sum has no standard input") };
    stdin.write_all(bytes).context(|| "cannot feed sha256sum")?;
    drop(stdin);
    let output = child.wait_with_output().context(|| "cannot read from sha256sum")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.split_whitespace().next() {
        Some(hash) if hash.len() == 64 => Ok(hash.to_owned()),
        _ => bail!("sha256sum answered `{text}`"),
    }
}

fn line_of(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

fn could_not_start(command: &Command) -> String {
    format!("cannot start `{}` (is it installed?)", command.get_program().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_words() {
        let failure = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(failure.contains("sh -c"), "{failure}");
        assert!(failure.contains("why"), "{failure}");
    }

    #[test]
    fn the_hash_is_sha256() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc").unwrap(), known);
    }
}
