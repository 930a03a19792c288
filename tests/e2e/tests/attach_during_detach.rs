//! Remora attaches while another profiler detaches: the runtime serves the request when that is over, and Remora waits.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_e2e::probe::{DetachStep, Stage};
use remora_e2e::{Facts, Recording, on_every_runtime, until};
use remora_holds::holds;

/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const SLOT_TAKEN: i32 = 17;
const UNCLEAN: i32 = 40;
/// Requests of another runtime while the detach is held. Each takes as long as an attach, and Remora waits 5 s.
const REQUESTS: usize = 5;

#[test]
fn det_11_an_attach_waits_for_another_detach_at_each_of_its_steps_and_then_works() {
    on_every_runtime(|runtime| {
        // Served while the first target is not.
        let other = Stage::start(runtime);
        for step in DetachStep::ALL {
            let folder = support::open_folder();
            let mut stage = Stage::start_with(runtime, &[("TMPDIR", folder.path().to_str().unwrap())]);
            let (held, _) = stage.held_in_detach(step);
            // Before .NET 6 there is one place, and Remora sees whose library is mapped.
            if runtime.major() < 6 {
                if step != DetachStep::Freed {
                    let refused = Recording::of(stage.target(), &[]).finished;
                    holds!(DET_11 clr rem, refused.has_failed_with(SLOT_TAKEN, &[]), "{refused}");
                }
                held.leave(0);
                continue;
            }
            let mut recording = Recording::start(stage.target(), &["--event", "wall"]);
            let is_placed =
                || support::names(folder.path()).iter().any(|name| name.to_string_lossy().contains("libremora_agent"));
            until("the runtime has the request", || {
                !recording.remora().is_alive() || is_placed() && stage.served_requests() + stage.waiting_requests() == 1
            });
            // The attach may be the next one. Another runtime serves many meanwhile.
            for _ in 0..REQUESTS {
                assert!(other.refused_attach().is_err());
            }
            holds!(DET_11 rem, recording.remora().is_alive() && !Facts::of(stage.pid()).library_is_mapped(), "{step:?}");
            held.leave(0);
            holds!(DET_11 rem, recording.comes_to_sample(), "{step:?}");
            recording.wait_until_samples_are_handed_over();
            let recorded = recording.stop();
            // The agent stays: since .NET 6 the runtime miscounts after a main profiler has left (DET-18).
            recorded.ended_with(UNCLEAN);
            holds!(DET_11 clr rem, recorded.samples() > 0, "{step:?}: {}", recorded.finished);
        }
    });
}
