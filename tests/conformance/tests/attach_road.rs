//! How the runtime reaches a profiler that attaches: class factory, object, interfaces. On live runtimes and their models.
//!
//! The profiler is `tests/probe`. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{ROAD_CLASS, Stage};
use remora_holds::holds;

/// The first groups of the interfaces' ids: corprof.idl of dotnet/runtime, and unknwn.h.
const CLASS_FACTORY: &str = "00000001";
const CALLBACK_2: &str = "8a8cc829";
/// The newest callback that 3.1 knows, and that of 6 and later. Who has one of them has ICorProfilerCallback3, too.
const NEWEST: [&str; 2] = ["27583ec3", "42350846"];

#[test]
fn att_20_class_factory_then_object_then_the_query_for_callback3_then_initialize_for_attach() {
    // No runtime queries ICorProfilerCallback3 itself if a newer version is answered.
    in_every_world(|runtime| {
        let newest = NEWEST[usize::from(runtime.major() >= 6)];
        let stage = Stage::start(runtime);
        let attaching = stage.attach_class(&ROAD_CLASS, &[]);
        let mut init = stage.seat("InitializeForAttach");
        let steps = init.done("road");
        let place = |step: &str| steps.iter().position(|each| each == step);
        let factory = place(&format!("DllGetClassObject:{CLASS_FACTORY}"));
        let [old, query] = [CALLBACK_2, newest].map(|version| place(&format!("QueryInterface:{version}")));
        holds!(ATT_20 sim clr, factory == Some(0) && place("object") == Some(1), "{steps:?}");
        holds!(ATT_20 sim clr, old > Some(1) && query > old, "{steps:?}");
        init.done("hold ProfilerAttachComplete");
        init.done("thread");
        init.leave(0);
        let complete = stage.seat("ProfilerAttachComplete");
        holds!(ATT_20 sim clr, attaching.is_pending(), "the trigger has its answer before ProfilerAttachComplete has returned");
        complete.leave(0);
        holds!(ATT_20 sim clr, attaching.answer() == Ok(()));
        stage.leave(stage.seat("Thread"));
    });
}
