//! Modules, functions and the memory of their code: loading and unloading in the order of the golden rule.
//!
//! An id becomes enumerable before its load event and ceases to be before its unload event (seed 002); "the event is always last".
//! Ids are never used again, so a stale one is recognised; addresses of code are, at once, since that is what makes a late look-up lie.

use super::Runtime;
use super::calls::{call_all, high, low};
use crate::mutation;
use crate::schedule;
use corprof::sys;
use std::collections::BTreeMap;

/// A ModuleID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub usize);

/// A FunctionID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub usize);

/// Where a load or an unload is (seed 002): the enumerability changes before the event is fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It has begun; nothing can be seen yet.
    Begun,
    /// Enumerations snapped from now on are different.
    Changed,
    /// The event has been sent.
    EventSent,
}

/// Bytes between the beginnings of two bodies of code, and of each body.
pub const CODE_SPACING: u64 = 0x1000;
const CODE_SIZE: u64 = 0x100;
pub(super) const FIRST_CODE: u64 = 0x4000_0000;
const FIRST_MODULE: usize = 0x1000_0000;
const FIRST_FUNCTION: usize = 0x2000_0000;
/// Of the tokens that functions have: mdtMethodDef.
const METHOD_DEFINITION: u32 = 0x0600_0000;

/// What is loaded.
#[derive(Debug, Default)]
pub struct Code {
    pub(super) modules: BTreeMap<ModuleId, Module>,
    pub(super) functions: BTreeMap<FunctionId, Function>,
    /// By the beginning of their code.
    bodies: BTreeMap<u64, FunctionId>,
    free: Vec<u64>,
    made: usize,
}

/// What a module is called: its file and assembly, and the class of its functions.
#[derive(Debug, Clone, Copy)]
pub struct Called {
    /// Without the ending of the file.
    pub module: &'static str,
    /// With its namespace, if it has one.
    pub class: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct Module {
    /// Without names of its own it is called by its id.
    pub(super) called: Option<Called>,
    pub(super) enumerable: bool,
    /// Whether its load has come so far that it is told of.
    pub(super) is_announced: bool,
    pub(super) collectible: bool,
    pub(super) image: Option<Image>,
}

impl Module {
    /// The name of its assembly, and of its file without the ending.
    pub(super) fn assembly_name(&self, own: ModuleId) -> String {
        self.called.map_or_else(|| format!("module{:#x}", own.0), |called| called.module.to_owned())
    }
}

/// A file that is mapped, with precompiled code in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Image {
    pub(super) start: u64,
    /// How far it is taken by code.
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
    /// Without one it is dynamic: made at run time, without metadata.
    pub(super) module: Option<ModuleId>,
    pub(super) token: u32,
    /// What it is called, if anybody has named it.
    pub(super) name: Option<&'static str>,
    /// Compiled while the process runs, as opposed to precompiled: the only ones with events, and in the enumeration.
    pub(super) jitted: bool,
    pub(super) enumerable: bool,
    /// Whether there is code of it: not while it is being compiled for the first time.
    pub(super) is_compiled: bool,
    /// Where the body begins that is called now.
    pub(super) start: u64,
    /// The same of the body that it came with.
    pub(super) first: u64,
    /// The same of those that were made since it is called often, the oldest first: all of them stay, and are enumerated.
    pub(super) better: Vec<u64>,
}

impl Function {
    /// Its original, in each of its bodies, the oldest first.
    pub(super) fn bodies(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.better.iter().copied())
    }

    /// How many of these were compiled while the process ran, and can be seen.
    fn compilations(&self) -> usize {
        let better = if mutation::is("CAT-03/2") { self.better.len().min(1) } else { self.better.len() };
        let first = self.enumerable && self.jitted || mutation::is("CAT-03");
        if mutation::is("CAT-03/2") && first { 1 } else { usize::from(first) + better }
    }
}

/// Ids of each runtime of a process, so that none is one of another's.
const IDS_OF_RUNTIME: usize = 0x1000;

impl Code {
    /// That of one of the process's runtimes: the ids of no two are the same.
    pub(super) fn of_runtime(number: usize) -> Code {
        Code { made: number * IDS_OF_RUNTIME, ..Code::default() }
    }

    fn next(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// Where code of a module comes to lie: what is precompiled lies in the module's image, if it has one.
    fn place_in(&mut self, module: ModuleId, jitted: bool) -> u64 {
        let image = self.modules.get_mut(&module).and_then(|module| module.image.as_mut()).filter(|_| !jitted);
        image.map(Image::place).unwrap_or_else(|| self.place())
    }

    fn place(&mut self) -> u64 {
        let next = self.made as u64;
        self.free.pop().unwrap_or(FIRST_CODE + next * CODE_SPACING)
    }

    /// A function that nobody has seen yet, and its token.
    fn add_function(
        &mut self,
        module: Option<ModuleId>,
        jitted: bool,
        name: Option<&'static str>,
    ) -> (FunctionId, u32) {
        let start = match module {
            Some(module) => self.place_in(module, jitted),
            None => self.place(),
        };
        let serial = self.next();
        let function = FunctionId(FIRST_FUNCTION + serial * 0x10);
        let token = METHOD_DEFINITION | serial as u32;
        let (first, better, is_compiled) = (start, Vec::new(), !jitted);
        let made = Function { module, token, name, jitted, enumerable: false, is_compiled, start, first, better };
        self.functions.insert(function, made);
        self.bodies.insert(start, function);
        (function, token)
    }

    /// The function of a token, if it has an id.
    pub(super) fn function_of(&self, module: ModuleId, token: u32) -> Option<FunctionId> {
        let is_it = |one: &Function| one.module == Some(module) && one.token == token;
        self.functions.iter().find(|(_, one)| is_it(one)).map(|(id, _)| *id)
    }

    /// The function whose code holds the address.
    pub(super) fn function_at(&self, address: u64) -> Option<FunctionId> {
        let (start, function) = self.bodies.range(..=address).next_back()?;
        (address < start + CODE_SIZE).then_some(*function)
    }

    /// Another body of a function: what calls it from now on runs this one.
    pub(super) fn add_body(&mut self, function: FunctionId) -> u64 {
        let start = self.place();
        // The next one comes to lie elsewhere.
        self.made += 1;
        self.bodies.insert(start, function);
        if let Some(known) = self.functions.get_mut(&function) {
            known.start = start;
        }
        start
    }

    /// A better body of a function's original.
    pub(super) fn add_better_body(&mut self, function: FunctionId) -> u64 {
        let start = self.add_body(function);
        if let Some(known) = self.functions.get_mut(&function) {
            known.better.push(start);
        }
        start
    }

    /// What no runtime does while anybody may be in it.
    pub(super) fn forget_first_body(&mut self, function: FunctionId) {
        if let Some(known) = self.functions.get(&function) {
            self.bodies.remove(&known.first);
        }
    }

    /// The module that what has none of its own is said to be of: the oldest one that stays.
    pub(super) fn framework(&self) -> Option<ModuleId> {
        self.modules.iter().find(|(_, module)| !module.collectible).map(|(id, _)| *id)
    }

    /// Where each of its bodies begins.
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
    /// A module loads, step by step, on the running thread.
    pub fn load_module(&self, collectible: bool) -> ModuleId {
        self.load_module_in_steps(collectible, |_| {})
    }

    /// The same of a module whose image is mapped at an address, and stays: there its precompiled functions lie.
    pub fn load_image(&self, start: u64, called: Called) -> ModuleId {
        let image = Some(Image { start, used: 0 });
        self.load(Module { called: Some(called), image, ..Module::default() }, |_| {})
    }

    /// A module that stays and has names.
    pub fn load_module_called(&self, called: Called) -> ModuleId {
        self.load(Module { called: Some(called), ..Module::default() }, |_| {})
    }

    /// The same; `between` is called after each step.
    pub fn load_module_in_steps(&self, collectible: bool, between: impl Fn(Step)) -> ModuleId {
        self.load(Module { collectible, ..Module::default() }, between)
    }

    fn load(&self, new: Module, between: impl Fn(Step)) -> ModuleId {
        let module = {
            let mut state = self.lock();
            let module = ModuleId(FIRST_MODULE + state.code.next() * 0x100);
            state.code.modules.insert(module, new);
            module
        };
        let (id, value) = (module.0, module.0 as u64);
        schedule::note("Module {} starts to load", value);
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
        module
    }

    /// A collectible module unloads. No thread may be in its code. False if it is not there, or stays for ever.
    pub fn unload_module(&self, module: ModuleId) -> bool {
        self.unload_module_in_steps(module, |_| {})
    }

    /// The same; `between` is called after each step.
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
        if !self.is_left_out(came_by_then) {
            call_all!(self, low(sys::COR_PRF_MONITOR_MODULE_LOADS), module_unload_started(id));
        }
        between(Step::EventSent);
        schedule::point();
        // A process that ends unloads nothing any more.
        if self.is_exiting() {
            return false;
        }
        {
            let mut state = self.lock();
            let of_module = state.code.functions.iter().filter(|(_, one)| one.module == Some(module));
            let gone: Vec<FunctionId> = of_module.map(|(id, _)| *id).collect();
            gone.into_iter().for_each(|function| state.code.free_code(function));
            state.code.modules.remove(&module);
            state.heap.module_unloads(module);
        }
        schedule::note("Module {} is gone, and its code with it", value);
        call_all!(self, low(sys::COR_PRF_MONITOR_MODULE_LOADS), module_unload_finished(id, 0));
        true
    }

    /// Profilers that came so far; nobody counts them in a model that is not broken.
    fn came_so_far(&self) -> usize {
        if mutation::is("CAT-06") { self.lock().remembered.len() } else { 0 }
    }

    /// Whether an event is kept from all, since a profiler has come when the lists had changed already.
    fn is_left_out(&self, came_by_then: usize) -> bool {
        mutation::is("CAT-06") && self.lock().remembered.len() > came_by_then
    }

    /// A method of a module gets code: compiled now, or precompiled and met for the first time.
    pub fn make_function(&self, module: ModuleId, jitted: bool) -> FunctionId {
        self.make_function_called(module, jitted, None)
    }

    /// The same, by its name.
    pub fn make_function_called(&self, module: ModuleId, jitted: bool, name: Option<&'static str>) -> FunctionId {
        let (function, token) = self.lock().code.add_function(Some(module), jitted, name);
        if jitted {
            call_all!(self, low(sys::COR_PRF_MONITOR_JIT_COMPILATION), jit_compilation_started(function.0, 1));
            self.is_compiled(function);
            if !mutation::is("CAT-04/2") {
                self.set_enumerable(function);
            }
            schedule::note("Function {} is compiled and enumerable", u64::from(token));
            schedule::point();
            call_all!(self, low(sys::COR_PRF_MONITOR_JIT_COMPILATION), jit_compilation_finished(function.0, 0, 1));
        }
        function
    }

    /// A function without metadata, made at run time.
    pub fn make_dynamic_function(&self) -> FunctionId {
        self.make_dynamic_function_called(None)
    }

    /// The same, by the name that who made it gave it.
    pub fn make_dynamic_function_called(&self, name: Option<&'static str>) -> FunctionId {
        let (function, token) = self.lock().code.add_function(None, true, name);
        schedule::note("A dynamic function is made ({})", u64::from(token));
        let (il, length) = (super::il::BODY.as_ptr(), super::il::BODY.len() as u32);
        call_all!(
            self,
            low(sys::COR_PRF_MONITOR_JIT_COMPILATION),
            dynamic_method_jit_compilation_started(function.0, 1, il, length)
        );
        self.is_compiled(function);
        call_all!(
            self,
            low(sys::COR_PRF_MONITOR_JIT_COMPILATION),
            dynamic_method_jit_compilation_finished(function.0, 0, 1)
        );
        function
    }

    /// It is collected. No thread may be in its code.
    pub fn unload_dynamic_function(&self, function: FunctionId) {
        call_all!(self, high(sys::COR_PRF_HIGH_MONITOR_DYNAMIC_FUNCTION_UNLOADS), dynamic_method_unloaded(function.0));
        schedule::point();
        if self.is_exiting() {
            return;
        }
        self.lock().code.free_code(function);
        schedule::note("A dynamic function is gone ({})", function.0 as u64);
    }

    /// Modules that a profiler must know: enumerable, whether told of or not.
    pub fn modules(&self) -> Vec<ModuleId> {
        let state = self.lock();
        state.code.modules.iter().filter(|(_, module)| module.enumerable).map(|(id, _)| *id).collect()
    }

    /// Functions that were compiled here, as opposed to precompiled ones: each once for every body that was.
    pub fn jitted_functions(&self) -> Vec<FunctionId> {
        let state = self.lock();
        let jitted = state.code.functions.iter();
        jitted.flat_map(|(id, function)| std::iter::repeat_n(*id, function.compilations())).collect()
    }

    /// Where a function's code begins.
    pub fn address_of(&self, function: FunctionId) -> Option<u64> {
        self.lock().code.functions.get(&function).map(|function| function.start)
    }

    /// What a profiler would have to call the function at an address: its token, whatever has happened to its id.
    pub fn truth_at(&self, address: u64) -> Option<u32> {
        let state = self.lock();
        let function = state.code.function_at(address)?;
        state.code.functions.get(&function).map(|function| function.token)
    }

    /// The IL of a method, if there is such a method.
    pub(super) fn il_of(&self, module: ModuleId, token: u32) -> Option<&'static [u8]> {
        self.lock().code.function_of(module, token).map(|_| &super::il::BODY[..])
    }

    /// Whether an address is in code that exists now.
    pub fn is_code(&self, address: u64) -> bool {
        self.lock().code.function_at(address).is_some()
    }

    /// There is code of it from now on.
    fn is_compiled(&self, function: FunctionId) {
        if let Some(function) = self.lock().code.functions.get_mut(&function) {
            function.is_compiled = true;
        }
    }

    fn set_enumerable(&self, function: FunctionId) {
        if let Some(function) = self.lock().code.functions.get_mut(&function) {
            function.enumerable = true;
        }
    }
}

/// Bytes of each function's code.
pub(super) const BODY_SIZE: u64 = CODE_SIZE;
