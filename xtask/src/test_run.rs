//! `cargo xtask test` and `cargo xtask e2e`: all tests, with everything set up that they need.
//!
//! Unit tests come first: they are fast, and the rest is not worth the wait if they fail.
//! The end-to-end tests run against the release build, since that is what users have.

use crate::outcome::{Context, Outcome, bail};
use crate::{debian, process, published, runtimes, targets};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// End-to-end tests at a time. Each has a live target that wants a processor; more would measure the machine.
const LIVE_AT_A_TIME: &str = "2";

/// The packages whose tests want live runtimes.
const LIVE: [&str; 2] = ["remora-e2e", "remora-conformance"];

/// Limits `tests/conformance` to some worlds, for who works on the model.
const ONLY_SOME_WORLDS: &str = "REMORA_CONFORMANCE_ONLY";

/// Hundreds of lines about what passed would bury the one that failed: that one is told whole, and last.
const NEXTEST: [&str; 9] = [
    "nextest",
    "run",
    "--no-fail-fast",
    "--status-level",
    "slow",
    "--final-status-level",
    "fail",
    "--failure-output",
    "final",
];

/// How many tests passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    passed: u64,
    failed: u64,
    /// A test program ended without a summary: it did not compile, or crashed.
    broken: u64,
}

/// `cargo xtask test`: every test of the repository.
pub fn run_all(_: &[String]) -> Outcome<()> {
    let live = prepare()?;
    let mut count = unit_tests()?;
    count.add(every_interleaving()?);
    count.add(trigger_on_live_runtimes(&live)?);
    count.add(end_to_end(&live, &[])?);
    conclude(count)
}

/// `cargo xtask e2e [FILTER]`: only the end-to-end tests whose names contain the filter.
pub fn run_end_to_end(filter: &[String]) -> Outcome<()> {
    conclude(end_to_end(&prepare()?, filter)?)
}

/// The last line of a run, and whether it was a success.
pub fn conclude(count: Count) -> Outcome<()> {
    println!("\n{} passed, {} failed", count.passed, count.failed);
    match (count.failed, count.broken, count.passed) {
        (0, 0, 1..) => Ok(()),
        (0, 0, 0) => bail!("no test ran"),
        (0, broken, _) => bail!("{broken} test runs ended before their summary"),
        (failed, _, _) => bail!("{failed} tests failed"),
    }
}

/// Fetches, compiles and builds all that the end-to-end tests need; the environment that tells them where it is.
pub fn prepare() -> Outcome<Vec<(&'static str, OsString)>> {
    let matrix = runtimes::matrix()?;
    for runtime in &matrix {
        println!("runtime {} in {}", runtime.version_text(), runtime.root.display());
    }
    let target_folder = crate::target_folder()?;
    let programs = targets::provide(&target_folder)?;
    let roots = std::env::join_paths(matrix.iter().map(|runtime| &runtime.root))
        .context(|| "the folder of a runtime has a colon in its name")?;
    Ok(vec![
        ("REMORA_TEST_DOTNET_ROOTS", roots),
        ("REMORA_TEST_TARGETS", programs.into()),
        ("REMORA_TEST_PUBLISHED", published::provide()?.into()),
        ("REMORA_BIN", build_command()?.into()),
        ("REMORA_PROBE", build_probe()?.into()),
        ("REMORA_MODEL_HOST", build_model_host()?.into()),
        ("REMORA_SDK_EXAMPLES", build_sdk_examples()?.into()),
    ])
}

/// Builds the release of `remora` and returns its path.
pub fn build_command() -> Outcome<PathBuf> {
    process::run(process::cargo().args(["build", "--release", "--package", "remora-cli"]))?;
    Ok(crate::target_folder()?.join("release/remora"))
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
    command.args(["test", "--package", "remora-trigger", "--features", "live", "--test", "live"]);
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

/// The tests that need no runtime, those in the documentation among them.
pub fn unit_tests() -> Outcome<Count> {
    let purpose = "the HTML report is opened and clicked in a browser";
    debian::ensure(&["chromium", "chromedriver"], &["chromium", "chromium-driver"], purpose)?;
    let most = ["--workspace", "--exclude", LIVE[0], "--exclude", LIVE[1]];
    if !has_nextest() {
        return counted(process::cargo().arg("test").args(most).arg("--no-fail-fast"));
    }
    let mut count = counted(process::cargo().args(NEXTEST).args(most))?;
    // nextest leaves out what stands in the documentation: there it is proved what does not compile.
    count.add(counted(process::cargo().args(["test", "--doc", "--no-fail-fast"]).args(most))?);
    Ok(count)
}

/// The tests on live runtimes, and on the models of them.
pub fn end_to_end(live: &[(&'static str, OsString)], filter: &[String]) -> Outcome<Count> {
    let mut command = process::cargo();
    if has_nextest() {
        command.args(NEXTEST).args(["--test-threads", LIVE_AT_A_TIME]);
    } else {
        command.args(["test", "--no-fail-fast"]);
    }
    command.args(LIVE.iter().flat_map(|package| ["--package", package]));
    if has_nextest() {
        command.args(filter);
    } else {
        command.args(filter.first()).args(["--", "--test-threads", LIVE_AT_A_TIME]);
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

impl Count {
    /// Adds what another run counted.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.broken += other.broken;
    }

    /// Adds what one line of a test run's output says, if it is a summary.
    fn read(&mut self, line: &str) {
        let plain = without_colours(line);
        let plain = plain.trim_end();
        // nextest shows what a failed test has said, set in: a summary in there is counted already.
        let is_summary = plain.starts_with("test result:") || plain.trim_start().starts_with("Summary [");
        if !is_summary {
            return;
        }
        let words: Vec<&str> = plain.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => self.passed += number,
                // A test that hangs or kills its process has failed in its own way.
                "failed" | "timed" | "exec" => self.failed += number,
                _ => {}
            }
        }
    }
}

/// Runs a test command, shows its output, and counts.
fn counted(command: &mut Command) -> Outcome<Count> {
    // Through our pipes cargo would take nobody for reading along.
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process::show(command)?;
    let mut child = command.spawn().context(|| "cannot start cargo")?;
    let errors = child.stderr.take().map(|stream| std::thread::spawn(move || pass_on(stream, std::io::stderr())));
    let mut count = child.stdout.take().map_or(Ok(Count::default()), |stream| pass_on(stream, std::io::stdout()))?;
    if let Some(Ok(said)) = errors.map(std::thread::JoinHandle::join) {
        count.add(said?);
    }
    let status = child.wait().context(|| "cannot wait for cargo")?;
    Ok(judged(count, status.success()))
}

/// A run that failed without a failed test ended before it could count.
fn judged(count: Count, success: bool) -> Count {
    let broken = u64::from(!success && count.failed == 0);
    Count { broken, ..count }
}

/// Shows each line as it comes and counts what summaries say.
fn pass_on(stream: impl Read, mut to: impl Write) -> Outcome<Count> {
    let mut count = Count::default();
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).context(|| "cannot read from cargo")? > 0 {
        to.write_all(&line).context(|| "cannot show what cargo says")?;
        count.read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(count)
}

/// The text without escape sequences that set colours.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&str], passed: u64, failed: u64) {
        let mut count = Count::default();
        lines.iter().for_each(|line| count.read(line));
        assert_eq!((count.passed, count.failed), (passed, failed));
    }

    #[test]
    fn summaries_of_both_runners_are_counted() {
        check(
            &["test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n"],
            7,
            0,
        );
        check(&["test result: FAILED. 1 passed; 2 failed; 0 ignored", "test result: ok. 3 passed; 0 failed"], 4, 2);
        check(
            &[
                "\x1b[32;1m     Summary\x1b[0m [   0.5s] \x1b[1m10\x1b[0m tests run: \x1b[1m9\x1b[0m \x1b[32;1mpassed\x1b[0m, 1 failed, 2 skipped",
            ],
            9,
            1,
        );
        check(&["     Summary [   0.5s] 3 tests run: 1 passed, 1 failed, 1 timed out, 0 skipped"], 1, 2);
        check(&["test my_test_with_3 passed ... ok"], 0, 0);
        check(&["    test result: FAILED. 0 passed; 1 failed; 0 ignored"], 0, 0);
    }

    #[test]
    fn a_run_without_a_summary_is_not_a_success() {
        assert!(conclude(Count { passed: 3, failed: 0, broken: 0 }).is_ok());
        assert!(conclude(Count { passed: 3, failed: 1, broken: 0 }).is_err());
        assert!(conclude(Count { passed: 3, failed: 0, broken: 1 }).is_err());
        assert!(conclude(Count::default()).is_err());
    }

    #[test]
    fn a_run_that_breaks_off_is_told_from_one_that_fails() {
        let count_of = |said: &str| pass_on(said.as_bytes(), std::io::sink()).unwrap();
        let broken = judged(count_of("error: it does not compile\n"), false);
        assert_eq!(broken, Count { passed: 0, failed: 0, broken: 1 });
        let failed = judged(count_of("test result: FAILED. 1 passed; 1 failed\n"), false);
        assert_eq!(failed, Count { passed: 1, failed: 1, broken: 0 });
    }

    #[test]
    fn what_is_passed_on_is_all_of_it() {
        let mut shown = Vec::new();
        pass_on(&b"one\ntwo\xff\nlast"[..], &mut shown).unwrap();
        assert_eq!(shown, b"one\ntwo\xff\nlast");
    }
}
