//! `cargo xtask test` and `cargo xtask e2e`: all tests, with their set-up.
//!
//! Unit tests run first: they are fast, and if they fail, the rest is not worth the wait.
//! The end-to-end tests run the command as shipped (`dist.rs`), since users run that one.

use crate::outcome::{Outcome, bail};
use crate::runtimes::{self, Runtime};
use crate::test_output::{Count, conclude, nextest};
use crate::{contract, debian, dist, musl, packages, process, targets};
use std::ffi::OsString;
use std::path::Path;

/// Places for live tests. One of the end-to-end tests takes two (`.config/nextest.toml`): more than three of them would measure the machine.
const LIVE_AT_A_TIME: &str = "6";

/// The packages whose tests need live runtimes.
const LIVE: [&str; 2] = ["remora-e2e", "remora-conformance"];
/// All other packages, but the one whose tests need what ships.
const NOT_LIVE: [&str; 7] = ["--workspace", "--exclude", LIVE[0], "--exclude", LIVE[1], "--exclude", dist::PACKER];

/// Libraries and programs for targets: the probe profiler of the runtime tests, the model's .NET process, and the SDK's example
/// profilers.
const LOADED: [&str; 6] = ["--package", "remora-probe", "--package", "remora-model-host", "--package", "corprof"];

/// Limits `tests/conformance` to some runtimes, for work on the model.
const ONLY_SOME_WORLDS: &str = "REMORA_CONFORMANCE_ONLY";

/// The folder with the SDK's example profilers.
const SDK_EXAMPLES: &str = "REMORA_SDK_EXAMPLES";

/// The environment of a test run.
pub type Environment = Vec<(&'static str, OsString)>;

/// `cargo xtask test`: every test of the repository; finally the contract's page must agree with the results.
pub fn run_all(_: &[String]) -> Outcome<()> {
    let mut live = prepare()?;
    let results = contract::results::fresh_folder()?;
    live.push(results.clone());
    let mut count = unit_tests(std::slice::from_ref(&results))?;
    count.add(every_interleaving()?);
    count.add(dist::packages()?);
    count.add(end_to_end(&live, &[])?);
    let agreed = contract::agrees(Path::new(&results.1));
    conclude(count)?;
    agreed
}

/// `cargo xtask e2e [--runtime MAJOR] [FILTER]`: only the end-to-end tests whose names contain the filter, on every runtime or on one.
pub fn run_end_to_end(arguments: &[String]) -> Outcome<()> {
    let mut matrix = runtimes::matrix()?;
    let filter = match arguments {
        [flag, major, filter @ ..] if flag == "--runtime" => {
            matrix.retain(|runtime| runtime.version.first().is_some_and(|first| first.to_string() == *major));
            if matrix.is_empty() {
                bail!(
                    "no runtime of the matrix is .NET {major}: name it as in `--runtime 8`, or its folder in REMORA_DOTNET_ROOTS"
                );
            }
            filter
        }
        filter => filter,
    };
    conclude(end_to_end(&prepare_on(&matrix)?, filter)?)
}

/// Fetches, compiles and builds everything for the end-to-end tests; returns the environment with all paths.
pub fn prepare() -> Outcome<Environment> {
    prepare_on(&runtimes::matrix()?)
}

fn prepare_on(matrix: &[Runtime]) -> Outcome<Environment> {
    let mut environment = prepare_for(matrix)?;
    environment.push(("REMORA_BIN", dist::command()?.into()));
    Ok(environment)
}

/// Like [`prepare`], on the newest runtime, with the command and the examples of another build.
pub fn prepare_another(built: &Path) -> Outcome<Environment> {
    let newest = Vec::from_iter(runtimes::matrix()?.into_iter().max());
    let mut environment = prepare_for(&newest)?;
    environment.retain(|(name, _)| *name != SDK_EXAMPLES);
    environment.extend([("REMORA_BIN", built.join("remora").into()), (SDK_EXAMPLES, built.join("examples").into())]);
    Ok(environment)
}

/// Everything but the command.
fn prepare_for(matrix: &[Runtime]) -> Outcome<Environment> {
    for runtime in matrix {
        println!("runtime {} in {}", runtime.version_text(), runtime.root.display());
    }
    let target_folder = crate::target_folder()?;
    let programs = targets::provide(&target_folder)?;
    let on_musl = musl::provide(&programs)?;
    process::run(process::cargo().args(["build", "--lib", "--bins", "--examples"]).args(LOADED))?;
    let built = target_folder.join("debug");
    Ok(vec![
        ("REMORA_TEST_DOTNET_ROOTS", runtimes::joined(matrix)?),
        ("REMORA_TEST_TARGETS", programs.into()),
        ("REMORA_TEST_MUSL", on_musl.into()),
        ("REMORA_TEST_SELF_CONTAINED", packages::provide("self-contained")?.into()),
        ("REMORA_TEST_SINGLE_FILE", packages::provide("single-file")?.into()),
        ("REMORA_PROBE", built.join("libremora_probe.so").into()),
        ("REMORA_MODEL_HOST", built.join("remora-model-host").into()),
        (SDK_EXAMPLES, built.join("examples").into()),
    ])
}

/// Tests the ring's atomics with loom, in every order of two producers and a consumer; a separate build.
pub fn every_interleaving() -> Outcome<Count> {
    let folder = crate::target_folder()?.join("loom");
    let environment = [("RUSTFLAGS", "--cfg loom".into()), ("CARGO_TARGET_DIR", folder.into())];
    nextest(&["--release", "--package", "remora-ring", "--lib"], &environment)
}

/// The tests that need no runtime whose names contain a word of the filter.
pub fn without_runtimes(environment: &[(&'static str, OsString)], filter: &[String]) -> Outcome<Count> {
    let words: Vec<&str> = NOT_LIVE.into_iter().chain(filter.iter().map(String::as_str)).collect();
    nextest(&words, environment)
}

/// The tests that need no runtime, including doc tests.
pub fn unit_tests(environment: &[(&'static str, OsString)]) -> Outcome<Count> {
    let purpose = "the HTML report and the page of a heap are opened and clicked in a browser";
    debian::ensure(&["chromium", "chromedriver"], &["chromium", "chromium-driver"], purpose)?;
    let count = nextest(&NOT_LIVE, environment)?;
    // nextest skips doc tests; some of them prove what does not compile.
    process::run(process::cargo().args(["test", "--doc", "--quiet", "--no-fail-fast"]).args(NOT_LIVE))?;
    Ok(count)
}

/// The tests on live runtimes, and on their models.
pub fn end_to_end(live: &[(&'static str, OsString)], filter: &[String]) -> Outcome<Count> {
    let packages = LIVE.iter().flat_map(|package| ["--package", package]);
    let words = packages.chain(["--test-threads", LIVE_AT_A_TIME]).chain(filter.iter().map(String::as_str));
    let mut live = live.to_vec();
    if filter.is_empty() {
        // All tests were requested, so clear the limit.
        live.push((ONLY_SOME_WORLDS, OsString::new()));
    }
    nextest(&words.collect::<Vec<_>>(), &live)
}
