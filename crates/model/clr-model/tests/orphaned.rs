//! The agent after its recorder has died.

mod support;

use corprof::Guid;
use remora_clr_model::agent::{AgentLibrary, Link, Process, Sampler, SystemFaults, enter_process};
use remora_clr_model::library::Library;
use remora_clr_model::runtime::AttachRequest;
use remora_clr_model::schedule;
use remora_holds::holds;
use remora_wire::{CLSID_NOTIFICATION, Config, Sampling, Task, ToAgent};
use std::sync::Arc;
use support::{CORES, SECOND, World, application, in_worlds, join};

/// The agent in its own process. Its recorder dies after this many milliseconds.
fn its_user_dies(world: &World, after: u64) {
    let process = Arc::new(Process {
        library: Library::new(AgentLibrary, world.faults.clone()),
        link: Arc::new(Link::new(64)),
        sampler: Arc::new(Sampler::new(100)),
        system_faults: SystemFaults::default(),
        runtime: world.runtime.clone(),
    });
    enter_process(Some(process.clone()));
    let (data1, data2, data3, data4) =
        if world.runtime.differences().notification_profilers { CLSID_NOTIFICATION } else { remora_wire::CLSID_MAIN };
    let config = Config {
        nonce: [0; 16],
        socket_path: "/tmp/remora".into(),
        task: Task::CpuSampling(Sampling { frequency: 99, signal_budget: 1000 }),
    };
    let answer = world.runtime.ask_for_attach(AttachRequest {
        class: Guid { data1, data2, data3, data4 },
        library: Some(process.library.clone()),
        client_data: config.encode(),
    });
    let program = application(world, |runtime| (0..4).for_each(|_| runtime.collect(0)));
    let (recording, answered) = (process.clone(), answer.clone());
    let begins = schedule::spawn("the recording process", move || {
        // Sent only after the runtime has answered: the agent takes it as the confirmation.
        if schedule::wait_until(Some(SECOND), || answered.get().is_some()) {
            recording.link.say(ToAgent::Begin);
        }
    });
    schedule::sleep(after * 1_000_000);
    process.link.kill();
    let is_over = || answer.get().is_some() && world.runtime.profilers().is_empty() && !process.library.is_mapped();
    // .NET Core 3.1 checks again only after ten minutes if a callback ran at its check.
    holds!(DET_16 sim rem, schedule::wait_until(Some(1_300 * SECOND), is_over), "it stays although nobody uses it any more");
    join(&[program, begins]);
    enter_process(None);
}

#[test]
fn det_16_if_the_user_of_the_profiler_dies_it_detaches_by_itself() {
    for after in [0, 1, 7, 60] {
        in_worlds(CORES, move |world| its_user_dies(world, after));
    }
}
