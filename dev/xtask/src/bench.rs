//! `cargo xtask bench`: builds the command and the benchmark (`bench`) in release mode, and runs it on fetched runtimes.
//!
//! Command and library are those that ship (`dist.rs`).

use crate::csharp::Compiler;
use crate::outcome::{Context, Outcome};
use crate::{dist, process, runtimes, targets};
use std::ffi::OsString;
use std::path::Path;

/// A program that runs the C# compiler repeatedly, without its file extension.
const PROGRAM: &str = "compile";
/// Its folder.
const PROGRAMS: &str = "dev/bench/programs";
/// The file that it compiles.
const COMPILED: &str = "tests/targets/generics_async_lambda.cs";

/// Measures, with the arguments of `bench`.
pub fn run(arguments: &[String]) -> Outcome<()> {
    let folder = crate::target_folder()?;
    let environment = prepare(&folder)?;
    process::run(process::cargo().args(["build", "--release", "--package", "remora-bench"]))?;
    let mut command = std::process::Command::new(folder.join("release/remora-bench"));
    command.current_dir(crate::root()).envs(environment).args(arguments);
    if !arguments.iter().any(|argument| argument == "--json") {
        command.arg("--json").arg(folder.join("bench.json"));
    }
    process::run(&mut command)
}

/// Fetches and builds; returns the environment with all paths.
fn prepare(folder: &Path) -> Outcome<Vec<(&'static str, OsString)>> {
    let compiler = Compiler::provide()?;
    let programs = targets::provide_program(&compiler, PROGRAMS, PROGRAM)?;
    let mut in_a_loop = vec![crate::root().join(COMPILED), folder.join("bench-compiled.dll")];
    in_a_loop.extend(compiler.program.iter().cloned());
    let in_a_loop = std::env::join_paths(in_a_loop).context(|| "a folder has a colon in its name")?;
    Ok(vec![
        ("REMORA_TEST_DOTNET_ROOTS", runtimes::joined(&runtimes::matrix()?)?),
        ("REMORA_TEST_TARGETS", targets::provide(folder)?.into()),
        ("REMORA_BENCH_COMMAND", dist::command()?.into()),
        ("REMORA_BENCH_LIBRARY", dist::RECORDINGS.embedded()?.into()),
        ("REMORA_BENCH_PROGRAMS", programs.into()),
        ("REMORA_BENCH_COMPILER", in_a_loop),
    ])
}
