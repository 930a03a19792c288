//! A recording as `remora record` makes it, with the baseline before and the receipt after.

use crate::Outcome;
use crate::account::Account;
use remora_collector::{Finished, Options, Session};
use remora_profile::{Event, Profile};
use remora_receipt::{Receipt, Snapshot};
use std::path::Path;
use std::time::{Duration, Instant};

/// Samples a second and thread: the default of `remora record`.
pub const HERTZ: u32 = 999;

/// A running recording.
pub struct Agent {
    session: Session,
    before: Snapshot,
}

impl Agent {
    /// Attaches, to sample at [`HERTZ`].
    pub fn attach(library: &[u8], process_id: u32, event: Event) -> Outcome<Agent> {
        Agent::attach_at(library, process_id, event, HERTZ)
    }

    /// Attaches, to sample at `frequency` hertz.
    pub fn attach_at(library: &[u8], process_id: u32, event: Event, frequency: u32) -> Outcome<Agent> {
        let process = remora_attach::find(process_id)?;
        let timeout = Duration::from_secs(5);
        let options = Options { event, frequency, signal_budget: None, timeout, symbols: Vec::new() };
        let before = Snapshot::take(Path::new("/proc"), process_id)?;
        Ok(Agent { session: Session::attach(&process, library, &options)?, before })
    }

    /// Records for `duration`.
    pub fn run(&mut self, duration: Duration) -> Outcome<()> {
        let progress = self.session.step(duration)?;
        alive(progress.ended)
    }

    /// Records until there are this many samples; fewer in `timeout` are an error.
    pub fn run_until(&mut self, samples: u64, timeout: Duration) -> Outcome<()> {
        let came = self.run_at_most(samples, timeout)?;
        if came < samples {
            return Err(format!("{came} of {samples} samples came in {timeout:?}").into());
        }
        Ok(())
    }

    /// Records until there are this many samples or the time is over. Returns their number.
    pub fn run_at_most(&mut self, samples: u64, time: Duration) -> Outcome<u64> {
        let deadline = Instant::now() + time;
        loop {
            let progress = self.session.step(Duration::from_millis(10))?;
            if progress.samples >= samples || Instant::now() >= deadline {
                return Ok(progress.samples);
            }
            alive(progress.ended)?;
        }
    }

    /// The recording so far.
    pub fn profile(&self) -> &Profile {
        self.session.profile()
    }

    /// Detaches, and adds everything to the totals.
    pub fn end(self, account: &mut Account) -> Outcome<Finished> {
        let (finished, left) = self.detach()?;
        account.add(&finished.profile.loss);
        account.add_detach(left, finished.facts.detach as f64 / 1e6);
        Ok(finished)
    }

    /// Detaches, and reports leftovers.
    pub fn detach(self) -> Outcome<(Finished, Option<String>)> {
        let mut finished = self.session.detach(|| false);
        finished.failure.take().map_or(Ok(()), Err)?;
        let mut after = Snapshot::take(Path::new("/proc"), self.before.process_id)?;
        after.look_for(&finished.facts.placed);
        let receipt = Receipt::between(&self.before, &after, &finished.facts);
        let left = receipt.left.first().map(|left| format!("{left:?}"));
        Ok((finished, left))
    }
}

fn alive(ended: Option<String>) -> Outcome<()> {
    ended.map_or(Ok(()), |why| Err(why.into()))
}
