//! From addresses to methods: every address, method, type and module is described once, when it is first met (contract CAT-08).
//!
//! Lazy catch-up only: nothing is enumerated, so nothing can be missed or be stale. An id is asked about while a sample that
//! holds it is fresh and the [`crate::Gate`] keeps its code from unloading; what has unloaded is forgotten at once.

use crate::gate::Unload;
use crate::leaf::{Caller, EPILOG_BYTES, PROLOG_BYTES, caller};
use crate::runtime::{CodeBody, FunctionFacts, Runtime, TypeFacts};
use remora_wire::{Message, MethodKind, Place, TypeKind};
use std::collections::HashMap;

/// How deep generic arguments are followed: `List<List<...>>` of more than this ends in an unknown type.
const MAXIMUM_TYPE_DEPTH: u32 = 8;

/// Addresses remembered at once; beyond it everything is forgotten and asked for again.
const MAXIMUM_ADDRESSES: usize = 200_000;

/// What is remembered of an address.
#[derive(Debug, Clone, Copy)]
struct Known {
    function: Option<usize>,
    caller: Option<Caller>,
}

/// What has been described to the collector so far.
#[derive(Default)]
pub struct Catalogue {
    addresses: HashMap<u64, Known>,
    methods: HashMap<usize, u32>,
    types: HashMap<usize, u32>,
    modules: HashMap<usize, u32>,
    bodies: HashMap<usize, Vec<CodeBody>>,
    next_method: u32,
    next_type: u32,
    next_module: u32,
    /// Look-ups that the runtime answered with an error other than "not managed".
    pub failed: u64,
}

/// Where descriptions go.
pub trait Describe {
    /// Takes one message.
    fn describe(&mut self, message: &Message);
}

impl Catalogue {
    /// Forgets what has unloaded. The next sample that meets the same address asks anew.
    pub fn forget(&mut self, what: Unload) {
        match what {
            Unload::Function(function) => {
                self.methods.remove(&function);
                self.bodies.remove(&function);
                self.addresses.retain(|_, known| known.function != Some(function));
            }
            // A module's classes may be arguments of any generic method: all is asked for again.
            Unload::Module(_) | Unload::Anything => {
                self.addresses.clear();
                self.methods.clear();
                self.types.clear();
                self.modules.clear();
                self.bodies.clear();
            }
        }
    }

    /// Describes `address` if it is new. Returns whether it is managed code.
    pub fn meet(&mut self, runtime: &impl Runtime, address: u64, out: &mut impl Describe) -> bool {
        if let Some(known) = self.addresses.get(&address) {
            return known.function.is_some();
        }
        if self.addresses.len() >= MAXIMUM_ADDRESSES {
            self.addresses.clear();
        }
        let function = runtime.function_at(address).unwrap_or_else(|_| {
            self.failed += 1;
            None
        });
        let place = match function {
            Some(function) => self.managed(runtime, function, address, out),
            None => Place::Native,
        };
        self.addresses.insert(address, Known { function, caller: None });
        out.describe(&Message::Address { address, place });
        function.is_some()
    }

    /// Where the caller of the managed code at `instruction` is, while that instruction is about to execute.
    ///
    /// `address` is how [`Catalogue::meet`] was asked about it; `None` if nothing is known of the code.
    pub fn caller_of(&mut self, runtime: &impl Runtime, address: u64, instruction: u64) -> Option<Caller> {
        let known = *self.addresses.get(&address)?;
        if known.caller.is_some() {
            return known.caller;
        }
        let body = *self.body(runtime, known.function?, address)?;
        let (mut prolog, mut here) = ([0; PROLOG_BYTES], [0; EPILOG_BYTES]);
        let prolog = runtime.code(body, body.start, &mut prolog);
        let here = runtime.code(body, instruction, &mut here);
        let found = caller(prolog, (instruction - body.start) as usize, here);
        if let Some(known) = self.addresses.get_mut(&address) {
            known.caller = Some(found);
        }
        Some(found)
    }

    fn managed(&mut self, runtime: &impl Runtime, function: usize, address: u64, out: &mut impl Describe) -> Place {
        let method = self.method(runtime, function, out);
        let il_offset = self
            .body(runtime, function, address)
            .copied()
            .and_then(|body| runtime.il_offset(function, body, (address - body.start) as u32));
        Place::Managed { method, il_offset }
    }

    /// The body of `function` that holds `address`; asked for again when a new one has been compiled.
    fn body(&mut self, runtime: &impl Runtime, function: usize, address: u64) -> Option<&CodeBody> {
        let holds = |body: &&CodeBody| body.start <= address && address < body.end;
        let fresh = self.bodies.get(&function).is_none_or(|bodies| !bodies.iter().any(|body| holds(&body)));
        if fresh {
            self.bodies.insert(function, runtime.bodies(function));
        }
        self.bodies.get(&function)?.iter().find(holds)
    }

    fn method(&mut self, runtime: &impl Runtime, function: usize, out: &mut impl Describe) -> u32 {
        if let Some(&index) = self.methods.get(&function) {
            return index;
        }
        let kind = match runtime.describe_function(function) {
            Ok(FunctionFacts::Token { module, token, class, arguments }) => {
                let module = self.module(runtime, module, out);
                match runtime.names_of(function, module.1, token) {
                    Some((type_name, method_name)) => {
                        MethodKind::Named { module: Some(module.0), type_name, method_name }
                    }
                    None => MethodKind::Token {
                        module: module.0,
                        token,
                        class_arguments: self.arguments_of(runtime, class, out),
                        arguments: arguments.iter().map(|class| self.type_(runtime, *class, 0, out)).collect(),
                    },
                }
            }
            Ok(FunctionFacts::Dynamic { name, module }) => MethodKind::Named {
                module: module.map(|module| self.module(runtime, module, out).0),
                type_name: String::new(),
                method_name: name,
            },
            Err(_) => {
                self.failed += 1;
                MethodKind::Named { module: None, type_name: String::new(), method_name: String::new() }
            }
        };
        let index = self.next_method;
        self.next_method += 1;
        self.methods.insert(function, index);
        out.describe(&Message::Method { index, kind });
        index
    }

    fn arguments_of(&mut self, runtime: &impl Runtime, class: Option<usize>, out: &mut impl Describe) -> Vec<u32> {
        let Some(TypeFacts::Class { arguments, .. }) = class.map(|class| runtime.describe_type(class)) else {
            return Vec::new();
        };
        arguments.iter().map(|argument| self.type_(runtime, *argument, 0, out)).collect()
    }

    fn type_(&mut self, runtime: &impl Runtime, class: usize, depth: u32, out: &mut impl Describe) -> u32 {
        if let Some(&index) = self.types.get(&class) {
            return index;
        }
        let facts =
            if class == 0 || depth >= MAXIMUM_TYPE_DEPTH { TypeFacts::Unknown } else { runtime.describe_type(class) };
        let kind = match facts {
            TypeFacts::Class { module, token, arguments } => TypeKind::Class {
                module: self.module(runtime, module, out).0,
                token,
                arguments: arguments.iter().map(|class| self.type_(runtime, *class, depth + 1, out)).collect(),
            },
            TypeFacts::Array { element, rank, element_kind } => TypeKind::Array {
                element: element.map(|class| self.type_(runtime, class, depth + 1, out)),
                rank,
                element_kind,
            },
            TypeFacts::Unknown => TypeKind::Unknown,
        };
        let index = self.next_type;
        self.next_type += 1;
        self.types.insert(class, index);
        out.describe(&Message::Type { index, kind });
        index
    }

    /// The module's index, and whether its metadata is in a file.
    fn module(&mut self, runtime: &impl Runtime, module: usize, out: &mut impl Describe) -> (u32, bool) {
        if let Some(&index) = self.modules.get(&module) {
            return (index & !IN_MEMORY, index & IN_MEMORY == 0);
        }
        let (path, on_disk) = runtime.describe_module(module);
        let index = self.next_module;
        self.next_module += 1;
        self.modules.insert(module, if on_disk { index } else { index | IN_MEMORY });
        out.describe(&Message::Module { index, path, on_disk });
        (index, on_disk)
    }
}

/// Marks a module without a file in the table of modules.
const IN_MEMORY: u32 = 1 << 31;
