//! Targets and recorders without any capability: what an ordinary user's recording sees, whoever runs the measurement.
//!
//! The recorder is this same program, started again; it answers in one line of JSON.

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

/// How long a recording may take for each of its samples, at a quarter of the pace that a busy thread has.
const PATIENCE_A_SAMPLE: Duration = Duration::from_millis(16);

/// What a recorder without privilege answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// The shares of the methods that were asked for; none if none of them was seen.
    pub shares: Option<Shares>,
    /// Samples that arrived.
    pub delivered: u64,
    taken: u64,
    lost: Vec<(u32, u64)>,
    left: Option<String>,
    detach_milliseconds: f64,
}

/// A command that will have no capability, as an ordinary user's has none.
pub fn command(program: &Path) -> Command {
    if !is_privileged() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]).arg(program);
    command
}

/// Has a process without privilege record `order`, and waits for it.
pub fn have_recorded(order: &Order) -> Outcome<Recorded> {
    let mut command = command(&std::env::current_exe()?);
    command.args(["record-without-privilege", &order.process_id.to_string(), &order.samples.to_string()]);
    let output = command.args(&order.methods).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(
            format!("the recorder without privilege failed: {}", String::from_utf8_lossy(&output.stderr)).into()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Is that process.
pub fn record(order: &Order) -> Outcome<()> {
    let patience = PATIENCE_A_SAMPLE * u32::try_from(order.samples)? + Duration::from_secs(20);
    let mut agent = Agent::attach(&bench::library()?, order.process_id, Event::Cpu)?;
    agent.run_until(order.samples, patience)?;
    let (finished, left) = agent.detach()?;
    let loss = &finished.profile.loss;
    let recorded = Recorded {
        shares: shares::of_methods(&finished.profile, &order.methods),
        delivered: loss.delivered,
        taken: loss.taken,
        lost: loss.lost.iter().map(|(cause, count)| (cause.id(), *count)).collect(),
        left,
        detach_milliseconds: finished.facts.detach as f64 / 1e6,
    };
    println!("{}", serde_json::to_string(&recorded)?);
    Ok(())
}

impl Recorded {
    /// Enters it into the account.
    pub fn enter(&self, account: &mut Account) {
        let lost = self.lost.iter().filter_map(|(id, count)| Some((LossCause::from_id(*id)?, *count))).collect();
        account.add(&Loss { taken: self.taken, delivered: self.delivered, lost, ..Loss::default() });
        account.add_detach(self.left.clone(), self.detach_milliseconds);
    }
}

/// Whether we have any capability to give away.
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
        let output = command(Path::new("cat")).arg("/proc/self/status").output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            let mask = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
            assert_eq!(mask.trim(), "0000000000000000", "{set}");
        }
    }
}
