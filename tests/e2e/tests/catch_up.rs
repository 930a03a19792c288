//! Attaching while modules, methods and threads appear and vanish: found by enumeration, by event, by both or by neither.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::{ReadBack, number};
use remora_e2e::{Facts, Recording, Target, on_every_runtime, until};
use remora_holds::holds;

/// Attaches to one process, one after another.
const ATTACHES: usize = 30;
/// Of this many managed frames together, almost all have a name. (A single short recording has too few for a share.)
const ENOUGH: u64 = 500;

#[test]
fn cat_06_attached_again_and_again_while_modules_are_loaded_and_unloaded() {
    comes_and_goes("collectible", &[], "unloaded", "Plugin.Worker.");
}

#[test]
fn cat_06_attached_again_and_again_while_methods_are_made_and_thrown_away() {
    comes_and_goes("dynamic", &[], "count", "EmittedBurn");
}

#[test]
fn cat_06_attached_again_and_again_while_threads_are_born_and_die() {
    comes_and_goes("short_threads", &["2", "3"], "count", "ShortThreads.Live(int)");
}

/// Attaches and detaches at arbitrary instants. Each receipt is clean, the names are the program's, and the program continues.
fn comes_and_goes(program: &str, arguments: &[&str], counter: &str, name: &str) {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, program, arguments);
        let begun = target.ask_number(counter);
        until("it has begun to come and go", || target.ask_number(counter) > begun);
        let (mut managed, mut named) = (0, 0);
        let mut met = 0;
        for round in 0..ATTACHES {
            let event = if round % 2 == 0 { "cpu" } else { "wall" };
            let recorded = Recording::of(&target, &["--event", event, "--frequency", "999"]);
            recorded.ended_with(0);
            assert_eq!(recorded.receipt["clean"], true, "round {round}: {:#}", recorded.receipt);
            assert!(target.is_alive(), "round {round}: {}", target.errors());
            let shown = recorded.finished.json();
            managed += number(&shown["managed_frames"]);
            named += number(&shown["managed_frames_named"]);
            met += ReadBack::of(&recorded).weight_where(|names| names.iter().any(|frame| frame.starts_with(name)));
        }
        holds!(
            CAT_06 rem, managed > ENOUGH && named * 1000 >= managed * 995,
            "{named} of {managed} managed frames are named"
        );
        assert!(met > 0, "{name} was never met");
        assert_eq!(Facts::of(target.pid()).remora(), Vec::<String>::new());
        let after = target.ask_number(counter);
        until("it comes and goes as before", || target.ask_number(counter) > after + 1);
    });
}
