//! How long the library stays when whoever records is killed.
//!
//! The recorder is this same program, started again: it says that samples arrive, and records until it is killed.

use crate::agent::Agent;
use crate::{Outcome, bench};
use remora_profile::Event;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything here may take before it counts as never.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether the library is still mapped.
const LOOK: Duration = Duration::from_micros(500);
/// Samples that have arrived when the recorder is killed.
const SAMPLES: u64 = 10;

/// Has the target recorded, kills the recorder, and waits until the library is unmapped: how long that took.
pub fn until_unmapped(process_id: u32, event: Event) -> Outcome<Duration> {
    let mut command = Command::new(std::env::current_exe()?);
    let event = if event == Event::Wall { "wall" } else { "cpu" };
    command.args(["record-until-killed", &process_id.to_string(), event]).stdout(Stdio::piped());
    let mut recorder = command.spawn()?;
    let mut line = String::new();
    let said = recorder.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
    let killed = Instant::now();
    recorder.kill()?;
    recorder.wait()?;
    if !matches!(said, Some(Ok(1..))) {
        return Err("the recorder ended before samples arrived".into());
    }
    while is_mapped(process_id)? {
        if killed.elapsed() > PATIENCE {
            return Err(format!("the library is still mapped {PATIENCE:?} after its recorder was killed").into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(killed.elapsed())
}

/// Is that recorder.
pub fn record(process_id: u32, event: Event) -> Outcome<()> {
    let mut agent = Agent::attach(&bench::library()?, process_id, event)?;
    agent.run_until(SAMPLES, PATIENCE)?;
    println!("samples arrive");
    // Until it is killed; if nobody does, it ends by itself.
    agent.run(PATIENCE)
}

fn is_mapped(process_id: u32) -> Outcome<bool> {
    Ok(std::fs::read_to_string(format!("/proc/{process_id}/maps"))?.contains("libremora_agent"))
}
