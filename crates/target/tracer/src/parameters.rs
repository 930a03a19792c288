//! What the types in a method's signature say about its values.

use crate::fixed_modules::FixedModule;
use crate::rejit::metadata::{Enumeration, Metadata};
use corprof::{Alive, Info, Loading};
use remora_il::{MethodSignature, Value};
use remora_wire::is_framework;
use remora_wire::method_trace::{MOST_VALUES, Parameter, RESULT_NAME, Structure};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Bytes of the texts of one method's parameters, as far as constants fill them.
const LONGEST_TEXTS: usize = 3500;
/// The types that a module's signatures name.
pub(crate) struct Types<'a, L: Loading> {
    info: &'a Info<L, Alive>,
    pub(crate) metadata: &'a Metadata,
    /// The enums of other assemblies are in one of these.
    others: &'a [FixedModule],
    /// What was looked up, by token.
    known: RefCell<BTreeMap<u32, Option<Enumeration>>>,
}

impl<'a, L: Loading> Types<'a, L> {
    /// Those of a module. None of `others` may unload meanwhile.
    pub(crate) fn of(info: &'a Info<L, Alive>, metadata: &'a Metadata, others: &'a [FixedModule]) -> Types<'a, L> {
        Types { info, metadata, others, known: RefCell::default() }
    }

    /// One byte of a signature: the type itself, or for an enum the type of its numbers. `None` for any other type.
    pub(crate) fn element(&self, of_type: &[u8]) -> Option<u8> {
        match of_type {
            [element] => Some(*element),
            _ => self.enumeration(of_type).map(|found| found.element),
        }
    }

    /// The structure of the core library that a type is.
    pub(crate) fn structure(&self, of_type: &[u8]) -> Option<Structure> {
        let Value::ValueType(token) = Value::of(of_type) else { return None };
        let (name, scope) = self.metadata.type_reference(token).filter(|_| token >> 24 == 1)?;
        let structure = Structure::named(name.strip_prefix("System.")?)?;
        is_framework(&self.metadata.assembly_reference(scope)?).then_some(structure)
    }

    fn enumeration(&self, of_type: &[u8]) -> Option<Enumeration> {
        let Value::ValueType(token) = Value::of(of_type) else { return None };
        let find = || Enumeration::of(self.info, self.metadata, token, self.others);
        self.known.borrow_mut().entry(token).or_insert_with(find).clone()
    }

    /// The texts of a method's parameters, and of its result if that is an enum or a structure. `result` is the type of what is recorded: of
    /// an asynchronous method, what its task has. Constants that do not fit into `room` bytes are left out.
    pub(crate) fn parameters(
        &self,
        method: u32,
        signature: &MethodSignature<'_>,
        result: Option<&[u8]>,
        room: usize,
    ) -> Vec<String> {
        let described = |name: String, of_type: Option<&[u8]>| {
            let found = of_type.and_then(|of_type| self.enumeration(of_type));
            let (constants, is_flags) = found.map_or_else(Default::default, |found| (found.constants, found.is_flags));
            let structure = of_type.and_then(|of_type| self.structure(of_type));
            Parameter { name, constants, is_flags, structure }
        };
        let mut all: Vec<Parameter> = (0..signature.parameters.len())
            .map(|position| {
                let name = self.metadata.parameter(method, position as u32 + 1).unwrap_or_default();
                // Values beyond are not recorded.
                let of_type = signature.parameters.get(position).filter(|_| position < MOST_VALUES);
                described(name, of_type.copied())
            })
            .collect();
        let result = described(RESULT_NAME.to_owned(), result);
        if !result.constants.is_empty() || result.structure.is_some() {
            all.push(result);
        }
        Parameter::texts(&all, room.min(LONGEST_TEXTS))
    }
}
