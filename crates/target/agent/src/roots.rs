//! The roots that the runtime reports in the GC of a snapshot: stored in its callbacks, read by the forked copy.
//!
//! Callbacks may neither wait nor allocate, so they store roots in memory that was mapped before. The copy is forked at the end of the same
//! GC, so it has that memory. Only the pages with roots exist.

use remora_connection::Mapping;
use remora_heap_stream::STACK_ROOT;
use remora_sampler::HeapRoot;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum of stored roots: 96 MiB.
const MOST_ROOTS: usize = 1 << 22;
/// Words of one root.
const WORDS: usize = size_of::<HeapRoot>() / 8;

/// See the module documentation.
pub struct Roots {
    places: Mapping,
    /// The number of reported roots.
    count: AtomicU64,
}

impl Roots {
    /// Maps room for the roots; a page exists once it is touched.
    ///
    /// # Errors
    /// The system's error number.
    pub fn new() -> Result<Roots, i32> {
        Ok(Roots { places: Mapping::anonymous(MOST_ROOTS * size_of::<HeapRoot>())?, count: AtomicU64::new(0) })
    }

    /// A GC begins: discards the roots of the previous one.
    pub fn begin(&self) {
        self.count.store(0, Ordering::SeqCst);
    }

    /// Stores one root. Called in callbacks, by several threads at once if the GC has several.
    pub fn keep(&self, root: HeapRoot) {
        let place = self.count.fetch_add(1, Ordering::SeqCst) as usize;
        // SAFETY: `self` keeps the mapping, and the words do not leave this function.
        let words = unsafe { self.places.words() };
        let Some(words) = words.get(place.saturating_mul(WORDS)..).and_then(|words| words.get(..WORDS)) else { return };
        for (word, value) in words.iter().zip([root.kind, root.address, root.detail]) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// The FunctionIDs of the methods with locals among the roots, each once. Called by the worker after the GC.
    pub fn methods(&self) -> Vec<u64> {
        let reported = usize::try_from(self.reported()).map_or(MOST_ROOTS, |reported| reported.min(MOST_ROOTS));
        // SAFETY: `self` keeps the mapping, and the words do not leave this function.
        let words = unsafe { self.places.words() }.get(..reported * WORDS).unwrap_or_default();
        let of_stack = words.chunks_exact(WORDS).filter(|root| root[0].load(Ordering::Relaxed) == STACK_ROOT);
        let mut methods: Vec<u64> =
            of_stack.map(|root| root[2].load(Ordering::Relaxed)).filter(|id| *id != 0).collect();
        methods.sort_unstable();
        methods.dedup();
        methods
    }

    /// How many roots the runtime reported.
    pub fn reported(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// How many of them found no room.
    pub fn lost(&self) -> u64 {
        self.reported().saturating_sub(MOST_ROOTS as u64)
    }

    /// The stored roots.
    ///
    /// # Safety
    /// Nothing stores roots any more, and `self` outlives the result.
    pub unsafe fn all(&self) -> &'static [HeapRoot] {
        // SAFETY: the caller ensures that nothing stores roots, and that `self` outlives the slice.
        let places: &'static mut [HeapRoot] = unsafe { self.places.exclusive() };
        places
            .get(..usize::try_from(self.reported()).map_or(MOST_ROOTS, |reported| reported.min(MOST_ROOTS)))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_one_collection_are_kept_in_order_and_what_finds_no_room_is_counted() {
        let roots = Roots::new().expect("mapped");
        let root = |number: u64| HeapRoot { kind: 2, address: number, detail: number + 1 };
        roots.keep(root(7));
        roots.begin();
        (1..=3).for_each(|number| roots.keep(root(number)));
        // SAFETY: only this thread uses `roots`, which outlives the slice.
        assert_eq!(unsafe { roots.all() }, [root(1), root(2), root(3)]);
        assert_eq!((roots.reported(), roots.lost()), (3, 0));
        roots.count.store(MOST_ROOTS as u64, Ordering::SeqCst);
        roots.keep(root(9));
        assert_eq!((roots.reported(), roots.lost()), (MOST_ROOTS as u64 + 1, 1));
        // SAFETY: only this thread uses `roots`, which outlives the slice.
        assert_eq!(unsafe { roots.all() }.len(), MOST_ROOTS);
    }
}
