//! The unwind table of native modules. The collector compiles it, the signal handlers read it.
//!
//! | words | content |
//! |---|---|
//! | 1 | how many words follow |
//! | 1 | how many modules |
//! | 4 a module | first address, address after the last, base of its rows, place of its rows |
//! | 1 a row | first address relative to the base in the upper half, [`Rule`] in the lower |
//!
//! Modules are sorted by address and do not overlap. Rows of a module are sorted; each is valid up to the next one.

/// Words before the first module.
pub const HEADER: usize = 2;

/// Words of a module.
pub const MODULE: usize = 4;

/// Bytes of a table, at most.
pub const MAXIMUM_BYTES: u64 = 64 << 20;

/// Nearly all functions of the module keep a frame pointer: only a leaf needs its rows.
const FRAMED: u64 = 1 << 63;

/// How to get from a frame to its caller. The caller's stack pointer is the CFA, and the return address lies below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Unknown.
    Unknown,
    /// The CFA is the stack pointer plus `cfa`; RBP was saved `saved` bytes below the CFA, or not at all (0).
    Stack {
        /// Bytes.
        cfa: u32,
        /// Bytes.
        saved: u32,
    },
    /// The same with RBP instead of the stack pointer.
    Frame {
        /// Bytes.
        cfa: u32,
        /// Bytes.
        saved: u32,
    },
    /// The CFA lies 8 bytes above the address stored at the stack pointer plus `at`. RBP as in [`Rule::Stack`].
    Stored {
        /// Bytes.
        at: u32,
        /// Bytes.
        saved: u32,
    },
    /// A realigned stack: the CFA was stored `below` bytes below RBP, and the old RBP at RBP.
    Realigned {
        /// Bytes.
        below: u32,
    },
    /// An entry of the procedure linkage table: from byte `pushed` of its 16 on, it has pushed a word.
    Linkage {
        /// Bytes.
        pushed: u32,
    },
    /// The kernel's signal frame: the interrupted registers are at the stack pointer.
    Signal,
    /// No caller: a thread begins here.
    End,
}

/// Bits for the distance of the saved RBP, in words. The bits of the other distance are below them.
const SAVED_BITS: u32 = 13;
const DISTANCE_BITS: u32 = 16;

impl Rule {
    /// The rule as a number; [`Rule::Unknown`] if it does not fit.
    pub fn encode(self) -> u32 {
        let (kind, distance, saved) = match self {
            Rule::Unknown => (0, 0, 0),
            Rule::Stack { cfa, saved } => (1, cfa, saved),
            Rule::Frame { cfa, saved } => (2, cfa, saved),
            Rule::Stored { at, saved } => (3, at, saved),
            Rule::Realigned { below } => (4, below, 0),
            Rule::Linkage { pushed } => (5, pushed * 8, 0),
            Rule::Signal => (6, 0, 0),
            Rule::End => (7, 0, 0),
        };
        let fits = distance % 8 == 0
            && saved % 8 == 0
            && distance >> (DISTANCE_BITS + 3) == 0
            && saved >> (SAVED_BITS + 3) == 0;
        if fits { kind << (SAVED_BITS + DISTANCE_BITS) | (saved / 8) << DISTANCE_BITS | (distance / 8) } else { 0 }
    }

    /// The rule of a number. Every number is a rule.
    pub fn decode(number: u32) -> Rule {
        let distance = (number & ((1 << DISTANCE_BITS) - 1)) * 8;
        let saved = (number >> DISTANCE_BITS & ((1 << SAVED_BITS) - 1)) * 8;
        match number >> (SAVED_BITS + DISTANCE_BITS) {
            1 => Rule::Stack { cfa: distance, saved },
            2 => Rule::Frame { cfa: distance, saved },
            3 => Rule::Stored { at: distance, saved },
            4 => Rule::Realigned { below: distance },
            5 => Rule::Linkage { pushed: distance / 8 },
            6 => Rule::Signal,
            7 => Rule::End,
            _ => Rule::Unknown,
        }
    }
}

/// A row: its first address, relative to the module's base, and its rule.
pub fn row(start: u32, rule: Rule) -> u64 {
    u64::from(start) << 32 | u64::from(rule.encode())
}

/// A module's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// First address of its code.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// The address that its rows are relative to.
    pub base: u64,
    /// Index of its first row.
    pub first: u32,
    /// How many rows it has; 0 if its file has no unwind table.
    pub count: u32,
    /// Whether nearly all its functions keep a frame pointer.
    pub framed: bool,
}

impl Module {
    /// The words of the entry.
    pub fn encode(&self) -> [u64; MODULE] {
        let framed = if self.framed { FRAMED } else { 0 };
        [self.start, self.end, self.base, framed | u64::from(self.count) << 32 | u64::from(self.first)]
    }

    /// Reads an entry.
    pub fn decode(words: &[u64; MODULE]) -> Module {
        let [start, end, base, place] = *words;
        let count = ((place & !FRAMED) >> 32) as u32;
        Module { start, end, base, first: place as u32, count, framed: place & FRAMED != 0 }
    }
}

/// The words of a whole table; `rows` are those of all modules.
pub fn encode(modules: &[Module], rows: &[u64]) -> Vec<u64> {
    let follow = 1 + modules.len() * MODULE + rows.len();
    let mut words = Vec::with_capacity(1 + follow);
    words.extend([follow as u64, modules.len() as u64]);
    modules.iter().for_each(|module| words.extend(module.encode()));
    words.extend(rows);
    words
}

/// Whether the words after the first form a table as this module describes it. A search relies on that.
pub fn is_sound(words: &[u64]) -> bool {
    let Some((&count, rest)) = words.split_first() else { return false };
    let Some((modules, rows)) = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(MODULE))
        .and_then(|length| rest.split_at_checked(length))
    else {
        return false;
    };
    let (modules, _) = modules.as_chunks::<MODULE>();
    let mut before = 0;
    modules.iter().map(Module::decode).all(|module| {
        let apart = before <= module.start && module.start < module.end;
        before = module.end;
        let own = (module.first as usize)
            .checked_add(module.count as usize)
            .and_then(|end| rows.get(module.first as usize..end));
        apart && own.is_some_and(|rows| rows.is_sorted_by(|a, b| a >> 32 < b >> 32))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_comes_back_and_one_that_does_not_fit_is_unknown() {
        for rule in [
            Rule::Unknown,
            Rule::Stack { cfa: 8, saved: 0 },
            Rule::Stack { cfa: 0x7_fff8, saved: 0xfff8 },
            Rule::Frame { cfa: 16, saved: 16 },
            Rule::Stored { at: 88, saved: 16 },
            Rule::Realigned { below: 8 },
            Rule::Linkage { pushed: 11 },
            Rule::Signal,
            Rule::End,
        ] {
            assert_eq!(Rule::decode(rule.encode()), rule);
        }
        for rule in [
            Rule::Stack { cfa: 12, saved: 0 },
            Rule::Stack { cfa: 8, saved: 4 },
            Rule::Frame { cfa: 0x8_0000, saved: 0 },
        ] {
            assert_eq!(Rule::decode(rule.encode()), Rule::Unknown);
        }
    }

    #[test]
    fn a_table_is_sound_and_a_damaged_one_is_not() {
        let module =
            |start, first, count| Module { start, end: start + 0x100, base: start, first, count, framed: false };
        let rows = [row(0, Rule::End), row(8, Rule::Signal), row(4, Rule::Unknown)];
        let sound = |modules: &[Module]| is_sound(&encode(modules, &rows)[1..]);
        assert!(sound(&[module(0x1000, 0, 2), module(0x1100, 2, 1)]));
        assert!(!sound(&[module(0x1000, 0, 3)]), "rows out of order");
        assert!(!sound(&[module(0x1000, 2, 2)]), "rows that are not there");
        assert!(!sound(&[module(0x1000, 0, 1), module(0x10ff, 0, 1)]), "modules overlap");
        assert!(!is_sound(&[]) && !is_sound(&[1]) && !is_sound(&[u64::MAX, 0]));
    }
}
