//! Refusals for attached profilers, on live runtimes and their models: the attach itself, or single methods of Info.
//!
//! The profiler is `tests/probe`, which follows the test's orders on the thread of each callback. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{OLD_CLASS, Seat, Stage};
use remora_e2e::until;
use remora_holds::holds;

const FAIL: u32 = 0x8000_4005;
const NOT_ATTACHABLE: u32 = 0x8013_1368;
const UNSUPPORTED_FOR_ATTACHING: u32 = 0x8013_136F;

const NOT_IMPLEMENTED: u32 = 0x8000_4001;
const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;

/// The methods that Core refuses to an attached profiler.
const REFUSED: [&str; 11] = [
    "SetEnterLeaveFunctionHooks",
    "SetEnterLeaveFunctionHooks2",
    "SetEnterLeaveFunctionHooks3",
    "SetEnterLeaveFunctionHooks3WithInfo",
    "SetFunctionIDMapper",
    "SetFunctionIDMapper2",
    "GetNotifiedExceptionClauseInfo",
    "GetFunctionEnter3Info",
    "GetFunctionLeave3Info",
    "GetFunctionTailcall3Info",
    "EnumNgenModuleMethodsInliningThisMethod",
];
/// The methods that Core refuses to every profiler.
const GONE: [&str; 5] = [
    "SetFunctionReJIT",
    "GetInprocInspectionInterface",
    "GetInprocInspectionIThisThread",
    "BeginInprocDebugging",
    "EndInprocDebugging",
];
/// Methods that the .NET Framework refuses to an attached profiler and Core serves; so is `SetILFunctionBody`, which forbids the detach
/// (DET-02).
const SERVED_ON_CORE: [&str; 3] = ["GetILFunctionBody", "GetILFunctionBodyAllocator", "SetILInstrumentedCodeMap"];

#[test]
fn att_13_what_needs_a_profiler_from_the_start_is_refused_to_an_attached_one_wherever_it_asks() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a jit");
        let attaching = stage.attach(&[]);
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {JIT:#x} 0"));
        init.done("thread");
        init.done("hold JITCompilationFinished");
        let mut wrong = otherwise_answered(&mut init, "");
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
        let mut own = stage.seat("Thread");
        stage.act("start a jit");
        let mut compiled = stage.seat("JITCompilationFinished");
        let function = format!(" {}", compiled.id());
        for seat in [&mut compiled, &mut own] {
            wrong.extend(otherwise_answered(seat, &function));
            for method in SERVED_ON_CORE {
                seat.done(&format!("call {method}{function}"));
            }
        }
        holds!(ATT_13 sim clr, wrong.is_empty(), "{}", wrong.join("\n"));
        compiled.leave(0);
        assert_eq!(stage.act("finish a"), "7");
        // None of it blocks the detach.
        stage.leave(own);
    });
}

/// The unexpected answers in this place, about this function.
fn otherwise_answered(seat: &mut Seat, function: &str) -> Vec<String> {
    let refused = REFUSED.map(|method| (method, UNSUPPORTED_FOR_ATTACHING));
    let right = refused.into_iter().chain(GONE.map(|method| (method, NOT_IMPLEMENTED)));
    let mut wrong = Vec::new();
    for (method, right) in right {
        let answer = seat.ask(&format!("call {method}{function}"));
        if answer != Err(right) {
            wrong.push(format!("{method} in {}: {answer:x?}, not {right:#x}", seat.place()));
        }
    }
    wrong
}

#[test]
fn att_09_a_profiler_without_the_third_callback_is_not_attached_and_its_library_stays() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        for _ in 0..2 {
            holds!(ATT_09 sim clr, stage.attach_class(&OLD_CLASS, b"data").answer() == Err(NOT_ATTACHABLE));
        }
        // Its slot is free.
        let mut own = stage.attached(MODULE_LOADS, 0);
        stage.is_alive(&mut own);
        assert_eq!((own.count("Initialize"), own.count("InitializeForAttach")), (0, 1));
        own.done("detach 300");
        let asked = own.thread();
        own.leave(0);
        stage.seat("ProfilerDetachSucceeded");
        stage.seat("Released");
        until("the asking thread has ended", || !stage.threads().contains(&asked));
        // An attach is served only after the end of that detach, which has released the library.
        until("the next attach is served", || stage.refused_attach() == Err(FAIL));
        // The runtime never releases the references that it took for the two refused attaches.
        assert!(stage.is_mapped(), "the library is unmapped: the runtime has mended its loss");
    });
}
