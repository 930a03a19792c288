//! `cargo xtask demo`: the main use case on an unprepared machine. Finds or fetches a runtime, starts a .NET program, records it for five
//! seconds, and writes a flame graph, the hottest methods and the receipt.
//!
//! The compiled program is in `dev/xtask/demo`, so the demo needs no C# compiler.

use crate::csharp::Compiler;
use crate::outcome::{Outcome, bail};
use crate::running::Program;
use crate::runtimes;
use crate::{process, targets};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, without file extensions.
const PROGRAM: &str = "dev/xtask/demo/OrderService";
/// The output for the user to open.
const FLAME_GRAPH: &str = "remora-demo.html";
/// Length of the recording.
const DURATION: &str = "5s";

/// Runs the demo; with `--compile`, rebuilds its program instead.
pub fn run(arguments: &[String]) -> Outcome<()> {
    match arguments.first().map(String::as_str) {
        None => show(),
        Some("--compile") => compile(),
        Some(other) => bail!("the demo does not know `{other}`; it takes nothing, or --compile"),
    }
}

fn show() -> Outcome<()> {
    // Fetch and build run in parallel.
    let (runtime, remora) = std::thread::scope(|scope| {
        let runtime = scope.spawn(runtimes::installed_or_fetched);
        let remora = build_command();
        (runtime.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), remora)
    });
    let (runtime, remora) = (runtime?, remora?);
    println!("runtime: .NET {} in {}", runtime.version_text(), runtime.root.display());
    let program = Program::start(Command::new(runtime.launcher()).arg(assembly()))?;
    println!(
        "\nstarted a .NET program, process {}; whoever started it, `remora` now comes from outside:\n",
        program.pid()
    );
    let recorded = process::run(&mut record(&remora, program.pid()));
    program.end()?;
    recorded?;
    println!("\nopen {} in a browser", crate::root().join(FLAME_GRAPH).display());
    Ok(())
}

/// An ordinary build: the recorded program runs on this machine.
fn build_command() -> Outcome<PathBuf> {
    process::run(process::cargo().args(["build", "--release", "--package", "remora"]))?;
    Ok(crate::target_folder()?.join("release/remora"))
}

fn record(remora: &Path, pid: u32) -> Command {
    let mut command = Command::new(remora);
    command.current_dir(crate::root()).arg("record").args(["-p", &pid.to_string()]);
    command.args(["--duration", DURATION, "-o", FLAME_GRAPH, "--force"]);
    command
}

fn compile() -> Outcome<()> {
    let assembly = assembly();
    targets::compile_program(&Compiler::provide()?, &PathBuf::from(format!("{PROGRAM}.cs")), &assembly)?;
    println!("made {}", assembly.display());
    Ok(())
}

fn assembly() -> PathBuf {
    crate::root().join(format!("{PROGRAM}.dll"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_compiled_from_its_source() {
        let source = std::fs::read(crate::root().join(format!("{PROGRAM}.cs"))).unwrap();
        let symbols = std::fs::read(crate::root().join(format!("{PROGRAM}.pdb"))).unwrap();
        let digits = process::sha256(&source).unwrap();
        let hash: Vec<u8> =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
        let found = symbols.windows(hash.len()).any(|bytes| bytes == hash);
        assert!(found, "{PROGRAM}.cs has changed: run `cargo xtask demo --compile`");
    }
}
