//! How a late profiler discovers existing modules and methods, by enumerations and events, on live runtimes and their models.
//!
//! The profiler is `tests/probe`, which follows the test's orders on the thread of each callback. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};
use remora_e2e::until;
use remora_holds::holds;
use std::collections::BTreeSet;

const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
/// Attaches to one target during loads and compilations: each is another race.
const ROUNDS: usize = 4;

#[test]
fn cat_02_what_loads_between_an_early_enumeration_and_the_first_event_is_met_by_neither() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        let attaching = stage.attach(&[]);
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("hold ProfilerAttachComplete");
        let early = modules(&mut init);
        assert_eq!(stage.act("b load"), "obedient");
        init.leave(0);
        let mut complete = stage.seat("ProfilerAttachComplete");
        let late = modules(&mut complete);
        let hole: Vec<&String> = late.difference(&early).collect();
        holds!(CAT_02 sim clr, hole.len() == 1, "{hole:?}");
        holds!(CAT_02 sim clr, complete.ids("ModuleLoadFinished").is_empty(), "an event came for what loaded before callbacks were on");
        assert!(early.is_subset(&late));
        // An enumeration now, with events enabled, misses nothing.
        assert_eq!(stage.act("b load"), "obedient");
        let shown: BTreeSet<String> = complete.ids("ModuleLoadFinished").into_iter().collect();
        let now = modules(&mut complete);
        holds!(CAT_02 sim clr, now.difference(&late).eq(&shown) && shown.len() == 1, "{shown:?}");
        complete.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
    });
}

#[test]
fn cat_05_what_is_there_in_the_end_was_enumerated_at_the_attach_or_reported() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        for _ in 0..ROUNDS {
            let attaching = stage.attach(&[]);
            let mut init = stage.seat("InitializeForAttach");
            init.done(&format!("mask {:#x} 0", MODULE_LOADS | JIT));
            init.done("hold ProfilerAttachComplete");
            init.done("thread");
            // Both threads load and compile while callbacks are enabled and everything is enumerated.
            stage.act("start a many");
            stage.act("start b many");
            init.leave(0);
            let mut complete = stage.seat("ProfilerAttachComplete");
            let (mut known_modules, mut known_functions) = (modules(&mut complete), functions(&mut complete));
            complete.leave(0);
            assert_eq!(attaching.answer(), Ok(()));
            assert_eq!((stage.act("finish a"), stage.act("finish b")), ("many".to_owned(), "many".to_owned()));
            let mut own = stage.seat("Thread");
            let (there, compiled) = (modules(&mut own), functions(&mut own));
            // The event of an enumerable module or method may come a little later.
            until("everything that is there was enumerated at the attach or told of", || {
                known_modules.extend(own.ids("ModuleLoadFinished"));
                known_functions.extend(own.ids("JITCompilationFinished"));
                there.is_subset(&known_modules) && compiled.is_subset(&known_functions)
            });
            let missing = there.difference(&known_modules).chain(compiled.difference(&known_functions)).count();
            holds!(CAT_05 sim clr, missing == 0);
            stage.leave(own);
        }
    });
}

#[test]
fn cat_07_an_event_outranks_an_enumeration_from_before_it_that_is_still_read() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        // The first load also loads its own dependencies.
        stage.act("a load");
        assert_eq!(stage.act("a unload"), "unloaded");
        stage.act("a load");
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("hold ModuleUnloadStarted");
        own.done("snapshot modules");
        let mut listed = own.done("next");
        // While it is read, one module is loaded and the previous one unloaded.
        stage.act("start b unload");
        let unloading = stage.seat("ModuleUnloadStarted");
        let gone = unloading.id().to_owned();
        holds!(CAT_07 sim clr, !modules(&mut own).contains(&gone), "an enumeration made now lists what is unloading");
        listed.extend(own.done("rest"));
        holds!(CAT_07 sim clr, listed.contains(&gone), "the enumeration from before has changed while it was read");
        unloading.leave(0);
        assert_eq!(stage.act("finish b"), "unloaded");
        own.done("snapshot modules");
        let mut listed = own.done("next");
        assert_eq!(stage.act("a load"), "obedient");
        let come = own.ids("ModuleLoadFinished").pop().unwrap_or_default();
        assert!(modules(&mut own).contains(&come));
        listed.extend(own.done("rest"));
        holds!(CAT_07 sim clr, !listed.contains(&come), "the enumeration from before has changed while it was read");
        stage.leave(own);
    });
}

fn modules(seat: &mut Seat) -> BTreeSet<String> {
    seat.done("modules").into_iter().collect()
}

fn functions(seat: &mut Seat) -> BTreeSet<String> {
    seat.done("functions").into_iter().collect()
}
