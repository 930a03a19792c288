//! The rights of targets and recorders: root's or an ordinary user's, independent of the measuring user.
//!
//! The recorder is this program, started again; it answers in one line of JSON.

use crate::account::Account;
use crate::agent::Agent;
use crate::arguments::Order;
use crate::shares::{self, Shares};
use crate::{Outcome, bench};
use remora_profile::{Event, Loss, LossCause};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The rights of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Rights {
    /// All rights of the measurement itself.
    Inherited,
    /// Without any capability, as an ordinary user.
    Unprivileged,
    /// The same, and `perf_event_open` is refused, as container engines do.
    WithoutPerf,
}

/// The answer of such a recorder.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// The shares of the requested methods; `None` if none of them was seen.
    pub shares: Option<Shares>,
    /// Samples that arrived.
    pub delivered: u64,
    /// The weight of all samples, nanoseconds.
    pub weight: u64,
    /// CPU time of the target during the recording, nanoseconds.
    pub target_cpu: Option<u64>,
    taken: u64,
    lost: Vec<(u32, u64)>,
    left: Option<String>,
    detach_milliseconds: f64,
}

impl Rights {
    /// A command that runs with these rights.
    pub fn command(self, program: &Path) -> Command {
        match self {
            Rights::Inherited => Command::new(program),
            Rights::Unprivileged => unprivileged(program),
            Rights::WithoutPerf => {
                let mut command = unprivileged(&remora_e2e::native("filtered"));
                command.arg(program);
                command
            }
        }
    }

    /// Records `order` in a process with these rights, and waits for it.
    pub fn have_recorded(self, order: &Order) -> Outcome<Recorded> {
        let mut command = self.command(&std::env::current_exe()?);
        let numbers = [u64::from(order.process_id), order.samples, u64::from(order.seconds)];
        command.arg("record-shares").args(numbers.map(|number| number.to_string())).args(&order.methods);
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(format!("the recorder failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// The main function of that process.
pub fn record(order: &Order) -> Outcome<()> {
    let mut agent = Agent::attach(&bench::library()?, order.process_id, Event::Cpu)?;
    agent.run_at_most(order.samples, Duration::from_secs(order.seconds.into()))?;
    let (finished, left) = agent.detach()?;
    let loss = &finished.profile.loss;
    let recorded = Recorded {
        shares: shares::of_methods(&finished.profile, &order.methods),
        delivered: loss.delivered,
        weight: finished.profile.samples().iter().map(|sample| sample.weight).sum(),
        target_cpu: finished.profile.meta.target_cpu,
        taken: loss.taken,
        lost: loss.lost.iter().map(|(cause, count)| (cause.id(), *count)).collect(),
        left,
        detach_milliseconds: finished.facts.detach as f64 / 1e6,
    };
    println!("{}", serde_json::to_string(&recorded)?);
    Ok(())
}

impl Recorded {
    /// Adds it to the totals.
    pub fn enter(&self, account: &mut Account) {
        let lost = self.lost.iter().filter_map(|(id, count)| Some((LossCause::from_id(*id)?, *count))).collect();
        account.add(&Loss { taken: self.taken, delivered: self.delivered, lost, ..Loss::default() });
        account.add_detach(self.left.clone(), self.detach_milliseconds);
    }
}

fn unprivileged(program: &Path) -> Command {
    if !is_privileged() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]).arg(program);
    command
}

/// Whether we have any capability.
fn is_privileged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.is_some_and(|mask| !mask.trim().trim_start_matches('0').is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_privilege_has_no_capability() {
        let output = Rights::Unprivileged.command(Path::new("cat")).arg("/proc/self/status").output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            let mask = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
            assert_eq!(mask.trim(), "0000000000000000", "{set}");
        }
    }
}
