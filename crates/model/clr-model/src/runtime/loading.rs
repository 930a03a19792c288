//! Finds a class or a function by its token, and loads the class if nobody has.
//!
//! A generic class or method has no id of its own; its instances have. The model has no instances of classes. References to other modules
//! are not modelled. A thread that the runtime does not know crashes the process if it loads a class (live: the same test), also that of
//! the attach.

use super::code::{FunctionId, Module, ModuleId};
use super::heap::{Class, ClassId};
use super::objects::{ITS_TOKEN, class_of};
use super::{Runtime, State};
use crate::differences::RuntimeVersion;
use corprof::HResult;

/// COR_E_TYPELOAD: no such class, or none with so many type arguments.
const NOT_LOADED: HResult = HResult(0x8013_1522_u32 as i32);
/// COR_E_BADIMAGEFORMAT: another number of type arguments than the method has.
const OTHER_COUNT: HResult = HResult(0x8007_000B_u32 as i32);

/// The kind of a method, as far as its declaration says.
struct Declared {
    is_of_generic_class: bool,
    type_parameters: usize,
}

impl Module {
    fn has_loaded(&self, class: u32) -> bool {
        if class == ITS_TOKEN { self.has_loaded_class } else { self.loaded.contains(&class) }
    }

    /// A method whose class is loaded. Without contents, nothing is declared.
    fn declared(&self, method: u32) -> Option<Declared> {
        let contents = self.contents.as_ref()?;
        let class = contents.type_of(method).filter(|class| self.has_loaded(*class))?;
        let is_of_generic_class = contents.type_parameters(class) > 0;
        Some(Declared { is_of_generic_class, type_parameters: contents.type_parameters(method) })
    }
}

impl State {
    fn declared(&self, module: ModuleId, method: u32) -> Option<Declared> {
        self.code.modules.get(&module)?.declared(method)
    }

    /// The function of a token (live: ids_from_tokens.rs).
    pub(super) fn function_from_token(&mut self, module: ModuleId, token: u32) -> Result<FunctionId, HResult> {
        match self.declared(module, token) {
            Some(known) if known.is_of_generic_class || known.type_parameters > 0 => {
                Err(HResult::CORPROF_E_FUNCTION_IS_PARAMETERIZED)
            }
            Some(_) => Ok(self.code.declared_function(module, token, &[])),
            None => self.code.function_of(module, token).ok_or(HResult::E_INVALIDARG),
        }
    }

    /// The same for a function with these type arguments, of a class that is no instance of a generic one.
    pub(super) fn function_with_types(
        &mut self,
        module: ModuleId,
        token: u32,
        types: &[usize],
    ) -> Result<FunctionId, HResult> {
        match self.declared(module, token) {
            Some(known) if known.is_of_generic_class => Err(NOT_LOADED),
            Some(known) if known.type_parameters != types.len() => Err(OTHER_COUNT),
            Some(_) => Ok(self.code.declared_function(module, token, types)),
            None => {
                let function = self.code.function_of(module, token).ok_or(HResult::CORPROF_E_DATAINCOMPLETE)?;
                if types.is_empty() { Ok(function) } else { Err(OTHER_COUNT) }
            }
        }
    }

    /// Loads a class of the module's contents. True if that is new, with the class's id if it is not generic.
    fn load_class(&mut self, module: ModuleId, token: u32) -> (bool, Option<ClassId>) {
        let Some(known) = self.code.modules.get_mut(&module) else { return (false, None) };
        let is_generic = known.contents.as_ref().is_some_and(|contents| contents.type_parameters(token) > 0);
        let is_new = known.loaded.insert(token);
        if is_generic {
            return (false, None);
        }
        if !is_new {
            return (false, self.class_of_token(module, token));
        }
        (true, Some(self.heap.insert_class(Class { module: Some(module), token, parent: None, element: None })))
    }
}

impl Runtime {
    /// Reports a load of a class on a thread that the runtime does not know. Measured for .NET 3.1 to 10; the desktop is not known.
    pub(super) fn check_loading_thread(&self, module: ModuleId, token: u32, what: &str) {
        let loads = self.lock().code.modules.get(&module).is_some_and(|known| {
            let is_declared = known.contents.as_ref().is_some_and(|contents| contents.has_type(token));
            is_declared && !known.has_loaded(token)
        });
        if loads && self.this_thread().is_none() && self.runtime_version != RuntimeVersion::Desktop4 {
            let what = format!(
                "{what} loads a class on a thread that the runtime does not know, which crashes .NET 3.1 to 10; call it in a callback on a thread of the program, or for classes whose load was reported"
            );
            self.faults.report("MOD-01", what);
            self.config.process.crash();
        }
    }

    /// The class of a token, whose load is reported if it is not loaded yet (live: ids_from_tokens.rs). `types` is the number of given type
    /// arguments.
    pub(super) fn class_from_token(
        &self,
        module: ModuleId,
        token: u32,
        types: Option<usize>,
    ) -> Result<ClassId, HResult> {
        let is_declared = {
            let state = self.lock();
            let contents = state.code.modules.get(&module).and_then(|module| module.contents.as_ref());
            contents.is_some_and(|contents| contents.has_type(token))
        };
        let (is_new, class) = match is_declared {
            true if token == ITS_TOKEN => {
                self.load_class_of_functions(module);
                (false, Some(class_of(module)))
            }
            true => self.lock().load_class(module, token),
            false => (false, Some(self.lock().class_of_token(module, token).ok_or(NOT_LOADED)?)),
        };
        if let Some(class) = class.filter(|_| is_new) {
            self.tell_class_loads(class);
        }
        match (class, types) {
            (Some(_), Some(1..)) | (None, Some(_)) => Err(NOT_LOADED),
            (Some(class), _) => Ok(class),
            (None, None) => Err(HResult::CORPROF_E_TYPE_IS_PARAMETERIZED),
        }
    }
}
