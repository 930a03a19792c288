//! Threads of the tracer.

use corprof::detach::OwnThread;
use remora_wire::method_trace::THREAD_NAME;

/// Starts a thread of ours. The standard library's threads use thread-local storage (docs/design/0009-no-thread-local-storage.md).
pub(super) fn start_thread(work: impl FnOnce() + Send + 'static) -> Result<OwnThread, i32> {
    let main = || {
        remora_thread_locals::begin_thread();
        work();
        remora_thread_locals::end_thread();
    };
    OwnThread::start(THREAD_NAME, Box::new(main))
}
