//! No managed caller is lost in the middle of a stack: a recording has no call that the runtime's own sampler refutes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::callers::{Lost, read};
use remora_e2e::{Recording, Start, on_every_runtime};

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
        assert_eq!(Lost::between(&agent, &reference).edges, Lost::default().edges);
    });
}
