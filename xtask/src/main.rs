//! `cargo xtask TASK`: every task of the repository behind one command, so that a machine and a person do the same.
//!
//! A task does its own set-up: it fetches what it needs into a cache folder, pinned by hash, and says what it could not get and how to help.
//! Refused here: heavy dependencies (this program is part of the demo's cold build), and scripts beside it that do the same again.
#![forbid(unsafe_code)]
// Telling people what happens is what this program is for.
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
mod frameworks;
mod musl;
mod mutate;
mod outcome;
mod packages;
mod process;
mod published;
mod running;
mod runtimes;
mod soak;
mod targets;
mod test_output;
mod test_run;
mod tidy;
mod walls;

use outcome::{Context, Failure, Outcome, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A task: its name, what follows it, what it does, and the function.
struct Task {
    name: &'static str,
    usage: &'static str,
    summary: &'static str,
    run: fn(&[String]) -> Outcome<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "demo",
        usage: "[--compile]",
        summary: "record a .NET program for five seconds and leave a flame graph; everything it takes is fetched and built",
        run: demo::run,
    },
    Task {
        name: "test",
        usage: "",
        summary: "set everything up and run every test, on every runtime",
        run: test_run::run_all,
    },
    Task { name: "e2e", usage: "[FILTER]", summary: "the end-to-end tests alone", run: test_run::run_end_to_end },
    Task {
        name: "soak",
        usage: "HOURS [--rounds N] [--seed S] [--first N]",
        summary: "attach, record, interrupt and kill at random moments against many targets under load, until a fault (docs/internals/soak.md)",
        run: soak::run,
    },
    Task { name: "ci", usage: "", summary: "every check and every test", run: ci::run },
    Task {
        name: "dist",
        usage: "",
        summary: "build the command as it ships: with libraries for old systems, each held to its budget",
        run: dist::run,
    },
    Task {
        name: "targets",
        usage: "",
        summary: "fetch the runtimes and compile the test programs; prints the environment that the end-to-end tests want",
        run: print_targets,
    },
    Task {
        name: "bench",
        usage: "[--quick] [--only GROUP]... [--runtime MAJOR] [--json FILE] [--write DOCUMENT]",
        summary: "measure what Remora costs and how true it is, beside the runtime's own sampler (docs/benchmarks.md)",
        run: bench::run,
    },
    Task {
        name: "callers",
        usage: "RECORDING REFERENCE",
        summary: "list the callers that a recording has lost, by one of the same program that the runtime's own sampler made",
        run: callers,
    },
    Task {
        name: "explore",
        usage: "FIRST COUNT | replay SEED [SWITCH] | broken",
        summary: "run the agent in the model of the runtime under many schedules, show one, or see which ways to break it are found",
        run: explore,
    },
    Task {
        name: "walls",
        usage: "",
        summary: "check that the crates keep to their rooms (walls.toml)",
        run: walls::run,
    },
    Task { name: "tidy", usage: "", summary: "check what formatter and linter do not see", run: tidy::run },
    Task {
        name: "contract",
        usage: "[--check | --tables] [--results FOLDER] | --mutate [CLAUSE]...",
        summary: "run the tests that hold the clauses and write docs/contract.md; --check runs and writes nothing, --tables runs nothing, --results takes what a run has left, --mutate breaks the model and sees them notice",
        run: |arguments| match arguments.split_first() {
            Some((first, clauses)) if first == "--mutate" => mutate::run(clauses),
            _ => contract::run(arguments),
        },
    },
    Task {
        name: "codegen",
        usage: "[--check]",
        summary: "make the profiling API of crates/corprof from its table, or check that it is up to date",
        run: |arguments| codegen::run(arguments.iter().any(|argument| argument == "--check")).map_err(Failure::new),
    },
];

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

/// Compares two recordings.
fn callers(arguments: &[String]) -> Outcome<()> {
    let words = ["run", "--quiet", "--release", "--package", "remora-e2e", "--bin", "callers", "--"];
    process::run(process::cargo().args(words).args(arguments))
}

/// The model is no part of this program, which the demo has to build.
fn explore(arguments: &[String]) -> Outcome<()> {
    let mut command = process::cargo();
    command
        .args(["run", "--quiet", "--release", "--package", "remora-clr-sim", "--example", "explore", "--"])
        .args(arguments);
    process::run(&mut command)
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

/// The repository.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> Outcome<PathBuf> {
    let metadata = process::output(process::cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context(|| "cargo metadata is not JSON")?;
    match metadata["target_directory"].as_str() {
        Some(folder) => Ok(folder.into()),
        None => bail!("cargo metadata names no target directory"),
    }
}

fn print_targets(_: &[String]) -> Outcome<()> {
    let runtimes = runtimes::matrix()?;
    let folder = targets::provide(&target_folder()?)?;
    let roots: Vec<String> = runtimes.iter().map(|runtime| runtime.root.display().to_string()).collect();
    println!("export REMORA_TEST_DOTNET_ROOTS={}", roots.join(":"));
    println!("export REMORA_TEST_TARGETS={}", folder.display());
    Ok(())
}
