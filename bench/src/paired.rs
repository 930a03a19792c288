//! Seconds with and without a recording, in turns on one target: what a recording costs, whatever else the machine does.
//!
//! Attaching and detaching lie outside of the measured seconds, and a pause lies before each of them, the same for all.

use crate::Outcome;
use crate::agent::Agent;
use crate::bench::Bench;
use crate::peer::Peer;
use crate::process::processor_time;
use crate::statistics::{Chance, Interval, quotient_of_means};
use remora_e2e::Target;
use remora_profile::Event;
use std::time::{Duration, Instant};

/// What is measured at a time.
const SECOND: Duration = Duration::from_secs(1);
/// What lies before it.
const PAUSE: Duration = Duration::from_millis(60);

/// What a target got done in one second.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Operations a second of the clock.
    pub by_clock: f64,
    /// Operations a second of the target's own processor time.
    pub by_processor: f64,
}

/// One turn of each.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Without a recording.
    pub alone: Pace,
    /// While Remora records.
    pub agent: Pace,
    /// While the runtime's own sampler does, if that had its turn.
    pub peer: Option<Pace>,
}

/// What is repeated.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What Remora samples.
    pub event: Event,
    /// Samples a second and thread, in hertz.
    pub frequency: u32,
    /// How many blocks.
    pub blocks: usize,
    /// Every how many the peer has its turn, too.
    pub peer_every: usize,
}

#[derive(Debug, Clone, Copy)]
enum Turn {
    Alone,
    Agent,
    Peer,
}

/// Takes turns on `target`, which must answer `count`. One recording of each kind goes before: what only the first one costs is not measured.
pub fn take_turns(bench: &mut Bench, target: &mut Target, plan: Plan) -> Outcome<Vec<Block>> {
    let mut chance = Chance::new(plan.blocks as u64);
    for turn in [Turn::Agent, Turn::Peer] {
        pace_in(turn, bench, target, plan)?;
    }
    let mut blocks = Vec::with_capacity(plan.blocks);
    for block in 0..plan.blocks {
        let mut turns = vec![Turn::Alone, Turn::Agent];
        turns.extend((block % plan.peer_every == 0).then_some(Turn::Peer));
        chance.shuffle(&mut turns);
        let (mut alone, mut agent, mut peer) = (None, None, None);
        for turn in turns {
            let pace = Some(pace_in(turn, bench, target, plan)?);
            match turn {
                Turn::Alone => alone = pace,
                Turn::Agent => agent = pace,
                Turn::Peer => peer = pace,
            }
        }
        if let (Some(alone), Some(agent)) = (alone, agent) {
            blocks.push(Block { alone, agent, peer });
        }
    }
    Ok(blocks)
}

/// The pace of `target` in a second of its own.
pub fn pace_alone(target: &mut Target) -> Outcome<Pace> {
    std::thread::sleep(PAUSE);
    pace(target, || {
        std::thread::sleep(SECOND);
        Ok(())
    })
}

fn pace_in(turn: Turn, bench: &mut Bench, target: &mut Target, plan: Plan) -> Outcome<Pace> {
    match turn {
        Turn::Alone => pace_alone(target),
        Turn::Agent => {
            let mut agent = Agent::attach_at(&bench.library, target.pid(), plan.event, plan.frequency)?;
            agent.run(PAUSE)?;
            let pace = pace(target, || agent.run(SECOND))?;
            agent.end(&mut bench.account)?;
            Ok(pace)
        }
        Turn::Peer => {
            let mut peer = Peer::start(target.pid())?;
            peer.run(PAUSE)?;
            let pace = pace(target, || peer.run(SECOND))?;
            peer.end()?;
            Ok(pace)
        }
    }
}

/// What `target` gets done while `meanwhile` takes its time.
fn pace(target: &mut Target, meanwhile: impl FnOnce() -> Outcome<()>) -> Outcome<Pace> {
    let look = |target: &mut Target| (target.ask_number("count"), Instant::now(), processor_time(target.pid()));
    let (count, begun, used) = look(target);
    meanwhile()?;
    let (count_after, ended, used_after) = look(target);
    let done = count_after.saturating_sub(count) as f64;
    if done == 0.0 {
        return Err("the target got nothing done in a second".into());
    }
    let by_clock = done / ended.duration_since(begun).as_secs_f64();
    Ok(Pace { by_clock, by_processor: done / (used_after - used) })
}

/// What is lost while something records, and how the two compare.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Costs {
    /// Lost to Remora.
    pub agent: Interval,
    /// Lost to the runtime's own sampler.
    pub peer: Interval,
    /// The first as a multiple of the second, none if the second costs nothing.
    pub quotient: Option<Interval>,
}

impl Costs {
    /// Of these blocks, by one of their paces.
    pub fn of(blocks: &[Block], by: impl Fn(&Pace) -> f64) -> Outcome<Costs> {
        let ratio = |pace: &Pace, block: &Block| by(pace) / by(&block.alone);
        let agent: Vec<f64> = blocks.iter().map(|block| ratio(&block.agent, block)).collect();
        let peer: Vec<f64> = blocks.iter().filter_map(|block| Some(ratio(block.peer.as_ref()?, block))).collect();
        let losses = |ratios: &[f64]| ratios.iter().map(|ratio| 1.0 - ratio).collect::<Vec<f64>>();
        let missing = "nothing was measured";
        Ok(Costs {
            agent: Interval::of(&agent).ok_or(missing)?.loss(),
            peer: Interval::of(&peer).ok_or(missing)?.loss(),
            quotient: quotient_of_means(&losses(&agent), &losses(&peer)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(alone: f64, agent: f64, peer: Option<f64>) -> Block {
        let pace = |value| Pace { by_clock: value, by_processor: value / 2.0 };
        Block { alone: pace(alone), agent: pace(agent), peer: peer.map(pace) }
    }

    #[test]
    fn costs_are_paired_within_a_block() {
        // The machine gets slower by half, which touches no ratio.
        let blocks = [block(1000.0, 990.0, Some(800.0)), block(500.0, 495.0, None), block(500.0, 490.0, Some(400.0))];
        let costs = Costs::of(&blocks, |pace| pace.by_clock).unwrap();
        assert!((costs.agent.mean - 0.04 / 3.0).abs() < 1e-12, "{costs:?}");
        assert!((costs.peer.mean - 0.2).abs() < 1e-12, "{costs:?}");
        let quotient = costs.quotient.unwrap();
        assert!((quotient.mean - 0.2 / 3.0).abs() < 1e-12 && quotient.count == 2, "{costs:?}");
        assert_eq!(Costs::of(&blocks, |pace| pace.by_processor).unwrap().agent.count, 3);
        assert!(Costs::of(&[], |pace| pace.by_clock).is_err());
    }
}
