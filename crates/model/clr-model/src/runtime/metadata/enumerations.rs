//! Enumerations of metadata: what HCORENUM stands for.
//!
//! A list is what there was when it was begun. It is no list at all if there was nothing: then nothing has to be closed (source: rwutil.cpp,
//! HENUMInternal; live: tests/conformance/tests/metadata.rs).

use super::Scope;
use super::properties::NO_ROW;
use super::rows::Rows;
use crate::mutation;
use crate::runtime::Runtime;
use crate::runtime::answers::{wanted, write_answers};
use corprof::{HResult, sys};
use std::collections::BTreeMap;

/// Between the numbers of two lists: they look like addresses.
const SPACING: usize = 0x40;
const FIRST: usize = 0x0C00_0000;

/// Those that are open, of all profilers.
#[derive(Default)]
pub(in crate::runtime) struct Lists {
    open: BTreeMap<usize, List>,
    made: usize,
}

struct List {
    tokens: Vec<u32>,
    at: usize,
}

impl Lists {
    fn begin(&mut self, tokens: Vec<u32>) -> usize {
        self.made += 1;
        let number = FIRST + self.made * SPACING;
        self.open.insert(number, List { tokens, at: 0 });
        number
    }
}

impl List {
    fn take(&mut self, room: u32) -> Vec<u32> {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        let taken: Vec<u32> = rest.iter().take(room as usize).copied().collect();
        self.at += taken.len();
        taken
    }
}

impl Runtime {
    /// Does something with a list that is open. What is none, or was closed, is followed in a real process.
    fn with_list<T>(&self, number: usize, act: impl FnOnce(&mut List) -> T) -> Result<T, HResult> {
        let mut lists = self.lists.lock().expect("no panic while locked");
        let found = lists.open.get_mut(&number).map(act);
        drop(lists);
        found.ok_or_else(|| {
            self.faults.report("CAT-09", "a list of metadata that is closed, or none, was read: an access violation");
            HResult::E_INVALIDARG
        })
    }
}

impl Scope {
    /// Begins a list where there is none yet, and gives as much of it as there is room for. `look` finds nothing where there is no such row.
    ///
    /// # Safety
    /// `cursor` leads to a place; `places` has room for so many; `count` is null or a place.
    pub(super) unsafe fn listed(
        &self,
        cursor: *mut sys::HCORENUM,
        (places, room): (*mut u32, u32),
        count: *mut u32,
        look: impl FnOnce(&Rows) -> Option<Vec<u32>>,
    ) -> HResult {
        let Some(runtime) = self.runtime.upgrade() else { return HResult::E_UNEXPECTED };
        if cursor.is_null() {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: not null, and the caller guarantees it.
        let mut number = unsafe { cursor.read() } as usize;
        if number == 0 {
            let tokens = match self.rows().and_then(|rows| look(&rows).ok_or(NO_ROW)) {
                Ok(tokens) => tokens,
                Err(refused) => return refused,
            };
            if tokens.is_empty() {
                write_answers! { count => 0 }
                return HResult::S_FALSE;
            }
            number = runtime.lists.lock().expect("no panic while locked").begin(tokens);
            write_answers! { cursor => number as sys::HCORENUM }
        }
        let taken = match runtime.with_list(number, |list| list.take(room)) {
            Ok(taken) => taken,
            Err(refused) => return refused,
        };
        for (index, token) in taken.iter().enumerate().filter(|_| wanted(places)) {
            // SAFETY: no more are taken than there is room for.
            unsafe { places.add(index).write(*token) };
        }
        write_answers! { count => taken.len() as u32 }
        if taken.is_empty() { HResult::S_FALSE } else { HResult::S_OK }
    }

    /// The same of what there is none of in the model.
    ///
    /// # Safety
    /// As for [`listed`](Self::listed).
    pub(super) unsafe fn none(&self, cursor: *mut sys::HCORENUM, count: *mut u32) -> HResult {
        // SAFETY: the caller guarantees the two places; there is no room to write into.
        unsafe { self.listed(cursor, (std::ptr::null_mut(), 0), count, |_| Some(Vec::new())) }
    }

    /// How many there are in a list; none in none.
    pub(super) fn count_of(&self, list: sys::HCORENUM) -> Result<u32, HResult> {
        if list.is_null() {
            return Ok(0);
        }
        let runtime = self.runtime.upgrade().ok_or(HResult::E_UNEXPECTED)?;
        runtime.with_list(list as usize, |list| list.tokens.len() as u32)
    }

    /// Goes to a place in it.
    pub(super) fn go_to(&self, list: sys::HCORENUM, place: u32) -> Result<(), HResult> {
        if list.is_null() {
            return Ok(());
        }
        let runtime = self.runtime.upgrade().ok_or(HResult::E_UNEXPECTED)?;
        runtime.with_list(list as usize, |list| list.at = place as usize)
    }

    /// Ends it.
    pub(super) fn close(&self, list: sys::HCORENUM) {
        if let Some(runtime) = self.runtime.upgrade().filter(|_| !list.is_null()) {
            if !mutation::is("CAT-09/2") {
                // That it is none is said already.
                let _ = runtime.with_list(list as usize, |_| ());
            }
            runtime.lists.lock().expect("no panic while locked").open.remove(&(list as usize));
        }
    }
}
