//! From addresses to methods: every address, method, type and module is described once, when a sample first contains it (contract CAT-08).
//!
//! Lazy catch-up only: without an enumeration, nothing can be missed or become stale. The worker asks about an id while the sample that
//! holds it is fresh and the [`crate::UnloadBarrier`] delays the unload of its code. Unloaded code is forgotten at once. No id outlives its
//! look-up: descriptions are collected, and sent after the last question.
//!
//! Only facts are remembered. An error leaves doubt: the next look-up asks again, later look-ups ever more rarely. A type whose arguments
//! were cut at the depth limit is described, but not remembered.
//!
//! A stack word may look like a return address into code that has just unloaded. The cache remembers such ranges for some seconds, and does
//! not ask about callers there. It knows only the ranges of code that it had resolved.

use crate::certainty::Certainty;
use crate::fault_injection::{InjectedFault, is_injected};
use crate::guarded_runtime::NOT_ASKED;
use crate::leaf::{Caller, EPILOG_BYTES, PROLOG_BYTES, caller, depth_at_call, link};
use crate::osr::OsrMethods;
use crate::runtime::{CodeBody, FunctionFacts, ModuleFacts, Runtime, TypeFacts};
use crate::unload_barrier::Unload;
use remora_sampler::{Link, Links};
use remora_wire::{Message, MethodKind, Place, TypeKind, floor_char_boundary};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How deep generic arguments are followed: deeper ones of `List<List<...>>` become an unknown type.
const MAXIMUM_TYPE_DEPTH: u32 = 8;

/// Types described for one method, at most; further ones are unknown.
const MAXIMUM_TYPES_A_METHOD: u32 = 256;

/// Addresses remembered at once. Beyond it everything is forgotten and asked again. A full cache takes some 10 MiB.
pub const MAXIMUM_ADDRESSES: usize = 50_000;

/// Types and modules remembered at once, as for addresses.
const MAXIMUM_TYPES: usize = 50_000;

/// Bytes of a name to send, at most: a message that can never fit would end all names of the recording.
const MAXIMUM_NAME: usize = 4096;

/// Generic arguments to send, at most, for the same reason.
const MAXIMUM_ARGUMENTS: usize = 1024;

/// How long to remember where code has unloaded, nanoseconds.
const UNLOADED_FOR: u64 = 5_000_000_000;

/// Ranges of unloaded code to remember, at most: the oldest go first.
const MAXIMUM_UNLOADED: usize = 256;

/// Look-ups between two questions about an address in doubt, at most.
const LONGEST_DOUBT: u16 = 1024;

/// An address in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledAddress {
    /// The executing instruction: there is code.
    Leaf(u64),
    /// A word of the stack: there was code once, most likely.
    Caller(u64),
}

impl SampledAddress {
    /// The address.
    pub fn address(self) -> u64 {
        match self {
            SampledAddress::Leaf(address) | SampledAddress::Caller(address) => address,
        }
    }
}

/// A described address.
#[derive(Debug, Clone, Copy)]
struct Known {
    function: Option<usize>,
    caller: Option<Caller>,
    doubt: Option<Doubt>,
}

/// When to ask again after an error.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// Look-ups until then.
    left: u16,
    /// The last delay, in look-ups.
    interval: u16,
}

/// A described method.
#[derive(Debug, Clone, Copy)]
struct KnownMethod {
    index: u32,
    module: Option<usize>,
}

/// A range of unloaded code.
#[derive(Debug, Clone, Copy)]
struct Unloaded {
    body: CodeBody,
    at: u64,
}

/// All descriptions sent to the collector.
#[derive(Default)]
pub struct MethodCache {
    addresses: HashMap<u64, Known>,
    methods: HashMap<usize, KnownMethod>,
    types: HashMap<usize, u32>,
    modules: HashMap<usize, u32>,
    bodies: HashMap<usize, Vec<CodeBody>>,
    unloaded: VecDeque<Unloaded>,
    /// Addresses whose description was retracted at the collector.
    retracted: HashSet<u64>,
    /// Methods with on-stack replacement (OSR).
    osr: OsrMethods,
    /// When the last OSR method was learnt, monotonic nanoseconds. Earlier samples were walked without knowing it. `u64::MAX` while its
    /// first stack is resolved.
    pub(crate) osr_learnt: u64,
    /// The walk's link table. Every call in it is also in `addresses`.
    links: Arc<[AtomicU64]>,
    next_method: u32,
    next_type: u32,
    next_module: u32,
    types_left: u32,
    now: u64,
    /// Look-ups that the runtime answered with an error other than "not managed".
    pub failed: u64,
}

impl MethodCache {
    /// An empty cache that fills this link table for the walk ([`Links`]).
    pub fn over(links: Arc<[AtomicU64]>) -> MethodCache {
        MethodCache { links, ..MethodCache::default() }
    }

    /// Sets the time, monotonic nanoseconds, and drops old ranges of unloaded code.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
        while self.unloaded.front().is_some_and(|oldest| now.saturating_sub(oldest.at) > UNLOADED_FOR) {
            self.unloaded.pop_front();
        }
    }

    /// Forgets unloaded code. The next sample with such an address asks again.
    ///
    /// Returns how many remembered addresses were scanned: none for unknown functions.
    pub fn forget(&mut self, unloads: &[Unload]) -> usize {
        if is_injected(InjectedFault::KeepUnloadedMethods) {
            return 0;
        }
        // Retract again: the retraction may be lost, or the address described since.
        self.retracted.clear();
        let mut functions = HashSet::new();
        let mut everything = false;
        for what in unloads {
            match *what {
                Unload::Function(function) => {
                    let known = self.methods.remove(&function).is_some() | self.unload_bodies(function);
                    if known {
                        functions.insert(function);
                    }
                }
                Unload::Module { id, .. } => {
                    self.unload_bodies_of_module(id);
                    everything = true;
                }
                Unload::Anything => everything = true,
            }
        }
        if everything {
            // A module's classes may be arguments of any generic method: forget everything.
            return self.forget_everything();
        }
        if functions.is_empty() {
            return 0;
        }
        let gone_through = self.addresses.len();
        let links = Links::new(&self.links);
        self.addresses.retain(|address, known| {
            let stays = known.function.is_none_or(|function| !functions.contains(&function));
            if !stays {
                links.forget(after(*address));
            }
            stays
        });
        gone_through
    }

    /// Describes an address if it is new. Returns whether it is managed code.
    pub fn resolve(&mut self, runtime: &impl Runtime, sampled: SampledAddress, out: &mut Vec<Message>) -> bool {
        let address = sampled.address();
        let interval = match self.remembered(address) {
            Ok(managed) => return managed,
            Err(interval) => interval,
        };
        if matches!(sampled, SampledAddress::Caller(_)) && self.unloaded.iter().any(|gone| holds(&gone.body, address)) {
            self.retract(address, out);
            return false;
        }
        self.make_room();
        self.retracted.remove(&address);
        let (function, place, standing) = match runtime.function_at(address) {
            Ok(Some(function)) => {
                let (place, standing) = self.managed(runtime, function, address, out);
                (Some(function), place, standing)
            }
            Ok(None) => (None, Place::Native, Certainty::FACT),
            Err(code) => (None, Place::Native, self.failed(code)),
        };
        let next = (interval * 2).clamp(1, LONGEST_DOUBT);
        let doubt = standing.failed.then_some(Doubt { left: next - 1, interval: next });
        self.addresses.insert(address, Known { function, caller: None, doubt });
        out.push(Message::Address { address, place });
        function.is_some()
    }

    /// Where the caller of the managed code at `instruction` is, just before that instruction executes.
    ///
    /// Call [`MethodCache::resolve`] for it first. `None` if the code is unknown.
    pub fn caller_of(&mut self, runtime: &impl Runtime, instruction: u64) -> Option<Caller> {
        let known = *self.addresses.get(&instruction)?;
        if known.caller.is_some() {
            return known.caller;
        }
        let body = *self.body(runtime, known.function?, instruction)?;
        let (mut prolog, mut here) = ([0; PROLOG_BYTES], [0; EPILOG_BYTES]);
        let prolog = runtime.code(body, body.start, &mut prolog);
        let here = runtime.code(body, instruction, &mut here);
        if prolog.is_empty() || here.is_empty() {
            return None;
        }
        let found = caller(prolog, (instruction - body.start) as usize, here);
        if let Some(known) = self.addresses.get_mut(&instruction) {
            known.caller = Some(found);
        }
        Some(found)
    }

    /// How the code around `return_address` keeps its frame, `None` if unknown. A certain answer also goes into the walk's link table.
    /// Call [`MethodCache::resolve`] for the call instruction first.
    pub fn link_of(&mut self, runtime: &impl Runtime, return_address: u64) -> Option<Link> {
        let links = self.links.clone();
        let links = Links::new(&links);
        links.find(return_address).or_else(|| {
            let call = before(return_address);
            let link = self.read_link(runtime, call)?;
            let is_sure = self.addresses.get(&call).is_some_and(|known| known.doubt.is_none());
            (!is_sure || links.learn(return_address, link)).then_some(link)
        })
    }

    /// [`depth_at_call`] of the method at `return_address`. Nothing else confirms it, unlike [`MethodCache::link_of`].
    pub(crate) fn depth_of(&mut self, runtime: &impl Runtime, return_address: u64) -> Option<u64> {
        let call = before(return_address);
        let function = self.addresses.get(&call)?.function?;
        let body = *self.body(runtime, function, call)?;
        let mut prolog = [0; PROLOG_BYTES];
        depth_at_call(runtime.code(body, body.start, &mut prolog), usize::try_from(return_address - body.start).ok()?)
    }

    /// The link of `return_address` in the walk's table. An address with a link has been described without doubt.
    pub(crate) fn known_link(&self, return_address: u64) -> Option<Link> {
        Links::new(&self.links).find(return_address)
    }

    /// Whether a described address lies in the optimised body of an OSR method.
    pub(crate) fn is_in_replacement(&self, address: u64) -> bool {
        let function = self.addresses.get(&address).and_then(|known| known.function);
        let bodies = function.and_then(|function| self.bodies.get(&function));
        bodies.into_iter().flatten().any(|body| holds(body, address) && self.osr.is_optimised(*body))
    }

    fn read_link(&mut self, runtime: &impl Runtime, call: u64) -> Option<Link> {
        let known = self.addresses.get(&call)?;
        let Some(function) = known.function else {
            // While in doubt, the code may still be managed.
            return known.doubt.is_none().then_some(Link::Native);
        };
        let body = *self.body(runtime, function, call)?;
        if let Some(distance) = self.osr.distance(body) {
            return Some(Link::Replaced(distance));
        }
        let mut prolog = [0; PROLOG_BYTES];
        link(runtime.code(body, body.start, &mut prolog), usize::try_from(after(call) - body.start).ok()?)
    }

    /// Whether an address is managed code. `Err` if the runtime must be asked: the last delay, in look-ups.
    fn remembered(&mut self, address: u64) -> Result<bool, u16> {
        let known = self.addresses.get_mut(&address).ok_or(0_u16)?;
        match &mut known.doubt {
            Some(Doubt { left: 0, interval }) => return Err(*interval),
            Some(doubt) => doubt.left -= 1,
            None => {}
        }
        Ok(known.function.is_some())
    }

    fn forget_everything(&mut self) -> usize {
        let gone_through = self.addresses.len();
        self.addresses.clear();
        self.methods.clear();
        self.types.clear();
        self.modules.clear();
        self.bodies.clear();
        self.osr.forget_everything();
        Links::new(&self.links).clear();
        gone_through
    }

    /// Retracts the description of an address: it must not name newer code there.
    pub(crate) fn retract(&mut self, address: u64, out: &mut Vec<Message>) {
        if self.retracted.len() >= MAXIMUM_ADDRESSES {
            self.retracted.clear();
        }
        if self.retracted.insert(address) {
            out.push(Message::Address { address, place: Place::Native });
        }
    }

    fn make_room(&mut self) {
        if self.addresses.len() >= MAXIMUM_ADDRESSES || self.types.len() + self.modules.len() >= MAXIMUM_TYPES {
            self.forget_everything();
        }
    }

    /// Remembers where a function's code was. Returns whether the function was known.
    fn unload_bodies(&mut self, function: usize) -> bool {
        let Some(bodies) = self.bodies.remove(&function) else { return false };
        for body in bodies {
            self.osr.forget(body);
            if self.unloaded.len() >= MAXIMUM_UNLOADED {
                self.unloaded.pop_front();
            }
            self.unloaded.push_back(Unloaded { body, at: self.now });
        }
        true
    }

    fn unload_bodies_of_module(&mut self, module: usize) {
        let of_it = self.methods.iter().filter(|(_, method)| method.module == Some(module));
        let functions: Vec<usize> = of_it.map(|(function, _)| *function).collect();
        for function in functions {
            self.unload_bodies(function);
        }
    }

    /// Counts an error of the runtime, but not an unasked question.
    fn failed(&mut self, code: u32) -> Certainty {
        self.failed += u64::from(code != NOT_ASKED);
        Certainty::FAILED
    }

    fn managed(
        &mut self,
        runtime: &impl Runtime,
        function: usize,
        address: u64,
        out: &mut Vec<Message>,
    ) -> (Place, Certainty) {
        let (method, standing) = self.method(runtime, function, out);
        let il_offset = self
            .body(runtime, function, address)
            .copied()
            .and_then(|body| runtime.il_offset(function, body, (address - body.start) as u32));
        (Place::Managed { method, il_offset }, standing)
    }

    /// The body of `function` that contains `address`. If no known body does, asks the runtime again: a new one may have been compiled.
    fn body(&mut self, runtime: &impl Runtime, function: usize, address: u64) -> Option<&CodeBody> {
        let fresh = self.bodies.get(&function).is_none_or(|bodies| !bodies.iter().any(|body| holds(body, address)));
        if fresh {
            let bodies = runtime.bodies(function);
            // There is code again: addresses in it may be asked about.
            self.unloaded.retain(|gone| !bodies.iter().any(|body| overlap(&gone.body, body)));
            let changed = self.osr.learn(runtime, &bodies);
            if !changed.is_empty() {
                self.osr_learnt = u64::MAX;
            }
            let links = Links::new(&self.links);
            let of_them = |address: &&u64| changed.iter().any(|body| holds(body, **address));
            self.addresses.keys().filter(of_them).for_each(|address| links.forget(after(*address)));
            self.bodies.insert(function, bodies);
        }
        self.bodies.get(&function)?.iter().find(|body| holds(body, address))
    }

    fn method(&mut self, runtime: &impl Runtime, function: usize, out: &mut Vec<Message>) -> (u32, Certainty) {
        if let Some(known) = self.methods.get(&function) {
            return (known.index, Certainty::FACT);
        }
        self.types_left = MAXIMUM_TYPES_A_METHOD;
        let mut standing = Certainty::FACT;
        let (kind, module) = match runtime.describe_function(function) {
            Ok(FunctionFacts::Token { module, token, class, arguments }) => {
                let (index, on_disk) = self.module(runtime, module, &mut standing, out);
                let names = runtime.names_of(function, on_disk, token);
                let kind = MethodKind::Token {
                    module: index,
                    token,
                    class_arguments: self.arguments_of(runtime, class, &mut standing, out),
                    arguments: self.types(runtime, &arguments, 0, &mut standing, out),
                    names: names.map(|(type_name, method_name)| (shortened(type_name), shortened(method_name))),
                };
                (kind, Some(module))
            }
            Ok(FunctionFacts::Dynamic { name, module }) => {
                let index = module.map(|module| self.module(runtime, module, &mut standing, out).0);
                (named(index, name), module)
            }
            Err(code) => {
                standing = self.failed(code);
                (named(None, String::new()), None)
            }
        };
        let index = self.next_method;
        self.next_method += 1;
        if !standing.failed {
            self.methods.insert(function, KnownMethod { index, module });
        }
        out.push(Message::Method { index, kind });
        (index, standing)
    }

    fn arguments_of(
        &mut self,
        runtime: &impl Runtime,
        class: Option<usize>,
        standing: &mut Certainty,
        out: &mut Vec<Message>,
    ) -> Vec<u32> {
        match class.map(|class| runtime.describe_type(class)) {
            Some(Ok(TypeFacts::Class { arguments, .. })) => self.types(runtime, &arguments, 0, standing, out),
            Some(Err(code)) => {
                standing.and(self.failed(code));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn types(
        &mut self,
        runtime: &impl Runtime,
        classes: &[usize],
        depth: u32,
        standing: &mut Certainty,
        out: &mut Vec<Message>,
    ) -> Vec<u32> {
        let classes = classes.iter().take(MAXIMUM_ARGUMENTS);
        classes.map(|class| self.type_(runtime, *class, depth, standing, out)).collect()
    }

    /// The index of a class. An uncertain answer is not remembered, and makes `outer` uncertain, too.
    fn type_(
        &mut self,
        runtime: &impl Runtime,
        class: usize,
        depth: u32,
        outer: &mut Certainty,
        out: &mut Vec<Message>,
    ) -> u32 {
        if let Some(&index) = self.types.get(&class) {
            return index;
        }
        let (facts, mut standing) = self.type_facts(runtime, class, depth);
        let kind = match facts {
            TypeFacts::Class { module, token, arguments } => TypeKind::Class {
                module: self.module(runtime, module, &mut standing, out).0,
                token,
                arguments: self.types(runtime, &arguments, depth + 1, &mut standing, out),
            },
            TypeFacts::Array { element, rank, element_kind } => TypeKind::Array {
                element: element.map(|class| self.type_(runtime, class, depth + 1, &mut standing, out)),
                rank,
                element_kind,
            },
            TypeFacts::Unknown => TypeKind::Unknown,
        };
        let index = self.next_type;
        self.next_type += 1;
        if standing.is_fact() {
            self.types.insert(class, index);
        }
        outer.and(standing);
        out.push(Message::Type { index, kind });
        index
    }

    fn type_facts(&mut self, runtime: &impl Runtime, class: usize, depth: u32) -> (TypeFacts, Certainty) {
        if class == 0 {
            return (TypeFacts::Unknown, Certainty::FACT);
        }
        if depth >= MAXIMUM_TYPE_DEPTH || self.types_left == 0 {
            return (TypeFacts::Unknown, Certainty::CUT);
        }
        self.types_left -= 1;
        match runtime.describe_type(class) {
            Ok(facts) => (facts, Certainty::FACT),
            Err(code) => (TypeFacts::Unknown, self.failed(code)),
        }
    }

    /// Describes a method if it is new; its index.
    pub(crate) fn resolve_method(&mut self, runtime: &impl Runtime, function: usize, out: &mut Vec<Message>) -> u32 {
        self.method(runtime, function, out).0
    }

    /// Describes the class of an object if it is new; its index.
    pub(crate) fn resolve_class(&mut self, runtime: &impl Runtime, class: usize, out: &mut Vec<Message>) -> u32 {
        self.make_room();
        self.types_left = MAXIMUM_TYPES_A_METHOD;
        let mut standing = Certainty::FACT;
        self.type_(runtime, class, 0, &mut standing, out)
    }

    /// Describes an enumerated module if it is new; its index. `None` if the runtime failed to describe it.
    pub(crate) fn resolve_module(
        &mut self,
        runtime: &impl Runtime,
        module: usize,
        out: &mut Vec<Message>,
    ) -> Option<u32> {
        let mut standing = Certainty::FACT;
        let (index, _) = self.module(runtime, module, &mut standing, out);
        standing.is_fact().then_some(index)
    }

    /// The module's index, and whether its metadata is in a file.
    fn module(
        &mut self,
        runtime: &impl Runtime,
        module: usize,
        standing: &mut Certainty,
        out: &mut Vec<Message>,
    ) -> (u32, bool) {
        if let Some(&index) = self.modules.get(&module) {
            return (index & !IN_MEMORY, index & IN_MEMORY == 0);
        }
        let index = self.next_module;
        self.next_module += 1;
        let facts = runtime.describe_module(module);
        if let Ok(facts) = &facts {
            self.modules.insert(module, if facts.mvid.is_none() { index } else { index | IN_MEMORY });
        }
        let ModuleFacts { path, mvid } = facts.unwrap_or_else(|code| {
            standing.and(self.failed(code));
            ModuleFacts { path: String::new(), mvid: Some([0; 16]) }
        });
        out.push(Message::Module { index, path: shortened(path), mvid });
        (index, mvid.is_none())
    }
}

/// Marks a module without a file in `MethodCache::modules`.
const IN_MEMORY: u32 = 1 << 31;

fn named(module: Option<u32>, name: String) -> MethodKind {
    MethodKind::Named { module, name: shortened(name) }
}

fn shortened(mut name: String) -> String {
    name.truncate(floor_char_boundary(&name, MAXIMUM_NAME));
    name
}

/// The last byte of the call before a return address.
pub(crate) fn before(return_address: u64) -> u64 {
    return_address.wrapping_sub(1)
}

fn after(call: u64) -> u64 {
    call.wrapping_add(1)
}

fn holds(body: &CodeBody, address: u64) -> bool {
    body.start <= address && address < body.end
}

fn overlap(one: &CodeBody, other: &CodeBody) -> bool {
    one.start < other.end && other.start < one.end
}
