//! What a test run says on its output, of nextest and of cargo's own runner: how many passed, and which.

use crate::contract;
use crate::outcome::{Context, Outcome, bail};
use crate::process;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::{Command, Stdio};

/// How many tests passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    passed: u64,
    failed: u64,
    /// A test program ended without a summary: it did not compile, or crashed.
    broken: u64,
}

/// What came of one test.
#[derive(Debug, PartialEq, Eq)]
pub struct TestOutcome {
    /// Its package, where the runner names it.
    pub package: Option<String>,
    /// The name of its function.
    pub test: String,
    /// Whether it passed.
    pub passed: bool,
}

/// What a stream of output has told.
#[derive(Debug, Default)]
struct Said {
    count: Count,
    outcomes: Vec<TestOutcome>,
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

impl Count {
    /// Adds what another run counted.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.broken += other.broken;
    }

    /// Adds what one line of a test run's output says, without its colours, if it is a summary.
    fn read(&mut self, line: &str) {
        let plain = line.trim_end();
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

/// Runs a test command, shows its output, counts, and keeps the outcomes where the command's environment says.
pub fn counted(command: &mut Command) -> Outcome<Count> {
    // Through our pipes cargo would take nobody for reading along.
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process::show(command)?;
    let mut child = command.spawn().context(|| "cannot start cargo")?;
    let errors = child.stderr.take().map(|stream| std::thread::spawn(move || pass_on(stream, std::io::stderr())));
    let mut said = child.stdout.take().map_or(Ok(Said::default()), |stream| pass_on(stream, std::io::stdout()))?;
    if let Some(Ok(other)) = errors.map(std::thread::JoinHandle::join) {
        let other = other?;
        said.count.add(other.count);
        said.outcomes.extend(other.outcomes);
    }
    let status = child.wait().context(|| "cannot wait for cargo")?;
    contract::results::keep(command, &said.outcomes)?;
    Ok(judged(said.count, status.success()))
}

/// A run that failed without a failed test ended before it could count.
fn judged(count: Count, success: bool) -> Count {
    let broken = u64::from(!success && count.failed == 0);
    Count { broken, ..count }
}

/// Shows each line as it comes, but for those about what passed, and takes note of what it tells.
fn pass_on(stream: impl Read, mut to: impl Write) -> Outcome<Said> {
    let mut said = Said::default();
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).context(|| "cannot read from cargo")? > 0 {
        let text = String::from_utf8_lossy(&line);
        let plain = without_colours(&text);
        let outcome = outcome_of_nextest(&plain).or_else(|| outcome_of_cargo(&plain));
        if !outcome.as_ref().is_some_and(|outcome| outcome.passed) {
            to.write_all(&line).context(|| "cannot show what cargo says")?;
        }
        said.count.read(&plain);
        said.outcomes.extend(outcome);
        line.clear();
    }
    Ok(said)
}

/// `        PASS [   0.015s] ( 1/21) remora-clr-sim::attach att_07_…`: how it ended, how long it took, which package and test.
fn outcome_of_nextest(line: &str) -> Option<TestOutcome> {
    let (status, rest) = line.trim().split_once(" [")?;
    let passed = match status {
        // A test that leaves a descriptor open with a child has passed all the same.
        "PASS" | "LEAK" => true,
        "FAIL" | "ABORT" | "TIMEOUT" | "LEAK-FAIL" | "XFAIL" => false,
        signal if signal.starts_with("SIG") => false,
        _ => return None,
    };
    let mut words = rest.split_once(']')?.1.split_whitespace().rev();
    let (test, binary) = (words.next()?, words.next()?);
    let package = binary.split("::").next().map(str::to_owned);
    Some(TestOutcome { package, test: function(test).to_owned(), passed })
}

/// `test seat::tests::att_07_… ... ok`, at the beginning of a line: set in, it is a failed test's own output.
fn outcome_of_cargo(line: &str) -> Option<TestOutcome> {
    let (test, verdict) = line.trim_end().strip_prefix("test ")?.rsplit_once(" ... ")?;
    let passed = match verdict {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    Some(TestOutcome { package: None, test: function(test).to_owned(), passed })
}

/// The last part of a test's path.
pub fn function(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
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
        lines.iter().for_each(|line| count.read(&without_colours(line)));
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
        let count_of = |said: &str| pass_on(said.as_bytes(), std::io::sink()).unwrap().count;
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

    #[track_caller]
    fn check_outcome(line: &str, expected: Option<(Option<&str>, &str, bool)>) {
        let said = pass_on(line.as_bytes(), std::io::sink()).unwrap();
        let found: Vec<_> =
            said.outcomes.iter().map(|one| (one.package.as_deref(), one.test.as_str(), one.passed)).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{line}");
    }

    #[test]
    fn the_outcome_of_each_test_is_read_from_both_runners() {
        let model = Some("remora-clr-sim");
        check_outcome(
            "        PASS [   0.015s] ( 1/21) remora-clr-sim::attach att_07_a",
            Some((model, "att_07_a", true)),
        );
        check_outcome(
            "        PASS [   0.015s] corprof mask::tests::att_12_a",
            Some((Some("corprof"), "att_12_a", true)),
        );
        check_outcome(
            "\x1b[31;1m        FAIL\x1b[0m [   1.2s] (3/9) \x1b[35;1mremora-clr-sim\x1b[0m \x1b[36mx::\x1b[0m\x1b[34;1matt_07_a\x1b[0m",
            Some((model, "att_07_a", false)),
        );
        check_outcome("     SIGSEGV [   0.1s] (3/9) remora-clr-sim att_07_a", Some((model, "att_07_a", false)));
        check_outcome("        SLOW [> 60.000s] remora-clr-sim att_07_a", None);
        check_outcome("     Summary [   0.5s] 3 tests run: 1 passed, 1 failed", None);
        check_outcome("test seat::tests::att_07_a ... ok", Some((None, "att_07_a", true)));
        check_outcome("test att_07_a ... FAILED", Some((None, "att_07_a", false)));
        check_outcome("test att_07_a ... ignored", None);
        check_outcome("    test att_07_a ... FAILED", None);
    }

    #[test]
    fn what_passed_is_not_shown_and_what_failed_is() {
        let mut shown = Vec::new();
        let said = b"        PASS [ 0.1s] a b\n        FAIL [ 0.1s] a c\ntest d ... ok\ntest e ... FAILED\n";
        assert_eq!(pass_on(&said[..], &mut shown).unwrap().outcomes.len(), 4);
        assert_eq!(shown, b"        FAIL [ 0.1s] a c\ntest e ... FAILED\n");
    }
}
