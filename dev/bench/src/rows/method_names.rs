//! The share of managed frames with a name in all samples: in the test programs, and in two large ones.

use super::percent;
use crate::Outcome;
use crate::agent::Agent;
use crate::bench::{self, Bench, LARGE, NAMES};
use crate::peer;
use crate::table::Row;
use remora_e2e::{Runtime, Start, Target};
use remora_profile::{Event, FrameKind, Profile};
use serde_json::json;
use std::process::Command;
use std::time::Duration;

/// Programs that cover every way to create methods.
const PROGRAMS: [&str; 9] =
    ["busy", "collectible", "deep", "dynamic", "gc", "generics_async_lambda", "short_threads", "threads", "tiering"];
/// The C# compiler, as a program that compiles repeatedly (`dev/bench/programs/compile.cs`).
const COMPILER: &str = "REMORA_BENCH_COMPILER";
/// The folder with that program.
const COMPILE: &str = "REMORA_BENCH_PROGRAMS";
/// The compiler needs this version or a later one.
const COMPILER_NEEDS: u32 = 8;

/// Minimum samples of a recording.
const ENOUGH: u64 = 50;
/// Timeout for these samples.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Managed frames in all samples, and those with a name.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    frames: u64,
    named: u64,
}

impl Named {
    fn share(self) -> f64 {
        if self.frames == 0 { 0.0 } else { self.named as f64 / self.frames as f64 }
    }
}

/// Measures all of them.
pub fn measure(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = vec![test_programs(bench)?];
    let compiler = compiler(bench)?;
    rows.push(large(bench, "the C# compiler, compiling", compiler)?);
    let runtime = Runtime::with_aspnet();
    let server = Target::start(&runtime, "aspnet", &["4"]);
    rows.push(large(bench, &format!("an ASP.NET Core server under load, {}", runtime.name()), server)?);
    Ok(rows)
}

fn test_programs(bench: &mut Bench) -> Outcome<Row> {
    let (mut all, mut worst) = (Named::default(), None);
    let mut each = serde_json::Map::new();
    for program in PROGRAMS {
        let target = bench.start(program, &[]);
        let named = record(bench, &target, bench.amount(NAMES))?;
        all.frames += named.frames;
        all.named += named.named;
        each.insert(program.to_owned(), json!([named.named, named.frames]));
        if worst.is_none_or(|(_, least): (&str, f64)| named.share() < least) {
            worst = Some((program, named.share()));
        }
    }
    let (program, least) = worst.ok_or("no program")?;
    let measured = format!("{} of {} frames; least in {program}: {}", percent(all.share()), all.frames, percent(least));
    Ok(Row::shown("managed frames named, test programs", measured)
        .against("99.5 % or more", all.share() >= 0.995)
        .numbers(json!(each)))
}

fn large(bench: &mut Bench, what: &str, mut target: Target) -> Outcome<Row> {
    let named = record(bench, &target, bench.amount(LARGE))?;
    if target.ask_number("count") == 0 || target.ask_number("failed") > 0 {
        return Err(format!("{what} does not work").into());
    }
    let peer = named_in(&peer::record(target.pid(), bench.amount(LARGE) / 4)?);
    Ok(Row::shown(
        &format!("managed frames named, {what}"),
        format!("{} of {} frames", percent(named.share()), named.frames),
    )
    .beside(format!("{} of {} frames", percent(peer.share()), peer.frames))
    .against("99 % or more", named.share() >= 0.99)
    .numbers(
        json!({ "named": named.named, "frames": named.frames, "peer_named": peer.named, "peer_frames": peer.frames }),
    ))
}

fn record(bench: &mut Bench, target: &Target, duration: Duration) -> Outcome<Named> {
    let mut agent = Agent::attach(&bench.library, target.pid(), Event::Cpu)?;
    agent.run(duration)?;
    // On a busy machine it may take longer until anything ran.
    agent.run_until(ENOUGH, TIMEOUT)?;
    let (frames, named) = agent.end(&mut bench.account)?.managed_frames;
    if frames == 0 {
        return Err("no managed frame was seen".into());
    }
    Ok(Named { frames, named })
}

/// The runtime's own sampler reports managed frames only: a frame without a name belongs to no method that the runtime has named.
fn named_in(profile: &Profile) -> Named {
    let mut named = Named::default();
    for frame in profile.samples().iter().flat_map(|sample| profile.walk(sample.stack)) {
        match profile.frame_at(frame).kind {
            FrameKind::Managed => {
                named.frames += 1;
                named.named += 1;
            }
            FrameKind::Unknown => named.frames += 1,
            FrameKind::Native | FrameKind::Synthetic => {}
        }
    }
    named
}

/// Starts the compiler and waits until it has compiled something.
fn compiler(bench: &Bench) -> Outcome<Target> {
    let runtime =
        if bench.runtime.major() >= COMPILER_NEEDS { bench.runtime.clone() } else { Runtime::major_is(COMPILER_NEEDS) };
    let paths = std::env::var_os(COMPILER).ok_or("the C# compiler is not named: run this by `cargo xtask bench`")?;
    let mut command = Command::new(runtime.launcher());
    command.arg(bench::path(COMPILE)?.join("compile.dll")).arg(runtime.core_folder());
    command.args(std::env::split_paths(&paths)).env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
    Ok(Start::of(command, "the C# compiler").ready())
}
