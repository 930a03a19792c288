//! The metadata of the model's modules, as IMetaDataImport2, IMetaDataAssemblyImport, IMetaDataEmit2, IMetaDataAssemblyEmit and
//! IMetaDataTables2.
//!
//! `slots.rs` has every method; `members.rs`, `lookups.rs`, `attributes.rs` and `tables.rs` answer them. `rows.rs` has a module's rows,
//! `schema.rs` the tables' columns, and `heaps.rs` names and signatures at their addresses; `built.rs` keeps both for the next call. What a compiler has written is in
//! `metadata_contents`. `enumerations.rs` has the enumerations, and `names.rs` the truncation of names.
//! Codes and out values are those of live runtimes (tests/conformance/tests/metadata.rs and metadata_contents.rs; source: md/compiler).
//!
//! In a module without contents, a method has a row from its compilation or first call on; a method that never runs does not exist
//! there, and no class has other members. What a profiler adds gets a token and no content.

#![allow(non_snake_case, reason = "the arguments have the names of cor.h")]

mod attributes;
mod built;
mod codes;
mod dispenser;
mod enumerations;
mod heaps;
mod lookups;
mod members;
mod names;
mod properties;
mod rows;
mod schema;
mod slots;
mod tables;

pub(super) use built::Built;
pub(super) use dispenser::Dispenser;
pub(super) use enumerations::Lists;

use super::code::ModuleId;
use super::{Profiler, Runtime, Status, info};
use crate::lab::monitor;
use crate::mutation;
use crate::schedule;
use corprof::{HResult, sys};
use heaps::Heaps;
use remora_clr_abi::{Live, MetadataObject, Slot};
use rows::Rows;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Bytes at their addresses, by table, row and content: a row changes when its module grows.
type RowBytes = BTreeMap<(u32, u32, Vec<u8>), Box<[u8]>>;

/// Who opened metadata.
enum Opener {
    /// One profiler, through Info.
    Profiler(Weak<Profiler>),
    /// Whoever has a dispenser. What it opens belongs to no profiler, and outlives its module: these are the rows that were last read.
    Dispenser(Mutex<Option<Arc<Rows>>>),
}

/// A module's metadata, opened by one profiler.
struct Scope {
    runtime: Weak<Runtime>,
    opener: Opener,
    module: ModuleId,
    /// The module's, kept while the metadata is open: calls return addresses in them.
    heaps: Arc<Mutex<Heaps>>,
    /// The bytes of rows that were returned as addresses.
    row_bytes: Mutex<RowBytes>,
}

impl Runtime {
    /// Opens a module's metadata and asks it for an interface.
    ///
    /// # Safety
    /// The profiler's identifier and place for the answer; the place is not null.
    pub(super) unsafe fn open_metadata(
        self: &Arc<Self>,
        profiler: &Arc<Profiler>,
        module: ModuleId,
        interface: sys::REFIID,
        place: *mut *mut sys::IUnknown,
    ) -> HResult {
        // SAFETY: the caller guarantees the identifier and the place.
        unsafe { self.open(Opener::Profiler(Arc::downgrade(profiler)), &profiler.metadata, module, interface, place) }
    }

    /// The same for anybody.
    ///
    /// # Safety
    /// The caller's identifier and place for the answer; the place is not null.
    unsafe fn open(
        self: &Arc<Self>,
        opener: Opener,
        live: &Live,
        module: ModuleId,
        interface: sys::REFIID,
        place: *mut *mut sys::IUnknown,
    ) -> HResult {
        let (heaps, row_bytes) = (self.lock().heaps_of(module), Mutex::default());
        let scope = Scope { runtime: Arc::downgrade(self), opener, module, heaps, row_bytes };
        let object = MetadataObject::create(scope, live);
        // SAFETY: the object was made above with a reference; the caller guarantees the identifier and the place.
        let code = unsafe { sys::IUnknown::QueryInterface(object, interface, place.cast()) };
        // SAFETY: releases the reference of the object's creation.
        unsafe { sys::IUnknown::Release(object) };
        HResult(code)
    }

    /// Reports the metadata that a profiler has open when it requests its detach (contract DET-20). A callback on another thread may use it
    /// and close it before it returns: the runtime waits for that one, so [`Runtime::check_kept_metadata`] judges.
    pub(super) fn check_open_metadata(&self, profiler: &Profiler) {
        if profiler.metadata.count() == 0 || mutation::is("DET-20/3") {
            return;
        }
        if profiler.runs_beside(schedule::current()) {
            return monitor::remark(
                "DET-20",
                "metadata was open in a callback of another thread when the detach was asked for",
            );
        }
        profiler.lock().open_metadata_is_reported = true;
        self.faults.report("DET-20", "metadata was still open when the detach was asked for");
    }

    /// Reports the metadata that is open after all callbacks have returned.
    pub(super) fn check_kept_metadata(&self, profiler: &Profiler) {
        let is_kept = profiler.metadata.count() > 0 && !profiler.lock().open_metadata_is_reported;
        if is_kept && !mutation::is("DET-20/3") {
            self.faults.report("DET-20", "metadata was still open when every callback had returned");
        }
    }
}

impl Scope {
    /// Checks the caller, whatever it calls. After an accepted detach, only a callback that still runs may call.
    fn check_caller(&self, slot: Slot) -> Result<Arc<Runtime>, HResult> {
        let runtime = self.runtime()?;
        let Opener::Profiler(profiler) = &self.opener else { return Ok(runtime) };
        let profiler = profiler.upgrade().ok_or(HResult::E_UNEXPECTED)?;
        let is_late = match profiler.status() {
            Status::Gone => !mutation::is("DET-20/2"),
            Status::Detaching => !profiler.runs_on(schedule::current()) && !mutation::is("DET-20/4"),
            _ => false,
        };
        if is_late {
            let what = format!("{} of metadata was called after the detach was accepted", slot.name);
            runtime.faults.report("DET-20", what);
        }
        Ok(runtime)
    }

    fn runtime(&self) -> Result<Arc<Runtime>, HResult> {
        self.runtime.upgrade().ok_or(HResult::E_UNEXPECTED)
    }

    /// The module's current rows. They lie in the module's image, and disappear with it, unless they are those of its file.
    fn rows(&self) -> Result<Arc<Rows>, HResult> {
        let runtime = self.runtime()?;
        let read = runtime.lock().rows_of(self.module);
        let Opener::Dispenser(last) = &self.opener else {
            return read.ok_or_else(|| info::stale(&runtime, "module", "metadata"));
        };
        let mut last = last.lock().expect("no panic while locked");
        if read.is_some() {
            *last = read;
        }
        last.clone().ok_or(HResult::E_UNEXPECTED)
    }

    fn heaps(&self) -> MutexGuard<'_, Heaps> {
        self.heaps.lock().expect("no panic while locked")
    }
}
