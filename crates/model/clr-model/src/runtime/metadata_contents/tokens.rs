//! Kinds of metadata tokens, and the tokens that every module has.

/// Token kinds, and the bits of a token with its row (source: corhdr.h). Tables without tokens have theirs, too: the table's number.
pub(in crate::runtime) const MODULE: u32 = 0x0000_0000;
pub(in crate::runtime) const TYPE_REFERENCE: u32 = 0x0100_0000;
pub(in crate::runtime) const TYPE: u32 = 0x0200_0000;
pub(in crate::runtime) const FIELD: u32 = 0x0400_0000;
pub(in crate::runtime) const METHOD: u32 = 0x0600_0000;
pub(in crate::runtime) const PARAMETER: u32 = 0x0800_0000;
pub(in crate::runtime) const IMPLEMENTED: u32 = 0x0900_0000;
pub(in crate::runtime) const MEMBER_REFERENCE: u32 = 0x0A00_0000;
pub(in crate::runtime) const CONSTANT: u32 = 0x0B00_0000;
pub(in crate::runtime) const ATTRIBUTE: u32 = 0x0C00_0000;
pub(in crate::runtime) const SIGNATURE: u32 = 0x1100_0000;
pub(in crate::runtime) const EVENT_MAP: u32 = 0x1200_0000;
pub(in crate::runtime) const EVENT: u32 = 0x1400_0000;
pub(in crate::runtime) const PROPERTY_MAP: u32 = 0x1500_0000;
pub(in crate::runtime) const PROPERTY: u32 = 0x1700_0000;
pub(in crate::runtime) const SEMANTICS: u32 = 0x1800_0000;
pub(in crate::runtime) const MODULE_REFERENCE: u32 = 0x1A00_0000;
pub(in crate::runtime) const TYPE_SPEC: u32 = 0x1B00_0000;
pub(in crate::runtime) const ASSEMBLY: u32 = 0x2000_0000;
pub(in crate::runtime) const ASSEMBLY_REFERENCE: u32 = 0x2300_0000;
pub(in crate::runtime) const RESOURCE: u32 = 0x2800_0000;
pub(in crate::runtime) const NESTED: u32 = 0x2900_0000;
pub(in crate::runtime) const TYPE_PARAMETER: u32 = 0x2A00_0000;
pub(in crate::runtime) const METHOD_SPEC: u32 = 0x2B00_0000;
pub(in crate::runtime) const CONSTRAINT: u32 = 0x2C00_0000;
pub(in crate::runtime) const TEXT: u32 = 0x7000_0000;
const KIND: u32 = 0xFF00_0000;
pub(in crate::runtime) const ROW: u32 = !KIND;

/// The type of members without a type: always the first row.
pub(in crate::runtime) const NO_TYPE: u32 = TYPE | 1;
/// Address of the one IL body that all methods have.
pub(in crate::runtime) const ADDRESS: u32 = 0x2050;

/// The kind of a token.
pub(in crate::runtime) fn kind_of(token: u32) -> u32 {
    token & KIND
}

/// The row of a token.
pub(in crate::runtime) fn row_of(token: u32) -> u32 {
    token & ROW
}
