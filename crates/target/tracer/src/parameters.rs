//! What the types in a method's signature say about its values.

use crate::rejit::metadata::{Enumeration, Metadata};
use corprof::{Alive, Info, Loading, ModuleId};
use remora_il::{MethodSignature, Value};
use remora_wire::is_framework;
use remora_wire::method_trace::{MOST_VALUES, Parameter, RESULT_NAME, Structure};

/// The types that a module's signatures name.
pub(crate) struct Types<'a, L: Loading> {
    info: &'a Info<L, Alive>,
    metadata: &'a Metadata,
    /// Modules that cannot unload: the enums of other assemblies are in one of them.
    others: &'a [ModuleId],
}

impl<'a, L: Loading> Types<'a, L> {
    /// Those of a module. None of `others` may unload meanwhile.
    pub(crate) fn of(info: &'a Info<L, Alive>, metadata: &'a Metadata, others: &'a [ModuleId]) -> Types<'a, L> {
        Types { info, metadata, others }
    }

    /// The type of numbers by which a type is read, one byte of a signature; `None` for one of several bytes that is no enum.
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
        Enumeration::of(self.info, self.metadata, token, self.others)
    }

    /// The texts of a method's parameters, and of its result if its type says more than a number does.
    pub(crate) fn parameters(&self, method: u32, signature: &MethodSignature<'_>) -> Vec<String> {
        let described = |name: String, of_type: Option<&&[u8]>| {
            let found = of_type.and_then(|of_type| self.enumeration(of_type));
            let (constants, is_flags) = found.map_or_else(Default::default, |found| (found.constants, found.is_flags));
            let structure = of_type.and_then(|of_type| self.structure(of_type));
            Parameter { name, constants, is_flags, structure }
        };
        let mut all: Vec<Parameter> = (0..signature.parameters.len())
            .map(|position| {
                let name = self.metadata.parameter(method, position as u32 + 1).unwrap_or_default();
                // Values beyond are not recorded.
                described(name, signature.parameters.get(position).filter(|_| position < MOST_VALUES))
            })
            .collect();
        let result = described(RESULT_NAME.to_owned(), signature.result.as_ref());
        if !result.constants.is_empty() || result.structure.is_some() {
            all.push(result);
        }
        all.iter().map(Parameter::to_text).collect()
    }
}
