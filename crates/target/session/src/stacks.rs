//! Turns a raw sample into the addresses of a stack, and restores callers that frameless code hides.
//!
//! One rule serves the leaf and the middle of a stack. A return address lies in a method. The method's prolog says how far above it the
//! next return address is. The walk applies the rule to known code. For other code, this module reads the prolog and fills the walk's link
//! table ([`MethodCache::link_of`]). If the prolog cannot be read, the sample is marked.

use crate::leaf::Caller;
use crate::method_cache::{MethodCache, SampledAddress, before};
use crate::platform::{CodeKind, Platform};
use crate::runtime::Runtime;
use remora_sampler::{EXACT, Link, RawSample, UNKNOWN_LINK, WINDOW_WORDS};
use remora_wire::{Message, sample_flags};

/// Callers restored in one stack; rarely more.
const ROOM: usize = 8;

/// A stack as the collector receives it.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// The leaf's instruction, then one byte before each return address, outermost last.
    pub(crate) addresses: Vec<u64>,
    /// [`sample_flags`] to add.
    pub(crate) flags: u8,
    /// Messages that the collector needs before this stack.
    pub(crate) descriptions: Vec<Message>,
}

impl Stack {
    /// The addresses of the walk, without look-ups and without names: code described earlier may have unloaded since. The code of known
    /// links may have unloaded, too.
    pub(crate) fn unresolved(method_cache: &mut MethodCache, sample: &RawSample) -> Stack {
        let Some((&leaf, callers)) = sample.addresses.split_first() else { return Stack::default() };
        let calls = callers.iter().map(|return_address| before(return_address & !UNKNOWN_LINK));
        let addresses: Vec<u64> = std::iter::once(leaf).chain(calls).collect();
        let mut descriptions = Vec::new();
        addresses.iter().for_each(|address| method_cache.retract(*address, &mut descriptions));
        Stack { addresses, flags: sample_flags::CALLERS_UNKNOWN, descriptions }
    }

    /// The addresses with hidden callers restored, each resolved.
    pub(crate) fn resolved(
        platform: &impl Platform,
        runtime: &impl Runtime,
        method_cache: &mut MethodCache,
        sample: &RawSample,
    ) -> Stack {
        let Some((&leaf, callers)) = sample.addresses.split_first() else { return Stack::default() };
        let stack = Stack { addresses: Vec::with_capacity(sample.addresses.len() + ROOM), ..Stack::default() };
        let mut builder = StackBuilder { platform, runtime, method_cache, stack, time: sample.time };
        builder.leaf(leaf, callers.first().map(|caller| caller & !UNKNOWN_LINK), sample);
        let mut windows = sample.windows.chunks_exact(WINDOW_WORDS);
        for caller in callers {
            if caller & UNKNOWN_LINK == 0 {
                builder.known_caller(*caller);
            } else {
                builder.caller(caller & !UNKNOWN_LINK, windows.next().unwrap_or_default());
            }
        }
        if builder.method_cache.osr_learnt == u64::MAX {
            builder.method_cache.osr_learnt = platform.now();
        }
        builder.stack
    }
}

/// A stack under construction.
struct StackBuilder<'a, P, R> {
    platform: &'a P,
    runtime: &'a R,
    method_cache: &'a mut MethodCache,
    stack: Stack,
    /// The sample's time.
    time: u64,
}

impl<P: Platform, R: Runtime> StackBuilder<'_, P, R> {
    /// Adds the next address of the stack. Returns whether it is managed code. Return addresses are moved back into the call instruction:
    /// a call at a method's very end would otherwise count for the next method.
    fn resolve(&mut self, sampled: SampledAddress) -> bool {
        self.stack.addresses.push(sampled.address());
        self.method_cache.resolve(self.runtime, sampled, &mut self.stack.descriptions)
    }

    /// Adds the leaf, and the callers below `next` that it hides.
    fn leaf(&mut self, leaf: u64, next: Option<u64>, sample: &RawSample) {
        let place = if self.resolve(SampledAddress::Leaf(leaf)) {
            match self.method_cache.caller_of(self.runtime, leaf) {
                Some(Caller::OnStack(depth)) => Some((depth / 8) as usize),
                Some(Caller::InFrame) => None,
                None => return self.mark_unknown(),
            }
        } else {
            let is_exact = sample.flags & EXACT != 0;
            match self.platform.code_at(leaf) {
                CodeKind::Generated => match caller_of_stub(self.platform, sample) {
                    None => return self.mark_unknown(),
                    found => found,
                },
                CodeKind::Frameless if !is_exact => self.guessed(hidden_caller(self.platform, sample)),
                CodeKind::Other if !is_exact => self.guessed(caller_of_stub(self.platform, sample)),
                _ => None,
            }
        };
        let Some(place) = place else { return };
        match sample.window.get(place) {
            // The walk has found it, too.
            Some(found) if Some(*found) == next => {}
            found => self.put_back(found.copied(), sample.window.get(place + 1..).unwrap_or_default()),
        }
    }

    /// A place found without an unwind table: the stack may hold an older address there.
    fn guessed(&mut self, place: Option<usize>) -> Option<usize> {
        if place.is_some() {
            self.mark_unknown();
        }
        place
    }

    /// Adds a return address with a known link. It has been described, unless its code has unloaded since.
    fn known_caller(&mut self, return_address: u64) {
        let known_link = self.method_cache.known_link(return_address);
        if known_link.is_some() {
            self.stack.addresses.push(before(return_address));
        } else {
            self.resolve(SampledAddress::Caller(before(return_address)));
        }
        match known_link.or_else(|| self.method_cache.link_of(self.runtime, return_address)) {
            // The walk has already followed the link that it had.
            Some(Link::Framed | Link::Native | Link::Frameless(_)) => {}
            Some(Link::Replaced(_)) if self.time <= self.method_cache.osr_learnt => self.first_body(),
            // The walk knew the replacement, and this is a call out of the first body.
            Some(Link::Replaced(_)) => {}
            None => self.mark_unknown(),
        }
    }

    /// The last address is in the first body of an OSR method. If the optimised body lies on top, the walk did not know the replacement
    /// yet. It has the method twice, of which one is removed, and misses its caller.
    fn first_body(&mut self) {
        if let [.., below, _] = *self.stack.addresses
            && self.method_cache.is_in_replacement(below)
        {
            self.stack.addresses.pop();
            self.mark_unknown();
        }
    }

    /// Adds a return address without a link, and the callers that it hides. `above` are the stack words above it.
    fn caller(&mut self, return_address: u64, above: &[u64]) {
        let (mut return_address, mut above) = (return_address, above);
        loop {
            self.resolve(SampledAddress::Caller(before(return_address)));
            let words = match self.method_cache.link_of(self.runtime, return_address) {
                Some(Link::Framed | Link::Native) => return,
                Some(Link::Frameless(bytes)) => (bytes / 8) as usize,
                Some(Link::Replaced(_)) => return self.first_body(),
                None => match self.unaligned(return_address, above) {
                    Some(words) => words,
                    None => return self.mark_unknown(),
                },
            };
            let Some(next) = above.get(words).filter(|next| self.is_return_address(**next)) else {
                return self.mark_unknown();
            };
            self.stack.flags |= sample_flags::REPAIRED;
            return_address = *next;
            above = above.get(words + 1..).unwrap_or_default();
        }
    }

    /// How many words above a call of a write barrier its method's return address is. The JIT does not align the stack for such a call, so
    /// the word must confirm the prolog.
    fn unaligned(&mut self, return_address: u64, above: &[u64]) -> Option<usize> {
        let words = usize::try_from(self.method_cache.depth_of(self.runtime, return_address)? / 8).ok()?;
        is_behind_call(self.platform, *above.get(words)?).then_some(words)
    }

    /// Adds the caller that a leaf hides, if `found` is a return address.
    fn put_back(&mut self, found: Option<u64>, above: &[u64]) {
        match found.filter(|found| self.is_return_address(*found)) {
            Some(return_address) => {
                self.stack.flags |= sample_flags::REPAIRED;
                self.caller(return_address, above);
            }
            None => self.mark_unknown(),
        }
    }

    fn mark_unknown(&mut self) {
        self.stack.flags |= sample_flags::CALLERS_UNKNOWN;
    }

    /// Whether a stack word in the place of a return address points behind code.
    fn is_return_address(&mut self, word: u64) -> bool {
        let call = before(word);
        word >= 4096
            && (self.platform.code_at(call) != CodeKind::None
                || self.method_cache.resolve(self.runtime, SampledAddress::Caller(call), &mut self.stack.descriptions))
    }
}

/// Stack words that a stub has pushed on top of its return address, at most. Resolve stubs push one (dotnet/runtime:
/// `src/coreclr/vm/amd64/virtualcallstubcpu.hpp`).
const PUSHED_BY_STUBS: usize = 1;

/// The index, from the stack pointer, of a stub's return address. Stubs and write barriers have no frame, and RBP is their caller's.
fn caller_of_stub(platform: &impl Platform, sample: &RawSample) -> Option<usize> {
    let words = sample.window.iter().take(PUSHED_BY_STUBS + 1);
    words.copied().position(|word| is_behind_call(platform, word))
}

/// The index, from the stack pointer, of the return address of a leaf in the C library without an unwind table yet. Such a leaf keeps no
/// frame: RBP is still its caller's frame, and the walk loses that caller. The first word below that frame to point right behind a call
/// is the return address.
fn hidden_caller(platform: &impl Platform, sample: &RawSample) -> Option<usize> {
    let below_frame = sample.frame_pointer.checked_sub(sample.stack_pointer)? / 8;
    let window = sample.window.iter().take(usize::try_from(below_frame).ok()?);
    window.copied().position(|word| is_behind_call(platform, word))
}

fn is_behind_call(platform: &impl Platform, word: u64) -> bool {
    platform.code_at(word) != CodeKind::None && platform.bytes_before(word).is_some_and(|bytes| ends_in_call(&bytes))
}

/// Whether the bytes end with a call instruction: to an address that follows, or through a register or memory.
fn ends_in_call(bytes: &[u8; 8]) -> bool {
    let indirect = |length: usize| {
        let at = bytes.len() - length;
        bytes[at] == 0xff && bytes.get(at + 1).is_some_and(|modrm| modrm & 0x38 == 0x10)
    };
    bytes[3] == 0xe8 || indirect(2) || indirect(3) || indirect(4) || indirect(6) || indirect(7)
}
