//! `cargo xtask ci`: everything that must hold before a change goes in, the quick answers first.

use crate::outcome::{Failure, Outcome, bail};
use crate::{codegen, process, test_run, tidy, walls};
use std::time::Instant;

/// Runs every check to its end, so that one run tells all that is wrong; then the tests.
pub fn run(_: &[String]) -> Outcome<()> {
    let mut failed = Vec::new();
    let mut times = Vec::new();
    let mut step = |name: &'static str, check: &mut dyn FnMut() -> Outcome<()>| {
        println!("\n== {name}");
        let begun = Instant::now();
        if let Err(failure) = check() {
            eprintln!("error: {failure}");
            failed.push(name);
        }
        times.push((name, begun.elapsed().as_secs()));
    };
    step("format", &mut || process::run(process::cargo().args(["fmt", "--all", "--check"])));
    step("walls", &mut || walls::run(&[]));
    step("tidy", &mut || tidy::run(&[]));
    step("generated code", &mut || codegen::run(true).map_err(Failure::new));
    step("clippy", &mut clippy);
    step("documentation", &mut documentation);
    step("dependencies", &mut deny);
    let mut count = test_run::Count::default();
    step("unit tests", &mut || test_run::unit_tests().map(|counted| count.add(counted)));
    step("every interleaving", &mut || test_run::every_interleaving().map(|counted| count.add(counted)));
    let live = test_run::prepare();
    step("live runtimes", &mut || {
        let live = live.as_ref().map_err(|failure| Failure::new(failure.to_string()))?;
        count.add(test_run::trigger_on_live_runtimes(live)?);
        test_run::end_to_end(live, &[]).map(|counted| count.add(counted))
    });
    println!();
    for (name, seconds) in times {
        println!("{seconds:>5} s  {name}");
    }
    let tested = test_run::conclude(count);
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
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

/// Licences are held by the walls; known holes are looked for where the tool for it is installed.
fn deny() -> Outcome<()> {
    if !process::is_installed("cargo-deny") {
        println!("cargo-deny is not installed: licences were checked by the walls, advisories are not");
        return Ok(());
    }
    process::run(process::cargo().args(["deny", "check"]))
}
