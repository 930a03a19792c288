//! `cargo xtask TASK`: every task of the repository behind one command, for people and CI alike.
//!
//! A task does its own set-up: it fetches its tools into a cache folder, pinned by hash. If it cannot, it reports why and how to fix
//! that.
//! Rejected: heavy dependencies (this program is part of the demo's cold build), and scripts that duplicate a task.
#![forbid(unsafe_code)]
// Printing progress is the purpose of this program.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod cache;
mod ci;
mod codegen;
mod contract;
mod csharp;
mod debian;
mod demo;
mod dist;
mod folders;
mod frameworks;
mod layers;
mod musl;
mod mutate;
mod outcome;
mod packages;
mod process;
mod running;
mod runtimes;
mod soak;
mod targets;
mod test_output;
mod test_run;
mod tidy;

use outcome::{Context, Failure, Outcome, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs a task with its arguments.
type Run = fn(&[String]) -> Outcome<()>;

/// A task, and its help.
struct Task {
    name: &'static str,
    usage: &'static str,
    summary: &'static str,
    run: Run,
}

const fn task(name: &'static str, usage: &'static str, run: Run, summary: &'static str) -> Task {
    Task { name, usage, summary, run }
}

const TASKS: &[Task] = &[
    task("demo", "[--compile]", demo::run, "record a .NET program for five seconds and leave a flame graph"),
    task("test", "", test_run::run_all, "set everything up and run every test, on every runtime"),
    task("e2e", "[--runtime MAJOR] [FILTER]", test_run::run_end_to_end, "run only the tests on live runtimes"),
    task("soak", "HOURS [--rounds N] [--seed S] [--first N]", soak::run, SOAK),
    task("ci", "", ci::run, "run every check and every test"),
    task("dist", "", dist::run, DIST),
    task("targets", "", print_targets, "fetch the runtimes, compile the test programs, print the environment"),
    task("bench", "[--quick] [--only GROUP]... [--help]", bench::run, "measure what Remora costs and how true it is"),
    task(
        "callers",
        "RECORDING REFERENCE",
        callers,
        "list the callers that a recording lacks and EventPipe's sampler has",
    ),
    task("explore", "FIRST COUNT | replay SEED [SWITCH] | broken", explore, EXPLORE),
    task("layers", "", layers::run, "check that the crates keep to their layers (layers.toml)"),
    task("tidy", "", tidy_and_pages, "check what formatter and linter do not see"),
    task(
        "contract",
        "[--check | --tables] [--results FOLDER] | --mutate [--check] [CLAUSE | FAULT]...",
        contract_or_mutate,
        CONTRACT,
    ),
    task("codegen", "[--check]", generate, "generate the profiling API of corprof, or check that it is up to date"),
];

const SOAK: &str =
    "attach, record, interrupt and kill at random moments, until something fails (docs/internals/soak.md)";
const DIST: &str =
    "build the command as it ships, for old systems and within a budget, pack it, install each package and run it";
const EXPLORE: &str =
    "run the agent in the runtime model under many schedules, show one, or try each way to break the agent";
const CONTRACT: &str = "run the tests that hold clauses and write docs/authors/contract.md; --check writes nothing, --tables runs nothing, \
    --results takes the results of a run, --mutate breaks the model and the agent and shows which tests notice";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", help());
        return ExitCode::from(2);
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprintln!("error: there is no task `{name}`\n\n{}", help());
        return ExitCode::from(2);
    };
    match (task.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn tidy_and_pages(arguments: &[String]) -> Outcome<()> {
    tidy::run(arguments)?;
    mutate::check()
}

fn contract_or_mutate(arguments: &[String]) -> Outcome<()> {
    match arguments.split_first() {
        Some((first, clauses)) if first == "--mutate" => mutate::run(clauses),
        _ => contract::run(arguments),
    }
}

fn generate(arguments: &[String]) -> Outcome<()> {
    codegen::run(arguments.iter().any(|argument| argument == "--check")).map_err(Failure::new)
}

/// Compares two recordings.
fn callers(arguments: &[String]) -> Outcome<()> {
    run_program(["remora-e2e", "--bin", "callers"], arguments)
}

/// A separate program: the demo has to build this one.
fn explore(arguments: &[String]) -> Outcome<()> {
    run_program(["remora-clr-model", "--example", "explore"], arguments)
}

fn run_program(program: [&str; 3], arguments: &[String]) -> Outcome<()> {
    let words = ["run", "--quiet", "--release", "--package"];
    process::run(process::cargo().args(words).args(program).arg("--").args(arguments))
}

fn help() -> String {
    let mut text = String::from("usage: cargo xtask TASK\n\n");
    for task in TASKS {
        text.push_str(&format!("  {:<8} {}\n", task.name, task.summary));
        if !task.usage.is_empty() {
            text.push_str(&format!("           {} {}\n", task.name, task.usage));
        }
    }
    text.push_str("\nWhat is fetched is kept in $REMORA_CACHE; else, for root, in /var/cache/remora (tests run programs as other users);\n");
    text.push_str("else in $XDG_CACHE_HOME/remora or ~/.cache/remora.\n");
    text.push_str("Further runtimes to test on: REMORA_DOTNET_ROOTS=/path/to/dotnet-root:...\n");
    text
}

/// The repository's folder.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

/// Cargo's target folder.
pub(crate) fn target_folder() -> Outcome<PathBuf> {
    let metadata = process::output(process::cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context(|| "cargo metadata is not JSON")?;
    match metadata["target_directory"].as_str() {
        Some(folder) => Ok(folder.into()),
        None => bail!("cargo metadata names no target directory"),
    }
}

fn print_targets(_: &[String]) -> Outcome<()> {
    let roots = runtimes::joined(&runtimes::matrix()?)?;
    let folder = targets::provide(&target_folder()?)?;
    println!("export REMORA_TEST_DOTNET_ROOTS={}", roots.display());
    println!("export REMORA_TEST_TARGETS={}", folder.display());
    Ok(())
}
