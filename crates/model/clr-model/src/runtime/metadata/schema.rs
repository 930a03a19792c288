//! The metadata tables: names, columns, row sizes with short indexes, keys (ECMA-335, II.22).
//!
//! The columns have the names and type numbers that live runtimes return (tests/conformance/tests/metadata_contents.rs; source:
//! metamodelcolumndefs.h).

use std::ffi::CStr;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Byte,
    Short,
    SignedShort,
    Long,
    Text,
    Id,
    Blob,
    /// A row of one table.
    Row(u32),
    /// A row of one of several tables.
    Coded(usize),
}

impl Holds {
    /// Bytes of the column.
    pub(super) fn size(self) -> u32 {
        match self {
            Holds::Byte => 1,
            Holds::Long => 4,
            _ => 2,
        }
    }

    /// Its number in the API: below 64 a table, then a group of tables, then the other types.
    pub(super) fn number(self) -> u32 {
        match self {
            Holds::Row(table) => table,
            Holds::Coded(group) => 64 + group as u32,
            Holds::SignedShort => 96,
            Holds::Short => 97,
            Holds::Long => 99,
            Holds::Byte => 100,
            Holds::Text => 101,
            Holds::Id => 102,
            Holds::Blob => 103,
        }
    }
}

/// A column.
pub(super) struct Column {
    pub(super) name: &'static CStr,
    pub(super) holds: Holds,
}

/// One table.
pub(super) struct Table {
    pub(super) name: &'static CStr,
    pub(super) columns: &'static [Column],
    /// The column by which it is sorted.
    pub(super) key: Option<u32>,
}

impl Table {
    /// Where a column begins. Numbers of four bytes come first, except in a class layout; only a byte leaves a gap.
    pub(super) fn offset(&self, column: usize) -> u32 {
        self.columns[..column].iter().map(|column| column.holds.size().max(2)).sum()
    }

    /// Bytes of a row.
    pub(super) fn size(&self) -> u32 {
        self.offset(self.columns.len())
    }
}

/// Tables that share a column: the kinds of their tokens.
pub(super) struct Group {
    pub(super) name: &'static CStr,
    pub(super) kinds: &'static [u32],
}

impl Group {
    /// The stored form of a token: its row, and its place in the group in the lowest bits.
    pub(super) fn coded(&self, token: u32) -> u32 {
        let bits = usize::BITS - (self.kinds.len() - 1).leading_zeros();
        let place = self.kinds.iter().position(|kind| *kind == token & 0xFF00_0000).unwrap_or(0);
        (token & 0x00FF_FFFF) << bits | place as u32
    }
}

macro_rules! tables {
    ($($table:ident $([$key:literal])? { $($column:ident: $holds:expr),* $(,)? })*) => {
        /// Every table, by its number.
        pub(super) const TABLES: &[Table] = &[$(Table {
            name: name(concat!(stringify!($table), "\0")),
            columns: &[$(Column { name: name(concat!(stringify!($column), "\0")), holds: $holds }),*],
            key: tables!(@key $($key)?),
        }),*];
    };
    (@key) => { None };
    (@key $key:literal) => { Some($key) };
}

macro_rules! groups {
    ($($group:ident { $($kind:literal),* })*) => {
        /// Every group, by its number.
        pub(super) const GROUPS: &[Group] =
            &[$(Group { name: name(concat!(stringify!($group), "\0")), kinds: &[$($kind << 24),*] }),*];
    };
}

const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("the macros end each name with a zero"),
    }
}

use Holds::{Blob, Byte, Coded, Id, Long, Row, Short, SignedShort, Text};

/// Numbers of the groups.
const TYPE_DEF_OR_REF: usize = 0;
const HAS_CONSTANT: usize = 1;
const HAS_CUSTOM_ATTRIBUTE: usize = 2;
const HAS_FIELD_MARSHAL: usize = 3;
const HAS_DECL_SECURITY: usize = 4;
const MEMBER_REF_PARENT: usize = 5;
const HAS_SEMANTIC: usize = 6;
const METHOD_DEF_OR_REF: usize = 7;
const MEMBER_FORWARDED: usize = 8;
const IMPLEMENTATION: usize = 9;
const CUSTOM_ATTRIBUTE_TYPE: usize = 10;
const RESOLUTION_SCOPE: usize = 11;
const TYPE_OR_METHOD_DEF: usize = 12;

groups! {
    TypeDefOrRef { 0x02, 0x01, 0x1B }
    HasConstant { 0x04, 0x08, 0x17 }
    HasCustomAttribute {
        0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0A, 0x00, 0x0E, 0x17, 0x14, 0x11, 0x1A, 0x1B, 0x20, 0x23, 0x26, 0x27, 0x28, 0x2A, 0x2C,
        0x2B, 0x00, 0x00
    }
    HasFieldMarshal { 0x04, 0x08 }
    HasDeclSecurity { 0x02, 0x06, 0x20 }
    MemberRefParent { 0x02, 0x01, 0x1A, 0x06, 0x1B }
    HasSemantic { 0x14, 0x17 }
    MethodDefOrRef { 0x06, 0x0A }
    MemberForwarded { 0x04, 0x06 }
    Implementation { 0x26, 0x23, 0x27 }
    CustomAttributeType { 0x00, 0x00, 0x06, 0x0A, 0x00 }
    ResolutionScope { 0x00, 0x1A, 0x23, 0x01 }
    TypeOrMethodDef { 0x02, 0x06 }
}

tables! {
    Module { Generation: Short, Name: Text, Mvid: Id, EncId: Id, EncBaseId: Id }
    TypeRef { ResolutionScope: Coded(RESOLUTION_SCOPE), Name: Text, Namespace: Text }
    TypeDef { Flags: Long, Name: Text, Namespace: Text, Extends: Coded(TYPE_DEF_OR_REF), FieldList: Row(4), MethodList: Row(6) }
    FieldPtr { Field: Row(4) }
    Field { Flags: Short, Name: Text, Signature: Blob }
    MethodPtr { Method: Row(6) }
    Method { RVA: Long, ImplFlags: Short, Flags: Short, Name: Text, Signature: Blob, ParamList: Row(8) }
    ParamPtr { Param: Row(8) }
    Param { Flags: Short, Sequence: Short, Name: Text }
    InterfaceImpl [0] { Class: Row(2), Interface: Coded(TYPE_DEF_OR_REF) }
    MemberRef { Class: Coded(MEMBER_REF_PARENT), Name: Text, Signature: Blob }
    Constant [1] { Type: Byte, Parent: Coded(HAS_CONSTANT), Value: Blob }
    CustomAttribute [0] { Parent: Coded(HAS_CUSTOM_ATTRIBUTE), Type: Coded(CUSTOM_ATTRIBUTE_TYPE), Value: Blob }
    FieldMarshal [0] { Parent: Coded(HAS_FIELD_MARSHAL), NativeType: Blob }
    DeclSecurity [1] { Action: SignedShort, Parent: Coded(HAS_DECL_SECURITY), PermissionSet: Blob }
    ClassLayout [2] { PackingSize: Short, ClassSize: Long, Parent: Row(2) }
    FieldLayout [1] { OffSet: Long, Field: Row(4) }
    StandAloneSig { Signature: Blob }
    EventMap { Parent: Row(2), EventList: Row(0x14) }
    EventPtr { Event: Row(0x14) }
    Event { EventFlags: Short, Name: Text, EventType: Coded(TYPE_DEF_OR_REF) }
    PropertyMap { Parent: Row(2), PropertyList: Row(0x17) }
    PropertyPtr { Property: Row(0x17) }
    Property { PropFlags: Short, Name: Text, Type: Blob }
    MethodSemantics [2] { Semantic: Short, Method: Row(6), Association: Coded(HAS_SEMANTIC) }
    MethodImpl [0] { Class: Row(2), MethodBody: Coded(METHOD_DEF_OR_REF), MethodDeclaration: Coded(METHOD_DEF_OR_REF) }
    ModuleRef { Name: Text }
    TypeSpec { Signature: Blob }
    ImplMap [1] { MappingFlags: Short, MemberForwarded: Coded(MEMBER_FORWARDED), ImportName: Text, ImportScope: Row(0x1A) }
    FieldRVA [1] { RVA: Long, Field: Row(4) }
    ENCLog { Token: Long, FuncCode: Long }
    ENCMap { Token: Long }
    Assembly {
        HashAlgId: Long, MajorVersion: Short, MinorVersion: Short, BuildNumber: Short, RevisionNumber: Short, Flags: Long,
        PublicKey: Blob, Name: Text, Locale: Text,
    }
    AssemblyProcessor { Processor: Long }
    AssemblyOS { OSPlatformId: Long, OSMajorVersion: Long, OSMinorVersion: Long }
    AssemblyRef {
        MajorVersion: Short, MinorVersion: Short, BuildNumber: Short, RevisionNumber: Short, Flags: Long, PublicKeyOrToken: Blob,
        Name: Text, Locale: Text, HashValue: Blob,
    }
    AssemblyRefProcessor { Processor: Long, AssemblyRef: Row(0x23) }
    AssemblyRefOS { OSPlatformId: Long, OSMajorVersion: Long, OSMinorVersion: Long, AssemblyRef: Row(0x23) }
    File { Flags: Long, Name: Text, HashValue: Blob }
    ExportedType { Flags: Long, TypeDefId: Long, TypeName: Text, TypeNamespace: Text, Implementation: Coded(IMPLEMENTATION) }
    ManifestResource { Offset: Long, Flags: Long, Name: Text, Implementation: Coded(IMPLEMENTATION) }
    NestedClass [0] { NestedClass: Row(2), EnclosingClass: Row(2) }
    GenericParam [2] { Number: Short, Flags: Short, Owner: Coded(TYPE_OR_METHOD_DEF), Name: Text }
    MethodSpec { Method: Coded(METHOD_DEF_OR_REF), Instantiation: Blob }
    GenericParamConstraint [0] { Owner: Row(0x2A), Constraint: Coded(TYPE_DEF_OR_REF) }
}
