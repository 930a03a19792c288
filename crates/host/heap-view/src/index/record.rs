//! The record of one object, 64 bytes.
//! ```text
//!  0  address u64              36  step u32: the next object on a shortest path to a root
//!  8  own u64                  40  origin u32: the last object of that path, which a root holds
//! 16  retained u64             44  distance u32: objects on that path, itself included; 0 if no root reaches it
//! 24  type u32                 48  where its children begin u32
//! 28  retained objects u32     52  where its references begin u32
//! 32  dominator u32            56  where its referrers begin u32
//!                              60  kinds of its roots u32: a bit each, by their ids
//! ```

use super::layout::{OBJECT, Section};
use super::{Index, List};
use crate::Error;
use remora_heap::RootKind;

/// Marks no object and no type.
pub(super) const NONE: u32 = u32::MAX;

/// The number of an object, or of another node of the dominator tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(pub(crate) u32);

impl Id {
    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// One node of the dominator tree: an object, mostly.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its address; 0 for other nodes than objects.
    pub address: u64,
    /// Its own size.
    pub own: u64,
    /// Retained size, itself included.
    pub retained: u64,
    /// Number of retained objects.
    pub retained_count: u32,
    /// The index of its type; `None` for other nodes than objects.
    pub type_ix: Option<u32>,
    /// Its dominator; `None` for the root.
    pub dominator: Option<Id>,
    /// Next object on a shortest path to a root.
    pub step: Option<Id>,
    /// Last object of that path.
    pub origin: Option<Id>,
    /// Objects on that path; 0 if no root reaches it.
    pub distance: u32,
    /// Its children in the dominator tree.
    pub children: List,
    /// The targets of its references.
    pub references: List,
    /// Its referrers.
    pub referrers: List,
    /// Kinds of its roots.
    pub roots: Vec<RootKind>,
}

/// The record of an object; its numbers from the type on are in the order of the table.
pub(super) type Raw = super::numbers::Raw<10>;

impl Record {
    /// The first of two records in `bytes`; the second has the ends of the first one's lists.
    pub(super) fn read(bytes: &[u8], index: &Index) -> Result<Record, Error> {
        let (this, next) = bytes.split_at(OBJECT as usize);
        let (this, next) = (Raw::read(this), Raw::read(next));
        let [address, own, retained] = this.sizes;
        let [type_ix, retained_count, dominator, step, origin, distance, .., roots] = this.numbers;
        let id = |number: u32| if number == NONE { Ok(None) } else { index.known(number).map(Some) };
        let list = |section, place: usize| index.list(section, this.numbers[place], next.numbers[place]);
        if type_ix != NONE && type_ix as usize >= index.types().len() {
            return Err(Error::Damaged("it names a type that is not there"));
        }
        Ok(Record {
            address,
            own,
            retained,
            retained_count,
            type_ix: (type_ix != NONE).then_some(type_ix),
            dominator: id(dominator)?,
            step: id(step)?,
            origin: id(origin)?,
            distance,
            children: list(Section::Children, 6)?,
            references: list(Section::References, 7)?,
            referrers: list(Section::Referrers, 8)?,
            roots: RootKind::ALL.iter().copied().filter(|kind| roots & bit(*kind) != 0).collect(),
        })
    }
}

/// The bit of a kind.
pub(super) fn bit(kind: RootKind) -> u32 {
    1 << (kind.id() & 31)
}
