//! Finds the method of a state machine's type: an attribute of the method names the type.

use crate::bytes::Reader;
use crate::metadata::{Metadata, Table};

/// The attributes on a method with a state machine; their argument is the machine's type.
const ATTRIBUTES: [&[u8]; 3] =
    [b"AsyncStateMachineAttribute", b"IteratorStateMachineAttribute", b"AsyncIteratorStateMachineAttribute"];

impl Metadata {
    /// The method of `enclosing` called `name` (with dashes for dots) that starts the state machine `machine` (TypeDef rows).
    ///
    /// If several methods have the name, the attribute decides. Without an attribute the result is `None`, not a guess.
    pub(crate) fn kickoff_method(&self, enclosing: u32, name: &str, machine: u32) -> Option<u32> {
        let methods = self.methods_called(enclosing, name);
        if let [only] = methods[..] {
            return Some(only);
        }
        let wanted = self.reflection_name(machine)?;
        methods.into_iter().find(|&method| self.starts_machine(method, &wanted))
    }

    /// The methods of a type called `name`. A dash in `name` matches a dash or a dot.
    pub(crate) fn methods_called(&self, type_row: u32, name: &str) -> Vec<u32> {
        let same = |(a, b): (&u8, &u8)| a == b || (*a == b'.' && *b == b'-');
        self.methods_of(type_row)
            .filter(|&method| {
                self.raw_text(Table::MethodDef, method, 3)
                    .is_some_and(|text| text.len() == name.len() && text.iter().zip(name.as_bytes()).all(same))
            })
            .collect()
    }

    /// Whether a row has an attribute of this class; `parent` is the row as a HasCustomAttribute index.
    pub(crate) fn has_attribute(&self, parent: u32, class: &[u8]) -> bool {
        self.attribute_row(parent, class).is_some()
    }

    /// The row of that attribute.
    pub(crate) fn attribute_row(&self, parent: u32, class: &[u8]) -> Option<u32> {
        self.equal_rows(Table::CustomAttribute, 0, parent).find(|&row| self.attribute_class(row) == Some(class))
    }

    fn starts_machine(&self, method: u32, wanted: &str) -> bool {
        self.equal_rows(Table::CustomAttribute, 0, method << 5).any(|row| {
            self.attribute_class(row).is_some_and(|class| ATTRIBUTES.contains(&class))
                && self.attribute_text(row).is_some_and(|text| same_type(&text, wanted))
        })
    }

    fn attribute_class(&self, row: u32) -> Option<&[u8]> {
        let constructor = self.cell(Table::CustomAttribute, row, 1)?;
        match constructor & 7 {
            2 => self.raw_text(Table::TypeDef, self.declaring_type(constructor >> 3)?, 1),
            3 => {
                let parent = self.cell(Table::MemberRef, constructor >> 3, 0)?;
                match parent & 7 {
                    0 => self.raw_text(Table::TypeDef, parent >> 3, 1),
                    1 => self.raw_text(Table::TypeRef, parent >> 3, 1),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The first argument of an attribute whose constructor takes a type.
    fn attribute_text(&self, row: u32) -> Option<String> {
        let mut reader = Reader::new(self.blob(Table::CustomAttribute, row, 2)?);
        if reader.u16()? != 1 {
            return None;
        }
        Some(String::from_utf8_lossy(reader.blob()?).into_owned())
    }

    /// `Namespace.Outer+Inner`, the spelling in an attribute's argument.
    fn reflection_name(&self, row: u32) -> Option<String> {
        let raw = self.type_def(row)?;
        let names: Vec<&str> = raw.parts.iter().map(|(name, _)| name.as_str()).collect();
        let name = names.join("+");
        Some(if raw.namespace.is_empty() { name } else { format!("{}.{name}", raw.namespace) })
    }
}

/// Compares without escapes, and without an assembly after the name.
fn same_type(spelled: &str, wanted: &str) -> bool {
    let plain = spelled.replace('\\', "");
    plain == wanted || plain.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(", "))
}
