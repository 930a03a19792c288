//! `remora check`: every precondition of `record`, one line each, and the engine that `record` would use: the agent, the runtime's own
//! sampler, or none.

use crate::args::CheckArgs;
use crate::console::{Page, line, out};
use crate::exit::Exit;
use crate::failure::{Failure, Goal, in_words};
use crate::library::{FOR_RECORDINGS, requirements};
use crate::preconditions::{Obstacle, examine, obstacle};
use crate::target::find_one;
use remora_attach::{Check, Slot, Version, check_pid};
use serde::Serialize;

/// JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct CheckJson<'a> {
    process_id: u32,
    /// Whether `record` would work, with either engine.
    recordable: bool,
    /// The engine that `record` would use.
    engine: Option<&'static str>,
    verdict: String,
    /// The error code that `record` would end with.
    code: Option<&'static str>,
    checks: Vec<Line<'a>>,
    /// Known risks of a recording on this machine.
    risks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'static str,
    /// `null`: it could not be looked at.
    passed: Option<bool>,
    found: &'a str,
    remedy: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let process = match (find_one(&args.target), args.target.process_id) {
        (Ok(process), _) => process,
        (Err(failure), Some(process_id)) if args.json => {
            let checks = check_pid(process_id, &requirements(FOR_RECORDINGS)?);
            let why = checks.iter().find(|check| check.has_failed()).map_or("", |check| &check.found);
            out(&json(process_id, &checks, &Verdict::Fails(why, failure.code()), None))?;
            return Ok(failure.exit());
        }
        (Err(failure), _) => return Err(failure),
    };
    let checks = examine(&process, FOR_RECORDINGS, Slot::Beside)?;
    let obstacle = obstacle(&process, &checks);
    let verdict = Verdict::of(obstacle.as_ref());
    let version = process.runtime().and_then(|runtime| runtime.version);
    out(&match args.json {
        true => json(process.pid, &checks, &verdict, version),
        false => text(&checks, &verdict, version),
    })?;
    Ok(match &obstacle {
        Some(obstacle) if !obstacle.agent_only => obstacle.failure.exit(),
        _ => Exit::Done,
    })
}

/// The outcome that `record` would have.
#[derive(Debug)]
enum Verdict<'a> {
    Agent,
    /// The agent cannot be used, for this reason.
    SamplerOnly(&'a str),
    /// `record` would fail: reason and error code.
    Fails(&'a str, &'static str),
}

impl Verdict<'_> {
    fn of(obstacle: Option<&Obstacle>) -> Verdict<'_> {
        match obstacle {
            None => Verdict::Agent,
            Some(obstacle) if obstacle.agent_only => Verdict::SamplerOnly(&obstacle.found),
            Some(obstacle) => Verdict::Fails(&obstacle.found, obstacle.failure.code()),
        }
    }

    /// The engine's name in `--engine`.
    fn engine(&self) -> Option<&'static str> {
        match self {
            Verdict::Agent => Some("agent"),
            Verdict::SamplerOnly(_) => Some("eventpipe"),
            Verdict::Fails(..) => None,
        }
    }

    /// Known risks of the recording; docs/guide/risks.md has the measurement.
    fn risks(&self, version: Option<Version>) -> Vec<String> {
        #[cfg(target_arch = "x86_64")]
        if matches!(self, Verdict::Agent) && std::arch::is_x86_feature_detected!("avx512f") {
            let has_wrong_marks = version.is_some_and(Version::has_wrong_sample_marks);
            return vec![format!(
                "this CPU has AVX-512: a sample may crash a process that catches many NullReferenceExceptions; `--engine eventpipe{}` avoids that",
                if has_wrong_marks { " -e wall" } else { "" }
            )];
        }
        Vec::new()
    }

    /// The error code that `record` would end with.
    fn code(&self) -> Option<&'static str> {
        match self {
            Verdict::Fails(_, code) => Some(code),
            Verdict::Agent | Verdict::SamplerOnly(_) => None,
        }
    }
}

impl std::fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Agent => write!(f, "record would work, with the agent"),
            Verdict::SamplerOnly(why) => write!(f, "record would work, with the runtime's own sampler only: {why}"),
            Verdict::Fails(why, _) => write!(f, "record would not work: {why}"),
        }
    }
}

fn json(process_id: u32, checks: &[Check], verdict: &Verdict<'_>, version: Option<Version>) -> Page {
    let lines = checks.iter().map(|check| Line {
        name: check.subject.name(),
        passed: check.passed,
        found: &check.found,
        remedy: in_words(&check.remedies, Goal::Recording),
    });
    let engine = verdict.engine();
    let (recordable, code, risks) = (engine.is_some(), verdict.code(), verdict.risks(version));
    let (verdict, checks) = (verdict.to_string(), lines.collect());
    Page::json(&CheckJson { process_id, recordable, engine, verdict, code, checks, risks })
}

fn text(checks: &[Check], verdict: &Verdict<'_>, version: Option<Version>) -> Page {
    let width = checks.iter().map(|check| check.subject.name().len()).max().unwrap_or(0);
    let mut text = Page::default();
    for check in checks {
        let mark = match check.passed {
            Some(true) => "passed ",
            Some(false) => "FAILED ",
            None => "unknown",
        };
        let remedy = in_words(&check.remedies, Goal::Recording).map_or(String::new(), |remedy| format!("; {remedy}"));
        text += line(format!("{mark}  {:width$}  {}{remedy}", check.subject.name(), check.found));
    }
    let risks: Page = verdict.risks(version).iter().map(|risk| line(format!("note     {risk}"))).sum();
    text + risks + line(verdict.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_and_the_json_say_what_record_would_do() {
        let cases = [
            (Verdict::Agent, Some("agent"), "record would work, with the agent"),
            (
                Verdict::SamplerOnly("/tmp: noexec"),
                Some("eventpipe"),
                "record would work, with the runtime's own sampler only: /tmp: noexec",
            ),
            (Verdict::Fails("it is stopped", "process-stopped"), None, "record would not work: it is stopped"),
        ];
        for (verdict, engine, line) in cases {
            let text = text(&[], &verdict, None);
            assert_eq!(text.lines().last(), Some(line));
            let on_9 = json(7, &[], &verdict, Version::parse("9.0.7")).to_string();
            assert_eq!(on_9.contains("eventpipe -e wall"), on_9.contains("AVX-512"));
            #[cfg(target_arch = "x86_64")]
            assert_eq!(
                text.contains("AVX-512"),
                matches!(verdict, Verdict::Agent) && std::arch::is_x86_feature_detected!("avx512f")
            );
            let document: serde_json::Value = serde_json::from_str(&json(7, &[], &verdict, None)).expect("it is JSON");
            assert_eq!(document["engine"].as_str(), engine);
            assert_eq!(document["code"].is_null(), engine.is_some());
            assert_eq!(
                (document["recordable"].as_bool(), document["verdict"].as_str()),
                (Some(engine.is_some()), Some(line))
            );
        }
    }
}
