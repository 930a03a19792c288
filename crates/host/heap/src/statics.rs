//! Static fields by name, with the objects they keep alive.

use crate::allowance::Allowance;
use crate::layout::{Layouts, Slot};
use crate::values::{Member, Value, readable};

/// A static field of a loaded class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticField {
    /// The full name of its class.
    pub owner: String,
    /// The simple name of its assembly.
    pub assembly: String,
    /// The field's name.
    pub name: String,
    /// The kind of its value.
    pub slot: Slot,
    /// Its value, as far as known.
    pub content: StaticContent,
}

/// The known content of a static field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaticContent {
    /// As many bits as the field has; of a reference the address, or 0.
    Bits(u64),
    /// A boxed value, at this address.
    Box(u64),
    /// The value was not requested.
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

    /// The field as a member of an object would be shown. A boxed value is shown by its address.
    pub fn member(&self, layouts: &Layouts, allowance: &Allowance) -> Member {
        let value = match self.content {
            StaticContent::Bits(bits) => layouts.value_of(&self.slot, bits, allowance),
            StaticContent::Box(address) => Value::Reference(address),
            StaticContent::NotKept => Value::Cut,
        };
        Member { name: readable(&self.name), of: self.slot.of.clone(), declared_by: None, value, is_computed: false }
    }
}
