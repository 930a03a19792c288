//! An object allocated since the last GC, seen before the next one: an exception callback passes it to the profiler.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "support/heap.rs"]
mod heap;

use heap::Reported;
use remora_e2e::on_every_runtime;
use remora_e2e::probe::{Seat, Stage};
use remora_holds::holds;

/// COR_PRF_MONITOR_EXCEPTIONS and COR_PRF_MONITOR_GC.
const EXCEPTIONS_AND_GC: u32 = 0x40 | 0x80;

/// The runtime's answer about an object, after the success code.
fn asked(seat: &mut Seat, what: &str, object: &str) -> u64 {
    let answer = seat.done(&format!("ask {what} {object}"));
    let numbers: Vec<u64> =
        answer.iter().map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()).collect();
    assert_eq!(numbers.first(), Some(&0), "{what} {object}: {answer:?}");
    numbers[1]
}

/// The heap that one GC reports.
fn reported(probe: &mut Seat) -> Reported {
    let folder = tempfile::tempdir().unwrap();
    probe.done(&format!("witness {}", folder.path().display()));
    probe.done("gc");
    while probe.ask("witnessed").is_err() {
        probe.done("gc");
    }
    Reported::read(folder.path())
}

#[test]
fn gch_03_gch_04_newer_objects_are_no_error_and_are_in_the_next_mirror() {
    on_every_runtime(|runtime| {
        let mut stage = Stage::start_program(runtime, "obedient", &[], &[]);
        let mut probe = stage.attached(EXCEPTIONS_AND_GC, 0);
        // The first throw allocates its own dependencies.
        stage.act("a throw");
        let before = reported(&mut probe);
        probe.done("hold ExceptionThrown");
        stage.target().tell("start a throw");
        let mut held = stage.seat("ExceptionThrown");
        let newborn = held.id().to_owned();
        let (class, bytes) = (asked(&mut held, "object-class", &newborn), asked(&mut held, "object-size", &newborn));
        let place = u64::from_str_radix(newborn.trim_start_matches("0x"), 16).unwrap();
        holds!(GCH_04 clr, !before.objects.contains_key(&place), "it was not there");
        probe.done("let ExceptionThrown");
        held.leave(0);
        assert_eq!(stage.target().read_line(), "started");
        assert_eq!(stage.act("finish a"), "caught");
        let of_class = |shown: &Reported| -> Vec<u64> {
            shown.objects.values().filter(|object| object.class == class).map(|object| object.bytes).collect()
        };
        // The program keeps the last exception that it caught.
        assert_eq!(of_class(&before), [bytes]);
        let after = reported(&mut probe);
        holds!([GCH_03 GCH_04] clr, of_class(&after) == [bytes], "the one before has died, and this one is there");
        // Live objects were reported again, wherever they moved.
        assert!(after.objects.len() + 1000 > before.objects.len() && !after.roots.is_empty());
        stage.leave(probe);
    });
}
