//! Names in a recording: as in C#, with files and lines, also for short-lived methods.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "support/recorded.rs"]
mod recorded;

use recorded::{recorded_while_it_uses, target_is_well};
use remora_e2e::read_back::{ReadBack, array, number, report};
use remora_e2e::{Recorded, Recording, Runtime, Start, Target, on_every_runtime, on_runtimes, until_used};
use remora_holds::holds;
use std::time::Duration;

#[test]
fn names_are_those_of_csharp() {
    const NAMES: [&str; 16] = [
        "Shop.Orders.Program.Burn(int)",
        "Shop.Orders.Box<T>.Fold(T, int)",
        "Shop.Orders.Box<int>.Fold(int, int)",
        "Shop.Orders.Box<T>.Map<long>(long, int)",
        "Shop.Orders.Box<int>.Inner.Deep()",
        "Shop.Orders.Box<T>..ctor(T)",
        "Shop.Orders.Money.operator +(Money, Money)",
        "Shop.Orders.Ledger.Total.get",
        "Shop.Orders.Ledger.this[int].get",
        "Shop.Orders.Ledger.IAudit.Check(ref int, out long)",
        "Shop.Orders.Program.PriceAsync(int)",
        "Shop.Orders.Program.Numbers(int)",
        "Shop.Orders.Program.WithLambda(int)",
        "Shop.Orders.Program.WithLocal(int)",
        "Shop.Orders.Program.Shapes(int[], string[,], int?, List<string>)",
        "Shop.Orders.Extensions.Twice(string, int)",
    ];
    on_every_runtime(|runtime| {
        // The JIT of a higher tier would inline some of these methods.
        let target =
            Start::managed(runtime, "generics_async_lambda").env(tiered(runtime), "0").env("DOTNET_JitNoInline", "1");
        let target = target.env("COMPlus_TC_QuickJit", "1").env("DOTNET_TC_QuickJit", "1").ready();
        let recorded = recorded_while_it_uses(&target, 5000, &["--frequency", "1000"]);
        let read = ReadBack::of(&recorded);
        let missing: Vec<&str> = NAMES.into_iter().filter(|name| read.frames_called(name).is_empty()).collect();
        let ours: Vec<&str> =
            read.frames.iter().map(|frame| frame.name.as_str()).filter(|name| name.starts_with("Shop.")).collect();
        assert!(missing.is_empty(), "missing: {missing:#?}\nthere: {ours:#?}");
        for name in ours {
            assert!(
                !name.contains(['<', '>'])
                    || !name.contains(">b__") && !name.contains(">d__") && !name.contains(">g__"),
                "{name}"
            );
            assert!(!name.contains('`') && !name.contains("MoveNext"), "{name}");
        }
    });
}

#[test]
fn methods_are_found_in_file_and_line() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "shares", &["1"]);
        let recorded = recorded_while_it_uses(&target, 1000, &["--frequency", "500"]);
        let read = ReadBack::of(&recorded);
        let source = include_str!("../../targets/shares.cs");
        let declared = |text: &str| source.lines().position(|line| line.contains(text)).unwrap() as u64 + 1;
        // From the declaration to the closing brace, seven lines later.
        for (name, declaration) in [
            ("Shares.Alpha(long)", "static ulong Alpha("),
            ("Shares.Beta(long)", "static ulong Beta("),
            ("Shares.Gamma(long)", "static ulong Gamma("),
        ] {
            let first = declared(declaration);
            let frames = read.frames_called(name);
            assert!(!frames.is_empty(), "{name} was never met");
            for frame in frames {
                assert!(frame.file.ends_with("shares.cs"), "{frame:?}");
                let line = frame.line.unwrap_or(0);
                assert!((first..=first + 7).contains(&line), "{frame:?} is declared in line {first}");
            }
        }
        let first = declared("static void Cycle()");
        let lines: Vec<u64> = read.frames_called("Shares.Cycle()").iter().filter_map(|frame| frame.line).collect();
        assert!(lines.len() >= 3, "each of its three calls has a line: {lines:?}");
        assert!(lines.iter().all(|line| (first..first + 20).contains(line)), "{lines:?} are not behind {first}");
    });
}

#[test]
fn cat_08_cat_09_methods_made_and_thrown_away_are_named_and_the_target_lives() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "dynamic", &[]);
        let begun = target.ask_number("count");
        let recorded = recorded_while_it_uses(&target, 3000, &["--frequency", "1000"]);
        assert!(target.ask_number("count") > begun + 40, "it goes on and on");
        let read = ReadBack::of(&recorded);
        let (emitted, compiled) = (read.weight_in("EmittedBurn"), read.weight_in("CompiledBurn"));
        let all = read.weight_under("Dynamic.Work()");
        for (name, weight) in [("EmittedBurn", emitted), ("CompiledBurn", compiled)] {
            let share = weight as f64 / all as f64;
            assert!((0.2..0.6).contains(&share), "{name} has {share:.3} of the work");
        }
        assert!(emitted + compiled > all * 7 / 10, "{emitted} and {compiled} of {all}");
        nearly_all_have_names(&recorded);
        target_is_well(&mut target);
        holds!(CAT_09 clr rem, target.is_alive(), "{}", target.errors());
    });
}

#[test]
fn cat_08_cat_09_methods_of_contexts_that_are_unloaded_are_named_and_the_target_lives() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "collectible", &[]);
        let begun = target.ask_number("unloaded");
        let recording = Recording::begun(&target, &["--frequency", "1000"]);
        until_used(target.pid(), Duration::from_secs(3));
        remora_e2e::until("contexts are unloaded", || target.ask_number("unloaded") >= begun + 5);
        let recorded = recording.stop();
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        let plugin: u64 =
            read.weight_where(|names| names.last().is_some_and(|name| name.starts_with("Plugin.Worker.")));
        let all = read
            .weight_under("Collectible.LoadRunUnload(byte[], byte[])")
            .max(read.weight_under("Collectible.Work(byte[], byte[])"));
        assert!(plugin as f64 > all as f64 * 0.5, "{plugin} of {all} is in the plug-in");
        nearly_all_have_names(&recorded);
        let after = target.ask_number("unloaded");
        remora_e2e::until("contexts are unloaded after the recording, too", || {
            target.ask_number("unloaded") > after + 1
        });
        target_is_well(&mut target);
        holds!(CAT_09 clr rem, target.is_alive(), "{}", target.errors());
    });
}

#[test]
fn cat_08_methods_compiled_ahead_and_at_each_tier_are_named() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "tiering", &[]);
        let recording = Recording::begun(&target, &["--frequency", "1000"]);
        let mut depths = 0;
        while depths < 60 {
            depths = target.ask_number("more");
        }
        until_used(target.pid(), Duration::from_secs(3));
        let recorded = recording.stop();
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        let work = read.weight_under("Tiering.Work()");
        let burn = read.weight_where(|names| names.last().is_some_and(|name| name.starts_with("Tiering.Burn<")));
        assert!(burn as f64 > work as f64 * 0.7, "{burn} of {work}");
        nearly_all_have_names(&recorded);

        // Precompiled framework code has no JIT event at all.
        let target = Target::start(runtime, "gc", &["1"]);
        let recorded = recorded_while_it_uses(&target, 500, &["--event", "wall"]);
        let read = ReadBack::of(&recorded);
        let framework = read
            .frames
            .iter()
            .any(|frame| frame.name.starts_with("System.") && frame.file.starts_with("System.Private.CoreLib"));
        assert!(framework, "no framework method is named: {:#?}", read.frames);
        nearly_all_have_names(&recorded);
    });
}

/// At least 99.5 % of the managed frames have a name, and these names are valid.
#[track_caller]
fn nearly_all_have_names(recorded: &Recorded) {
    let shown = recorded.finished.json();
    let (all, named) = (number(&shown["managed_frames"]), number(&shown["managed_frames_named"]));
    holds!([CAT_08 GCH_06] clr rem, all > 0 && named * 1000 >= all * 995, "{named} of {all} managed frames are named");
    for method in array(&report(&recorded.output())["parts"][0]["methods"]) {
        let name = method["name"].as_str().unwrap_or_default();
        let plausible = !name.is_empty() && !name.chars().any(|letter| letter.is_control() || letter == '\u{fffd}');
        assert!(plausible && name.len() < 2000, "{method}");
    }
}

/// The setting that keeps the JIT at its first tier.
fn tiered(runtime: &Runtime) -> &'static str {
    if runtime.major() < 6 { "COMPlus_TieredCompilation" } else { "DOTNET_TieredCompilation" }
}

/// A loop that runs long in unoptimised code continues in an optimised body, whose frame is on top of the first one's (on-stack
/// replacement). The frame chain then has the method twice, and its caller not at all.
#[test]
fn a_method_exchanged_while_it_runs_is_met_once_and_keeps_its_caller() {
    on_runtimes(&Runtime::from_major(8), |runtime| {
        let start = Start::managed(runtime, "busy").arg("1");
        let start = start.env("DOTNET_OSR_HitLimit", "1").env("DOTNET_TC_OnStackReplacement_InitialCounter", "10");
        let target = start.env("DOTNET_TieredPGO", "0").ready();
        let recorded = recorded_while_it_uses(&target, 1000, &["--frequency", "500"]);
        let read = ReadBack::of(&recorded);
        let times = |names: &[&str]| names.iter().filter(|name| **name == "Busy.Work(int)").count();
        let once = read.weight_where(|names| times(names) == 1);
        let called = read.weight_where(|names| {
            names.windows(2).any(|pair| pair[0] == "Busy.Main.lambda#0()" && pair[1] == "Busy.Work(int)")
        });
        assert!(once > 0, "the loop is met");
        // The table of such methods reaches the stack walk some milliseconds after their first sample.
        assert!(called * 100 >= read.weight() * 80, "called by the lambda: {called} of {}", read.weight());
        let twice = read.weight_where(|names| times(names) > 1);
        assert!(twice * 100 <= read.weight() * 10, "met twice: {twice} of {}", read.weight());
    });
}
