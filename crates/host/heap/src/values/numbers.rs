//! Numbers, characters and enums as C# writes them.

use crate::layout::SlotKind;
use std::fmt::{Display, UpperExp};

/// From this power of ten on, and below the other, C# writes floating-point numbers with an exponent (seen on 3.1, 8, 9 and 10).
const LARGE: i32 = 17;
const LARGE_OF_FLOAT: i32 = 9;
const SMALL: i32 = -4;

/// The number in the first `count` bytes.
pub(super) fn bits(bytes: &[u8], count: u32) -> Option<u64> {
    let bytes = bytes.get(..count as usize)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The value of a slot of a primitive kind.
pub(super) fn number(kind: SlotKind, bytes: &[u8]) -> Option<String> {
    let value = bits(bytes, kind.bytes()?)?;
    Some(match kind.0 {
        0x02 => match value {
            0 => "false".to_owned(),
            1 => "true".to_owned(),
            other => format!("true ({other})"),
        },
        0x03 => character(value as u16),
        0x0c => floating(f32::from_bits(value as u32), LARGE_OF_FLOAT),
        0x0d => floating(f64::from_bits(value), LARGE),
        0x0f => format!("{value:#x}"),
        _ if kind.is_signed() => format!("{}", extended(kind, value)),
        _ => value.to_string(),
    })
}

/// The integer in a slot, or the address in a reference. A 64-bit unsigned number beyond the range becomes negative.
pub(crate) fn integer(kind: SlotKind, bytes: &[u8]) -> Option<i64> {
    let value = bits(bytes, kind.bytes().filter(|_| kind.is_integer() || kind.is_reference())?)?;
    Some(if kind.is_signed() { extended(kind, value) } else { value.cast_signed() })
}

/// A signed number, sign-extended.
fn extended(kind: SlotKind, value: u64) -> i64 {
    let unused = 64 - 8 * kind.bytes().unwrap_or(8);
    (value << unused) as i64 >> unused
}

fn character(unit: u16) -> String {
    match char::from_u32(u32::from(unit)) {
        Some('\'') => r"'\''".to_owned(),
        Some('\\') => r"'\\'".to_owned(),
        Some('\0') => r"'\0'".to_owned(),
        Some('\n') => r"'\n'".to_owned(),
        Some('\r') => r"'\r'".to_owned(),
        Some('\t') => r"'\t'".to_owned(),
        Some(known) if !known.is_control() => format!("'{known}'"),
        _ => format!("'\\u{unit:04x}'"),
    }
}

/// The shortest text that parses back to the same number; with an exponent, if that is not between [`SMALL`] and `large`.
fn floating<F: Copy + Display + UpperExp + Into<f64>>(value: F, large: i32) -> String {
    let number: f64 = value.into();
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:E}");
    let (digits, exponent) = scientific.split_once('E').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (SMALL..large).contains(&exponent) {
        return value.to_string();
    }
    format!("{digits}E{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// An enum's number by its members: the member with this number or, for flags, the members that combine to it.
pub(super) fn combined(name: &str, kind: SlotKind, of: (bool, &[(String, u64)]), value: u64) -> String {
    let (is_flags, members) = of;
    let unused = 64 - 8 * kind.bytes().unwrap_or(8);
    // Members of a signed enum are stored as a `long`.
    let own = |value: u64| value << unused >> unused;
    if let Some((member, _)) = members.iter().find(|(_, number)| own(*number) == value) {
        return format!("{name}.{member}");
    }
    let cast = || {
        let number = if kind.is_signed() { extended(kind, value).to_string() } else { value.to_string() };
        let number = if number.starts_with('-') { format!("({number})") } else { number };
        format!("({name}){number}")
    };
    if !is_flags || value == 0 {
        return cast();
    }
    let mut all: Vec<(&str, u64)> = members.iter().map(|(member, number)| (member.as_str(), own(*number))).collect();
    // Members with several bits before those with one.
    all.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let (mut rest, mut parts) = (value, Vec::new());
    for (member, number) in all {
        if number != 0 && rest & number == number {
            parts.push(format!("{name}.{member}"));
            rest &= !number;
        }
    }
    if rest != 0 {
        return cast();
    }
    parts.reverse();
    parts.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_csharp_writes_them() {
        let shown = |kind: u8, bytes: &[u8]| number(SlotKind(kind), bytes).unwrap_or_default();
        for (kind, bytes, text) in [
            (0x02, &[1][..], "true"),
            (0x02, &[0], "false"),
            (0x03, &[0x41, 0], "'A'"),
            (0x03, &[0x27, 0], r"'\''"),
            (0x03, &[0, 0xd8], r"'\ud800'"),
            (0x04, &[0xff], "-1"),
            (0x05, &[0xff], "255"),
            (0x06, &[0, 0x80], "-32768"),
            (0x08, &[0xfe, 0xff, 0xff, 0xff], "-2"),
            (0x0a, &i64::MIN.to_le_bytes(), "-9223372036854775808"),
            (0x0b, &[0xff; 8], "18446744073709551615"),
            (0x0f, &[0x10, 0, 0, 0, 0, 0, 0, 0], "0x10"),
        ] {
            assert_eq!(shown(kind, bytes), text);
        }
        for (value, text) in [
            (0.1, "0.1"),
            (1.0, "1"),
            (-1234.5, "-1234.5"),
            (1e14, "100000000000000"),
            (12345678901234567.0, "12345678901234568"),
            (1e16, "10000000000000000"),
            (1e17, "1E+17"),
            (1.5e-5, "1.5E-05"),
            (0.0001, "0.0001"),
            (f64::MAX, "1.7976931348623157E+308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(shown(0x0d, &value.to_le_bytes()), text);
        }
        for (value, text) in [(0.1_f32, "0.1"), (123456789.0, "123456790"), (1e9, "1E+09"), (9.64417e12, "9.64417E+12")]
        {
            assert_eq!(shown(0x0c, &value.to_le_bytes()), text);
        }
        assert_eq!(number(SlotKind(0x08), &[1, 2]), None);
    }

    #[test]
    fn enums_are_written_by_their_members() {
        let members = [("None", 0), ("Read", 1), ("Write", 2), ("Both", 3), ("Low", u64::MAX)];
        let members = members.map(|(name, value)| (name.to_owned(), value));
        let shown = |is_flags, value| combined("Access", SlotKind(0x06), (is_flags, &members), value);
        assert_eq!(shown(true, 0), "Access.None");
        assert_eq!(shown(true, 3), "Access.Both");
        assert_eq!(shown(true, 4), "(Access)4");
        assert_eq!(shown(false, 0xffff), "Access.Low");
        assert_eq!(shown(false, 0xfffe), "(Access)(-2)");
        let members = [("A", 1), ("B", 2), ("C", 8)].map(|(name, value)| (name.to_owned(), value));
        assert_eq!(combined("F", SlotKind(0x05), (true, &members), 11), "F.A | F.B | F.C");
        assert_eq!(combined("F", SlotKind(0x05), (true, &members), 12), "(F)12");
        assert_eq!(combined("F", SlotKind(0x05), (false, &members), 3), "(F)3");
    }
}
