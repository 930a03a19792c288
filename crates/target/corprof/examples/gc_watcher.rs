//! Reports each GC and its duration. The client data is the path of a Unix socket with a listener (`nc -lU PATH`);
//! the profiler detaches when the listener hangs up.

use corprof::{sdk::*, *};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

struct Watcher {
    listener: UnixStream,
    events: Events,
    /// Generation and start of each running GC: a foreground GC may run inside a background one.
    begun: Mutex<Vec<(usize, Instant)>>,
    finished: Mailbox<(usize, Duration)>,
}

impl Watcher {
    fn tell(&self) {
        for (generation, time) in self.finished.take() {
            let _ = writeln!(&self.listener, "collected generation {generation} in {} us", time.as_micros());
        }
    }
}

impl<'rt> Profiler<'rt> for Watcher {
    fn attach(beginning: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let path = std::str::from_utf8(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        let listener = UnixStream::connect(path).map_err(|_| HResult::E_FAIL)?;
        listener.set_read_timeout(Some(Duration::from_millis(10))).map_err(|_| HResult::E_FAIL)?;
        let is_desktop = beginning.information()?.kind == RuntimeKind::DESKTOP_CLR;
        // The desktop has no cheaper way. It refuses this one while its collections are concurrent.
        let events = if is_desktop { AttachMask::GC.into() } else { HighAttachMask::BASIC_GC.into() };
        Ok(Watcher { listener, events, begun: Mutex::default(), finished: Mailbox::new(100_000) })
    }

    fn events(&self) -> Events {
        self.events
    }

    fn garbage_collection_started(&self, _: &Runtime<'rt>, collected: &[i32], _: GcReason) {
        let oldest = collected.iter().take(3).rposition(|is_collected| *is_collected != 0).unwrap_or(0);
        self.begun.lock().expect("nobody panics with it").push((oldest, Instant::now()));
    }

    fn garbage_collection_finished(&self, _: &Runtime<'rt>) {
        if let Some((generation, begun)) = self.begun.lock().expect("nobody panics with it").pop() {
            self.finished.post((generation, begun.elapsed()));
        }
    }

    fn run(&self, _: &Session<'rt>) {
        while matches!((&self.listener).read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
            self.tell();
        }
    }

    fn detached(self, _: &DetachSummary) {
        self.tell();
        let _ = writeln!(&self.listener, "detached, {} collections lost", self.finished.lost());
    }
}

export_profiler!(Watcher, clsid = "{636F7270-726F-6600-7761-746368000001}");
