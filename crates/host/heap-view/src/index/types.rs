//! The record of one type, 40 bytes.
//! ```text
//!  0  own u64                         24  where its objects begin u32
//!  8  retained u64                    28  where its name begins u32, in the names
//! 16  count u64                       32  where its assembly begins u32, in the names, which ends where the next name begins
//!                                     36  flags u32
//! ```

use super::blocks::Blocks;
use super::layout::{Counts, Section, TYPE};
use crate::Error;
use remora_heap::ambiguous;

/// One type, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeEntry {
    /// The full name, as C# writes it.
    pub name: String,
    /// The simple name of its assembly.
    pub assembly: String,
    /// Number of its objects.
    pub count: u64,
    /// Their own size.
    pub own: u64,
    /// Their retained size.
    pub retained: u64,
    /// Start and end of the list of its objects.
    pub(super) first: (u32, u32),
    /// Whether a type of another assembly has that name, too.
    pub(super) is_ambiguous: bool,
}

impl TypeEntry {
    /// The name for people, like that of reports: with the assembly (`App.Node, Orders`) where the name is ambiguous.
    pub fn shown(&self) -> String {
        if self.is_ambiguous { format!("{}, {}", self.name, self.assembly) } else { self.name.clone() }
    }
}

/// A type as it is in the file.
pub(super) type Raw = super::numbers::Raw<4>;

/// Reads all types.
pub(super) fn read(blocks: &Blocks, counts: Counts) -> Result<Vec<TypeEntry>, Error> {
    let names = blocks.read(counts.range(Section::Names))?;
    let records = blocks.read(counts.range(Section::Types))?;
    let raws: Vec<Raw> = records.chunks_exact(TYPE as usize).map(Raw::read).collect();
    let mut types: Vec<TypeEntry> =
        raws.windows(2).map(|pair| entry(&pair[0], &pair[1], &names)).collect::<Result<_, _>>()?;
    let ambiguous = ambiguous(types.iter().map(|of| (&*of.name, &*of.assembly)));
    types.iter_mut().enumerate().for_each(|(index, of)| of.is_ambiguous = ambiguous.contains(&index));
    Ok(types)
}

fn entry(this: &Raw, next: &Raw, names: &[u8]) -> Result<TypeEntry, Error> {
    let [own, retained, count] = this.sizes;
    let [first, name, assembly, _flags] = this.numbers;
    let text = |begin: u32, end: u32| {
        let bytes = names.get(begin as usize..end as usize).ok_or(Error::Damaged("a name leads out of the names"))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    };
    let (name, assembly) = (text(name, assembly)?, text(assembly, next.numbers[1])?);
    Ok(TypeEntry { name, assembly, count, own, retained, first: (first, next.numbers[0]), is_ambiguous: false })
}
