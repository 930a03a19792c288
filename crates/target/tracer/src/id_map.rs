//! A map from the runtime's ids to numbers, without locks: callbacks on many threads ask it, some of them while an exception unwinds.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Places that are tried for an id.
const PROBES: usize = 64;

/// At most `N` ids, a power of two. An id that was put in keeps its place: the runtime reuses ids.
pub struct IdMap<const N: usize> {
    keys: [AtomicUsize; N],
    /// One more than the number, 0 for none.
    values: [AtomicU32; N],
}

impl<const N: usize> IdMap<N> {
    /// An empty map.
    pub const fn new() -> IdMap<N> {
        IdMap { keys: [const { AtomicUsize::new(0) }; N], values: [const { AtomicU32::new(0) }; N] }
    }

    /// The number of `id`.
    pub fn get(&self, id: usize) -> Option<u32> {
        for at in places::<N>(id) {
            match self.keys[at].load(Ordering::Acquire) {
                0 => return None,
                key if key == id => return self.values[at].load(Ordering::Acquire).checked_sub(1),
                _ => {}
            }
        }
        None
    }

    /// Puts an id in. Without room the id stays unknown.
    pub fn put(&self, id: usize, number: u32) {
        for at in places::<N>(id) {
            let key = match self.keys[at].compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => id,
                Err(key) => key,
            };
            if key == id {
                return self.values[at].store(number.saturating_add(1), Ordering::Release);
            }
        }
    }

    /// Whether `put` has a place for an id now.
    pub fn has_room(&self, id: usize) -> bool {
        places::<N>(id).any(|at| [0, id].contains(&self.keys[at].load(Ordering::Acquire)))
    }

    /// Forgets the number of an id.
    pub fn forget(&self, id: usize) {
        for at in places::<N>(id) {
            match self.keys[at].load(Ordering::Acquire) {
                0 => return,
                key if key == id => return self.values[at].store(0, Ordering::Release),
                _ => {}
            }
        }
    }
}

fn places<const N: usize>(id: usize) -> impl Iterator<Item = usize> {
    let first = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (0..PROBES).map(move |step| (first + step) & (N - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_numbers_until_they_are_forgotten_and_a_full_map_forgets_new_ones() {
        static MAP: IdMap<128> = IdMap::new();
        for id in 1..=100 {
            MAP.put(id * 16, id as u32);
        }
        let known = (1..=100).filter(|id| MAP.get(id * 16) == Some(*id as u32)).count();
        assert!(known > 90, "{known}");
        MAP.forget(16);
        assert_eq!(MAP.get(16), None);
        MAP.put(16, 7);
        assert_eq!(MAP.get(16), Some(7));
        for id in 1000..2000 {
            MAP.put(id * 16, 1);
        }
        assert_eq!(MAP.get(16), Some(7));
        assert_eq!(MAP.get(3000 * 16), None);
        assert!(MAP.has_room(16) && !MAP.has_room(3000 * 16), "a known id has its own place");
    }
}
