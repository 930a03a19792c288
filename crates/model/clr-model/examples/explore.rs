//! Explores schedules and prints the findings. `cargo xtask explore` runs it.
//!
//! - `FIRST COUNT`: the schedules of `COUNT` seeds, on all CPUs.
//! - `replay SEED [SWITCH]`: one schedule, shortened, as a timeline. `SWITCH` is a way to break the agent.
//! - `small SEED CHOICES`: one schedule of a seed's small world, by its choices: `0,0,2,1`, or `-` for none.
//! - `broken`: each way to break the agent, and the number of schedules until a finding.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use remora_clr_model::explore::{Exploration, Failure, at_random, by_choices, on_all_processors, replay, shrink};
use remora_clr_model::scenario::ScheduleSetting;
use remora_session::fault_injection::InjectedFault;
use std::process::ExitCode;

/// Maximum of schedules until each way to break the agent is found.
const SCHEDULES_TO_FIND: u64 = 10_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match words[..] {
        ["broken"] => broken(),
        ["replay", seed] if number(seed).is_some() => replayed(number(seed).unwrap_or(0), None),
        ["replay", seed, switch] if number(seed).is_some() => replayed(number(seed).unwrap_or(0), by_name(switch)),
        [first, count] if number(first).is_some() && number(count).is_some() => {
            exploration(number(first).unwrap_or(0), number(count).unwrap_or(0))
        }
        ["small", seed, choices] if number(seed).is_some() => {
            let choices = choices.split(',').filter_map(|choice| choice.parse().ok()).collect();
            let setting = ScheduleSetting { small: true, ..ScheduleSetting::default() };
            shown(&by_choices(number(seed).unwrap_or(0), choices, setting))
        }
        _ => {
            eprintln!("explore FIRST COUNT | replay SEED [SWITCH] | small SEED CHOICES | broken");
            ExitCode::from(2)
        }
    }
}

fn by_name(name: &str) -> Option<InjectedFault> {
    InjectedFault::ALL.iter().map(|(switch, _)| *switch).find(|switch| format!("{switch:?}") == name)
}

fn exploration(first: u64, count: u64) -> ExitCode {
    let begun = std::time::Instant::now();
    let exploration = on_all_processors(first..first + count, ScheduleSetting::default());
    let seconds = begun.elapsed().as_secs_f64();
    let a_minute = exploration.schedules as f64 / seconds * 60.0;
    println!("{} schedules in {seconds:.1} s, {a_minute:.0} a minute", exploration.schedules);
    println!("{:?}", exploration.reached);
    match exploration.failure {
        None if exploration.schedules != count => {
            println!("but {count} were asked for");
            ExitCode::from(2)
        }
        None => {
            println!("nothing breaks the contract");
            ExitCode::SUCCESS
        }
        Some(failure) => {
            tell(&failure);
            println!("to see it: cargo xtask explore replay {}", failure.seed);
            ExitCode::FAILURE
        }
    }
}

fn tell(failure: &Failure) {
    println!("seed {}:", failure.seed);
    for finding in &failure.findings {
        println!("  {}: {}", finding.clause, finding.what);
    }
}

fn replayed(seed: u64, fault: Option<InjectedFault>) -> ExitCode {
    let setting = ScheduleSetting { fault, ..ScheduleSetting::default() };
    shown(&at_random(seed..seed + 1, setting))
}

fn shown(exploration: &Exploration) -> ExitCode {
    let Some(failure) = &exploration.failure else {
        println!("nothing breaks the contract");
        return ExitCode::SUCCESS;
    };
    let short = shrink(failure);
    print!("{}", replay(&short).ran.timeline);
    tell(&short);
    ExitCode::FAILURE
}

fn broken() -> ExitCode {
    let mut missed = 0;
    println!("| the agent is broken so that it | schedules to find it | clause | seed |\n|---|---|---|---|");
    for (switch, what) in InjectedFault::ALL {
        let exploration =
            at_random(0..SCHEDULES_TO_FIND, ScheduleSetting { fault: Some(*switch), ..ScheduleSetting::default() });
        let what = what.trim().trim_end_matches('.');
        match exploration.failure.as_ref().and_then(|failure| Some((failure.findings.first()?, failure.seed))) {
            Some((finding, seed)) => println!("| {what} | {} | {} | {seed} |", exploration.schedules, finding.clause),
            None => {
                missed += 1;
                println!("| {what} | not in {SCHEDULES_TO_FIND} | | |");
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
