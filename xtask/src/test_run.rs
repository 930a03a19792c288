//! `cargo xtask test` and `cargo xtask e2e`: all tests, with everything set up that they need.
//!
//! Unit tests come first: they are fast, and the rest is not worth the wait if they fail.
//! The end-to-end tests run against the command as it ships (`dist.rs`), since that is what users have.

use crate::outcome::{Context, Outcome};
use crate::test_output::{Count, conclude, counted};
use crate::{contract, debian, dist, musl, process, published, runtimes, targets};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// End-to-end tests at a time. Each has a live target that wants a processor; more would measure the machine.
const LIVE_AT_A_TIME: &str = "3";

/// The packages whose tests want live runtimes.
const LIVE: [&str; 2] = ["remora-e2e", "remora-conformance"];

/// Limits `tests/conformance` to some worlds, for who works on the model.
const ONLY_SOME_WORLDS: &str = "REMORA_CONFORMANCE_ONLY";

/// Hundreds of lines about what passed would bury the one that failed: that one is told whole, and last.
/// What passed is told to us alone, who keep it for the contract.
const NEXTEST: [&str; 9] = [
    "nextest",
    "run",
    "--no-fail-fast",
    "--status-level",
    "pass",
    "--final-status-level",
    "fail",
    "--failure-output",
    "final",
];

/// Cargo's own runner, too, names each test; quietly it would not.
const NAME_EACH: [&str; 3] = ["--", "--format", "pretty"];

/// What the environment of a test run says, name by name.
pub type Environment = Vec<(&'static str, OsString)>;

/// `cargo xtask test`: every test of the repository; at its end, the contract's page must say what was seen.
pub fn run_all(_: &[String]) -> Outcome<()> {
    let mut live = prepare()?;
    let results = contract::results::fresh_folder()?;
    live.push(results.clone());
    let mut count = unit_tests(std::slice::from_ref(&results))?;
    count.add(every_interleaving()?);
    count.add(trigger_on_live_runtimes(&live)?);
    count.add(end_to_end(&live, &[])?);
    let agreed = contract::agrees(Path::new(&results.1));
    conclude(count)?;
    agreed
}

/// `cargo xtask e2e [FILTER]`: only the end-to-end tests whose names contain the filter.
pub fn run_end_to_end(filter: &[String]) -> Outcome<()> {
    conclude(end_to_end(&prepare()?, filter)?)
}

/// Fetches, compiles and builds all that the end-to-end tests need; the environment that tells them where it is.
pub fn prepare() -> Outcome<Environment> {
    let matrix = runtimes::matrix()?;
    for runtime in &matrix {
        println!("runtime {} in {}", runtime.version_text(), runtime.root.display());
    }
    let target_folder = crate::target_folder()?;
    let programs = targets::provide(&target_folder)?;
    let roots = std::env::join_paths(matrix.iter().map(|runtime| &runtime.root))
        .context(|| "the folder of a runtime has a colon in its name")?;
    let on_musl = musl::provide(&programs)?;
    Ok(vec![
        ("REMORA_TEST_DOTNET_ROOTS", roots),
        ("REMORA_TEST_TARGETS", programs.into()),
        ("REMORA_TEST_MUSL", on_musl.into()),
        ("REMORA_TEST_PUBLISHED", published::provide()?.into()),
        ("REMORA_BIN", dist::command()?.into()),
        ("REMORA_PROBE", build_probe()?.into()),
        ("REMORA_MODEL_HOST", build_model_host()?.into()),
        ("REMORA_SDK_EXAMPLES", build_sdk_examples()?.into()),
    ])
}

/// The ring's atomics in every order that two producers and a consumer can take, by loom; a build of its own.
pub fn every_interleaving() -> Outcome<Count> {
    let folder = crate::target_folder()?.join("loom");
    counted(
        process::cargo()
            .args(["test", "--release", "--package", "remora-agent-ring", "--lib"])
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", folder),
    )
}

/// The trigger's own tests on live runtimes: namespaces, other users, sockets.
pub fn trigger_on_live_runtimes(live: &[(&'static str, OsString)]) -> Outcome<Count> {
    let mut command = process::cargo();
    command.args(["test", "--package", "remora-trigger", "--features", "live", "--test", "live"]).args(NAME_EACH);
    counted(command.envs(live.iter().map(|(name, value)| (name, value))))
}

/// Builds the profiler that obeys the tests of the runtimes themselves, and returns its path.
fn build_probe() -> Outcome<PathBuf> {
    process::run(process::cargo().args(["build", "--package", "remora-probe"]))?;
    Ok(crate::target_folder()?.join("debug/libremora_probe.so"))
}

/// Builds the process of .NET as the model has it, and returns its path.
fn build_model_host() -> Outcome<PathBuf> {
    process::run(process::cargo().args(["build", "--package", "remora-model-host"]))?;
    Ok(crate::target_folder()?.join("debug/remora-model-host"))
}

/// Builds the profilers that show how to use the SDK, and returns their folder.
fn build_sdk_examples() -> Outcome<PathBuf> {
    process::run(process::cargo().args(["build", "--package", "corprof", "--examples"]))?;
    Ok(crate::target_folder()?.join("debug/examples"))
}

/// The tests of the model of the runtime alone.
pub fn model(environment: &[(&'static str, OsString)]) -> Outcome<Count> {
    let mut command = process::cargo();
    if has_nextest() {
        command.args(NEXTEST).args(["--package", "remora-clr-sim"]);
    } else {
        command.args(["test", "--no-fail-fast", "--package", "remora-clr-sim"]).args(NAME_EACH);
    }
    counted(command.envs(environment.iter().map(|(name, value)| (name, value))))
}

/// The tests that need no runtime, those in the documentation among them.
pub fn unit_tests(environment: &[(&'static str, OsString)]) -> Outcome<Count> {
    let purpose = "the HTML report and the page of a heap are opened and clicked in a browser";
    debian::ensure(&["chromium", "chromedriver"], &["chromium", "chromium-driver"], purpose)?;
    let most = ["--workspace", "--exclude", LIVE[0], "--exclude", LIVE[1]];
    let environment = environment.iter().map(|(name, value)| (name, value));
    if !has_nextest() {
        return counted(
            process::cargo().arg("test").args(most).arg("--no-fail-fast").args(NAME_EACH).envs(environment),
        );
    }
    let mut count = counted(process::cargo().args(NEXTEST).args(most).envs(environment))?;
    // nextest leaves out what stands in the documentation: there it is proved what does not compile.
    count.add(counted(process::cargo().args(["test", "--doc", "--no-fail-fast"]).args(most))?);
    Ok(count)
}

/// The tests on live runtimes, and on the models of them.
pub fn end_to_end(live: &[(&'static str, OsString)], filter: &[String]) -> Outcome<Count> {
    let mut command = process::cargo();
    let packages = LIVE.iter().flat_map(|package| ["--package", package]);
    if has_nextest() {
        command.args(NEXTEST).args(packages).args(["--test-threads", LIVE_AT_A_TIME]).args(filter);
    } else {
        command.args(["test", "--no-fail-fast"]).args(packages);
        command.args(NAME_EACH).args(["--test-threads", LIVE_AT_A_TIME]).args(filter);
    }
    if filter.is_empty() {
        // Who asks for all tests gets all of them.
        command.env_remove(ONLY_SOME_WORLDS);
    }
    counted(command.envs(live.iter().map(|(name, value)| (name, value))))
}

fn has_nextest() -> bool {
    process::output(process::cargo().args(["nextest", "--version"])).is_ok()
}
