//! From a raw sample to the addresses of a stack: callers that frameless code hides are put back.

use crate::catalogue::{Catalogue, Met};
use crate::leaf::Caller;
use crate::platform::{CodeKind, Platform};
use crate::runtime::Runtime;
use remora_agent_hot::{EXACT, RawSample};
use remora_wire::{Message, sample_flags};

/// Callers put back below one leaf, at most: a chain of frameless methods.
const MAXIMUM_REPAIRS: usize = 4;

/// A stack as the collector gets it.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// The leaf's instruction, then one byte before each return address, outermost last.
    pub(crate) addresses: Vec<u64>,
    /// [`sample_flags`] to be added.
    pub(crate) flags: u8,
    /// What the collector must be told of the addresses before it gets the stack.
    pub(crate) descriptions: Vec<Message>,
}

impl Stack {
    /// The addresses as they were found, without any look-up. What the collector was told of them before may have unloaded since: they
    /// have no names.
    pub(crate) fn unexplained(catalogue: &mut Catalogue, sample: &RawSample) -> Stack {
        let Some((&leaf, callers)) = sample.addresses.split_first() else { return Stack::default() };
        let addresses: Vec<u64> = std::iter::once(leaf).chain(callers.iter().map(before)).collect();
        let mut descriptions = Vec::new();
        addresses.iter().for_each(|address| catalogue.disown(*address, &mut descriptions));
        Stack { addresses, descriptions, ..Stack::default() }
    }

    /// The addresses with hidden callers put back, each looked up.
    pub(crate) fn explained(
        platform: &impl Platform,
        runtime: &impl Runtime,
        catalogue: &mut Catalogue,
        sample: &RawSample,
    ) -> Stack {
        let mut stack = Stack::default();
        stack.assemble(runtime, catalogue, sample, hidden_caller(platform, sample));
        for (depth, address) in stack.addresses.iter().enumerate() {
            let met = if depth == 0 { Met::Leaf(*address) } else { Met::Caller(*address) };
            catalogue.meet(runtime, met, &mut stack.descriptions);
        }
        stack
    }

    /// Return addresses are moved back into the calling instruction, so that a call at a method's very end is not taken for the next
    /// method.
    fn assemble(&mut self, runtime: &impl Runtime, catalogue: &mut Catalogue, sample: &RawSample, hidden: Option<u64>) {
        let Some((&leaf, callers)) = sample.addresses.split_first() else { return };
        self.addresses.push(leaf);
        if let Some(return_address) = hidden {
            self.addresses.push(before(&return_address));
            self.flags = sample_flags::REPAIRED;
        } else {
            self.put_back(runtime, catalogue, sample, leaf);
        }
        self.addresses.extend(callers.iter().map(before));
    }

    fn put_back(&mut self, runtime: &impl Runtime, catalogue: &mut Catalogue, sample: &RawSample, leaf: u64) {
        let (mut instruction, mut met, mut taken) = (leaf, Met::Leaf(leaf), 0_u64);
        for _ in 0..MAXIMUM_REPAIRS {
            if !catalogue.meet(runtime, met, &mut self.descriptions) {
                break;
            }
            let Some(Caller::OnStack(depth)) = catalogue.caller_of(runtime, met.address(), instruction) else { break };
            let Some(&return_address) = sample.window.get(((taken + depth) / 8) as usize) else { break };
            if return_address < 4096 || sample.addresses.get(1) == Some(&return_address) {
                break;
            }
            // Code that took over a frame made by another tier has no prolog of its own, and what lies there is any word. A caller
            // that is not managed is no great loss: it has a frame.
            let caller = Met::Caller(before(&return_address));
            if !catalogue.meet(runtime, caller, &mut self.descriptions) {
                break;
            }
            self.addresses.push(caller.address());
            self.flags = sample_flags::REPAIRED;
            taken += depth + 8;
            (instruction, met) = (return_address, caller);
        }
    }
}

/// The last byte of the call that a return address stands behind.
fn before(return_address: &u64) -> u64 {
    return_address.wrapping_sub(1)
}

/// The return address of a leaf in the C library, which keeps no frame, where there was no table for it yet: RBP is still its caller's frame, and the walk loses that
/// caller. It is the first word between the stack pointer and that frame which is an address of code right behind a call.
fn hidden_caller(platform: &impl Platform, sample: &RawSample) -> Option<u64> {
    let (&leaf, callers) = sample.addresses.split_first()?;
    if sample.flags & EXACT != 0 || platform.code_at(leaf) != CodeKind::Frameless {
        return None;
    }
    let below_frame = sample.frame_pointer.checked_sub(sample.stack_pointer)? / 8;
    let window = sample.window.iter().take(usize::try_from(below_frame).ok()?);
    let found = window.copied().find(|word| {
        platform.code_at(*word) != CodeKind::None
            && platform.bytes_before(*word).is_some_and(|bytes| ends_in_call(&bytes))
    })?;
    (callers.first() != Some(&found)).then_some(found)
}

/// Whether the bytes end with a call instruction: to an address that follows, or through a register or memory.
fn ends_in_call(bytes: &[u8; 8]) -> bool {
    let indirect = |length: usize| {
        let at = bytes.len() - length;
        bytes[at] == 0xff && bytes.get(at + 1).is_some_and(|modrm| modrm & 0x38 == 0x10)
    };
    bytes[3] == 0xe8 || indirect(2) || indirect(3) || indirect(4) || indirect(6) || indirect(7)
}
