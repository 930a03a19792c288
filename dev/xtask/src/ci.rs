//! `cargo xtask ci`: every check for a change, fastest first.

use crate::outcome::{Failure, Outcome, bail};
use crate::test_output::{self, Count};
use crate::{codegen, contract, dist, layers, mutate, process, soak, test_run, tidy};
use std::path::Path;
use std::time::Instant;

/// Runs every check, so that one run reports all failures; then the tests.
pub fn run(_: &[String]) -> Outcome<()> {
    let mut failed = Vec::new();
    let mut times = Vec::new();
    let mut step = |name: &'static str, check: &mut dyn FnMut() -> Outcome<()>| {
        println!("\n== {name}");
        let begun = Instant::now();
        if let Err(failure) = check() {
            eprintln!("error: {failure}");
            failed.push(format!("{name}: {failure}"));
        }
        times.push((name, begun.elapsed().as_secs()));
    };
    step("format", &mut || process::run(process::cargo().args(["fmt", "--all", "--check"])));
    step("layers", &mut || layers::run(&[]));
    step("tidy", &mut || tidy::run(&[]).and_then(|()| mutate::check()));
    step("generated code", &mut || codegen::run(true).map_err(Failure::new));
    step("clippy", &mut clippy);
    step("documentation", &mut documentation);
    step("fuzz targets", &mut fuzz_targets);
    let mut count = Count::default();
    step("what ships", &mut || dist::packages().map(|counted| count.add(counted)));
    let mut left_out = Vec::new();
    step("known holes", &mut || deny(&mut left_out));
    left_out.extend(other_groups());
    let results = contract::results::fresh_folder()?;
    step("unit tests", &mut || test_run::unit_tests(std::slice::from_ref(&results)).map(|counted| count.add(counted)));
    step("every interleaving", &mut || test_run::every_interleaving().map(|counted| count.add(counted)));
    step("broken on purpose", &mut || mutate::run(&["--check".into()]));
    let live = test_run::prepare().map(|live| [live, vec![results.clone()]].concat());
    step("live runtimes", &mut || {
        let live = live.as_ref().map_err(|failure| Failure::new(failure.to_string()))?;
        test_run::end_to_end(live, &[]).map(|counted| count.add(counted))
    });
    step("soak", &mut || soak::in_ci(live.as_ref().map_err(|failure| Failure::new(failure.to_string()))?));
    step("contract", &mut || contract::agrees(Path::new(&results.1)));
    println!();
    for (name, seconds) in times {
        println!("{seconds:>5} s  {name}");
    }
    for what in left_out {
        println!("not run: {what}");
    }
    let tested = test_output::conclude(count);
    if !failed.is_empty() {
        bail!("failed:\n{}", failed.join("\n"));
    }
    tested
}

fn clippy() -> Outcome<()> {
    process::run(process::cargo().args(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
}

fn documentation() -> Outcome<()> {
    let mut command = process::cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings");
    process::run(&mut command)
}

/// The fuzz targets are a separate workspace: compiling them needs no fuzzing engine.
fn fuzz_targets() -> Outcome<()> {
    let mut command = process::cargo();
    command.args(["check", "--locked", "--no-default-features", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
    process::run(command.arg(crate::target_folder()?.join("fuzz")))
}

/// A machine has its memory controller in one of the two versions of control groups, and the live tests run there
/// (`tests/e2e/src/memory_group.rs`). Tests with made-up files cover the other version.
fn other_groups() -> Option<&'static str> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let is_first =
        own.lines().any(|line| line.split(':').nth(1).is_some_and(|all| all.split(',').any(|one| one == "memory")));
    Some(match is_first {
        true => "live copies in a memory group of version 2: this machine has its memory controller in version 1",
        false => "live copies in a memory group of version 1: this machine has its memory controller in version 2",
    })
}

/// Checks dependencies for known vulnerabilities, where the tool is installed, which fetches their list. `layers` checks licences.
fn deny(left_out: &mut Vec<&'static str>) -> Outcome<()> {
    if process::is_installed("cargo-deny") {
        return process::run(process::cargo().args(["deny", "check"]));
    }
    let what = "known holes in dependencies (RustSec) were not looked for: cargo-deny is not installed (`cargo install --locked cargo-deny`); \
                licences were checked";
    println!("{what}");
    left_out.push(what);
    Ok(())
}
