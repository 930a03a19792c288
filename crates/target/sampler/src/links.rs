//! The link table: for each known return address, the place of the next one.
//!
//! The JIT gives a small method no frame, even if the method calls others. RBP then still points to the frame of an outer caller.
//! The method's own return address lies above its callee's frame; its prolog says how far.
//! The worker reads prologs and fills this table, one word for each return address. The handlers look each frame up.
//! If an address is not in the table, the sample carries a piece of the stack ([`crate::RawSample::windows`]).

use core::sync::atomic::{AtomicU64, Ordering};

/// Words of the table: 256 KiB.
pub const LINK_WORDS: usize = 1 << 15;

/// Entries that an address may use. If all are full, the oldest is dropped.
const WAYS: usize = 4;

const KIND_BITS: u32 = 2;
const FRAMED: u64 = 1;
const FRAMELESS: u64 = 2;
const REPLACED: u64 = 3;
/// Framed, with a bit in the place of the distance.
const NATIVE: u64 = FRAMED | 1 << KIND_BITS;

/// Bits of an entry beside the address: the link.
const KNOWN_BITS: u32 = 16;
const KNOWN: u64 = (1 << KNOWN_BITS) - 1;

/// How the code around a return address keeps its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A method with a frame: follow its saved frame pointer.
    Framed,
    /// Native code: follow its unwind table. Without a table, it is assumed to have a frame.
    Native,
    /// A method without a frame. Its own return address lies above this many bytes of stack.
    Frameless(u64),
    /// The first body of an OSR method (on-stack replacement, .NET 7 and later). Its frame lies this many bytes above its lowest stack
    /// address.
    ///
    /// A long loop in unoptimised code continues in an optimised body, on top of the first body's frame. Its return address is the word
    /// that the first body's helper call left behind. Its saved frame pointer is already the caller's.
    /// So a plain walk finds the method twice and misses its caller.
    /// (Read from the stacks and the code of .NET 8.0.4, 9.0.7 and 10.0.12 with `DOTNET_OSR_HitLimit=1`.)
    Replaced(u64),
}

/// The table. One thread writes, any thread reads.
#[derive(Clone, Copy, Default)]
pub struct Links<'a> {
    sets: &'a [[AtomicU64; WAYS]],
}

impl<'a> Links<'a> {
    /// A view of words. They start as zero.
    pub fn new(entries: &'a [AtomicU64]) -> Self {
        Links { sets: entries.as_chunks().0 }
    }

    /// The link of a return address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<Link> {
        let tag = tag(address)?;
        // An entry of this address loses all its address bits. Any other entry keeps some, and so does an empty one.
        let known =
            self.set(address).iter().map(|entry| entry.load(Ordering::Acquire) ^ tag).find(|left| *left <= KNOWN)?;
        unpack(known)
    }

    /// Adds a link. False if it does not fit into an entry.
    pub fn learn(&self, address: u64, link: Link) -> bool {
        let (Some(known), Some(tag)) = (pack(link), tag(address)) else { return false };
        self.forget(address);
        let set = self.set(address);
        // The others move down, and the oldest drops out.
        let free =
            set.iter().position(|entry| entry.load(Ordering::Relaxed) == 0).unwrap_or(set.len().saturating_sub(1));
        for at in (0..free).rev() {
            if let (Some(from), Some(to)) = (set.get(at), set.get(at + 1)) {
                to.store(from.load(Ordering::Relaxed), Ordering::Release);
            }
        }
        let Some(first) = set.first() else { return false };
        first.store(tag | known, Ordering::Release);
        true
    }

    /// Removes the link of a return address: its code is gone.
    pub fn forget(&self, address: u64) {
        for entry in self.set(address) {
            if is_of(entry.load(Ordering::Relaxed), address) {
                entry.store(0, Ordering::Release);
            }
        }
    }

    /// Removes all links: any code may be gone.
    pub fn clear(&self) {
        self.sets.as_flattened().iter().for_each(|entry| entry.store(0, Ordering::Release));
    }

    #[inline]
    fn set(&self, address: u64) -> &'a [AtomicU64] {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let set = (hash * self.sets.len() as u64) >> 32;
        self.sets.get(set as usize).map_or(&[], |set| set)
    }
}

fn is_of(entry: u64, address: u64) -> bool {
    entry != 0 && Some(entry & !KNOWN) == tag(address)
}

fn tag(address: u64) -> Option<u64> {
    (address >> (64 - KNOWN_BITS) == 0).then_some(address << KNOWN_BITS)
}

fn pack(link: Link) -> Option<u64> {
    let with = |kind: u64, bytes: u64| {
        let words = bytes / 8;
        (bytes.is_multiple_of(8) && words < 1 << (KNOWN_BITS - KIND_BITS)).then_some(words << KIND_BITS | kind)
    };
    match link {
        Link::Framed => Some(FRAMED),
        Link::Native => Some(NATIVE),
        Link::Frameless(bytes) => with(FRAMELESS, bytes),
        Link::Replaced(bytes) => with(REPLACED, bytes),
    }
}

#[inline]
fn unpack(known: u64) -> Option<Link> {
    let bytes = (known >> KIND_BITS) * 8;
    match known & ((1 << KIND_BITS) - 1) {
        FRAMED if known == NATIVE => Some(Link::Native),
        FRAMED => Some(Link::Framed),
        FRAMELESS => Some(Link::Frameless(bytes)),
        REPLACED => Some(Link::Replaced(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn what_was_learnt_is_found_until_it_is_forgotten() {
        let words = words(64);
        let links = Links::new(&words);
        let native = (0x1007, Link::Native);
        let all =
            [(0x7f00_0000_1005, Link::Framed), native, (0x1006, Link::Frameless(40)), (0x2000, Link::Replaced(0x120))];
        for (address, link) in all {
            assert_eq!(links.find(address), None);
            assert!(links.learn(address, link));
            assert_eq!(links.find(address), Some(link));
        }
        links.learn(0x1006, Link::Framed);
        assert_eq!(links.find(0x1006), Some(Link::Framed), "learnt anew");
        links.forget(0x1006);
        assert_eq!((links.find(0x1006), links.find(0x2000)), (None, Some(Link::Replaced(0x120))));
        links.clear();
        assert!(all.iter().all(|(address, _)| links.find(*address).is_none()));
    }

    #[test]
    fn a_full_set_forgets_its_oldest_and_never_mistakes_one_address_for_another() {
        let words = words(WAYS);
        let links = Links::new(&words);
        for address in 1..=6 {
            assert!(links.learn(address, Link::Frameless(address * 8)));
        }
        for address in 1..=2 {
            assert_eq!(links.find(address), None);
        }
        for address in 3..=6 {
            assert_eq!(links.find(address), Some(Link::Frameless(address * 8)));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_a_table_without_places_knows_nothing() {
        let words = words(64);
        let links = Links::new(&words);
        for (address, link) in
            [(0x1000, Link::Frameless(4)), (0x1000, Link::Frameless(1 << 20)), (1 << 48, Link::Framed)]
        {
            assert!(!links.learn(address, link), "{link:?}");
            assert_eq!(links.find(address), None);
        }
        assert!(!Links::default().learn(1, Link::Framed));
        assert_eq!(Links::default().find(0), None);
        assert_eq!(links.find(0), None, "an empty place is of no address");
    }
}
