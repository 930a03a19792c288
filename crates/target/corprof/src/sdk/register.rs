//! The register of everything that may still run the library's code, and the proof that nothing does (contract DET-04).
//!
//! [`Deactivated`] is made here and nowhere else: by a register that has closed each of its entries and takes no new one.
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
//! the kernel does not say whose code a thread began in. So `Deactivated` is a proof of what was entered, and of nothing else.
//! `remora lab` looks from outside, at a process in which all else is known, and convicts what is left (DET-04).

use super::id::Brand;
use super::resource::{EntranceKind, Resource};
use crate::{Alive, Attached, Info};
use core::fmt;
use core::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An entry of the register, to close it before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket<'rt> {
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
/// let proof = corprof::sdk::Deactivated(core::marker::PhantomData);
/// ```
#[derive(Debug)]
pub struct Deactivated<'rt>(Brand<'rt>);

/// A way into the library, by its kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entrance {
    /// What it is.
    pub kind: EntranceKind,
    /// What its owner calls it.
    pub name: String,
}

/// A way into the library that could not be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillOpen {
    /// Which.
    pub entrance: Entrance,
    /// What hinders.
    pub why: String,
}

impl fmt::Display for StillOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} `{}` is still open: {}", self.entrance.kind, self.entrance.name, self.why)
    }
}

impl core::error::Error for StillOpen {}

/// Nothing new is taken while the profiler leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving;

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the profiler is leaving and starts nothing any more; let `run` return only when all is begun")
    }
}

impl core::error::Error for Leaving {}

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

pub(super) struct Register<'rt> {
    entries: Mutex<Entries>,
    brand: Brand<'rt>,
}

impl<'rt> Register<'rt> {
    pub fn new() -> Register<'rt> {
        Register { entries: Mutex::default(), brand: PhantomData }
    }

    /// Makes something and enters it, in one step: what is being closed does not grow meanwhile.
    pub fn enter<E: From<Leaving>>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Resource, E>,
    ) -> Result<Ticket<'rt>, E> {
        let mut entries = self.lock();
        if entries.is_closing {
            return Err(Leaving.into());
        }
        let resource = make()?;
        let number = entries.next;
        entries.next += 1;
        entries.open.push(Entry { number, name: name.to_owned(), resource });
        Ok(Ticket { number, brand: PhantomData })
    }

    /// What is open.
    pub fn open(&self) -> Vec<Entrance> {
        self.lock().open.iter().map(Entry::entrance).collect()
    }

    /// Closes one entry; one that is closed already is no error.
    pub fn close(
        &self,
        ticket: Ticket<'rt>,
        info: &Info<Attached, Alive>,
        patience: Duration,
    ) -> Result<(), StillOpen> {
        let Some(mut entry) = self.take(|entry| entry.number == ticket.number) else { return Ok(()) };
        entry.close(info, patience).inspect_err(|_| self.lock().open.push(entry))
    }

    /// Closes every entry and takes no new one.
    ///
    /// # Errors
    /// What could not be closed. All others are; new ones are taken again.
    pub fn deactivate(
        &self,
        info: &Info<Attached, Alive>,
        patience: Duration,
    ) -> Result<Deactivated<'rt>, Vec<StillOpen>> {
        self.lock().is_closing = true;
        let mut still_open = Vec::new();
        let mut kept = Vec::new();
        // Threads first, which may use the rest; timers before the handlers that they ring: the order of the kinds.
        while let Some(mut entry) = self.take_first() {
            if let Err(open) = entry.close(info, patience) {
                still_open.push(open);
                kept.push(entry);
            }
        }
        if kept.is_empty() {
            return Ok(Deactivated(PhantomData));
        }
        let mut entries = self.lock();
        entries.open.append(&mut kept);
        entries.is_closing = false;
        Err(still_open)
    }

    /// The detach was refused: the register takes entries again, and the proof is void.
    pub fn reopen(&self, _void: Deactivated<'rt>) {
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
    fn entrance(&self) -> Entrance {
        Entrance { kind: self.resource.kind(), name: self.name.clone() }
    }

    fn close(&mut self, info: &Info<Attached, Alive>, patience: Duration) -> Result<(), StillOpen> {
        self.resource.close(info, patience).map_err(|why| StillOpen { entrance: self.entrance(), why })
    }
}
