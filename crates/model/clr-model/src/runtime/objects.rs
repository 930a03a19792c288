//! Info about objects, their classes and statics.
//!
//! A call about an object is one step. Its caller must prevent a GC, since the id would mean another object afterwards.

use super::calls::{call_all, low};
use super::code::ModuleId;
use super::heap::{Class, ClassId, Object, ObjectId};
use super::info::{Server, stale};
use super::{Runtime, State};
use crate::mutation;
use corprof::{HResult, sys};
use std::sync::atomic::AtomicUsize;

/// The properties of a class.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassFacts {
    pub(super) module: usize,
    pub(super) token: u32,
    pub(super) parent: usize,
    pub(super) element: Option<usize>,
}

/// The distance from a module's id to that of its functions' class.
const CLASS_OF_MODULE: usize = 0x10;
/// The token of that class: the first after `<Module>`.
pub(super) const ITS_TOKEN: u32 = 0x0200_0002;

/// The class to which a module's functions belong.
pub(super) fn class_of(module: ModuleId) -> ClassId {
    ClassId(module.0 + CLASS_OF_MODULE)
}

impl State {
    /// The class of a module's token.
    pub(super) fn class_of_token(&self, module: ModuleId, token: u32) -> Option<ClassId> {
        let is_it = |class: &Class| class.module == Some(module) && class.token == token;
        let defined = self.heap.classes.iter().find(|(_, class)| is_it(class)).map(|(id, _)| *id);
        defined.or_else(|| (token == ITS_TOKEN).then(|| class_of(module)))
    }

    /// A module's classes by token; the class of its functions has no further properties.
    pub(super) fn classes_of(&self, module: ModuleId) -> impl Iterator<Item = (u32, Option<&Class>)> {
        let defined = self.heap.classes.values().filter(move |class| class.module == Some(module));
        std::iter::once((ITS_TOKEN, None)).chain(defined.map(|class| (class.token, Some(class))))
    }
}

fn facts_of(state: &State, class: ClassId) -> Option<ClassFacts> {
    if let Some(known) = state.heap.classes.get(&class) {
        return Some(ClassFacts {
            module: known.module.map_or(0, |module| module.0),
            token: known.token,
            parent: known.parent.map_or(0, |parent| parent.0),
            element: known.element.map(|element| element.0),
        });
    }
    let module = ModuleId(class.0.checked_sub(CLASS_OF_MODULE)?);
    let is_loaded = state.code.modules.contains_key(&module);
    is_loaded.then_some(ClassFacts { module: module.0, token: ITS_TOKEN, parent: 0, element: None })
}

impl Server {
    /// Looks up a live object. 0 is no object, and no fault.
    pub(super) fn about_object<T>(
        &self,
        object: usize,
        what: &str,
        look: impl Fn(&State, &Object) -> T,
    ) -> Result<T, HResult> {
        let runtime = self.runtime()?;
        if object == 0 {
            return Err(HResult::E_INVALIDARG);
        }
        let seen = {
            let state = runtime.lock();
            let known = state.heap.object_at(ObjectId(object));
            let known = known.filter(|known| known.generation > 0 || !mutation::is("GCH-04"));
            known.map(|known| look(&state, known))
        };
        seen.ok_or_else(|| stale(&runtime, "object", what))
    }

    /// Looks up a class that must be alive when the call begins and when it is answered.
    pub(super) fn about_class(&self, class: usize, what: &str) -> Result<ClassFacts, HResult> {
        if class == 0 {
            return Err(HResult::E_INVALIDARG);
        }
        self.about("class", what, |runtime| facts_of(&runtime.lock(), ClassId(class)))
    }

    /// The address of a static field.
    pub(super) fn static_place(&self, class: usize, field: u32, what: &str) -> Result<*mut AtomicUsize, HResult> {
        self.about_class(class, what)?;
        let runtime = self.runtime()?;
        let state = runtime.lock();
        let known = state.heap.statics.get(&(ClassId(class), field)).ok_or(HResult::E_INVALIDARG)?;
        Ok(std::ptr::from_ref(&*known.place).cast_mut())
    }

    /// The addresses that an object references.
    pub(super) fn references_of(&self, object: usize) -> Result<Vec<usize>, HResult> {
        self.about_object(object, "EnumerateObjectReferences", |state, known| {
            known.references.iter().filter_map(|key| state.heap.id_of(*key)).collect()
        })
    }
}

impl Runtime {
    /// The class of a module's functions is loaded with the first of them.
    pub(super) fn load_class_of_functions(&self, module: ModuleId) {
        let is_new = {
            let mut state = self.lock();
            let known = state.code.modules.get_mut(&module);
            known.is_some_and(|known| !std::mem::replace(&mut known.has_loaded_class, true))
        };
        if is_new {
            self.tell_class_loads(class_of(module));
        }
    }

    /// Reports that a class is loaded. By then the class is complete.
    pub(super) fn tell_class_loads(&self, class: ClassId) {
        call_all!(self, low(sys::COR_PRF_MONITOR_CLASS_LOADS), class_load_started(class.0));
        call_all!(self, low(sys::COR_PRF_MONITOR_CLASS_LOADS), class_load_finished(class.0, 0));
    }

    /// Reports the classes that go with a module.
    pub(super) fn tell_classes_unload(&self, module: ModuleId) {
        let classes: Vec<ClassId> = {
            let state = self.lock();
            let of_functions = state.code.modules.get(&module).filter(|known| known.has_loaded_class);
            let of_functions = of_functions.map(|_| class_of(module));
            let defined = state.heap.classes.iter().filter(|(_, class)| class.module == Some(module));
            of_functions.into_iter().chain(defined.map(|(id, _)| *id)).collect()
        };
        for class in classes {
            call_all!(self, low(sys::COR_PRF_MONITOR_CLASS_LOADS), class_unload_started(class.0));
            call_all!(self, low(sys::COR_PRF_MONITOR_CLASS_LOADS), class_unload_finished(class.0, 0));
        }
    }

    /// A class of the framework's module, derived from its `System.Object`, for objects whose class does not matter. Without a framework it is
    /// one of the runtime's own.
    pub fn framework_class(&self) -> ClassId {
        let (known, framework) = {
            let state = self.lock();
            (state.heap.of_framework, state.code.framework())
        };
        known.unwrap_or_else(|| {
            let class = self.define_class(framework, framework.map(class_of));
            self.lock().heap.of_framework = framework.map(|_| class);
            class
        })
    }
}
