//! Signatures of methods and of locals: ECMA-335 II.23.2.

use crate::Error;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A signature of locals begins with this.
const LOCALS: u8 = 0x07;
/// The method has type parameters.
const GENERIC: u8 = 0x10;
/// The method has a `this` argument.
const HAS_THIS: u8 = 0x20;
/// Types inside types, deeper than any compiler writes.
const DEEPEST: usize = 64;
/// Locals that a method may have: `stloc` has 16 bits, and the last number is reserved.
const MOST_LOCALS: u32 = 0xFFFE;

const VOID: u8 = 0x01;
const REQUIRED_MODIFIER: u8 = 0x1F;
const OPTIONAL_MODIFIER: u8 = 0x20;
const SENTINEL: u8 = 0x41;
/// The text of a type without a short form.
const UNKNOWN: &str = "?";

/// The signature of a method; its types are slices of the signature, without modifiers before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodSignature<'a> {
    /// Whether the first argument is `this`, which is not among the parameters.
    pub has_this: bool,
    /// The type of the result; `None` for `void`.
    pub result: Option<&'a [u8]>,
    /// The types of the parameters.
    pub parameters: Vec<&'a [u8]>,
}

/// How a value can be read, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// `bool`.
    Bool,
    /// A UTF-16 unit.
    Char,
    /// A signed integer of at most 64 bits.
    Signed,
    /// An unsigned integer of at most 64 bits.
    Unsigned,
    /// `float` or `double`.
    Float,
    /// A string.
    Text,
    /// A value type of this token, which may be an enum.
    ValueType(u32),
    /// Anything else.
    Other,
}

impl Value {
    /// How a value of this type can be read.
    pub fn of(of_type: &[u8]) -> Value {
        match of_type {
            [0x02] => Value::Bool,
            [0x03] => Value::Char,
            [0x04 | 0x06 | 0x08 | 0x0A | 0x18] => Value::Signed,
            [0x05 | 0x07 | 0x09 | 0x0B | 0x19] => Value::Unsigned,
            [0x0C | 0x0D] => Value::Float,
            [0x0E] => Value::Text,
            [0x11, coded @ ..] => {
                number(coded).ok().and_then(|(coded, _)| token(coded)).map_or(Value::Other, Value::ValueType)
            }
            _ => Value::Other,
        }
    }
}

/// A type as C# writes it, by the names that `name` gives to tokens: `int`, `List<string>[]`. A type parameter of the type is `T` with
/// its number, one of the method is `M`. What has no short form is `?`.
///
/// # Errors
/// [`Error::Truncated`], [`Error::Signature`].
pub fn type_text(of_type: &[u8], name: &dyn Fn(u32) -> Option<String>) -> Result<String, Error> {
    text_before(of_type, name, DEEPEST).map(|(text, _)| text)
}

/// The text of the type at the beginning of `bytes`, and what follows it.
fn text_before<'a>(
    bytes: &'a [u8],
    name: &dyn Fn(u32) -> Option<String>,
    depth: usize,
) -> Result<(String, &'a [u8]), Error> {
    let depth = depth.checked_sub(1).ok_or(Error::Signature)?;
    let end = after_type(bytes, depth)?;
    let (&element, rest) = bytes.split_first().ok_or(Error::Truncated)?;
    let inner = |rest| text_before(rest, name, depth).map(|(text, _)| text);
    let named = |coded| token(coded).and_then(name).unwrap_or_else(|| UNKNOWN.into());
    let text = match element {
        VOID..=0x0E | 0x16 | 0x18 | 0x19 | 0x1C => keyword(element).into(),
        0x0F => inner(rest)? + "*",
        0x10 => String::from("ref ") + &inner(rest)?,
        0x1D => inner(rest)? + "[]",
        0x14 => inner(rest)? + "[,]",
        REQUIRED_MODIFIER | OPTIONAL_MODIFIER => inner(number(rest)?.1)?,
        0x11 | 0x12 => named(number(rest)?.0),
        0x13 => format!("T{}", number(rest)?.0),
        0x1E => format!("M{}", number(rest)?.0),
        0x15 => {
            let (coded, rest) = number(rest.get(1..).ok_or(Error::Truncated)?)?;
            let (count, mut rest) = number(rest)?;
            let mut arguments = Vec::new();
            for _ in 0..count {
                let (argument, after) = text_before(rest, name, depth)?;
                arguments.push(argument);
                rest = after;
            }
            format!("{}<{}>", named(coded), arguments.join(", "))
        }
        _ => UNKNOWN.into(),
    };
    Ok((text, end))
}

fn keyword(element: u8) -> &'static str {
    const KEYWORDS: [&str; 14] = [
        "void", "bool", "char", "sbyte", "byte", "short", "ushort", "int", "uint", "long", "ulong", "float", "double",
        "string",
    ];
    match element {
        0x18 => "nint",
        0x19 => "nuint",
        0x1C => "object",
        _ => KEYWORDS.get(usize::from(element.wrapping_sub(1))).copied().unwrap_or(UNKNOWN),
    }
}

/// A class or value type by its token; a generic one with its only argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedType<'a> {
    /// Whether it is a value type.
    pub is_value: bool,
    /// The token of its definition or reference.
    pub token: u32,
    /// Its type argument; `None` if it is not generic.
    pub argument: Option<&'a [u8]>,
}

impl<'a> NamedType<'a> {
    /// Reads a type; `None` for any other, and for one with several arguments.
    pub fn of(of_type: &'a [u8]) -> Option<NamedType<'a>> {
        let (&element, rest) = of_type.split_first()?;
        let (&kind, coded) = if element == 0x15 { rest.split_first()? } else { (&element, rest) };
        let (coded, rest) = number(coded).ok()?;
        let argument = match (element, rest) {
            (0x11 | 0x12, []) => None,
            (0x15, [1, argument @ ..]) if after_type(argument, DEEPEST) == Ok(&[]) => Some(argument),
            _ => return None,
        };
        Some(NamedType { is_value: kind == 0x11, token: token(coded)?, argument })
    }

    /// The same type with another argument, as a signature has it.
    pub fn with(&self, argument: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if argument.is_some() {
            bytes.push(0x15);
        }
        bytes.push(if self.is_value { 0x11 } else { 0x12 });
        let table = match self.token >> 24 {
            0x02 => 0,
            0x01 => 1,
            _ => 2,
        };
        write_number((self.token & 0x00FF_FFFF) << 2 | table, &mut bytes);
        if let Some(argument) = argument {
            bytes.push(1);
            bytes.extend_from_slice(argument);
        }
        bytes
    }
}

/// The token of a type definition or reference, from its coded form.
fn token(coded: u32) -> Option<u32> {
    let table = match coded & 3 {
        0 => 0x0200_0000,
        1 => 0x0100_0000,
        2 => 0x1B00_0000,
        _ => return None,
    };
    Some(table | coded >> 2)
}

impl<'a> MethodSignature<'a> {
    /// Reads a method's signature.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Signature`].
    pub fn read(bytes: &'a [u8]) -> Result<MethodSignature<'a>, Error> {
        let (&convention, mut rest) = bytes.split_first().ok_or(Error::Truncated)?;
        if convention & GENERIC != 0 {
            rest = number(rest)?.1;
        }
        let (count, after) = number(rest)?;
        let (result, mut rest) = type_before(after)?;
        // Each parameter has a byte at least.
        let mut parameters = Vec::with_capacity((count as usize).min(rest.len()));
        for _ in 0..count {
            if rest.first() == Some(&SENTINEL) {
                return Err(Error::Signature);
            }
            let (parameter, after) = type_before(rest)?;
            parameters.push(parameter);
            rest = after;
        }
        let result = (result != [VOID]).then_some(result);
        Ok(MethodSignature { has_this: convention & HAS_THIS != 0, result, parameters })
    }
}

/// The signature of the locals of `existing` (empty if there are none) and of `more`; and the number of the first one of those.
///
/// # Errors
/// [`Error::Signature`] if `existing` is no signature of locals; [`Error::TooLarge`].
pub fn locals_with(existing: &[u8], more: &[&[u8]]) -> Result<(Vec<u8>, u16), Error> {
    let (count, types) = match existing.split_first() {
        None => (0, [].as_slice()),
        Some((&LOCALS, rest)) => number(rest)?,
        Some(_) => return Err(Error::Signature),
    };
    let all = u32::try_from(more.len()).ok().and_then(|more| count.checked_add(more)).ok_or(Error::TooLarge)?;
    if all > MOST_LOCALS {
        return Err(Error::TooLarge);
    }
    let mut signature = Vec::with_capacity(existing.len() + 4 + more.iter().map(|one| one.len()).sum::<usize>());
    signature.push(LOCALS);
    write_number(all, &mut signature);
    signature.extend_from_slice(types);
    more.iter().for_each(|one| signature.extend_from_slice(one));
    Ok((signature, count as u16))
}

/// The type at the beginning of `bytes`, without its modifiers, and what follows it.
fn type_before(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut bytes = bytes;
    while let Some((&(REQUIRED_MODIFIER | OPTIONAL_MODIFIER), rest)) = bytes.split_first() {
        bytes = number(rest)?.1;
    }
    let rest = after_type(bytes, DEEPEST)?;
    Ok((&bytes[..bytes.len() - rest.len()], rest))
}

/// What follows the type at the beginning of `bytes`.
fn after_type(bytes: &[u8], depth: usize) -> Result<&[u8], Error> {
    let depth = depth.checked_sub(1).ok_or(Error::Signature)?;
    let (&element, rest) = bytes.split_first().ok_or(Error::Truncated)?;
    match element {
        VOID..=0x0E | 0x16 | 0x18 | 0x19 | 0x1C => Ok(rest),
        0x0F | 0x10 | 0x1D | 0x45 => after_type(rest, depth),
        REQUIRED_MODIFIER | OPTIONAL_MODIFIER => after_type(number(rest)?.1, depth),
        0x11 | 0x12 | 0x13 | 0x1E => Ok(number(rest)?.1),
        0x14 => after_array(rest, depth),
        0x15 => {
            let (&(0x11 | 0x12), rest) = rest.split_first().ok_or(Error::Truncated)? else {
                return Err(Error::Signature);
            };
            let (count, rest) = number(number(rest)?.1)?;
            after_types(rest, count, depth)
        }
        0x1B => {
            let (&convention, mut rest) = rest.split_first().ok_or(Error::Truncated)?;
            if convention & GENERIC != 0 {
                rest = number(rest)?.1;
            }
            let (count, rest) = number(rest)?;
            after_types(rest, count.checked_add(1).ok_or(Error::Signature)?, depth)
        }
        _ => Err(Error::Signature),
    }
}

fn after_types(bytes: &[u8], count: u32, depth: usize) -> Result<&[u8], Error> {
    let mut rest = bytes;
    for _ in 0..count {
        rest = after_type(rest, depth)?;
    }
    Ok(rest)
}

/// What follows an array's element type, rank, sizes and lower bounds.
fn after_array(bytes: &[u8], depth: usize) -> Result<&[u8], Error> {
    let mut rest = number(after_type(bytes, depth)?)?.1;
    for _ in 0..2 {
        let (count, after) = number(rest)?;
        rest = after;
        for _ in 0..count {
            rest = number(rest)?.1;
        }
    }
    Ok(rest)
}

/// A compressed number: ECMA-335 II.23.2.
fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Error> {
    let (&first, rest) = bytes.split_first().ok_or(Error::Truncated)?;
    let (length, high) = match first {
        0..0x80 => return Ok((u32::from(first), rest)),
        0x80..0xC0 => (1, first & 0x3F),
        0xC0..0xE0 => (3, first & 0x1F),
        _ => return Err(Error::Signature),
    };
    let (low, rest) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
    Ok((low.iter().fold(u32::from(high), |number, byte| number << 8 | u32::from(*byte)), rest))
}

fn write_number(number: u32, into: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    match number {
        0..0x80 => into.push(bytes[3]),
        0x80..0x4000 => into.extend_from_slice(&[bytes[2] | 0x80, bytes[3]]),
        _ => into.extend_from_slice(&[bytes[0] | 0xC0, bytes[1], bytes[2], bytes[3]]),
    }
}
