//! The columns of every metadata table, as data: ECMA-335 II.22 and the portable PDB tables 0x30 to 0x37.
//!
//! It lists all tables, even unused ones, because the offset of a table is the sum of the sizes before it.

/// A metadata table used for names or lines, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Table {
    Module = 0x00,
    TypeRef = 0x01,
    TypeDef = 0x02,
    FieldPtr = 0x03,
    Field = 0x04,
    MethodPtr = 0x05,
    MethodDef = 0x06,
    ParamPtr = 0x07,
    Param = 0x08,
    MemberRef = 0x0a,
    Constant = 0x0b,
    CustomAttribute = 0x0c,
    ClassLayout = 0x0f,
    FieldLayout = 0x10,
    EventMap = 0x12,
    EventPtr = 0x13,
    Event = 0x14,
    TypeSpec = 0x1b,
    Assembly = 0x20,
    AssemblyRef = 0x23,
    ExportedType = 0x27,
    NestedClass = 0x29,
    GenericParam = 0x2a,
    Document = 0x30,
    MethodDebugInformation = 0x31,
    StateMachineMethod = 0x36,
}

/// The contents of a column, which determine its width.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// An offset into the strings heap.
    Strings,
    /// An index into the guid heap.
    Guids,
    /// An offset into the blob heap.
    Blobs,
    /// A row of one table.
    Row(u8),
    /// A row of one of several tables: the number of tag bits, and the tables.
    Coded(u32, &'static [u8]),
}

use Column::{Blobs, Coded, Four, Guids, Row, Strings, Two};

const TYPE_DEF_OR_REF: Column = Coded(2, &[0x02, 0x01, 0x1b]);
const HAS_CONSTANT: Column = Coded(2, &[0x04, 0x08, 0x17]);
const HAS_CUSTOM_ATTRIBUTE: Column = Coded(
    5,
    &[
        0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27,
        0x28, 0x2a, 0x2c, 0x2b,
    ],
);
const HAS_FIELD_MARSHAL: Column = Coded(1, &[0x04, 0x08]);
const HAS_DECL_SECURITY: Column = Coded(2, &[0x02, 0x06, 0x20]);
const MEMBER_REF_PARENT: Column = Coded(3, &[0x02, 0x01, 0x1a, 0x06, 0x1b]);
const HAS_SEMANTICS: Column = Coded(1, &[0x14, 0x17]);
const METHOD_DEF_OR_REF: Column = Coded(1, &[0x06, 0x0a]);
const MEMBER_FORWARDED: Column = Coded(1, &[0x04, 0x06]);
const IMPLEMENTATION: Column = Coded(2, &[0x26, 0x23, 0x27]);
const CUSTOM_ATTRIBUTE_TYPE: Column = Coded(3, &[0x06, 0x0a]);
const RESOLUTION_SCOPE: Column = Coded(2, &[0x00, 0x1a, 0x23, 0x01]);
const TYPE_OR_METHOD_DEF: Column = Coded(1, &[0x02, 0x06]);
const HAS_CUSTOM_DEBUG_INFORMATION: Column = Coded(
    5,
    &[
        0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27,
        0x28, 0x2a, 0x2c, 0x2b, 0x30, 0x32, 0x33, 0x34, 0x35,
    ],
);

/// Number of bits in the header's table mask.
pub(crate) const TABLE_COUNT: usize = 64;
/// Maximum number of columns of a table.
pub(crate) const COLUMN_COUNT: usize = 9;

/// The columns of table `number`; `None` for a number that no standard defines.
pub(crate) fn columns(number: usize) -> Option<&'static [Column]> {
    SCHEMA.get(number).copied().filter(|columns| !columns.is_empty())
}

const SCHEMA: [&[Column]; 0x38] = [
    &[Two, Strings, Guids, Guids, Guids],                             // 00 Module
    &[RESOLUTION_SCOPE, Strings, Strings],                            // 01 TypeRef
    &[Four, Strings, Strings, TYPE_DEF_OR_REF, Row(0x04), Row(0x06)], // 02 TypeDef
    &[Row(0x04)],                                                     // 03 FieldPtr
    &[Two, Strings, Blobs],                                           // 04 Field
    &[Row(0x06)],                                                     // 05 MethodPtr
    &[Four, Two, Two, Strings, Blobs, Row(0x08)],                     // 06 MethodDef
    &[Row(0x08)],                                                     // 07 ParamPtr
    &[Two, Two, Strings],                                             // 08 Param
    &[Row(0x02), TYPE_DEF_OR_REF],                                    // 09 InterfaceImpl
    &[MEMBER_REF_PARENT, Strings, Blobs],                             // 0a MemberRef
    &[Two, HAS_CONSTANT, Blobs],                                      // 0b Constant
    &[HAS_CUSTOM_ATTRIBUTE, CUSTOM_ATTRIBUTE_TYPE, Blobs],            // 0c CustomAttribute
    &[HAS_FIELD_MARSHAL, Blobs],                                      // 0d FieldMarshal
    &[Two, HAS_DECL_SECURITY, Blobs],                                 // 0e DeclSecurity
    &[Two, Four, Row(0x02)],                                          // 0f ClassLayout
    &[Four, Row(0x04)],                                               // 10 FieldLayout
    &[Blobs],                                                         // 11 StandAloneSig
    &[Row(0x02), Row(0x14)],                                          // 12 EventMap
    &[Row(0x14)],                                                     // 13 EventPtr
    &[Two, Strings, TYPE_DEF_OR_REF],                                 // 14 Event
    &[Row(0x02), Row(0x17)],                                          // 15 PropertyMap
    &[Row(0x17)],                                                     // 16 PropertyPtr
    &[Two, Strings, Blobs],                                           // 17 Property
    &[Two, Row(0x06), HAS_SEMANTICS],                                 // 18 MethodSemantics
    &[Row(0x02), METHOD_DEF_OR_REF, METHOD_DEF_OR_REF],               // 19 MethodImpl
    &[Strings],                                                       // 1a ModuleRef
    &[Blobs],                                                         // 1b TypeSpec
    &[Two, MEMBER_FORWARDED, Strings, Row(0x1a)],                     // 1c ImplMap
    &[Four, Row(0x04)],                                               // 1d FieldRVA
    &[Four, Four],                                                    // 1e EncLog
    &[Four],                                                          // 1f EncMap
    &[Four, Two, Two, Two, Two, Four, Blobs, Strings, Strings],       // 20 Assembly
    &[Four],                                                          // 21 AssemblyProcessor
    &[Four, Four, Four],                                              // 22 AssemblyOS
    &[Two, Two, Two, Two, Four, Blobs, Strings, Strings, Blobs],      // 23 AssemblyRef
    &[Four, Row(0x23)],                                               // 24 AssemblyRefProcessor
    &[Four, Four, Four, Row(0x23)],                                   // 25 AssemblyRefOS
    &[Four, Strings, Blobs],                                          // 26 File
    &[Four, Four, Strings, Strings, IMPLEMENTATION],                  // 27 ExportedType
    &[Four, Four, Strings, IMPLEMENTATION],                           // 28 ManifestResource
    &[Row(0x02), Row(0x02)],                                          // 29 NestedClass
    &[Two, Two, TYPE_OR_METHOD_DEF, Strings],                         // 2a GenericParam
    &[METHOD_DEF_OR_REF, Blobs],                                      // 2b MethodSpec
    &[Row(0x2a), TYPE_DEF_OR_REF],                                    // 2c GenericParamConstraint
    &[],                                                              // 2d
    &[],                                                              // 2e
    &[],                                                              // 2f
    &[Blobs, Guids, Blobs, Guids],                                    // 30 Document
    &[Row(0x30), Blobs],                                              // 31 MethodDebugInformation
    &[Row(0x06), Row(0x35), Row(0x33), Row(0x34), Four, Four],        // 32 LocalScope
    &[Two, Two, Strings],                                             // 33 LocalVariable
    &[Strings, Blobs],                                                // 34 LocalConstant
    &[Row(0x35), Blobs],                                              // 35 ImportScope
    &[Row(0x06), Row(0x06)],                                          // 36 StateMachineMethod
    &[HAS_CUSTOM_DEBUG_INFORMATION, Guids, Blobs],                    // 37 CustomDebugInformation
];
