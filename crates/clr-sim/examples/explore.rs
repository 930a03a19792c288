//! Explores so many seeds, and prints what it found.
#![allow(clippy::print_stdout, reason = "an example prints")]

use remora_agent_core::sabotage::Sabotage;
use remora_clr_sim::explore::{at_random, replay, shrink};
use remora_clr_sim::scenario::Setting;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let count: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let wanted = arguments.next();
    let all = Sabotage::ALL
        .iter()
        .filter(|(one, _)| wanted.as_deref().is_some_and(|name| name == "all" || format!("{one:?}") == name));
    let mut settings: Vec<Setting> =
        all.map(|(one, _)| Setting { sabotage: Some(*one), ..Setting::default() }).collect();
    if settings.is_empty() {
        settings.push(Setting::default());
    }
    for setting in settings {
        let begun = std::time::Instant::now();
        let explored = at_random(first..first + count, setting);
        println!(
            "{:?}: {} schedules in {:?}; {:?}",
            setting.sabotage,
            explored.schedules,
            begun.elapsed(),
            explored.reached
        );
        let Some(failure) = explored.failure else { continue };
        println!("  seed {}: {:?}", failure.seed, failure.findings);
        if wanted.as_deref() == Some("all") {
            continue;
        }
        let short = shrink(&failure, setting);
        println!(
            "  {} choices, {} of them not 0",
            short.choices.len(),
            short.choices.iter().filter(|choice| **choice != 0).count()
        );
        for line in replay(&short, setting).timeline.lines() {
            println!("{:>12} {:>2} {line}", line.time, line.task);
        }
        println!("{:?}", short.findings);
    }
}
