//! Static fields: what a program holds from outside of its objects, by name.

use crate::layout::{Layouts, Slot};
use crate::values::{Member, Value, readable};

/// A static field of a class that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticField {
    /// The whole name of the class.
    pub owner: String,
    /// The simple name of its assembly.
    pub assembly: String,
    /// The field's name.
    pub name: String,
    /// What it holds.
    pub slot: Slot,
    /// What is known of that.
    pub content: StaticContent,
}

/// What is known of what a static field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaticContent {
    /// These bits, as many as what it holds has: of a reference an address, or 0.
    Bits(u64),
    /// A value in a box, at this address.
    Box(u64),
    /// What it holds was not wanted.
    NotKept,
}

impl StaticField {
    /// The object that it keeps alive, by its address.
    pub fn holds(&self) -> Option<u64> {
        match self.content {
            StaticContent::Bits(address) if self.slot.kind.is_reference() => {
                Some(address).filter(|address| *address != 0)
            }
            StaticContent::Box(address) => Some(address),
            _ => None,
        }
    }

    /// `MyApp.Cache.entries`.
    pub fn whole_name(&self) -> String {
        format!("{}.{}", self.owner, readable(&self.name))
    }

    /// As a field of an object would be shown. Of a value in a box it is where that lies.
    pub fn member(&self, layouts: &Layouts) -> Member {
        let value = match self.content {
            StaticContent::Bits(bits) => layouts.value_of(&self.slot, bits),
            StaticContent::Box(address) => Value::Reference(address),
            StaticContent::NotKept => Value::Cut,
        };
        Member { name: readable(&self.name), of: self.slot.of.clone(), declared_by: None, value, is_computed: false }
    }
}
