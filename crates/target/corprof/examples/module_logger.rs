//! Reports which modules are loaded, load and unload. The client data is the path of a Unix socket with a listener
//! (`nc -lU PATH`); the profiler detaches when the listener hangs up.

use corprof::{sdk::*, *};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

struct Logger<'rt> {
    listener: UnixStream,
    modules: LiveSet<'rt, ModuleId>,
    lines: Mailbox<String>,
}

impl<'rt> Logger<'rt> {
    fn note(&self, what: &str, runtime: &Runtime<'rt>, module: Module<'rt>) {
        let path = runtime.module(module).map_or_else(|code| code.to_string(), |facts| facts.path);
        self.lines.post(format!("{what} {module:?} {path}\n"));
    }
}

impl<'rt> Profiler<'rt> for Logger<'rt> {
    fn attach(beginning: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let path = std::str::from_utf8(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        let listener = UnixStream::connect(path).map_err(|_| HResult::E_FAIL)?;
        listener.set_read_timeout(Some(Duration::from_millis(10))).map_err(|_| HResult::E_FAIL)?;
        Ok(Logger { listener, modules: LiveSet::new(beginning), lines: Mailbox::new(10_000) })
    }

    fn events(&self) -> Events {
        AttachMask::MODULE_LOADS.into()
    }

    fn module_load_finished(&self, runtime: &Runtime<'rt>, module: Module<'rt>, status: HResult) {
        if status.is_success() {
            self.modules.added(module, || self.note("loaded", runtime, module));
        }
    }

    fn module_unload_started(&self, runtime: &Runtime<'rt>, module: Module<'rt>) {
        self.note("unloading", runtime, module);
        self.modules.removed(module);
    }

    fn run(&self, session: &Session<'rt>) {
        let found = |module| self.note("found", session, module);
        let caught_up = self.modules.catch_up(|| session.modules(), found);
        self.lines.post(format!("caught up: {caught_up:?}\n"));
        while matches!((&self.listener).read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
            let _ = (&self.listener).write_all(self.lines.take().concat().as_bytes());
        }
    }

    fn detached(self, _: &DetachSummary) {
        let _ = writeln!(&self.listener, "{}detached, {} lines lost", self.lines.take().concat(), self.lines.lost());
    }
}

export_profiler!(Logger<'rt>, clsid = "{636F7270-726F-6600-6D6F-64756C650001}");
