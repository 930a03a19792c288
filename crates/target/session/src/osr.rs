//! Finds methods with on-stack replacement. Without this, the walk would find such a method twice and lose its caller
//! (`remora_sampler::Link::Replaced`).
//!
//! The optimised body begins by loading the caller's frame pointer from the first body's frame; no other code does. The first body's prolog
//! says how far above its lowest stack address its frame lies. (Taken from the code of .NET 8.0.4, 9.0.7 and 10.0.12 with
//! `DOTNET_OSR_HitLimit=1`.)

use crate::leaf::{PROLOG_BYTES, REPLACEMENT};
use crate::runtime::{CodeBody, Runtime};
use std::collections::{HashMap, HashSet};

/// `push rbp`.
const PUSH_FRAME_POINTER: u8 = 0x55;

/// Bodies remembered, at most.
const MAXIMUM: usize = 4096;

/// The bodies of OSR methods.
#[derive(Debug, Default)]
pub(crate) struct OsrMethods {
    /// Distance of each first body, by its start address.
    bodies: HashMap<u64, u64>,
    /// Starts of the optimised bodies.
    optimised: HashSet<u64>,
}

impl OsrMethods {
    /// Looks at all bodies of one function. Returns those with a new or changed distance.
    pub(crate) fn learn(&mut self, runtime: &impl Runtime, bodies: &[CodeBody]) -> Vec<CodeBody> {
        let mut bytes = [0; PROLOG_BYTES];
        let mut is_optimised =
            |body: &&CodeBody| runtime.code(**body, body.start, &mut bytes).starts_with(&REPLACEMENT);
        let optimised: Vec<u64> = bodies.iter().filter(|body| is_optimised(body)).map(|body| body.start).collect();
        if bodies.len() < 2 || optimised.is_empty() || self.optimised.len() + optimised.len() > MAXIMUM {
            return Vec::new();
        }
        self.optimised.extend(optimised);
        let mut changed = Vec::new();
        for body in bodies {
            let distance = distance(runtime.code(*body, body.start, &mut bytes));
            if let (Some(distance), true) = (distance, self.bodies.len() < MAXIMUM)
                && self.bodies.insert(body.start, distance) != Some(distance)
            {
                changed.push(*body);
            }
        }
        changed
    }

    /// The distance, if this is the first body of an OSR method.
    pub(crate) fn distance(&self, body: CodeBody) -> Option<u64> {
        self.bodies.get(&body.start).copied()
    }

    /// Whether this is the optimised body of an OSR method. No call leads into it, only the first body.
    pub(crate) fn is_optimised(&self, body: CodeBody) -> bool {
        self.optimised.contains(&body.start)
    }

    /// Forgets unloaded code.
    pub(crate) fn forget(&mut self, body: CodeBody) {
        self.optimised.remove(&body.start);
        self.bodies.remove(&body.start);
    }

    /// Forgets all methods. They are learnt again at the next look-up.
    pub(crate) fn forget_everything(&mut self) {
        self.bodies.clear();
        self.optimised.clear();
    }
}

/// How far above the final stack pointer an unoptimised prolog puts its frame pointer, bytes: `lea rbp, [rsp + distance]`.
fn distance(prolog: &[u8]) -> Option<u64> {
    let (&PUSH_FRAME_POINTER, rest) = prolog.split_first()? else { return None };
    (0..rest.len()).find_map(|at| match rest[at..] {
        [0x48, 0x8d, 0x6c, 0x24, distance, ..] => Some(u64::from(distance)),
        [0x48, 0x8d, 0xac, 0x24, a, b, c, d, ..] => Some(u64::from(u32::from_le_bytes([a, b, c, d]))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unoptimised_prolog_tells_where_its_frame_is() {
        let small = [0x55, 0x48, 0x83, 0xec, 0x40, 0x48, 0x8d, 0x6c, 0x24, 0x40, 0x33, 0xc0];
        assert_eq!(distance(&small), Some(0x40));
        let large = [0x55, 0x48, 0x81, 0xec, 0, 1, 0, 0, 0x48, 0x8d, 0xac, 0x24, 0, 1, 0, 0];
        assert_eq!(distance(&large), Some(0x100));
        assert_eq!(distance(&REPLACEMENT), None);
        assert_eq!(distance(&[0x55, 0x48, 0x8b, 0xec, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(distance(&[]), None);
    }
}
