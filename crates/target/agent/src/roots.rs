//! What the runtime tells of roots in the collection of a snapshot: kept in its callbacks, read by the copy of the process.
//!
//! Callbacks may neither wait nor allocate, and the copy is made at the end of the same collection: so what they tell is put down in
//! memory that was mapped before, and the copy has it. Of that memory only as much is there as roots were told of.

use crate::memory::Mapping;
use remora_sampler::HeapRoot;
use remora_wire::heap::STACK_ROOT;
use std::sync::atomic::{AtomicU64, Ordering};

/// Roots that are kept, at most: 96 MiB, if ever so many are told of.
const MOST_ROOTS: usize = 1 << 22;
/// Words of one.
const WORDS: usize = size_of::<HeapRoot>() / 8;

/// See the module's text.
pub struct Roots {
    places: Mapping,
    /// How many were told of.
    count: AtomicU64,
}

impl Roots {
    /// Room for them, none of which is there yet.
    ///
    /// # Errors
    /// The system's error number.
    pub fn new() -> Result<Roots, i32> {
        Ok(Roots { places: Mapping::anonymous(MOST_ROOTS * size_of::<HeapRoot>())?, count: AtomicU64::new(0) })
    }

    /// The collection begins: what was told before is of another one.
    pub fn begin(&self) {
        self.count.store(0, Ordering::SeqCst);
    }

    /// Keeps one. In callbacks, by several threads at once where the collector has several.
    pub fn keep(&self, root: HeapRoot) {
        let place = self.count.fetch_add(1, Ordering::SeqCst) as usize;
        // SAFETY: kept mapped as long as `self`.
        let words = unsafe { self.places.words() };
        let Some(words) = words.get(place.saturating_mul(WORDS)..).and_then(|words| words.get(..WORDS)) else { return };
        for (word, value) in words.iter().zip([root.kind, root.address, root.detail]) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// The methods whose locals are among them, by FunctionID, each once. Agent's thread, when the collection is over.
    pub fn methods(&self) -> Vec<u64> {
        let told = usize::try_from(self.told()).map_or(MOST_ROOTS, |told| told.min(MOST_ROOTS));
        // SAFETY: kept mapped as long as `self`.
        let words = unsafe { self.places.words() }.get(..told * WORDS).unwrap_or_default();
        let of_stack = words.chunks_exact(WORDS).filter(|root| root[0].load(Ordering::Relaxed) == STACK_ROOT);
        let mut methods: Vec<u64> =
            of_stack.map(|root| root[2].load(Ordering::Relaxed)).filter(|id| *id != 0).collect();
        methods.sort_unstable();
        methods.dedup();
        methods
    }

    /// How many were told of.
    pub fn told(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// How many of them found no room.
    pub fn lost(&self) -> u64 {
        self.told().saturating_sub(MOST_ROOTS as u64)
    }

    /// Those that were kept.
    ///
    /// # Safety
    /// Nobody keeps any more, and `self` is there as long as they are looked at.
    pub unsafe fn all(&self) -> &'static [HeapRoot] {
        // SAFETY: the caller's promise.
        let places: &'static mut [HeapRoot] = unsafe { self.places.exclusive() };
        places.get(..usize::try_from(self.told()).map_or(MOST_ROOTS, |told| told.min(MOST_ROOTS))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gch_02_roots_of_one_collection_are_kept_in_order_and_what_finds_no_room_is_counted() {
        let roots = Roots::new().expect("mapped");
        let root = |number: u64| HeapRoot { kind: 2, address: number, detail: number + 1 };
        roots.keep(root(7));
        roots.begin();
        (1..=3).for_each(|number| roots.keep(root(number)));
        // SAFETY: this thread alone.
        assert_eq!(unsafe { roots.all() }, [root(1), root(2), root(3)]);
        assert_eq!((roots.told(), roots.lost()), (3, 0));
        roots.count.store(MOST_ROOTS as u64, Ordering::SeqCst);
        roots.keep(root(9));
        assert_eq!((roots.told(), roots.lost()), (MOST_ROOTS as u64 + 1, 1));
        // SAFETY: as above.
        assert_eq!(unsafe { roots.all() }.len(), MOST_ROOTS);
    }
}
