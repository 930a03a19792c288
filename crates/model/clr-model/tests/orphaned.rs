//! The agent after its recorder has died.

mod support;

use corprof::Guid;
use remora_clr_model::agent::{AgentLibrary, Link, Process, Sampler, SystemFaults, enter_process};
use remora_clr_model::library::Library;
use remora_clr_model::runtime::AttachRequest;
use remora_clr_model::schedule;
use remora_holds::holds;
use remora_wire::{CLSID_MAIN, CLSID_NOTIFICATION, Config, FromAgent, Sampling, Task, ToAgent};
use std::sync::Arc;
use support::{CORES, SECOND, World, application, in_worlds, join, run, schedules_of_each};

/// A process for the agent.
fn process(world: &World) -> Arc<Process> {
    let process = Arc::new(Process {
        library: Library::new(AgentLibrary, world.faults.clone()),
        link: Arc::new(Link::new(64)),
        sampler: Arc::new(Sampler::new(100)),
        system_faults: SystemFaults::default(),
        runtime: world.runtime.clone(),
    });
    enter_process(Some(process.clone()));
    process
}

fn config() -> Config {
    Config {
        nonce: [0; 16],
        socket_path: "/tmp/remora".into(),
        task: Task::CpuSampling(Sampling { frequency: 99, signal_budget: 1000 }),
    }
}

/// The agent in its own process. Its recorder dies after this many milliseconds.
fn its_user_dies(world: &World, after: u64) {
    let process = process(world);
    let (data1, data2, data3, data4) =
        if world.runtime.differences().notification_profilers { CLSID_NOTIFICATION } else { CLSID_MAIN };
    let answer = world.runtime.ask_for_attach(AttachRequest {
        class: Guid { data1, data2, data3, data4 },
        library: Some(process.library.clone()),
        client_data: config().encode(),
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

/// The agent is loaded at the start. Its recorder dies while the runtime is inside Initialize.
fn its_user_dies_at_the_start(world: &World) {
    let process = process(world);
    process.link.starts_with(&config());
    let recording = process.clone();
    let dies = schedule::spawn("the recording process", move || {
        schedule::wait_until(None, || recording.link.has_said(|said| matches!(said, FromAgent::Hello { .. })));
        recording.link.kill();
    });
    let (data1, data2, data3, data4) = CLSID_MAIN;
    let loaded = world.runtime.load_at_start(&process.library, &Guid { data1, data2, data3, data4 });
    assert!(loaded.is_success(), "{loaded}");
    let program = application(world, |runtime| (0..4).for_each(|_| runtime.collect(0)));
    let is_over = || world.runtime.profilers().is_empty() && !process.library.is_mapped();
    holds!(DET_13 rem, schedule::wait_until(Some(1_300 * SECOND), is_over), "it was refused once, and stays");
    join(&[program, dies]);
    enter_process(None);
}

#[test]
fn det_13_a_detach_inside_initialize_is_refused_and_the_agent_asks_until_it_is_accepted_once() {
    for runtime_version in CORES {
        let mut refused = 0;
        for seed in 0..schedules_of_each(CORES.len()) {
            let (mut findings, lines) = run(*runtime_version, seed, its_user_dies_at_the_start);
            // The agent takes back the variables of its recorder. The model does not know that they were the recorder's.
            findings.retain(|finding| !finding.starts_with("DET-22"));
            // The model finds a request after the accepted one by itself (DET-20).
            let times = |what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
            let accepted = times("RequestProfilerDetach seals");
            holds!(DET_13 rem, (findings, accepted) == (Vec::<String>::new(), 1), "{runtime_version:?}, seed {seed}");
            refused += usize::from(times("RequestProfilerDetach comes inside Initialize") > 0);
        }
        holds!(DET_13 rem, refused > 0, "{runtime_version:?}: nothing ever came too early");
    }
}
