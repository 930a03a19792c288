//! The metadata tables: names, columns, row sizes with short indexes, keys (ECMA-335, II.22). Their contents are not modelled.

use std::ffi::CStr;

/// One table.
pub(super) struct Table {
    pub(super) name: &'static CStr,
    pub(super) columns: u32,
    /// Bytes of a row.
    pub(super) size: u32,
    /// The column by which it is sorted.
    pub(super) key: Option<u32>,
}

const fn table(name: &'static CStr, columns: u32, size: u32, key: Option<u32>) -> Table {
    Table { name, columns, size, key }
}

/// Every table, by its number.
pub(super) const TABLES: [Table; 45] = [
    table(c"Module", 5, 10, None),
    table(c"TypeRef", 3, 6, None),
    table(c"TypeDef", 6, 14, None),
    table(c"FieldPtr", 1, 2, None),
    table(c"Field", 3, 6, None),
    table(c"MethodPtr", 1, 2, None),
    table(c"Method", 6, 14, None),
    table(c"ParamPtr", 1, 2, None),
    table(c"Param", 3, 6, None),
    table(c"InterfaceImpl", 2, 4, Some(0)),
    table(c"MemberRef", 3, 6, None),
    table(c"Constant", 3, 6, Some(1)),
    table(c"CustomAttribute", 3, 6, Some(0)),
    table(c"FieldMarshal", 2, 4, Some(0)),
    table(c"DeclSecurity", 3, 6, Some(1)),
    table(c"ClassLayout", 3, 8, Some(2)),
    table(c"FieldLayout", 2, 6, Some(1)),
    table(c"StandAloneSig", 1, 2, None),
    table(c"EventMap", 2, 4, None),
    table(c"EventPtr", 1, 2, None),
    table(c"Event", 3, 6, None),
    table(c"PropertyMap", 2, 4, None),
    table(c"PropertyPtr", 1, 2, None),
    table(c"Property", 3, 6, None),
    table(c"MethodSemantics", 3, 6, Some(2)),
    table(c"MethodImpl", 3, 6, Some(0)),
    table(c"ModuleRef", 1, 2, None),
    table(c"TypeSpec", 1, 2, None),
    table(c"ImplMap", 4, 8, Some(1)),
    table(c"FieldRVA", 2, 6, Some(1)),
    table(c"ENCLog", 2, 8, None),
    table(c"ENCMap", 1, 4, None),
    table(c"Assembly", 9, 22, None),
    table(c"AssemblyProcessor", 1, 4, None),
    table(c"AssemblyOS", 3, 12, None),
    table(c"AssemblyRef", 9, 20, None),
    table(c"AssemblyRefProcessor", 2, 6, None),
    table(c"AssemblyRefOS", 4, 14, None),
    table(c"File", 3, 8, None),
    table(c"ExportedType", 5, 14, None),
    table(c"ManifestResource", 4, 12, None),
    table(c"NestedClass", 2, 4, Some(0)),
    table(c"GenericParam", 4, 8, Some(2)),
    table(c"MethodSpec", 2, 4, None),
    table(c"GenericParamConstraint", 2, 4, Some(0)),
];
