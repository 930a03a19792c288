//! What the samples are called outside, compared with what they really met.

use crate::agent::Process;
use remora_wire::{Message, MethodKind, Place};
use std::collections::HashMap;

/// The collector's tables.
#[derive(Debug, Default)]
pub struct Names {
    methods: HashMap<u32, u32>,
    places: HashMap<u64, Option<u32>>,
    /// Samples that came.
    pub samples: u64,
    /// Frames with a name, all of them right.
    pub named: u64,
}

impl Names {
    /// One message of the transport.
    pub fn take(&mut self, process: &Process, words: &[u64]) {
        match Message::decode(words) {
            Ok(Message::Method { index, kind }) => {
                let token = match kind {
                    MethodKind::Token { token, .. } => Some(token),
                    MethodKind::Named { name, .. } => token_of(&name),
                };
                match token {
                    Some(token) => self.methods.insert(index, token),
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
            Err(_) => process.runtime.court.convict("WIRE", "a message of the transport cannot be read"),
        }
    }

    /// A frame may have no name; it may never have another's (contract CAT-09).
    fn compare(&mut self, process: &Process, number: u64, addresses: &[u64]) {
        for (address, truth) in addresses.iter().zip(process.sampler.truth(number)) {
            let Some(Some(method)) = self.places.get(address) else { continue };
            let Some(token) = self.methods.get(method) else { continue };
            if Some(*token) == truth || process.runtime.has_lost_track() {
                self.named += 1;
            } else {
                process.runtime.court.convict(
                    "CAT-09",
                    "a sample carries the name of another function: its code was unloaded before it was looked up",
                );
            }
        }
    }
}

/// The token in a dynamic function's name, as the model gives it.
fn token_of(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_prefix("dynamic0x")?, 16).ok()
}
