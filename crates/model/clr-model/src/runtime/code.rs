//! Modules, functions and the memory of their code, loaded and unloaded by the golden rule.
//!
//! An id becomes enumerable before its load event, and stops before its unload event (seed 002); "the event is always last". Ids are never
//! reused, so a stale one is recognised. Code addresses are reused at once, which makes late lookups wrong.

use super::Runtime;
use super::calls::{call_all, high, low};
use super::metadata_contents::Contents;
use crate::mutation;
use crate::schedule;
use corprof::sys;
pub use corprof::{FunctionId, ModuleId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The progress of a load or unload (seed 002): the enumerability changes before the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It has begun; nothing is visible yet.
    Begun,
    /// Enumerations from now on are different.
    Changed,
    /// The event has been sent.
    EventSent,
}

/// The distance between the starts of two bodies, then the size of a body; bytes.
pub const CODE_SPACING: u64 = 0x1000;
const CODE_SIZE: u64 = 0x100;
pub(super) const FIRST_CODE: u64 = 0x4000_0000;
const FIRST_MODULE: usize = 0x1000_0000;
/// The first address of a module without an image of its own, and the distance to the next one's.
const FIRST_BASE: usize = 0x0900_0000;
const SPACING_OF_BASES: u64 = 0x4000;
/// Where such modules lie: start and bytes.
pub(super) const PLACE_OF_BASES: (usize, usize) = (FIRST_BASE, 32 << 20);
const FIRST_FUNCTION: usize = 0x2000_0000;
/// The token kind of functions: mdtMethodDef.
pub(super) const METHOD_DEFINITION: u32 = 0x0600_0000;

/// Everything loaded.
#[derive(Debug, Default)]
pub struct Code {
    pub(super) modules: BTreeMap<ModuleId, Module>,
    pub(super) functions: BTreeMap<FunctionId, Function>,
    /// By the start of their code.
    bodies: BTreeMap<u64, FunctionId>,
    free: Vec<u64>,
    /// Functions that have an id and were never compiled, by module, token and type arguments.
    uncompiled: BTreeMap<(ModuleId, u32, Vec<usize>), FunctionId>,
    made: usize,
}

/// The names of a module: its file and assembly, and the class of its functions.
#[derive(Debug, Clone, Copy)]
pub struct Called {
    /// Without the file extension.
    pub module: &'static str,
    /// With its namespace, if it has one.
    pub class: &'static str,
}

/// Which function it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionTruth {
    /// The name of its module's file without the extension; `None` for a dynamic function.
    pub module: Option<String>,
    /// Its token in the module.
    pub token: u32,
}

#[derive(Debug, Default)]
pub(super) struct Module {
    /// Without names, its id is its name.
    pub(super) called: Option<Called>,
    /// What its metadata holds. Without contents, that grows with the methods that run.
    pub(super) contents: Option<Arc<Contents>>,
    pub(super) enumerable: bool,
    /// Whether its load is announced: from the enumerable step on.
    pub(super) is_announced: bool,
    /// Whether the class of its functions is loaded: with the first of them.
    pub(super) has_loaded_class: bool,
    /// Further types of its contents that are loaded.
    pub(super) loaded: BTreeSet<u32>,
    /// Methods that have run, in a module without contents: the rows of its methods have no holes.
    pub(super) methods: u32,
    /// Classes that were defined while the program runs. Their rows follow those of the contents.
    pub(super) defined: u32,
    /// Metadata rows that profilers have added.
    pub(super) emitted: u32,
    pub(super) collectible: bool,
    pub(super) image: Option<Image>,
    /// Its address if it has no such image. There is memory in processes that load foreign libraries.
    pub(super) base: u64,
}

impl Module {
    /// Where its file is mapped.
    pub(super) fn address(&self) -> u64 {
        self.image.map_or(self.base, |image| image.start)
    }

    /// The name of its assembly, and of its file without the extension.
    pub(super) fn assembly_name(&self, own: ModuleId) -> String {
        self.called.map_or_else(|| format!("module{:#x}", own.0), |called| called.module.to_owned())
    }

    /// The path of its file.
    pub(super) fn path(&self, own: ModuleId) -> String {
        format!("/app/{}.dll", self.assembly_name(own))
    }
}

/// The distance from a module's id to that of its assembly, which has no other module.
const ASSEMBLY_OF_MODULE: usize = 1;

/// The assembly of a module.
pub(super) fn assembly_of(module: ModuleId) -> usize {
    module.0 + ASSEMBLY_OF_MODULE
}

/// The module of an assembly.
pub(super) fn module_of(assembly: usize) -> ModuleId {
    ModuleId(assembly.saturating_sub(ASSEMBLY_OF_MODULE))
}

/// A mapped file with precompiled code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Image {
    pub(super) start: u64,
    /// Bytes used by code.
    used: u64,
}

impl Image {
    fn place(&mut self) -> u64 {
        self.used += CODE_SIZE;
        self.start + self.used
    }
}

#[derive(Debug, Clone)]
pub(super) struct Function {
    /// `None` for a dynamic function: made at run time, without metadata.
    pub(super) module: Option<ModuleId>,
    pub(super) token: u32,
    /// Its name, if it was given one.
    pub(super) name: Option<&'static str>,
    /// Compiled while the process runs, not precompiled. Only these have events and are enumerated.
    pub(super) jitted: bool,
    pub(super) enumerable: bool,
    /// Whether its code exists: not during the first compilation.
    pub(super) is_compiled: bool,
    /// Start of the current body.
    pub(super) start: u64,
    /// Start of its first body.
    pub(super) first: u64,
    /// Starts of its better bodies, oldest first. All of them stay and are enumerated.
    pub(super) better: Vec<u64>,
}

impl Function {
    /// The bodies of its original version, oldest first.
    pub(super) fn bodies(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.better.iter().copied())
    }

    /// How many of these were compiled while the process ran, and are visible.
    fn compilations(&self) -> usize {
        let better = if mutation::is("CAT-03/2") { self.better.len().min(1) } else { self.better.len() };
        let first = self.enumerable && self.jitted || mutation::is("CAT-03");
        if mutation::is("CAT-03/2") && first { 1 } else { usize::from(first) + better }
    }
}

/// Range of ids for each runtime of a process, so that they never overlap.
const IDS_OF_RUNTIME: usize = 0x1000;

impl Code {
    /// The code of one of the process's runtimes, with its own range of ids.
    pub(super) fn of_runtime(number: usize) -> Code {
        Code { made: number * IDS_OF_RUNTIME, ..Code::default() }
    }

    fn next(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// The row of a module's next method.
    fn next_method(&mut self, module: Option<ModuleId>) -> Option<u32> {
        let known = self.modules.get_mut(&module?)?;
        known.methods += 1;
        Some(known.methods)
    }

    /// The address for a module's code: precompiled code lies in the module's image, if it has one.
    fn place_in(&mut self, module: ModuleId, jitted: bool) -> u64 {
        let image = self.modules.get_mut(&module).and_then(|module| module.image.as_mut()).filter(|_| !jitted);
        image.map(Image::place).unwrap_or_else(|| self.place())
    }

    fn place(&mut self) -> u64 {
        let next = self.made as u64;
        self.free.pop().unwrap_or(FIRST_CODE + next * CODE_SPACING)
    }

    /// Adds a function that is not visible yet, with its token.
    fn add_function(
        &mut self,
        module: Option<ModuleId>,
        jitted: bool,
        name: Option<&'static str>,
    ) -> (FunctionId, u32) {
        let contents = module.and_then(|module| self.modules.get(&module)?.contents.as_ref());
        let declared = contents.map(|contents| {
            let declared = name.and_then(|name| contents.method_called(name));
            declared.expect("a module with contents has a method of this name in its first class")
        });
        if let (Some(module), Some(token)) = (module, declared)
            && let Some(function) = self.uncompiled.remove(&(module, token, Vec::new()))
            && let Some(known) = self.functions.get_mut(&function)
        {
            (known.name, known.jitted, known.is_compiled) = (name, jitted, !jitted);
            return (function, token);
        }
        self.insert_function(module, declared, jitted, name)
    }

    /// Without a token, it gets its module's next one.
    fn insert_function(
        &mut self,
        module: Option<ModuleId>,
        token: Option<u32>,
        jitted: bool,
        name: Option<&'static str>,
    ) -> (FunctionId, u32) {
        let start = match module {
            Some(module) => self.place_in(module, jitted),
            None => self.place(),
        };
        let serial = self.next();
        let function = FunctionId(FIRST_FUNCTION + serial * 0x10);
        let row = token.is_none().then(|| self.next_method(module)).flatten().unwrap_or(serial as u32);
        let token = token.unwrap_or(METHOD_DEFINITION | row);
        let (first, better, is_compiled) = (start, Vec::new(), !jitted);
        let made = Function { module, token, name, jitted, enumerable: false, is_compiled, start, first, better };
        self.functions.insert(function, made);
        self.bodies.insert(start, function);
        (function, token)
    }

    /// The function of a method that the module's contents declare. Compiled or not, it has an id as soon as somebody asks.
    pub(super) fn declared_function(&mut self, module: ModuleId, token: u32, types: &[usize]) -> FunctionId {
        let known = if types.is_empty() { self.function_of(module, token) } else { None };
        let key = (module, token, types.to_vec());
        known.or_else(|| self.uncompiled.get(&key).copied()).unwrap_or_else(|| {
            let (function, _) = self.insert_function(Some(module), Some(token), true, None);
            self.uncompiled.insert(key, function);
            function
        })
    }

    /// The function of a token, if it has an id. Of a generic method's instances, the newest.
    pub(super) fn function_of(&self, module: ModuleId, token: u32) -> Option<FunctionId> {
        let is_it = |one: &Function| one.module == Some(module) && one.token == token;
        self.functions.iter().rfind(|(_, one)| is_it(one)).map(|(id, _)| *id)
    }

    /// Whether a token is that of a method with IL.
    fn has_il(&self, module: ModuleId, token: u32) -> bool {
        let contents = self.modules.get(&module).and_then(|module| module.contents.as_ref());
        contents.is_some_and(|contents| contents.has_code(token)) || self.function_of(module, token).is_some()
    }

    /// The function whose code contains the address.
    pub(super) fn function_at(&self, address: u64) -> Option<FunctionId> {
        let (start, function) = self.bodies.range(..=address).next_back()?;
        (address < start + CODE_SIZE).then_some(*function)
    }

    /// Adds a body to a function; later calls run it.
    pub(super) fn add_body(&mut self, function: FunctionId) -> u64 {
        let start = self.place();
        // The next body gets another address.
        self.made += 1;
        self.bodies.insert(start, function);
        if let Some(known) = self.functions.get_mut(&function) {
            known.start = start;
        }
        start
    }

    /// Adds a better body to a function's original version.
    pub(super) fn add_better_body(&mut self, function: FunctionId) -> u64 {
        let start = self.add_body(function);
        if let Some(known) = self.functions.get_mut(&function) {
            known.better.push(start);
        }
        start
    }

    /// Removes a body that threads may still execute; no runtime does this.
    pub(super) fn forget_first_body(&mut self, function: FunctionId) {
        if let Some(known) = self.functions.get(&function) {
            self.bodies.remove(&known.first);
        }
    }

    /// The module reported for functions without one: the oldest that is not collectible.
    pub(super) fn framework(&self) -> Option<ModuleId> {
        self.modules.iter().find(|(_, module)| !module.collectible).map(|(id, _)| *id)
    }

    /// The starts of its bodies.
    pub(super) fn bodies_of(&self, function: FunctionId) -> impl Iterator<Item = u64> {
        self.bodies.iter().filter(move |(_, of)| **of == function).map(|(start, _)| *start)
    }

    fn free_code(&mut self, function: FunctionId) {
        let bodies: Vec<u64> = self.bodies_of(function).collect();
        if self.functions.remove(&function).is_some() {
            bodies.iter().for_each(|start| _ = self.bodies.remove(start));
            self.free.extend(bodies);
        }
    }
}

impl Runtime {
    /// Loads a module, step by step, on the running thread.
    pub fn load_module(&self, collectible: bool) -> ModuleId {
        self.load_module_in_steps(collectible, |_| {})
    }

    /// The same for a module whose image stays mapped at an address, and contains its precompiled functions.
    pub fn load_image(&self, start: u64, called: Called) -> ModuleId {
        let image = Some(Image { start, used: 0 });
        self.load(Module { called: Some(called), image, ..Module::default() }, |_| {})
    }

    /// Loads a module with names, which stays.
    pub fn load_module_called(&self, called: Called) -> ModuleId {
        self.load(Module { called: Some(called), ..Module::default() }, |_| {})
    }

    /// The same, with the contents of its metadata. Every function of the module must be one of its methods.
    pub fn load_module_with(&self, called: Called, contents: Contents) -> ModuleId {
        let contents = Some(Arc::new(contents));
        self.load(Module { called: Some(called), contents, ..Module::default() }, |_| {})
    }

    /// Loads a module without names; `between` runs after each step.
    pub fn load_module_in_steps(&self, collectible: bool, between: impl Fn(Step)) -> ModuleId {
        self.load(Module { collectible, ..Module::default() }, between)
    }

    fn load(&self, mut new: Module, between: impl Fn(Step)) -> ModuleId {
        let module = {
            let mut state = self.lock();
            let serial = state.code.next();
            let module = ModuleId(FIRST_MODULE + serial * 0x100);
            new.base = FIRST_BASE as u64 + (serial as u64 * SPACING_OF_BASES) % PLACE_OF_BASES.1 as u64;
            state.code.modules.insert(module, new);
            module
        };
        let (id, value) = (module.0, module.0 as u64);
        schedule::note("Module {} starts to load", value);
        call_all!(self, low(sys::COR_PRF_MONITOR_ASSEMBLY_LOADS), assembly_load_started(assembly_of(module)));
        call_all!(self, low(sys::COR_PRF_MONITOR_MODULE_LOADS), module_load_started(id));
        between(Step::Begun);
        if let Some(module) = self.lock().code.modules.get_mut(&module) {
            module.enumerable = !mutation::is("CAT-04/3");
            module.is_announced = true;
        }
        schedule::note("ModuleID {} is now enumerable", value);
        let came_by_then = self.came_so_far();
        between(Step::Changed);
        schedule::point();
        if !self.is_left_out(came_by_then) {
            call_all!(self, low(sys::COR_PRF_MONITOR_MODULE_LOADS), module_load_finished(id, 0));
        }
        between(Step::EventSent);
        let assembly = assembly_of(module);
        call_all!(self, low(sys::COR_PRF_MONITOR_MODULE_LOADS), module_attached_to_assembly(id, assembly));
        call_all!(self, low(sys::COR_PRF_MONITOR_ASSEMBLY_LOADS), assembly_load_finished(assembly, 0));
        module
    }

    /// Unloads a collectible module. No thread may be in its code. False if it does not exist or is not collectible.
    pub fn unload_module(&self, module: ModuleId) -> bool {
        self.unload_module_in_steps(module, |_| {})
    }

    /// The same; `between` runs after each step.
    pub fn unload_module_in_steps(&self, module: ModuleId, between: impl Fn(Step)) -> bool {
        schedule::note("Module {} starts to unload", module.0 as u64);
        between(Step::Begun);
        {
            let mut state = self.lock();
            let Some(known) = state.code.modules.get_mut(&module).filter(|known| known.collectible && known.enumerable)
            else {
                return false;
            };
            known.enumerable = mutation::is("CAT-04");
            let of_module = state.code.functions.values_mut().filter(|one| one.module == Some(module));
            of_module.for_each(|one| one.enumerable = false);
        }
        let (id, value) = (module.0, module.0 as u64);
        schedule::note("ModuleID {} is no longer enumerable", value);
        let came_by_then = self.came_so_far();
        between(Step::Changed);
        schedule::point();
        if self.differences().assembly_unload_begins {
            call_all!(self, low(sys::COR_PRF_MONITOR_ASSEMBLY_LOADS), assembly_unload_started(assembly_of(module)));
        }
        if !self.is_left_out(came_by_then) {
            call_all!(self, low(sys::COR_PRF_MONITOR_MODULE_LOADS), module_unload_started(id));
        }
        between(Step::EventSent);
        schedule::point();
        // An exiting process unloads nothing.
        if self.is_exiting() {
            return false;
        }
        self.tell_classes_unload(module);
        {
            let mut state = self.lock();
            let of_module = state.code.functions.iter().filter(|(_, one)| one.module == Some(module));
            let gone: Vec<FunctionId> = of_module.map(|(id, _)| *id).collect();
            gone.into_iter().for_each(|function| state.code.free_code(function));
            state.code.modules.remove(&module);
            state.metadata.remove(&module);
            state.heap.module_unloads(module);
        }
        schedule::note("Module {} is gone, and its code with it", value);
        call_all!(self, low(sys::COR_PRF_MONITOR_MODULE_LOADS), module_unload_finished(id, 0));
        call_all!(self, low(sys::COR_PRF_MONITOR_ASSEMBLY_LOADS), assembly_unload_finished(assembly_of(module), 0));
        true
    }

    /// Profilers so far; counted only by a mutation.
    fn came_so_far(&self) -> usize {
        if mutation::is("CAT-06") { self.lock().remembered.len() } else { 0 }
    }

    /// Whether an event is withheld from all profilers, since one attached after the lists had changed.
    fn is_left_out(&self, came_by_then: usize) -> bool {
        mutation::is("CAT-06") && self.lock().remembered.len() > came_by_then
    }

    /// Gives a module's method its code: compiled now, or precompiled and called for the first time.
    pub fn make_function(&self, module: ModuleId, jitted: bool) -> FunctionId {
        self.make_function_called(module, jitted, None)
    }

    /// The same, with a name.
    pub fn make_function_called(&self, module: ModuleId, jitted: bool, name: Option<&'static str>) -> FunctionId {
        self.load_class_of_functions(module);
        let (function, token) = self.lock().code.add_function(Some(module), jitted, name);
        if jitted {
            call_all!(self, low(sys::COR_PRF_MONITOR_JIT_COMPILATION), jit_compilation_started(function.0, 1));
            self.change_function(function, |known| {
                known.is_compiled = true;
                known.enumerable |= !mutation::is("CAT-04/2");
            });
            schedule::note("Function {} is compiled and enumerable", u64::from(token));
            schedule::point();
            call_all!(self, low(sys::COR_PRF_MONITOR_JIT_COMPILATION), jit_compilation_finished(function.0, 0, 1));
        }
        function
    }

    /// Makes a function without metadata at run time.
    pub fn make_dynamic_function(&self) -> FunctionId {
        self.make_dynamic_function_called(None)
    }

    /// The same, with the name that its creator gave.
    pub fn make_dynamic_function_called(&self, name: Option<&'static str>) -> FunctionId {
        let (function, token) = self.lock().code.add_function(None, true, name);
        schedule::note("A dynamic function is made ({})", u64::from(token));
        let (il, length) = (super::il::BODY.as_ptr(), super::il::BODY.len() as u32);
        let wanted = low(sys::COR_PRF_MONITOR_JIT_COMPILATION);
        call_all!(self, &wanted, dynamic_method_jit_compilation_started(function.0, 1, il, length));
        self.change_function(function, |known| known.is_compiled = true);
        call_all!(self, &wanted, dynamic_method_jit_compilation_finished(function.0, 0, 1));
        function
    }

    /// Collects it. No thread may be in its code.
    pub fn unload_dynamic_function(&self, function: FunctionId) {
        call_all!(self, high(sys::COR_PRF_HIGH_MONITOR_DYNAMIC_FUNCTION_UNLOADS), dynamic_method_unloaded(function.0));
        schedule::point();
        if self.is_exiting() {
            return;
        }
        self.lock().code.free_code(function);
        schedule::note("A dynamic function is gone ({})", function.0 as u64);
    }

    /// Modules that a profiler must know: all enumerable ones, with or without an event.
    pub fn modules(&self) -> Vec<ModuleId> {
        let state = self.lock();
        state.code.modules.iter().filter(|(_, module)| module.enumerable).map(|(id, _)| *id).collect()
    }

    /// Functions compiled here, not precompiled ones; one entry per compiled body.
    pub fn jitted_functions(&self) -> Vec<FunctionId> {
        let state = self.lock();
        let jitted = state.code.functions.iter();
        jitted.flat_map(|(id, function)| std::iter::repeat_n(*id, function.compilations())).collect()
    }

    /// The start of a function's code.
    pub fn address_of(&self, function: FunctionId) -> Option<u64> {
        self.lock().code.functions.get(&function).map(|function| function.start)
    }

    /// The name of the module and the token of the function at an address, whatever happened to its id.
    pub fn truth_at(&self, address: u64) -> Option<FunctionTruth> {
        let state = self.lock();
        let function = state.code.functions.get(&state.code.function_at(address)?)?;
        let named = |module: ModuleId| state.code.modules.get(&module).map(|known| known.assembly_name(module));
        Some(FunctionTruth { module: function.module.and_then(named), token: function.token })
    }

    /// The IL of a method, if the method exists.
    pub(super) fn il_of(&self, module: ModuleId, token: u32) -> Option<&'static [u8]> {
        self.lock().code.has_il(module, token).then_some(&super::il::BODY[..])
    }

    /// Whether an address is in existing code.
    pub fn is_code(&self, address: u64) -> bool {
        self.lock().code.function_at(address).is_some()
    }

    fn change_function(&self, function: FunctionId, change: impl FnOnce(&mut Function)) {
        self.lock().code.functions.get_mut(&function).map(change);
    }
}

/// Bytes of a function's code.
pub(super) const BODY_SIZE: u64 = CODE_SIZE;
