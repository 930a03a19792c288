//! Short recordings that are gigabytes in formats without a tree of stacks: refused before anything is written.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_export::{Format, TooLarge, write};
use remora_profile::{ApplicationRule, Frame, Meta, Profile, Sample, State, Thread};
use std::time::{Duration, Instant};

/// Each of these threads has samples of all depths of one recursion in a method with this name: `samples` of them from the deepest on.
fn recursion(threads: u32, depth: usize, samples: usize, name: &str) -> Profile {
    let mut profile = Profile::new(Meta::default());
    let name = profile.string(name);
    let frame = profile.frame(Frame::unknown(name));
    let mut stacks = Vec::new();
    (0..depth).for_each(|_| stacks.push(profile.stack(stacks.last().copied(), frame)));
    for id in 1..=threads {
        let thread = profile.add_thread(Thread { id, name: String::new() });
        for (time, stack) in (0..).zip(stacks.iter().rev().take(samples)) {
            profile.add_sample(Sample { time, thread, stack: *stack, weight: 1_000_000, state: State::Running });
        }
    }
    profile
}

/// What is written, or the error; and how many bytes came before it.
fn written(profile: &Profile, format: Format) -> Result<usize, TooLarge> {
    let mut out = Vec::new();
    let written = write(profile, format, &ApplicationRule::default(), &mut out);
    written.map(|()| out.len()).map_err(|error| {
        assert!(out.is_empty(), "{} bytes", out.len());
        error.downcast().unwrap()
    })
}

#[test]
fn regression_a_recursion_became_gigabytes_in_formats_that_repeat_the_callers_of_each_stack() {
    let profile = recursion(1, 16_000, 16_000, "Recurse(long)");
    assert_eq!(written(&profile, Format::Folded), Err(TooLarge { format: Format::Folded }));
    let profile = recursion(20, 16_000, 8_000, "Recurse(long)");
    for format in [Format::Folded, Format::Speedscope, Format::Pprof] {
        assert_eq!(written(&profile, format), Err(TooLarge { format }));
    }
    // These have each of its stacks once.
    assert!(written(&profile, Format::Html).is_ok());
    assert!(written(&profile, Format::Firefox).is_ok());
}

#[test]
fn regression_each_of_many_threads_had_tables_of_all_stacks_and_names() {
    let [stacks, names] = [recursion(20_000, 16_000, 1, "Recurse(long)"), recursion(70_000, 1, 1, &"n".repeat(16_000))];
    for profile in [stacks, names] {
        assert_eq!(written(&profile, Format::Firefox), Err(TooLarge { format: Format::Firefox }));
        assert!(written(&profile, Format::Html).is_ok());
    }
}

#[test]
fn regression_all_samples_were_summed_up_again_for_each_long_thread() {
    let profile = recursion(1000, 16_000, 640, "Recurse(long)");
    let begin = Instant::now();
    assert_eq!(written(&profile, Format::Speedscope), Err(TooLarge { format: Format::Speedscope }));
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}
