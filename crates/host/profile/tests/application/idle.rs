//! Which threads of the pool are idle, and what does not count as work.

use super::made::{CORE, DISPATCH, Made};
use remora_profile::{Cost, State, Wait};

fn core(name: &str) -> String {
    format!("{name}|{CORE}")
}

#[test]
fn regression_the_gate_of_a_growing_pool_was_an_idle_thread_of_it() {
    let mut made = Made::new();
    let accept = core("System.Net.Sockets.Socket.Accept()").replace(CORE, "System.Net.Sockets.dll");
    for id in [1, 2] {
        made.another(id);
        made.sample(90, State::Blocked, &[DISPATCH, "Shop.Serve()|Shop.dll|4", &accept]);
    }
    made.another(3);
    let gate = [
        core("System.Threading.PortableThreadPool.GateThread.GateThreadStart()"),
        core("System.Threading.PortableThreadPool.WorkerThread.MaybeAddWorkingWorker(PortableThreadPool)"),
        core("System.Threading.Thread.StartCore()"),
    ];
    let frames: Vec<&str> = gate.iter().map(String::as_str).collect();
    made.sample(90, State::Blocked, &frames);
    assert_eq!(made.times().pool.members.len(), 2);
    assert_eq!(made.problems(), [("pool-starvation", "Shop.Serve()", 2, 100)]);
}

#[test]
fn regression_a_lambda_that_ends_with_a_sleep_made_its_thread_idle() {
    let mut made = Made::new();
    let sleep = core("System.Threading.Thread.Sleep(int)");
    made.sample(60, State::Blocked, &[DISPATCH, &sleep, "nanosleep|libc.so.6"]);
    made.sample(40, State::Blocked, &[DISPATCH, "futex|libc.so.6"]);
    let times = made.times();
    let rows: Vec<_> = times.blocked.iter().map(|row| (row.wait, row.is_idle, row.weight)).collect();
    assert_eq!(rows, [(Wait::Sleep, false, 60), (Wait::IdleRuntime, true, 40)]);
}

#[test]
fn regression_a_loop_of_sleeps_of_no_time_was_asleep_and_its_waits_were_spinning() {
    let mut made = Made::new();
    let sleep = core("System.Threading.Thread.Sleep(int)");
    let frames = ["Shop.Retry()|Shop.dll|4", &sleep, "sched_yield|libc.so.6"];
    made.sample(70, State::Running, &frames);
    made.sample(30, State::Blocked, &[&frames[..], &["[waiting for a CPU]"]].concat());
    let times = made.times();
    assert_eq!(times.blocked[0].wait, Wait::Cpu);
    let spinning = times.methods[0].callees[0].cost;
    assert_eq!(spinning, Some((Cost::Spinning, 70)), "only a thread on a CPU spins");
}

#[test]
fn regression_who_calls_for_collections_was_said_to_allocate() {
    let mut made = Made::new();
    made.profile.meta.duration = 100;
    let collect = core("System.GC.Collect()");
    made.sample(90, State::Running, &["Shop.Clean()|Shop.dll|4", &collect, "[GC]"]);
    made.sample(10, State::Running, &["Shop.Work()|Shop.dll|9"]);
    assert_eq!(made.problems(), [("garbage-collection", "Shop.Clean()", 0, 90)]);
    let findings = remora_profile::Finding::all(&made.profile, &made.times());
    let callee = findings[0].callee.map(|frame| made.name(frame));
    assert!(callee.is_some_and(|name| name.starts_with(remora_profile::COLLECT)), "{callee:?}");
}
