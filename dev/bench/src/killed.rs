//! How long the library stays after the recorder was killed.
//!
//! The recorder is this program, started again: it reports the first samples, and records until it is killed.

use crate::agent::Agent;
use crate::{Outcome, bench};
use remora_profile::Event;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of every step.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two checks whether the library is still mapped.
const INTERVAL: Duration = Duration::from_micros(500);
/// Samples that must arrive before the recorder is killed.
const SAMPLES: u64 = 10;

/// Records the target, kills the recorder, and waits until the library is unmapped; returns the time that took.
pub fn until_unmapped(process_id: u32, event: Event) -> Outcome<Duration> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["record-until-killed", &process_id.to_string(), event.name()]).stdout(Stdio::piped());
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
        if killed.elapsed() > TIMEOUT {
            return Err(format!("the library is still mapped {TIMEOUT:?} after its recorder was killed").into());
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(killed.elapsed())
}

/// The main function of that recorder.
pub fn record(process_id: u32, event: Event) -> Outcome<()> {
    let mut agent = Agent::attach(&bench::library()?, process_id, event)?;
    agent.run_until(SAMPLES, TIMEOUT)?;
    println!("samples arrive");
    // Until it is killed; otherwise it ends after this time.
    agent.run(TIMEOUT)
}

fn is_mapped(process_id: u32) -> Outcome<bool> {
    Ok(std::fs::read_to_string(format!("/proc/{process_id}/maps"))?.contains("libremora_agent"))
}
