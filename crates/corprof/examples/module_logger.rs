//! Tells which modules are loaded, come and go. The client data is the path of a Unix socket that somebody listens on
//! (`nc -lU PATH`); the profiler leaves when the listener hangs up.
#![allow(missing_docs, reason = "an example has no users of its own")]

use corprof::{sdk::*, *};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

struct Logger<'rt> {
    listener: UnixStream,
    modules: Roll<'rt, ModuleId>,
    /// Callbacks must not wait for the listener: they leave their lines here.
    lines: Mutex<String>,
}

impl<'rt> Logger<'rt> {
    fn note(&self, what: &str, runtime: &Runtime<'rt>, module: Module<'rt>) {
        let path = runtime.module(module).map_or_else(|code| code.to_string(), |facts| facts.path);
        self.lines.lock().unwrap_or_else(|poison| poison.into_inner()).push_str(&format!("{what} {module:?} {path}\n"));
    }

    fn flush(&self) {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(|poison| poison.into_inner()));
        // A listener that is gone is noticed where it is read from.
        let _ = (&self.listener).write_all(lines.as_bytes());
    }
}

impl<'rt> Profiler<'rt> for Logger<'rt> {
    fn attach(_: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let path = std::str::from_utf8(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        let listener = UnixStream::connect(path).map_err(|_| HResult::E_FAIL)?;
        listener.set_read_timeout(Some(Duration::from_millis(10))).map_err(|_| HResult::E_FAIL)?;
        Ok(Logger { listener, modules: Roll::default(), lines: Mutex::default() })
    }

    fn wants(&self) -> Events {
        AttachMask::MODULE_LOADS.into()
    }

    fn module_load_finished(&self, runtime: &Runtime<'rt>, module: Module<'rt>, status: HResult) {
        if status.is_success() {
            self.modules.came(module, || self.note("loaded", runtime, module));
        }
    }

    fn module_unload_started(&self, runtime: &Runtime<'rt>, module: Module<'rt>) {
        self.note("unloading", runtime, module);
        self.modules.went(module);
    }

    fn run(&self, session: &Session<'rt>) {
        // Events outrank what is enumerated: the roll leaves out what they have told of.
        let found = session.modules().and_then(|all| self.modules.catch_up(all, |one| self.note("found", session, one)));
        let caught_up = found.map_or_else(|code| format!("holes: {code}"), |()| format!("{} modules", self.modules.count()));
        self.lines.lock().unwrap_or_else(|poison| poison.into_inner()).push_str(&format!("caught up: {caught_up}\n"));
        let goes_on = |read: std::io::Result<usize>| match read {
            Ok(length) => length > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        while goes_on((&self.listener).read(&mut [0])) && !session.is_leaving() {
            self.flush();
        }
    }

    fn stays(&self, _: &Session<'rt>, refusal: &Refusal) -> Then {
        let _ = writeln!(&self.listener, "{refusal}");
        Then::Inert
    }

    fn sealed(self, farewell: &Farewell) {
        self.flush();
        let _ = writeln!(&self.listener, "detached, {} callbacks turned away", farewell.turned_away);
    }
}

export_profiler!(Logger<'rt>, clsid = "{636F7270-726F-6600-6D6F-64756C650001}");
