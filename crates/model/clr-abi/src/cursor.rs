//! A list read in pieces through a shared reference, behind every enumerator.

use core::sync::atomic::{AtomicUsize, Ordering};
use corprof::{HResult, sys};

/// The items and the position of the next one.
pub(crate) struct Cursor<T> {
    items: Vec<T>,
    next: AtomicUsize,
}

impl<T: Clone> Cursor<T> {
    /// At the start of `items`.
    pub(crate) fn new(items: Vec<T>) -> Self {
        Cursor { items, next: AtomicUsize::new(0) }
    }

    /// A copy that begins at the start.
    pub(crate) fn at_the_start(&self) -> Self {
        Cursor::new(self.items.clone())
    }

    /// A copy that begins at the current position.
    pub(crate) fn at_the_same_place(&self) -> Self {
        Cursor { items: self.items.clone(), next: AtomicUsize::new(self.next.load(Ordering::Acquire)) }
    }

    /// Items that remain.
    pub(crate) fn left(&self) -> usize {
        self.items.len().saturating_sub(self.next.load(Ordering::Acquire))
    }

    /// Takes up to `count` items.
    pub(crate) fn take(&self, count: usize) -> &[T] {
        let after = |next: usize| next.saturating_add(count).min(self.items.len());
        let from = self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| Some(after(next)));
        let from = from.unwrap_or_else(|same| same);
        self.items.get(from..after(from)).unwrap_or(&[])
    }

    /// Back to the start.
    pub(crate) fn reset(&self) {
        self.next.store(0, Ordering::Release);
    }
}

/// `S_FALSE` for fewer items than requested.
pub(crate) fn satisfied(done: usize, count: u32) -> sys::HRESULT {
    if done < count as usize { HResult::S_FALSE.0 } else { HResult::S_OK.0 }
}
