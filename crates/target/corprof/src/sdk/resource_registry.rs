//! The register of everything that may still run the library's code, and the proof that nothing does (contract DET-04).
//!
//! [`AllClosed`] is made here and nowhere else: by a register that has closed each of its entries and takes no new one.
//! Who could come in past it:
//!
//! | way in | without the register |
//! |---|---|
//! | EventPipe session | only by unsafe code |
//! | signal handler, timer, hook | only by unsafe code |
//! | own thread | **`std::thread::spawn` is safe, and is not seen** |
//! | child | **`std::process::Command` is safe, and is not seen** |
//!
//! It cannot see them, as nothing inside the process tells such a thread or child from the application's own: both may come at any time, and
//! the kernel does not say whose code a thread began in. So `AllClosed` is a proof of what was entered, and of nothing else.
//! `remora lab` looks from outside, at a process in which all else is known, and convicts what is left (DET-04).

use super::id::Brand;
use super::resource::{Resource, ResourceKind};
use crate::{Alive, Attached, Info};
use core::fmt;
use core::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An entry of the register, to close it before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceHandle<'rt> {
    number: u64,
    brand: Brand<'rt>,
}

/// Proof that everything in the register is closed: of what is known, nothing but the runtime's own callbacks and the asking thread
/// can run the library's code.
///
/// What it cannot see: threads by `std::thread::spawn`, children by `std::process::Command`, and whatever else was not started through
/// [`Session::start_thread`](super::Session::start_thread), [`Session::register_child`](super::Session::register_child) and their like.
///
/// ```compile_fail,E0423
/// let proof = corprof::sdk::AllClosed(core::marker::PhantomData);
/// ```
#[derive(Debug)]
pub struct AllClosed<'rt>(Brand<'rt>);

/// A way into the library, by its kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenResource {
    /// What it is.
    pub kind: ResourceKind,
    /// What its owner calls it.
    pub name: String,
}

/// A way into the library that could not be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseError {
    /// Which.
    pub resource: OpenResource,
    /// What hinders.
    pub why: String,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} `{}` is still open: {}", self.resource.kind, self.resource.name, self.why)
    }
}

impl core::error::Error for CloseError {}

/// Nothing new is taken while the profiler leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detaching;

impl fmt::Display for Detaching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the profiler is leaving and starts nothing any more; let `run` return only when all is begun")
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

    /// Makes something and enters it, in one step: what is being closed does not grow meanwhile.
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

    /// What is open.
    pub fn open(&self) -> Vec<OpenResource> {
        self.lock().open.iter().map(Entry::name_and_kind).collect()
    }

    /// Closes one entry; one that is closed already is no error.
    pub fn close(
        &self,
        ticket: ResourceHandle<'rt>,
        info: &Info<Attached, Alive>,
        timeout: Duration,
    ) -> Result<(), CloseError> {
        let Some(mut entry) = self.take(|entry| entry.number == ticket.number) else { return Ok(()) };
        entry.close(info, timeout).inspect_err(|_| self.lock().open.push(entry))
    }

    /// Closes every entry and takes no new one.
    ///
    /// # Errors
    /// What could not be closed. All others are; new ones are taken again.
    pub fn close_all(
        &self,
        info: &Info<Attached, Alive>,
        timeout: Duration,
    ) -> Result<AllClosed<'rt>, Vec<CloseError>> {
        self.lock().is_closing = true;
        let mut still_open = Vec::new();
        let mut kept = Vec::new();
        // Threads first, which may use the rest; timers before the handlers that they ring: the order of the kinds.
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

    /// The detach was refused: the register takes entries again, and the proof is void.
    pub fn reopen(&self, _void: AllClosed<'rt>) {
        self.lock().is_closing = false;
    }

    fn take_first(&self) -> Option<Entry> {
        let first = self.lock().open.iter().map(|entry| (entry.resource.kind(), entry.number)).min()?;
        self.take(|entry| entry.number == first.1)
    }

    /// Out of the list before it is closed: who closes may wait for a thread that enters something.
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
