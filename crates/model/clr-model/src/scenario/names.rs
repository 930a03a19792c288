//! The symbols of the samples on the host, compared with the true stacks.

use crate::agent::Process;
use crate::runtime::FunctionTruth;
use remora_wire::{Message, MethodKind, Place, layout};
use std::collections::HashMap;

/// A method as the agent describes it.
#[derive(Debug)]
enum Method {
    /// Its module's name, if known, and its token there.
    InModule(Option<String>, u32),
    /// The token in the name of a dynamic function.
    Dynamic(u32),
}

impl Method {
    fn is(&self, truth: &FunctionTruth) -> bool {
        match (self, &truth.module) {
            (Method::InModule(module, token), Some(name)) => {
                *token == truth.token && module.as_ref().is_none_or(|module| module == name)
            }
            (Method::Dynamic(token), None) => *token == truth.token,
            _ => false,
        }
    }
}

/// The collector's tables.
#[derive(Debug, Default)]
pub struct Names {
    /// File names of modules without the extension; `None` if the agent could not read it.
    modules: HashMap<u32, Option<String>>,
    methods: HashMap<u32, Method>,
    places: HashMap<u64, Option<u32>>,
    /// Received samples.
    pub samples: u64,
    /// Frames with a name, all correct.
    pub named: u64,
}

impl Names {
    /// Reads one message of the transport.
    pub fn take(&mut self, process: &Process, words: &[u64]) {
        match Message::decode(words.into()) {
            Ok(Message::Module { index, path, .. }) => {
                let name = path.rsplit('/').next().and_then(|file| file.strip_suffix(".dll"));
                self.modules.insert(index, name.map(str::to_owned));
            }
            Ok(Message::Method { index, kind }) => {
                let named = |module| self.modules.get(&module).cloned().flatten();
                let method = match kind {
                    MethodKind::Token { module, token, .. } => Some(Method::InModule(named(module), token)),
                    MethodKind::Named { name, .. } => token_of(&name).map(Method::Dynamic),
                };
                match method {
                    Some(method) => self.methods.insert(index, method),
                    None => self.methods.remove(&index),
                };
            }
            Ok(Message::Address { address, place }) => {
                let method = match place {
                    Place::Managed { method, .. } => Some(method),
                    _ => None,
                };
                self.places.insert(address, method);
            }
            Ok(Message::Sample { time, addresses, .. }) => {
                self.samples += 1;
                self.compare(process, time, &addresses);
            }
            Ok(_) => {}
            Err(_) => process.runtime.faults.report("WIRE", "a message of the transport cannot be read"),
        }
    }

    /// The method of an interrupted leaf frame must be found: its unload waits for that, unless a time-out has expired.
    fn check_leaf(&self, process: &Process, addresses: &[u64], truth: &[Option<FunctionTruth>]) {
        let (Some(address), Some(Some(_))) = (addresses.first(), truth.first()) else { return };
        let is_native = self.places.get(address) == Some(&None);
        let is_counted = process.link.counter(layout::LOST_DESCRIPTIONS) > 0;
        // The agent makes no calls in a process that is exiting.
        let is_excused = process.runtime.has_lost_track() || process.runtime.is_ending();
        if is_native && !is_counted && !is_excused {
            let what = "a sample was taken in a method that was gone before it was looked up";
            process.runtime.faults.report("CAT-08", what);
        }
    }

    /// A frame may lack a name, but must never have a wrong one (contract CAT-09).
    fn compare(&mut self, process: &Process, number: u64, addresses: &[u64]) {
        let truth = process.sampler.truth(number);
        self.check_leaf(process, addresses, &truth);
        for (address, truth) in addresses.iter().zip(truth) {
            let Some(Some(method)) = self.places.get(address) else { continue };
            let Some(method) = self.methods.get(method) else { continue };
            if truth.is_some_and(|truth| method.is(&truth)) || process.runtime.has_lost_track() {
                self.named += 1;
            } else {
                process.runtime.faults.report(
                    "CAT-09",
                    "a sample carries the name of another function: its code was unloaded before it was looked up",
                );
            }
        }
    }
}

/// The token in the name of a dynamic function, as the model writes it.
fn token_of(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_prefix("dynamic0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_token_in_another_module_is_another_method() {
        let truth = FunctionTruth { module: Some("shop".to_owned()), token: 1 };
        let of = |module: &str, token| Method::InModule(Some(module.to_owned()), token);
        assert!(of("shop", 1).is(&truth) && !of("shop", 2).is(&truth) && !of("till", 1).is(&truth));
        assert!(Method::InModule(None, 1).is(&truth), "the agent could not read the module's name");
        assert!(!Method::Dynamic(1).is(&truth));
        assert!(Method::Dynamic(1).is(&FunctionTruth { module: None, token: 1 }));
    }
}
