//! Declarations of a type that affect the lifetime of objects: finalizer and events.

use crate::bytes::Reader;
use crate::image::ManagedImage;
use crate::metadata::{Table, row_of};
use crate::name::MethodName;
use crate::types::RawType;

/// Maximum number of events of one type.
const EVENT_LIMIT: usize = 256;
/// The signature of a finalizer: instance method, no parameters, no result (ECMA-335 II.23.2.1).
const FINALIZER: [u8; 3] = [0x20, 0x00, 0x01];
/// Method flags (ECMA-335 II.23.1.10): static; virtual; hides what it could override.
const STATIC: u32 = 0x0010;
const VIRTUAL: u32 = 0x0040;
const NEW_SLOT: u32 = 0x0100;

/// An event of a type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeclaredEvent {
    /// `Changed`.
    pub name: String,
    /// The definition of its delegate, with the number of its type arguments: `System.EventHandler`1`.
    pub delegate: String,
    /// Whether it is a static event.
    pub is_static: bool,
}

impl ManagedImage {
    /// Whether the type with this TypeDef token overrides `Object.Finalize` itself. Do not ask about `Object`: its own method does not
    /// count.
    ///
    /// The runtime uses the same rule: an object is finalizable if its class has another method in that slot (`methodtablebuilder.cpp`,
    /// `HasFinalizer`).
    pub fn declares_finalizer(&self, token: u32) -> bool {
        let Some(row) = row_of(token, Table::TypeDef) else { return false };
        self.metadata.methods_called(row, "Finalize").into_iter().any(|method| {
            let marks = self.metadata.cell(Table::MethodDef, method, 2).unwrap_or(0);
            marks & (STATIC | VIRTUAL | NEW_SLOT) == VIRTUAL
                && self.metadata.blob(Table::MethodDef, method, 4) == Some(&FINALIZER)
        })
    }

    /// The events that the type with this TypeDef token declares itself.
    pub fn declared_events(&self, token: u32) -> Vec<DeclaredEvent> {
        let Some(row) = row_of(token, Table::TypeDef) else { return Vec::new() };
        let maps = 1..=self.metadata.rows(Table::EventMap);
        let own = maps.filter(|&map| self.metadata.cell(Table::EventMap, map, 0) == Some(row));
        own.flat_map(|map| self.metadata.events_of(map))
            .take(EVENT_LIMIT)
            .filter_map(|event| self.event(row, event))
            .collect()
    }

    fn event(&self, of: u32, row: u32) -> Option<DeclaredEvent> {
        let name = self.metadata.text(Table::Event, row, 1)?.into_owned();
        let delegate = definition_name(&self.definition(self.metadata.cell(Table::Event, row, 2)?)?);
        let adding = self.metadata.methods_called(of, &format!("add_{name}"));
        let marks = adding.first().and_then(|&method| self.metadata.cell(Table::MethodDef, method, 2)).unwrap_or(0);
        Some(DeclaredEvent { name, delegate, is_static: marks & STATIC != 0 })
    }

    /// The definition of a type, or of the generic type that it instantiates.
    fn definition(&self, coded: u32) -> Option<RawType> {
        if coded & 3 != 2 {
            return self.metadata.defined_type(coded);
        }
        // A generic instance: GENERICINST, CLASS, then the type (ECMA-335 II.23.2.12).
        let blob = self.metadata.blob(Table::TypeSpec, coded >> 2, 0)?;
        self.metadata.defined_type(Reader::new(blob.strip_prefix(&[0x15, 0x12])?).compressed()?)
    }
}

fn definition_name(of: &RawType) -> String {
    let arguments: usize = of.parts.iter().map(|(_, own)| own).sum();
    let name =
        MethodName { namespace: of.namespace.clone(), types: of.name_parts(&[]), ..MethodName::default() }.type_name();
    if arguments == 0 { name } else { format!("{name}`{arguments}") }
}
