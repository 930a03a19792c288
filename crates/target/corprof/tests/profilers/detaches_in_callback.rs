//! For tests: requests the detach from inside a callback, and stays in it until told. The client data is `load` or `gc`, a space, and
//! the path of a Unix socket; any byte ends the callback.

use corprof::{sdk::*, *};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

struct Asker {
    listener: UnixStream,
    events: Events,
    has_asked: AtomicBool,
}

impl Asker {
    fn ask(&self, runtime: &Runtime<'_>) {
        if self.has_asked.swap(true, Ordering::SeqCst) {
            return;
        }
        runtime.detach();
        let _ = writeln!(&self.listener, "asked");
        let _ = (&self.listener).read(&mut [0]);
        let outcome = runtime.information().map(|_| ());
        let _ = writeln!(&self.listener, "returns, and the runtime answers {outcome:?}");
    }
}

impl<'rt> Profiler<'rt> for Asker {
    fn attach(_: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let text = std::str::from_utf8(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        let (events, path) = match text.split_once(' ') {
            Some(("load", path)) => (AttachMask::MODULE_LOADS.into(), path),
            Some(("gc", path)) => (HighAttachMask::BASIC_GC.into(), path),
            _ => return Err(HResult::E_INVALIDARG),
        };
        let listener = UnixStream::connect(path).map_err(|_| HResult::E_FAIL)?;
        Ok(Asker { listener, events, has_asked: AtomicBool::new(false) })
    }

    fn events(&self) -> Events {
        self.events
    }

    fn module_load_finished(&self, runtime: &Runtime<'rt>, _: Module<'rt>, _: HResult) {
        self.ask(runtime);
    }

    fn garbage_collection_started(&self, runtime: &Runtime<'rt>, _: &[i32], _: GcReason) {
        self.ask(runtime);
    }

    fn run(&self, session: &Session<'rt>) {
        session.wait_for_detach_request();
    }

    fn detach_failed(&self, _: &Session<'rt>, refusal: &DetachError) -> OnDetachError {
        let _ = writeln!(&self.listener, "{refusal}");
        OnDetachError::Inert
    }

    fn detached(self, _: &DetachSummary) {
        let _ = writeln!(&self.listener, "detached");
    }
}

export_profiler!(Asker, clsid = "{636F7270-726F-6600-696E-736964650001}");
