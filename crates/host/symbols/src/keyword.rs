//! C# keywords for the runtime's primitive types, and the short form of qualified names.

/// A primitive type, by its number in signatures and the profiling API (`CorElementType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Primitive(&'static str);

impl Primitive {
    /// The primitive of a `CorElementType`, including `object` and `string`; `None` for element types that need more than their number.
    pub fn from_element_type(element_type: u8) -> Option<Primitive> {
        Some(Primitive(match element_type {
            0x01 => "void",
            0x02 => "bool",
            0x03 => "char",
            0x04 => "sbyte",
            0x05 => "byte",
            0x06 => "short",
            0x07 => "ushort",
            0x08 => "int",
            0x09 => "uint",
            0x0a => "long",
            0x0b => "ulong",
            0x0c => "float",
            0x0d => "double",
            0x0e => "string",
            0x16 => "TypedReference",
            0x18 => "nint",
            0x19 => "nuint",
            0x1c => "object",
            _ => return None,
        }))
    }

    /// The C# keyword.
    pub fn keyword(self) -> &'static str {
        self.0
    }
}

/// The keyword for a type of namespace `System`, if C# has one.
pub(crate) fn system_keyword(name: &str) -> Option<&'static str> {
    Some(match name {
        "Void" => "void",
        "Boolean" => "bool",
        "Char" => "char",
        "SByte" => "sbyte",
        "Byte" => "byte",
        "Int16" => "short",
        "UInt16" => "ushort",
        "Int32" => "int",
        "UInt32" => "uint",
        "Int64" => "long",
        "UInt64" => "ulong",
        "Single" => "float",
        "Double" => "double",
        "Decimal" => "decimal",
        "String" => "string",
        "Object" => "object",
        "IntPtr" => "nint",
        "UIntPtr" => "nuint",
        _ => return None,
    })
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
