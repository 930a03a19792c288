//! No managed caller is lost. A recording has the method of each blocked thread, and no call that the runtime's own sampler refutes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::callers::{Lost, read};
use remora_e2e::read_back::{ReadBack, report};
use remora_e2e::{Recorded, Recording, Start, on_every_runtime};
use std::collections::{BTreeMap, BTreeSet};

/// Settings that decide which code has frames: precompiled, tiered, or optimized at once.
const WAYS_TO_COMPILE: [&[(&str, &str)]; 4] = [
    &[],
    &[("DOTNET_TieredCompilation", "0"), ("COMPlus_TieredCompilation", "0")],
    &[("DOTNET_ReadyToRun", "0"), ("COMPlus_ReadyToRun", "0")],
    &[
        ("DOTNET_ReadyToRun", "0"),
        ("COMPlus_ReadyToRun", "0"),
        ("DOTNET_TieredCompilation", "0"),
        ("COMPlus_TieredCompilation", "0"),
    ],
];

#[test]
fn each_method_that_blocks_is_in_each_stack_of_its_thread() {
    on_every_runtime(|runtime| {
        for variables in WAYS_TO_COMPILE {
            let start = Start::managed(runtime, "blocking");
            let mut target = variables.iter().fold(start, |start, (name, value)| start.env(name, value)).ready();
            let methods = target.ask("methods");
            let methods: BTreeSet<&str> = methods.split(' ').collect();
            let recorded = Recording::start(&target, &["--event", "wall", "--duration", "2s"]).finish();
            recorded.is_clean();
            let seen = seen(&recorded, &methods);
            assert_eq!(seen.values().flatten().copied().collect::<BTreeSet<_>>(), methods, "{variables:?}");
            for (thread, found) in &seen {
                assert_eq!(found.len(), 1, "{thread} is in {found:?} with {variables:?}");
            }
            assert_eq!(bare(&recorded, &methods, &seen), Vec::<String>::new(), "{variables:?}");
        }
    });
}

#[test]
fn no_call_is_refuted_by_the_runtimes_own_sampler() {
    on_every_runtime(|runtime| {
        let target = Start::managed(runtime, "blocking").ready();
        let record = |engine| {
            let recorded =
                Recording::start(&target, &["--event", "wall", "--duration", "2s", "--engine", engine]).finish();
            assert_eq!(recorded.finished.code(), 0, "{}", recorded.finished);
            (read(&recorded.output()).unwrap(), recorded)
        };
        let ((agent, _), (reference, _)) = (record("agent"), record("eventpipe"));
        assert_eq!(Lost::between(&agent, &reference), Lost::default());
    });
}

#[test]
fn the_caller_of_a_write_barrier_or_a_stub_is_in_its_stack() {
    on_every_runtime(|runtime| {
        for variables in WAYS_TO_COMPILE {
            let start = Start::managed(runtime, "stubs");
            let mut target = variables.iter().fold(start, |start, (name, value)| start.env(name, value)).ready();
            let methods = target.ask("methods");
            let methods: BTreeSet<&str> = methods.split(' ').collect();
            let recorded = Recording::start(&target, &["--duration", "2s", "--frequency", "999"]).finish();
            recorded.is_clean();
            let seen = seen(&recorded, &methods);
            assert_eq!(seen.values().flatten().copied().collect::<BTreeSet<_>>(), methods, "{variables:?}");
            let report = report(&recorded.output());
            let count = |loss: &str| report["loss"][loss].as_u64().unwrap();
            let (marked, all) = (count("broken_stacks") + count("incomplete_stacks"), count("delivered"));
            assert!(marked * 20 <= all, "{marked} of {all} marked with {variables:?}");
            // The lambda that calls the method in a loop also runs, with compiler and stubs below it.
            let read = ReadBack::of(&recorded);
            let called = |names: &[&str]| names.iter().any(|name| method_of(name, &methods).is_some());
            let is_bare = |names: &[&str]| names.contains(&"Stubs.Main.lambda#0()") && !called(names);
            let (bare, whole) = (read.weight_where(is_bare), read.weight_where(called));
            assert!(bare * 33 < whole, "{bare} of {whole} ns without the method, with {variables:?}");
        }
    });
}

/// For each thread, these methods in its stacks.
fn seen<'a>(recorded: &Recorded, methods: &BTreeSet<&'a str>) -> BTreeMap<String, BTreeSet<&'a str>> {
    let read = ReadBack::of(recorded);
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for stack in &read.stacks {
        for frame in &stack.frames {
            if let Some(method) = method_of(&read.frames[*frame].name, methods) {
                seen.entry(stack.thread.clone()).or_default().insert(method);
            }
        }
    }
    seen
}

/// Stacks of those threads without such a method, beyond the number of marked ones.
fn bare(recorded: &Recorded, methods: &BTreeSet<&str>, seen: &BTreeMap<String, BTreeSet<&str>>) -> Vec<String> {
    let read = ReadBack::of(recorded);
    let of_them = read.stacks.iter().filter(|stack| seen.contains_key(&stack.thread));
    let names = |frames: &[usize]| frames.iter().map(|frame| read.frames[*frame].name.clone()).collect::<Vec<_>>();
    let bare = of_them.map(|stack| (stack, names(&stack.frames)));
    let mut bare: Vec<String> = bare
        .filter(|(_, names)| !names.iter().any(|name| method_of(name, methods).is_some()))
        .map(|(stack, names)| format!("{}: {}", stack.thread, names.join(";")))
        .collect();
    let loss = &report(&recorded.output())["loss"];
    let marked = loss["broken_stacks"].as_u64().unwrap() + loss["incomplete_stacks"].as_u64().unwrap();
    bare.truncate(bare.len().saturating_sub(marked as usize));
    bare
}

fn method_of<'a>(frame: &str, methods: &BTreeSet<&'a str>) -> Option<&'a str> {
    let name = frame.strip_prefix("Blocking.").or_else(|| frame.strip_prefix("Stubs."))?.split(['(', '.']).next()?;
    methods.get(name).copied()
}
