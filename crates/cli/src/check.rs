//! `remora check`: every precondition of `record`, one line each.

use crate::args::CheckArgs;
use crate::console::{out, plain};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::preconditions::{examine, obstacle};
use crate::report::pretty;
use crate::target::choose;
use remora_trigger::{Check, check_pid};
use serde::Serialize;
use std::fmt::Write;

/// What is printed for programs. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Verdict<'a> {
    process_id: u32,
    recordable: bool,
    checks: Vec<Line<'a>>,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'static str,
    passed: bool,
    found: &'a str,
    remedy: Option<&'a str>,
}

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let process = match (choose(&args.target), args.target.process_id) {
        (Ok(process), _) => process,
        (Err(failure), Some(process_id)) if args.json => {
            out(&json(process_id, &check_pid(process_id, &crate::library::requirements()?)))?;
            return Ok(failure.exit());
        }
        (Err(failure), _) => return Err(failure),
    };
    let checks = examine(&process)?;
    out(&if args.json { json(process.pid, &checks) } else { text(&checks) })?;
    let Some(obstacle) = obstacle(&process, &checks) else {
        return Ok(Exit::Done);
    };
    if obstacle.agent_only && !args.json {
        out("`remora record` would fall back to --engine eventpipe, the runtime's own sampler.\n")?;
    }
    Ok(obstacle.failure.exit())
}

fn json(process_id: u32, checks: &[Check]) -> String {
    let lines = checks.iter().map(|check| Line {
        name: check.name,
        passed: check.passed,
        found: &check.found,
        remedy: check.remedy.as_deref(),
    });
    pretty(&Verdict { process_id, recordable: checks.iter().all(|check| check.passed), checks: lines.collect() })
}

fn text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = if check.passed { "passed" } else { "FAILED" };
        let _ = write!(text, "{mark}  {:width$}  {}", check.name, plain(&check.found));
        if let Some(remedy) = &check.remedy {
            let _ = write!(text, "; {}", plain(remedy));
        }
        text.push('\n');
    }
    text
}
