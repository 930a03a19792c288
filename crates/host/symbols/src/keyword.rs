//! C# keywords for the runtime's primitive types, and the short form of qualified names.

/// A built-in type: its `CorElementType` if it has one of its own, its name in namespace `System`, its C# keyword, and its names in IL.
type BuiltIn = (Option<u8>, &'static str, &'static str, &'static [&'static str]);

const BUILT_IN: [BuiltIn; 19] = [
    (Some(0x01), "Void", "void", &["void"]),
    (Some(0x02), "Boolean", "bool", &["bool"]),
    (Some(0x03), "Char", "char", &["wchar", "char"]),
    (Some(0x04), "SByte", "sbyte", &["int8"]),
    (Some(0x05), "Byte", "byte", &["unsigned int8", "uint8"]),
    (Some(0x06), "Int16", "short", &["int16"]),
    (Some(0x07), "UInt16", "ushort", &["unsigned int16", "uint16"]),
    (Some(0x08), "Int32", "int", &["int32"]),
    (Some(0x09), "UInt32", "uint", &["unsigned int32", "uint32"]),
    (Some(0x0a), "Int64", "long", &["int64"]),
    (Some(0x0b), "UInt64", "ulong", &["unsigned int64", "uint64"]),
    (Some(0x0c), "Single", "float", &["float32"]),
    (Some(0x0d), "Double", "double", &["float64"]),
    (Some(0x0e), "String", "string", &["string"]),
    (Some(0x16), "TypedReference", "TypedReference", &["refany", "typedref"]),
    (Some(0x18), "IntPtr", "nint", &["int", "native int"]),
    (Some(0x19), "UIntPtr", "nuint", &["unsigned int", "native uint"]),
    (Some(0x1c), "Object", "object", &["object"]),
    (None, "Decimal", "decimal", &[]),
];

/// A primitive type, by its number in signatures and the profiling API (`CorElementType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Primitive(&'static str);

impl Primitive {
    /// The primitive of a `CorElementType`, including `object` and `string`; `None` for element types that need more than their number.
    pub fn from_element_type(element_type: u8) -> Option<Primitive> {
        BUILT_IN.iter().find(|known| known.0 == Some(element_type)).map(|known| Primitive(known.2))
    }

    /// The `CorElementType` of a type of namespace `System` that can be the type of a field.
    pub fn element_type_of(name: &str) -> Option<u8> {
        let can_be_field = |element_type: &u8| !matches!(element_type, 0x01 | 0x16);
        BUILT_IN.iter().find(|known| known.1 == name)?.0.filter(can_be_field)
    }

    /// The C# keyword.
    pub fn keyword(self) -> &'static str {
        self.0
    }
}

/// The keyword for a type of namespace `System`, if C# has one.
pub(crate) fn system_keyword(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|known| known.1 == name && known.2 != name).map(|known| known.2)
}

/// The keyword for a type in a signature that is written in IL.
pub fn il_keyword(text: &str) -> Option<&'static str> {
    let in_il = || BUILT_IN.iter().find(|known| known.3.contains(&text)).map(|known| known.2);
    text.strip_prefix("System.").and_then(system_keyword).or_else(in_il)
}

/// Shortens every qualified name in `text` to its last part, and primitives to their keywords.
pub(crate) fn shorten(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut word_start = 0;
    for (index, character) in text.char_indices() {
        if matches!(character, '<' | '>' | ',' | ' ' | '[' | ']' | '(' | ')' | '*' | '&' | '?') {
            short.push_str(last_part(&text[word_start..index]));
            short.push(character);
            if character == ',' && !text[index + 1..].starts_with([' ', ',', ']']) {
                short.push(' ');
            }
            word_start = index + character.len_utf8();
        }
    }
    short.push_str(last_part(&text[word_start..]));
    short
}

fn last_part(word: &str) -> &str {
    let word = word.strip_prefix("global::").unwrap_or(word);
    if let Some(keyword) = word.strip_prefix("System.").and_then(system_keyword) {
        return keyword;
    }
    match word.rsplit_once('.') {
        Some((_, last)) if !last.is_empty() => last,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_are_shortened() {
        for (long, short) in [
            ("System.Collections.Generic.IEnumerable<System.Int32>", "IEnumerable<int>"),
            ("A.B<C.D,E.F[]>", "B<D, F[]>"),
            ("A.B<C.D, System.String[,]>", "B<D, string[,]>"),
            ("T", "T"),
            ("System.DateTime", "DateTime"),
            ("", ""),
        ] {
            assert_eq!(shorten(long), short);
        }
    }

    #[test]
    fn keywords_follow_the_element_types() {
        assert_eq!(Primitive::from_element_type(8).map(Primitive::keyword), Some("int"));
        assert_eq!(Primitive::from_element_type(0x12), None);
    }
}
