//! The registry of all resources that may still run the library's code, and the proof that none is open (contract DET-04).
//!
//! Only this module makes an [`AllClosed`]: after the registry has closed each resource and accepts no new one.
//! What can bypass the registry:
//!
//! | resource | outside the registry |
//! |---|---|
//! | EventPipe session | only by unsafe code |
//! | signal handler, timer, hook | only by unsafe code |
//! | own thread | **`std::thread::spawn` is safe, and is not seen** |
//! | child | **`std::process::Command` is safe, and is not seen** |
//!
//! Nothing inside the process tells such a thread or child from the application's own. The application may start both at any time, and
//! the kernel does not say whose code a thread began in. So `AllClosed` proves only that all registered resources are closed.
//! `remora lab` looks from outside, at a process where everything else is known, and reports leftovers as faults (DET-04).

use super::id::Brand;
use super::resource::{Resource, ResourceKind};
use crate::{Alive, Attached, Info};
use core::fmt;
use core::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A registered resource; closes it early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceHandle<'rt> {
    number: u64,
    brand: Brand<'rt>,
}

/// Proof that every registered resource is closed. Of the known threads, only the runtime's callbacks and the detach thread can run the
/// library's code.
///
/// It does not cover threads by `std::thread::spawn`, children by `std::process::Command`, or anything else started without
/// [`Session::start_thread`](super::Session::start_thread), [`Session::register_child`](super::Session::register_child) and the like.
///
/// ```compile_fail,E0423
/// let proof = corprof::sdk::AllClosed(core::marker::PhantomData);
/// ```
#[derive(Debug)]
pub struct AllClosed<'rt>(Brand<'rt>);

/// An open resource, by kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenResource {
    /// Its kind.
    pub kind: ResourceKind,
    /// Its owner's name for it.
    pub name: String,
}

/// A resource that could not be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseError {
    /// The resource.
    pub resource: OpenResource,
    /// The reason.
    pub why: String,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} `{}` is still open: {}", self.resource.kind, self.resource.name, self.why)
    }
}

impl core::error::Error for CloseError {}

/// Refuses a new resource while the profiler detaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detaching;

impl fmt::Display for Detaching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the profiler is detaching and accepts no new resource; register it before `run` returns")
    }
}

impl core::error::Error for Detaching {}

struct Entry {
    number: u64,
    name: String,
    resource: Resource,
}

#[derive(Default)]
struct Entries {
    open: Vec<Entry>,
    next: u64,
    is_closing: bool,
}

pub(super) struct ResourceRegistry<'rt> {
    entries: Mutex<Entries>,
    brand: Brand<'rt>,
}

impl<'rt> ResourceRegistry<'rt> {
    pub fn new() -> ResourceRegistry<'rt> {
        ResourceRegistry { entries: Mutex::default(), brand: PhantomData }
    }

    /// Makes a resource and registers it under one lock, so that nothing is added while `close_all` runs.
    pub fn register<E: From<Detaching>>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Resource, E>,
    ) -> Result<ResourceHandle<'rt>, E> {
        let mut entries = self.lock();
        if entries.is_closing {
            return Err(Detaching.into());
        }
        let resource = make()?;
        let number = entries.next;
        entries.next += 1;
        entries.open.push(Entry { number, name: name.to_owned(), resource });
        Ok(ResourceHandle { number, brand: PhantomData })
    }

    /// The open resources.
    pub fn open(&self) -> Vec<OpenResource> {
        self.lock().open.iter().map(Entry::name_and_kind).collect()
    }

    /// Closes one resource. If it is closed already, that is no error.
    pub fn close(
        &self,
        ticket: ResourceHandle<'rt>,
        info: &Info<Attached, Alive>,
        timeout: Duration,
    ) -> Result<(), CloseError> {
        let Some(mut entry) = self.take(|entry| entry.number == ticket.number) else { return Ok(()) };
        entry.close(info, timeout).inspect_err(|_| self.lock().open.push(entry))
    }

    /// Closes every resource and accepts no new one.
    ///
    /// # Errors
    /// The resources that could not be closed. All others are closed, and new ones are accepted again.
    pub fn close_all(
        &self,
        info: &Info<Attached, Alive>,
        timeout: Duration,
    ) -> Result<AllClosed<'rt>, Vec<CloseError>> {
        self.lock().is_closing = true;
        let mut still_open = Vec::new();
        let mut kept = Vec::new();
        // The order of the kinds: threads first, because they may use the rest; timers before the handlers of their signals.
        while let Some(mut entry) = self.take_first() {
            if let Err(open) = entry.close(info, timeout) {
                still_open.push(open);
                kept.push(entry);
            }
        }
        if kept.is_empty() {
            return Ok(AllClosed(PhantomData));
        }
        let mut entries = self.lock();
        entries.open.append(&mut kept);
        entries.is_closing = false;
        Err(still_open)
    }

    /// After a failed detach: the registry accepts resources again, and the proof is void.
    pub fn reopen(&self, _void: AllClosed<'rt>) {
        self.lock().is_closing = false;
    }

    fn take_first(&self) -> Option<Entry> {
        let first = self.lock().open.iter().map(|entry| (entry.resource.kind(), entry.number)).min()?;
        self.take(|entry| entry.number == first.1)
    }

    /// Removes an entry before it is closed, so that no lock is held: closing may wait for a thread that registers a resource.
    fn take(&self, which: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let mut entries = self.lock();
        let at = entries.open.iter().position(which)?;
        Some(entries.open.remove(at))
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn name_and_kind(&self) -> OpenResource {
        OpenResource { kind: self.resource.kind(), name: self.name.clone() }
    }

    fn close(&mut self, info: &Info<Attached, Alive>, timeout: Duration) -> Result<(), CloseError> {
        self.resource.close(info, timeout).map_err(|why| CloseError { resource: self.name_and_kind(), why })
    }
}
