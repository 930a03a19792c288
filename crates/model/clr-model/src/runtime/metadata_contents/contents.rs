//! The contents of a module's metadata: what a compiler would have written.
//!
//! Rows get their tokens in the order in which they are added. A field and a method belong to the last type, a parameter to the last
//! method, a property and an event to the last type with some. The runtime adds the rows of the module and its assembly, and those of
//! classes that are defined while the program runs.

use super::stored::stored_text;
use super::tokens::{
    ADDRESS, ATTRIBUTE, CONSTANT, CONSTRAINT, EVENT, EVENT_MAP, FIELD, IMPLEMENTED, MEMBER_REFERENCE, METHOD,
    METHOD_SPEC, NESTED, NO_TYPE, PARAMETER, PROPERTY, PROPERTY_MAP, SEMANTICS, SIGNATURE, TEXT, TYPE, TYPE_PARAMETER,
    TYPE_REFERENCE, TYPE_SPEC, kind_of,
};
use corprof::Guid;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The type of members without a type, as compilers call it.
const NAME_OF_NO_TYPE: &str = "<Module>";
/// mdAbstract: such a method has no code (source: corhdr.h).
const ABSTRACT: u32 = 0x0400;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::runtime) enum Cell {
    Number(u32),
    Token(u32),
    Text(String),
    Blob(Vec<u8>),
    Id(u128),
}

impl From<u32> for Cell {
    fn from(number: u32) -> Cell {
        Cell::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<&[u8]> for Cell {
    fn from(bytes: &[u8]) -> Cell {
        Cell::Blob(bytes.to_vec())
    }
}

/// A row of a table. A column that it lacks reads as nothing.
#[derive(Debug, Clone)]
pub(in crate::runtime) struct Row(Arc<[Cell]>);

impl Row {
    pub(in crate::runtime) fn of(cells: impl Into<Arc<[Cell]>>) -> Row {
        Row(cells.into())
    }

    pub(in crate::runtime) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.0.iter()
    }

    /// A number or a token.
    pub(in crate::runtime) fn number(&self, column: usize) -> u32 {
        match self.0.get(column) {
            Some(Cell::Number(value) | Cell::Token(value)) => *value,
            _ => 0,
        }
    }

    pub(in crate::runtime) fn text(&self, column: usize) -> &str {
        if let Some(Cell::Text(text)) = self.0.get(column) { text } else { "" }
    }

    pub(in crate::runtime) fn id(&self, column: usize) -> Guid {
        if let Some(Cell::Id(id)) = self.0.get(column) { Guid::from_u128(*id) } else { Guid::from_u128(0) }
    }

    pub(in crate::runtime) fn blob(&self, column: usize) -> &[u8] {
        if let Some(Cell::Blob(bytes)) = self.0.get(column) { bytes } else { &[] }
    }
}

/// The value of a constant.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A number of four bytes.
    Number(i32),
    /// A text.
    Text(&'a str),
}

/// A type's token inside a signature (ECMA-335, II.23.2.8), for the first 31 rows of each kind: one byte.
pub fn in_signature(token: u32) -> u8 {
    let kind = [TYPE, TYPE_REFERENCE, TYPE_SPEC].iter().position(|kind| *kind == kind_of(token)).unwrap_or_default();
    (token << 2) as u8 | kind as u8
}

/// The contents of one module.
#[derive(Debug, Default)]
pub struct Contents {
    pub(in crate::runtime) rows: BTreeMap<u32, Row>,
    /// User strings by their offsets.
    pub(in crate::runtime) texts: BTreeMap<u32, String>,
    end_of_texts: u32,
}

impl Contents {
    /// With nothing but the type of members without a type. The first type that is added is the class of the module's functions.
    pub fn new() -> Contents {
        let mut contents = Contents { end_of_texts: 1, ..Contents::default() };
        contents.type_definition(0, "", NAME_OF_NO_TYPE, TYPE);
        contents
    }

    fn add(&mut self, kind: u32, cells: impl Into<Arc<[Cell]>>) -> u32 {
        let token = kind | (self.count(kind) + 1);
        self.rows.insert(token, Row::of(cells));
        token
    }

    fn count(&self, kind: u32) -> u32 {
        self.rows.range(kind..kind | 0x00FF_FFFF).count() as u32
    }

    /// The next row of a kind, for lists that begin there.
    fn next(&self, kind: u32) -> Cell {
        Cell::Token(kind | (self.count(kind) + 1))
    }

    fn last(&self, kind: u32) -> u32 {
        kind | self.count(kind)
    }

    /// Rows for types, including that of members without a type.
    pub(in crate::runtime) fn count_of_types(&self) -> u32 {
        self.count(TYPE)
    }

    /// The first method of that name in the class of the module's functions.
    pub(in crate::runtime) fn method_called(&self, name: &str) -> Option<u32> {
        let lists = [NO_TYPE + 1, NO_TYPE + 2].map(|class| self.rows.get(&class).map(|row| row.number(5)));
        let end = lists[1].unwrap_or_else(|| METHOD | (self.count(METHOD) + 1));
        self.rows.range(lists[0]?..end).find(|(_, row)| row.text(3) == name).map(|(token, _)| *token)
    }

    /// Whether a method has code.
    pub(in crate::runtime) fn has_code(&self, method: u32) -> bool {
        kind_of(method) == METHOD && self.rows.get(&method).is_some_and(|row| row.number(0) != 0)
    }

    /// Whether it has a type of this token.
    pub(in crate::runtime) fn has_type(&self, token: u32) -> bool {
        kind_of(token) == TYPE && self.rows.contains_key(&token)
    }

    /// The type that has a method.
    pub(in crate::runtime) fn type_of(&self, method: u32) -> Option<u32> {
        let is_method = kind_of(method) == METHOD && self.rows.contains_key(&method);
        let mut types = self.rows.range(TYPE..=self.last(TYPE)).rev().filter(|_| is_method);
        types.find(|(_, row)| row.number(5) <= method).map(|(token, _)| *token)
    }

    /// How many type parameters a type or a method has.
    pub(in crate::runtime) fn type_parameters(&self, owner: u32) -> usize {
        let all = self.rows.range(TYPE_PARAMETER..TYPE_PARAMETER | 0x00FF_FFFF);
        all.filter(|(_, row)| row.number(2) == owner).count()
    }

    /// A type of the framework, or one inside another referenced type.
    pub fn type_reference(&mut self, scope: u32, namespace: &str, name: &str) -> u32 {
        self.add(TYPE_REFERENCE, [Cell::Token(scope), name.into(), namespace.into()])
    }

    /// A type.
    pub fn type_definition(&mut self, flags: u32, namespace: &str, name: &str, extends: u32) -> u32 {
        let lists = [self.next(FIELD), self.next(METHOD)];
        let [fields, methods] = lists;
        self.add(TYPE, [flags.into(), name.into(), namespace.into(), Cell::Token(extends), fields, methods])
    }

    /// A type inside another one.
    pub fn nest(&mut self, inner: u32, outer: u32) {
        self.add(NESTED, [inner, outer].map(Cell::Token));
    }

    /// A type's interface.
    pub fn implement(&mut self, class: u32, interface: u32) {
        self.add(IMPLEMENTED, [class, interface].map(Cell::Token));
    }

    /// A field of the last type.
    pub fn field(&mut self, flags: u32, name: &str, signature: &[u8]) -> u32 {
        self.add(FIELD, [flags.into(), name.into(), signature.into()])
    }

    /// A method of the last type.
    pub fn method(&mut self, flags: u32, name: &str, signature: &[u8]) -> u32 {
        let address = if flags & ABSTRACT == 0 { ADDRESS } else { 0 };
        let parameters = self.next(PARAMETER);
        self.add(METHOD, [address.into(), 0.into(), flags.into(), name.into(), signature.into(), parameters])
    }

    /// A parameter of the last method. 1 is the first; 0 is the result.
    pub fn parameter(&mut self, flags: u32, sequence: u32, name: &str) -> u32 {
        self.add(PARAMETER, [flags.into(), sequence.into(), name.into()])
    }

    /// The value of a field or a parameter.
    pub fn constant(&mut self, parent: u32, value: Value<'_>) {
        let (kind, bytes) = match value {
            Value::Number(number) => (corprof::sys::ELEMENT_TYPE_I4, number.to_le_bytes().to_vec()),
            Value::Text(text) => {
                (corprof::sys::ELEMENT_TYPE_STRING, text.encode_utf16().flat_map(u16::to_le_bytes).collect())
            }
        };
        self.add(CONSTANT, [Cell::Number(kind), Cell::Token(parent), Cell::Blob(bytes)]);
    }

    /// An attribute, by the constructor that it calls, with the arguments as they are stored.
    pub fn attribute(&mut self, parent: u32, constructor: u32, arguments: &[u8]) -> u32 {
        self.add(ATTRIBUTE, [Cell::Token(parent), Cell::Token(constructor), arguments.into()])
    }

    /// A type parameter of a type or a method.
    pub fn type_parameter(&mut self, owner: u32, number: u32, flags: u32, name: &str) -> u32 {
        self.add(TYPE_PARAMETER, [number.into(), flags.into(), Cell::Token(owner), name.into()])
    }

    /// A type that a type parameter requires.
    pub fn constrain(&mut self, parameter: u32, to: u32) -> u32 {
        self.add(CONSTRAINT, [parameter, to].map(Cell::Token))
    }

    /// A property of the last type.
    pub fn property(&mut self, name: &str, signature: &[u8]) -> u32 {
        self.map(PROPERTY_MAP, PROPERTY);
        self.add(PROPERTY, [0.into(), name.into(), signature.into()])
    }

    /// An event of the last type.
    pub fn event(&mut self, name: &str, of_type: u32) -> u32 {
        self.map(EVENT_MAP, EVENT);
        self.add(EVENT, [0.into(), name.into(), Cell::Token(of_type)])
    }

    /// The last type's list of properties or events begins with the next one, unless it has begun.
    fn map(&mut self, maps: u32, kind: u32) {
        let class = self.last(TYPE);
        if self.rows.get(&self.last(maps)).is_none_or(|map| map.number(0) != class) {
            let list = self.next(kind);
            self.add(maps, [Cell::Token(class), list]);
        }
    }

    /// What a method is to a property or an event (source: corhdr.h, CorMethodSemanticsAttr).
    pub fn accessor(&mut self, semantic: u32, method: u32, association: u32) {
        self.add(SEMANTICS, [semantic.into(), Cell::Token(method), Cell::Token(association)]);
    }

    /// A member of another module, or of a generic type's instance.
    pub fn member_reference(&mut self, parent: u32, name: &str, signature: &[u8]) -> u32 {
        self.add(MEMBER_REFERENCE, [Cell::Token(parent), name.into(), signature.into()])
    }

    /// The signature of a method's local variables.
    pub fn local_variables(&mut self, signature: &[u8]) -> u32 {
        self.add(SIGNATURE, [signature.into()])
    }

    /// A generic type's instance.
    pub fn type_spec(&mut self, signature: &[u8]) -> u32 {
        self.add(TYPE_SPEC, [signature.into()])
    }

    /// A generic method's instance.
    pub fn method_spec(&mut self, method: u32, arguments: &[u8]) -> u32 {
        self.add(METHOD_SPEC, [Cell::Token(method), arguments.into()])
    }

    /// A text of the program. Equal texts are one.
    pub fn user_string(&mut self, text: &str) -> u32 {
        if let Some((offset, _)) = self.texts.iter().find(|(_, known)| *known == text) {
            return TEXT | offset;
        }
        let token = TEXT | self.end_of_texts;
        self.texts.insert(self.end_of_texts, text.to_owned());
        self.end_of_texts += stored_text(text).len() as u32;
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_used_twice_is_stored_once() {
        let mut contents = Contents::new();
        let [first, other, again] = ["put", "none", "put"].map(|text| contents.user_string(text));
        assert_eq!((first, again, contents.texts.len()), (TEXT | 1, TEXT | 1, 2));
        assert_eq!(other, TEXT | (1 + stored_text("put").len() as u32));
    }
}
