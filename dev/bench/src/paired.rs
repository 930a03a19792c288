//! Alternates seconds with and without a recording on one target, to measure the cost of a recording independent of other load.
//!
//! Attach and detach happen outside of the measured seconds. Each second follows a pause of the same length.

use crate::Outcome;
use crate::agent::Agent;
use crate::bench::Bench;
use crate::peer::Peer;
use crate::process::cpu_time;
use crate::statistics::{Interval, quotient_of_means};
use fastrand::Rng;
use remora_e2e::Target;
use remora_profile::Event;
use std::time::{Duration, Instant};

/// The length of a measurement.
pub const SECOND: Duration = Duration::from_secs(1);
/// The pause before it.
pub const PAUSE: Duration = Duration::from_millis(60);

/// The work of a target.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Operations.
    pub done: f64,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// CPU seconds of the target itself.
    pub used: f64,
}

impl Work {
    /// Operations for each wall-clock second.
    pub fn by_clock(&self) -> f64 {
        self.done / self.seconds
    }

    /// Operations for each CPU second of the target.
    pub fn by_cpu(&self) -> f64 {
        self.done / self.used
    }
}

/// One turn of each kind.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Without a recording.
    pub alone: Work,
    /// While Remora records.
    pub agent: Work,
    /// While the runtime's own sampler records, if this block has it.
    pub peer: Option<Work>,
}

/// The measurement's settings.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What Remora samples.
    pub event: Event,
    /// Samples a second and thread, in hertz.
    pub frequency: u32,
    /// The number of blocks.
    pub blocks: usize,
    /// The peer records in every n-th block.
    pub peer_every: usize,
}

#[derive(Debug, Clone, Copy)]
enum Turn {
    Alone,
    Agent,
    Peer,
}

/// Measures blocks on `target`, which must answer `count`. A recording of each kind precedes them, so the extra cost of the first is not
/// measured.
pub fn take_turns(bench: &mut Bench, target: &mut Target, plan: Plan) -> Outcome<Vec<Block>> {
    let mut chance = Rng::with_seed(plan.blocks as u64);
    for turn in [Turn::Agent, Turn::Peer] {
        work_in(turn, bench, target, plan)?;
    }
    let mut blocks = Vec::with_capacity(plan.blocks);
    for block in 0..plan.blocks {
        let mut turns = vec![Turn::Alone, Turn::Agent];
        turns.extend((block % plan.peer_every == 0).then_some(Turn::Peer));
        chance.shuffle(&mut turns);
        let (mut alone, mut agent, mut peer) = (None, None, None);
        for turn in turns {
            let work = Some(work_in(turn, bench, target, plan)?);
            match turn {
                Turn::Alone => alone = work,
                Turn::Agent => agent = work,
                Turn::Peer => peer = work,
            }
        }
        if let (Some(alone), Some(agent)) = (alone, agent) {
            blocks.push(Block { alone, agent, peer });
        }
    }
    Ok(blocks)
}

/// The work of `target` in a second without a recording, after a pause.
pub fn work_alone(target: &mut Target, pause: Duration) -> Outcome<Work> {
    std::thread::sleep(pause);
    work(target, || {
        std::thread::sleep(SECOND);
        Ok(())
    })
}

fn work_in(turn: Turn, bench: &mut Bench, target: &mut Target, plan: Plan) -> Outcome<Work> {
    match turn {
        Turn::Alone => work_alone(target, PAUSE),
        Turn::Agent => {
            let mut agent = Agent::attach_at(&bench.library, target.pid(), plan.event, plan.frequency)?;
            agent.run(PAUSE)?;
            let work = work(target, || agent.run(SECOND))?;
            agent.end(&mut bench.account)?;
            Ok(work)
        }
        Turn::Peer => {
            let mut peer = Peer::start(target.pid())?;
            peer.run(PAUSE)?;
            let work = work(target, || peer.run(SECOND))?;
            peer.end()?;
            Ok(work)
        }
    }
}

/// The work of `target` while `meanwhile` runs.
pub fn work(target: &mut Target, meanwhile: impl FnOnce() -> Outcome<()>) -> Outcome<Work> {
    let look = |target: &mut Target| (target.ask_number("count"), Instant::now(), cpu_time(target.pid()));
    let (count, begun, used) = look(target);
    meanwhile()?;
    let (count_after, ended, used_after) = look(target);
    let done = count_after.saturating_sub(count) as f64;
    if done == 0.0 {
        return Err("the target got nothing done in a second".into());
    }
    Ok(Work { done, seconds: ended.duration_since(begun).as_secs_f64(), used: used_after - used })
}

/// The losses under each recorder, and their ratio.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Costs {
    /// Loss under Remora.
    pub agent: Interval,
    /// Loss under the runtime's own sampler.
    pub peer: Interval,
    /// The first as a multiple of the second; `None` if the second is zero.
    pub quotient: Option<Interval>,
}

impl Costs {
    /// The losses in these blocks, by one of their rates.
    pub fn of(blocks: &[Block], by: impl Fn(&Work) -> f64) -> Outcome<Costs> {
        let ratio = |work: &Work, block: &Block| by(work) / by(&block.alone);
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
        let work = |done| Work { done, seconds: 1.0, used: 2.0 };
        Block { alone: work(alone), agent: work(agent), peer: peer.map(work) }
    }

    #[test]
    fn costs_are_paired_within_a_block() {
        // The machine slows down by half, which affects no ratio.
        let blocks = [block(1000.0, 990.0, Some(800.0)), block(500.0, 495.0, None), block(500.0, 490.0, Some(400.0))];
        let costs = Costs::of(&blocks, Work::by_clock).unwrap();
        assert!((costs.agent.mean - 0.04 / 3.0).abs() < 1e-12, "{costs:?}");
        assert!((costs.peer.mean - 0.2).abs() < 1e-12, "{costs:?}");
        let quotient = costs.quotient.unwrap();
        assert!((quotient.mean - 0.2 / 3.0).abs() < 1e-12 && quotient.count == 2, "{costs:?}");
        assert_eq!(Costs::of(&blocks, Work::by_cpu).unwrap().agent.count, 3);
        assert!(Costs::of(&[], Work::by_clock).is_err());
    }
}
