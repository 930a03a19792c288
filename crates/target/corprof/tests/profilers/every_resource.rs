//! For tests, and no lesson in brevity: opens one way into the library of each kind, and lets the register close them all. The client data is the path of a Unix socket
//! on which somebody listens (`nc -lU PATH`); the profiler leaves when the listener hangs up.

use corprof::{sdk::*, *};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: i32, _: *mut libc::siginfo_t, _: *mut core::ffi::c_void) {
    SIGNALS.fetch_add(1, Relaxed);
}

/// A timer that sends the process this signal every millisecond.
fn timer(signal: i32) -> libc::timer_t {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
    (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, signal);
    let (mut timer, often) = (core::ptr::null_mut(), libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 });
    // SAFETY: a place for the timer, and a live description.
    unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    let spec = libc::itimerspec { it_interval: often, it_value: often };
    // SAFETY: the timer that was just made; the old value is not wanted.
    unsafe { libc::timer_settime(timer, 0, &raw const spec, core::ptr::null_mut()) };
    timer
}

/// A child that waits to be killed, and runs nothing else.
fn child() -> libc::pid_t {
    // SAFETY: the child calls nothing but `pause`, which is safe after a fork.
    match unsafe { libc::fork() } {
        0 => loop {
            // SAFETY: takes nothing.
            unsafe { libc::pause() };
        },
        pid => pid,
    }
}

struct Everything(UnixStream);

impl Everything {
    fn open<'rt>(&self, session: &Session<'rt>) -> Result<(), NotStarted> {
        session.start_thread("every-own", |session| session.wait_for_detach_request())?;
        session.register_hook("a hook", Box::new(|| Ok(())))?;
        let signal = libc::SIGRTMIN() + 13;
        // SAFETY: the handler counts, and nothing else; timer and child are made here and given away.
        unsafe {
            session.handle_signal("a signal", signal, count)?;
            session.register_timer("a timer", timer(signal))?;
            session.register_child("a child", child())?;
        }
        let events = ProviderConfig {
            name: "Microsoft-Windows-DotNETRuntime".into(),
            keywords: 0x8000,
            level: 5,
            filter: String::new(),
        };
        session.start_event_pipe("the runtime's exceptions", &[events]).map(drop)
    }
}

impl<'rt> Profiler<'rt> for Everything {
    fn attach(_: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let path = std::str::from_utf8(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        UnixStream::connect(path).map(Everything).map_err(|_| HResult::E_FAIL)
    }

    fn events(&self) -> Events {
        Events::default()
    }

    fn run(&self, session: &Session<'rt>) {
        let outcome = self.open(session);
        while SIGNALS.load(Relaxed) == 0 && session.pause(std::time::Duration::from_millis(1)) {}
        for one in session.open_resources() {
            let _ = writeln!(&self.0, "open: {} {}", one.kind, one.name);
        }
        let _ = writeln!(&self.0, "all: {outcome:?}");
        let _ = (&self.0).read(&mut [0]);
    }

    fn detach_failed(&self, _: &Session<'rt>, refusal: &DetachError) -> OnDetachError {
        let _ = writeln!(&self.0, "{refusal}");
        OnDetachError::Inert
    }

    fn detached(self, _: &DetachSummary) {
        let _ = writeln!(&self.0, "detached");
    }
}

export_profiler!(Everything, clsid = "{636F7270-726F-6600-656E-747279000001}");
