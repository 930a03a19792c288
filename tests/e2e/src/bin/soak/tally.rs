//! The final tables: commands by kind and end, and the growth of each target.

use crate::fleet::Ended;
use crate::growth::KINDS;
use crate::plan::Plan;
use crate::round::Done;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Columns of the first table.
const ENDS: [&str; 5] = ["by itself", "signal", "twice", "kill -9", "halted"];

/// Counts of all lanes.
#[derive(Default)]
pub struct Tally {
    /// Finished rounds.
    pub rounds: u64,
    commands: BTreeMap<(&'static str, &'static str), u64>,
    codes: BTreeMap<i32, u64>,
    features: BTreeMap<&'static str, u64>,
    /// Targets that have been asked to end.
    pub ended: Vec<Ended>,
}

impl Tally {
    /// Counts a round.
    pub fn add(&mut self, plan: &Plan, done: &Done) {
        self.rounds += 1;
        for act in &done.acts {
            *self.commands.entry((act.actor.task.name(), act.actor.end.name())).or_default() += 1;
            *self.codes.entry(act.finished.code()).or_default() += 1;
        }
        for (feature, has) in [
            ("several at once", plan.actors.len() > 1),
            ("small disk", plan.disk.is_some()),
            ("full folder for the library", plan.place.is_some()),
            ("target stopped", plan.halt.is_some()),
            ("target ends", plan.death.is_some()),
            ("detach after a kill", done.detached.is_some()),
        ] {
            *self.features.entry(feature).or_default() += u64::from(has);
        }
    }

    /// All tables, as text.
    pub fn table(&self) -> String {
        let mut text = format!("{:<20}", "commands");
        ENDS.iter().for_each(|end| line(&mut text, &format!("{end:>11}")));
        let tasks: Vec<&str> = self.commands.keys().map(|(task, _)| *task).collect();
        let mut last = "";
        for task in tasks {
            if task == last {
                continue;
            }
            last = task;
            line(&mut text, &format!("\n{task:<20}"));
            for end in ENDS {
                let count = self.commands.iter().find(|((row, column), _)| *row == task && *column == end);
                line(&mut text, &format!("{:>11}", count.map_or(0, |(_, count)| *count)));
            }
        }
        let codes = self.codes.iter().map(|(code, count)| match code {
            -1 => format!("killed: {count}"),
            code => format!("{code}: {count}"),
        });
        line(&mut text, &format!("\n\nexit codes  {}\n", codes.collect::<Vec<_>>().join("  ")));
        let features = self.features.iter().map(|(feature, count)| format!("{feature}: {count}"));
        line(&mut text, &format!("rounds with  {}\n\n", features.collect::<Vec<_>>().join(", ")));
        line(&mut text, &format!("{:<50}{:>7}", "target", "rounds"));
        KINDS.iter().for_each(|kind| line(&mut text, &format!("{:>26}", kind.name)));
        line(&mut text, &format!("{:>8}\n", "stays"));
        for ended in &self.ended {
            line(&mut text, &format!("{:<50}{:>7}", ended.name, ended.rounds));
            let windows: Vec<_> =
                [Some(&ended.control), ended.settled.as_ref(), Some(&ended.end)].into_iter().flatten().collect();
            for kind in 0..KINDS.len() {
                let medians: Vec<String> = windows.iter().map(|window| window.kinds[kind][1].to_string()).collect();
                line(&mut text, &format!("{:>26}", medians.join(" > ")));
            }
            line(&mut text, &format!("{:>8}\n", ended.end.staying));
        }
        text
    }
}

fn line(text: &mut String, more: &str) {
    // Writing to a string cannot fail.
    let _ = text.write_str(more);
}
