//! ReJIT of a method of a running process, on live runtimes and their models: requests, callbacks, versions, and back.
//!
//! The profiler is `tests/probe`, which gives a method a copy of its own body. Remora takes no part; `tests/e2e/tests/rejit_tracing.rs`
//! has what Remora changes in a body.
#![forbid(unsafe_code)]

#[path = "support/answers.rs"]
mod answers;

use answers::ask;
use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};
use remora_holds::holds;

const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
const REJIT: u32 = 0x4_0000;
const BLOCK_INLINING: &str = "0x1";
const INVALID_ARGUMENT: u32 = 0x8007_0057;
const FAIL: u32 = 0x8000_4005;
const NOT_ENABLED: u32 = 0x8013_137C;
const IRREVERSIBLE: u32 = 0x8013_1370;

/// An attached probe with this mask, and a method of the program that has run.
fn with_a_method(stage: &mut Stage, mask: u32) -> (Seat, String) {
    stage.act("a often");
    let mut own = stage.attached(MODULE_LOADS | mask, 0);
    let listed = own.done("functions");
    let functions: Vec<&String> = listed.iter().collect();
    let called = functions.into_iter().find(|function| {
        own.ask(&format!("function {function}")).is_ok_and(|words| words.last().is_some_and(|name| name == "Called"))
    });
    let called = called.expect("the program has called it").clone();
    (own, called)
}

/// The method is called, and the test acts in GetReJITParameters.
fn called_with(stage: &mut Stage, own: &mut Seat, act: impl FnOnce(Seat)) {
    own.done("hold GetReJITParameters");
    stage.act("start a often");
    act(stage.seat("GetReJITParameters"));
    assert_eq!(stage.act("finish a"), "called");
}

fn count(own: &mut Seat) -> [u64; 4] {
    ["GetReJITParameters", "ReJITCompilationStarted", "ReJITCompilationFinished", "ReJITError"]
        .map(|callback| own.count(callback))
}

/// The number of versions of a method, with the original one.
fn versions(own: &mut Seat, function: &str) -> u64 {
    ask(own, &format!("versions {function} 4")).count()
}

#[test]
fn rjt_01_a_method_is_compiled_again_at_its_next_call_and_a_revert_keeps_what_was_compiled() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, called) = with_a_method(&mut stage, REJIT | JIT);
        own.done(&format!("rejit {called}"));
        own.done(&format!("rejit {called}"));
        assert_eq!(count(&mut own), [0; 4], "at the request");
        called_with(&mut stage, &mut own, |mut seat| {
            seat.done("give own");
            seat.leave(0);
        });
        stage.act("a often");
        holds!(RJT_01 sim clr, count(&mut own) == [1, 1, 1, 0], "asked twice before the call, and called twice");
        let two = versions(&mut own, &called);
        own.done(&format!("revert {called}"));
        stage.act("a often");
        assert_eq!(count(&mut own), [1, 1, 1, 0], "after the revert");
        holds!(RJT_01 sim clr, versions(&mut own, &called) == two, "the version stays");
        own.done(&format!("rejit {called}"));
        called_with(&mut stage, &mut own, |seat| seat.leave(0));
        assert_eq!(count(&mut own), [2, 2, 2, 0], "nothing given: compiled again from its own IL");
        assert_eq!(own.ids("ReJITCompilationFinished"), ["0x0", "0x0"]);
        assert_ne!(versions(&mut own, &called), two);
        holds!(RJT_01 sim clr, own.refused("detach 300") == IRREVERSIBLE);
        stage.is_alive(&mut own);
    });
}

#[test]
fn rjt_01_compilations_are_told_only_where_a_profiler_hears_of_those_of_the_jit() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, called) = with_a_method(&mut stage, REJIT);
        own.done(&format!("rejit {called} {BLOCK_INLINING}"));
        called_with(&mut stage, &mut own, |mut seat| {
            seat.done("give own");
            seat.leave(0);
        });
        holds!(RJT_01 sim clr, count(&mut own) == [1, 0, 0, 0]);
        stage.is_alive(&mut own);
    });
}

#[test]
fn rjt_01_a_profiler_that_gives_no_parameters_gets_an_error_and_is_not_asked_again() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, called) = with_a_method(&mut stage, REJIT | JIT);
        own.done(&format!("rejit {called}"));
        called_with(&mut stage, &mut own, |mut seat| {
            assert_eq!(seat.refused("give empty"), INVALID_ARGUMENT);
            seat.leave(FAIL);
        });
        stage.act("a often");
        holds!(RJT_01 sim clr, count(&mut own) == [1, 1, 1, 1]);
        holds!(RJT_01 sim clr, own.ids("ReJITError") == [format!("{FAIL:#x}")]);
        stage.is_alive(&mut own);
    });
}

#[test]
fn rjt_01_a_request_without_the_flag_is_refused_and_a_revert_of_what_was_not_changed_is_not() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let (mut own, called) = with_a_method(&mut stage, 0);
        for order in ["rejit", "revert"] {
            holds!(RJT_01 sim clr, own.refused(&format!("{order} {called}")) == NOT_ENABLED, "{order}");
        }
        own.done(&format!("mask {:#x} 0", MODULE_LOADS | REJIT));
        assert_eq!(own.refused(&format!("rejit {called} 0x2")), INVALID_ARGUMENT, "inlining is not blocked");
        holds!(RJT_01 sim clr, own.done(&format!("revert {called}")) == ["0x0"]);
        stage.act("a often");
        assert_eq!(count(&mut own), [0; 4]);
        stage.is_alive(&mut own);
    });
}

#[test]
fn rjt_01_a_setting_forbids_it_to_attached_profilers_and_the_one_for_inlining_forbids_nothing() {
    in_every_world(|runtime| {
        let prefix = if runtime.major() == 3 { "COMPlus" } else { "DOTNET" };
        let with = |setting: &str| Stage::start_with(runtime, &[(&format!("{prefix}_{setting}"), "0")]);
        let stage = with("ProfApi_RejitOnAttach");
        let mut own = stage.attached(MODULE_LOADS, 0);
        holds!(RJT_01 sim clr, own.refused(&format!("mask {:#x} 0", MODULE_LOADS | REJIT)) == NOT_ENABLED);
        stage.leave(own);
        let mut stage = with("ProfApi_InliningTracking");
        let (mut own, called) = with_a_method(&mut stage, REJIT | JIT);
        holds!(RJT_01 sim clr, own.ask(&format!("rejit {called} {BLOCK_INLINING}")).is_ok());
    });
}
