//! The profile in the golden recordings: a small server, with every kind of frame, both states, and some loss.
//!
//! Recipe of `v1.remora`: `cargo run -p remora-recording --example golden -- crates/host/recording/tests/golden/v1.remora`.
//! A golden file is never made again once its version has been released: it is what old Remoras wrote.

use remora_profile::{Event, Frame, FrameKind, LossCause, Meta, Profile, Sample, State, Thread, Unit};

/// Builds it.
pub fn golden() -> Profile {
    let mut profile = Profile::new(Meta {
        event: Event::Cpu,
        unit: Unit::Nanoseconds,
        engine: "agent (timers)".into(),
        frequency: 99,
        started_unix_nanoseconds: 1_700_000_000_000_000_000,
        duration: 2_000_000_000,
        process_id: 4242,
        application: "Orders".into(),
        command_line: "dotnet Orders.dll --urls http://*:8080".into(),
        runtime: ".NET 8.0.4".into(),
        target_cpu: Some(1_900_000_000),
        exceptions: None,
        notes: vec!["native frames have no names where a file has no symbols".into()],
    });
    let main = row(&mut profile, FrameKind::Managed, "Orders.Program.Main(string[])", Some("Orders.dll"), Some(12));
    let handle =
        row(&mut profile, FrameKind::Managed, "Orders.Cart<T>.Handle(HttpContext)", Some("Orders.dll"), Some(88));
    let total = row(&mut profile, FrameKind::Managed, "Orders.Cart<T>.Total(int)", Some("Orders.dll"), None);
    let copy = row(&mut profile, FrameKind::Native, "memcpy", Some("libc.so.6"), None);
    let unknown = row(&mut profile, FrameKind::Unknown, "[unknown]", None, None);
    let cut = row(&mut profile, FrameKind::Synthetic, "[truncated]", None, None);
    let first = profile.add_thread(Thread { id: 4242, name: "Orders".into() });
    let second = profile.add_thread(Thread { id: 4250, name: ".NET TP Worker".into() });
    let stacks = [
        (first, vec![main, handle, total], State::Running),
        (first, vec![main, handle, total, copy], State::Running),
        (second, vec![cut, handle, total], State::Running),
        (second, vec![main, handle], State::Blocked),
        (second, vec![unknown], State::Running),
    ];
    for turn in 0..40u64 {
        let (thread, frames, state) = &stacks[(turn * turn % 5) as usize];
        let stack = profile.stack_from_root(frames.iter().copied()).expect("no stack is empty");
        let time = turn * 50_000_000 + turn % 7;
        profile.add_sample(Sample { time, thread: *thread, stack, weight: 10_101_010, state: *state });
    }
    profile.loss.taken = 45;
    profile.loss.delivered = 40;
    profile.loss.lose(LossCause::RingFull, 3);
    profile.loss.lose(LossCause::ThreadSilent, 2);
    profile.loss.truncated_stacks = 8;
    profile.loss.repaired_stacks = 1;
    profile
}

fn row(
    profile: &mut Profile,
    kind: FrameKind,
    name: &str,
    module: Option<&str>,
    line: Option<u32>,
) -> remora_profile::FrameIx {
    let name = profile.string(name);
    let module = module.map(|module| profile.string(module));
    let file = line.map(|_| profile.string("/src/Orders/Cart.cs"));
    profile.frame(Frame { kind, name, module, file, line })
}
