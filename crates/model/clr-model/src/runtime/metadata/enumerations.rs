//! Enumerations of metadata behind HCORENUM.
//!
//! A list is a snapshot from its start. An empty list does not exist and needs no closing (source: rwutil.cpp, HENUMInternal; live:
//! tests/conformance/tests/metadata.rs).

use super::Scope;
use super::codes::NO_ROW;
use super::rows::Rows;
use crate::mutation;
use crate::runtime::Runtime;
use crate::runtime::answers::{wanted, write_answers};
use crate::runtime::info::{invalid_if, refuse_if};
use corprof::{HResult, sys};
use remora_clr_abi::Answer;
use std::collections::BTreeMap;

/// The distance between two list numbers, which look like addresses.
const SPACING: usize = 0x40;
const FIRST: usize = 0x0C00_0000;
/// A profiler that never closes its lists gets no further one. A live runtime would run out of memory.
const MOST_OPEN: usize = 10_000;

/// The open lists of all profilers.
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
    /// The number of a new list; E_OUTOFMEMORY if [`MOST_OPEN`] are open.
    fn begin(&mut self, tokens: Vec<u32>) -> Result<usize, HResult> {
        refuse_if(self.open.len() >= MOST_OPEN, HResult::E_OUTOFMEMORY)?;
        self.made += 1;
        let number = FIRST + self.made * SPACING;
        self.open.insert(number, List { tokens, at: 0 });
        Ok(number)
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
    /// Uses an open list. A real process would follow an invalid or closed one.
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
    /// Starts a list if there is none yet, and returns as many items as fit. `look` returns `None` if the row does not exist.
    ///
    /// # Safety
    /// `cursor` is a valid place; `places` has room for the stated number; `count` is null or a place.
    pub(super) unsafe fn listed(
        &self,
        cursor: *mut sys::HCORENUM,
        (places, room): (*mut u32, u32),
        count: *mut u32,
        look: impl FnOnce(&Rows) -> Option<Vec<u32>>,
    ) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(cursor.is_null())?;
        // SAFETY: not null, so the caller guarantees a valid place.
        let mut number = unsafe { cursor.read_unaligned() } as usize;
        if number == 0 {
            let tokens = look(&*self.rows()?).ok_or(NO_ROW)?;
            if tokens.is_empty() {
                write_answers! { count => 0 }
                return Ok(HResult::S_FALSE);
            }
            number = runtime.lists.lock().expect("no panic while locked").begin(tokens)?;
            write_answers! { cursor => number as sys::HCORENUM }
        }
        let taken = runtime.with_list(number, |list| list.take(room))?;
        for (index, token) in taken.iter().enumerate().filter(|_| wanted(places)) {
            // SAFETY: `take` returns no more items than there is room for.
            unsafe { places.add(index).write_unaligned(*token) };
        }
        write_answers! { count => taken.len() as u32 }
        Ok(if taken.is_empty() { HResult::S_FALSE } else { HResult::S_OK })
    }

    /// The number of items in a list; 0 without a list.
    pub(super) fn count_of(&self, list: sys::HCORENUM) -> Result<u32, HResult> {
        if list.is_null() {
            return Ok(0);
        }
        self.runtime()?.with_list(list as usize, |list| list.tokens.len() as u32)
    }

    /// Moves to a position in the list.
    pub(super) fn go_to(&self, list: sys::HCORENUM, place: u32) -> Result<(), HResult> {
        if list.is_null() {
            return Ok(());
        }
        self.runtime()?.with_list(list as usize, |list| list.at = place as usize)
    }

    /// Closes the list.
    pub(super) fn close(&self, list: sys::HCORENUM) {
        if let Some(runtime) = self.runtime.upgrade().filter(|_| !list.is_null()) {
            if !mutation::is("CAT-09/2") {
                // `with_list` has already reported an invalid list.
                let _ = runtime.with_list(list as usize, |_| ());
            }
            runtime.lists.lock().expect("no panic while locked").open.remove(&(list as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_that_closes_no_list_gets_no_further_one_at_the_limit() {
        let mut lists = Lists::default();
        let numbers: Vec<_> = (0..MOST_OPEN).map(|_| lists.begin(vec![1]).expect("below the limit")).collect();
        assert_eq!(lists.begin(vec![1]), Err(HResult::E_OUTOFMEMORY));
        lists.open.remove(&numbers[0]);
        assert!(lists.begin(vec![1]).is_ok());
    }
}
