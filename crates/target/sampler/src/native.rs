//! The walk through native code without frame pointers, by the collector's unwind tables ([`remora_wire::unwind`]).
//!
//! Each step reads at most three stack words, and each read is checked. A damaged table can end a walk, or lead it astray inside the
//! stack. A damaged signal row can lead it to other memory, which the kernel reads: it returns an error instead of a fault.

use crate::memory::Memory;
use remora_wire::unwind::{MODULE, Module, Rule};

/// Offsets of the interrupted registers from the stack pointer in the kernel's signal return path (`struct ucontext`, x64).
const SAVED_RBP: u64 = 120;
const SAVED_RSP: u64 = 160;
const SAVED_RIP: u64 = 168;

/// Functions between a system call and the one that saved RBP, at most.
const WAITING_FUNCTIONS: usize = 16;

/// A function's activation: the registers that a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Activation {
    /// Its next instruction.
    pub(crate) instruction: u64,
    /// RSP there.
    pub(crate) stack: u64,
    /// RBP there.
    pub(crate) frame: u64,
    /// Whether it was interrupted there. Otherwise it has made a call, and returns there.
    pub(crate) interrupted: bool,
}

impl Activation {
    /// An address inside the current instruction: a call may be the last one of its function.
    fn running(&self) -> u64 {
        if self.interrupted { self.instruction } else { self.instruction.wrapping_sub(1) }
    }

    /// The address for the stack. Return addresses are moved back into the call later, so an interrupted instruction is moved forward here.
    pub(crate) fn shown(&self) -> u64 {
        if self.interrupted { self.instruction.wrapping_add(1) } else { self.instruction }
    }
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The caller.
    Caller(Activation),
    /// The thread begins here.
    End,
    /// The table does not give the caller.
    Unknown,
    /// The code has no table or keeps frame pointers: follow the frame chain.
    Chain,
}

/// The unwind tables of the native modules.
#[derive(Clone, Copy, Default)]
pub struct Native<'a> {
    modules: &'a [[u64; MODULE]],
    rows: &'a [u64],
}

impl<'a> Native<'a> {
    /// A view of a published table, without its first word.
    pub fn new(words: &'a [u64]) -> Self {
        let Some((&count, rest)) = words.split_first() else { return Native::default() };
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(MODULE));
        let Some((modules, rows)) = length.and_then(|length| rest.split_at_checked(length)) else {
            return Native::default();
        };
        Native { modules: modules.as_chunks().0, rows }
    }

    /// The caller of `activation`. In a module with frame pointers, only the interrupted function may be in its prolog.
    pub(crate) fn step(&self, activation: &Activation, memory: &impl Memory) -> Step {
        let at = activation.running();
        let Some(module) = self.module(at).filter(|module| activation.interrupted || !module.framed) else {
            return Step::Chain;
        };
        if module.count == 0 {
            return Step::Chain;
        }
        match self.rule(&module, at) {
            Rule::End => Step::End,
            rule => caller(rule, activation, memory).map_or(Step::Unknown, Step::Caller),
        }
    }

    /// RBP of a thread in a system call, from the place where the first of its functions that uses RBP otherwise has saved it. `None` if
    /// the tables do not lead there: a function has no table, or needs RBP to find its caller.
    pub(crate) fn frame_of_system_call(&self, instruction: u64, stack: u64, memory: &impl Memory) -> Option<u64> {
        let mut at = Activation { instruction, stack, frame: 0, interrupted: true };
        for _ in 0..WAITING_FUNCTIONS {
            let module = self.module(at.running())?;
            match self.rule(&module, at.running()) {
                // In a module with frame pointers, a caller that saved RBP is in none of the chain's links.
                Rule::Stack { saved, .. } if saved != 0 && module.framed && !at.interrupted => return None,
                Rule::Stack { cfa, saved } if saved != 0 => {
                    let cfa = at.stack.checked_add(u64::from(cfa))?;
                    return memory.word(cfa.checked_sub(u64::from(saved))?);
                }
                rule @ Rule::Stack { .. } => at = caller(rule, &at, memory)?,
                _ => return None,
            }
        }
        None
    }

    /// Whether a frame chain without a further link is complete: where a thread begins, or in a module without unwind information (musl).
    pub(crate) fn ends_at(&self, return_address: u64) -> bool {
        let at = return_address.wrapping_sub(1);
        self.module(at).is_some_and(|module| module.count == 0 || self.rule(&module, at) == Rule::End)
    }

    fn module(&self, at: u64) -> Option<Module> {
        let after = self.modules.partition_point(|module| module.first().is_some_and(|start| *start <= at));
        let module = Module::decode(self.modules.get(after.checked_sub(1)?)?);
        (at < module.end).then_some(module)
    }

    fn rule(&self, module: &Module, at: u64) -> Rule {
        let first = module.first as usize;
        let rows = self.rows.get(first..first.saturating_add(module.count as usize)).unwrap_or_default();
        let relative = at.wrapping_sub(module.base);
        let after = rows.partition_point(|row| row >> 32 <= relative);
        after.checked_sub(1).and_then(|index| rows.get(index)).map_or(Rule::Unknown, |row| Rule::decode(*row as u32))
    }
}

/// The caller by a rule; `None` if the rule gives none, a word cannot be read, or the CFA is not above the stack pointer.
fn caller(rule: Rule, activation: &Activation, memory: &impl Memory) -> Option<Activation> {
    let Activation { stack, frame, .. } = *activation;
    let above = |from: u64, by: u32| from.checked_add(u64::from(by));
    let (cfa, saved) = match rule {
        Rule::Stack { cfa, saved } => (above(stack, cfa)?, saved),
        Rule::Frame { cfa, saved } => (above(frame, cfa)?, saved),
        Rule::Stored { at, saved } => (memory.word(above(stack, at)?)?.checked_add(8)?, saved),
        Rule::Linkage { pushed } => {
            let has_pushed = activation.running() & 15 >= u64::from(pushed);
            (above(stack, if has_pushed { 16 } else { 8 })?, 0)
        }
        Rule::Realigned { below } => {
            let cfa = memory.word(frame.checked_sub(u64::from(below))?)?;
            return returned(cfa, memory.word(frame)?, stack, memory);
        }
        Rule::Signal => return interrupted(stack, memory),
        Rule::End | Rule::Unknown => return None,
    };
    let frame = if saved == 0 { frame } else { memory.word(cfa.checked_sub(u64::from(saved))?)? };
    returned(cfa, frame, stack, memory)
}

fn returned(cfa: u64, frame: u64, below: u64, memory: &impl Memory) -> Option<Activation> {
    let instruction = memory.word(cfa.checked_sub(8)?)?;
    (cfa > below).then_some(Activation { instruction, stack: cfa, frame, interrupted: false })
}

/// The function that a signal interrupted. It may run on another stack, which is read only where `memory` allows it.
fn interrupted(stack: u64, memory: &impl Memory) -> Option<Activation> {
    Some(Activation {
        instruction: memory.word(stack.checked_add(SAVED_RIP)?)?,
        stack: memory.word(stack.checked_add(SAVED_RSP)?)?,
        frame: memory.word(stack.checked_add(SAVED_RBP)?)?,
        interrupted: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Words;
    use remora_wire::unwind::{encode, row};
    use std::vec::Vec;

    /// The words of a table of one module at 0x5000, each rule for 16 bytes.
    fn table(rules: &[Rule], framed: bool) -> Vec<u64> {
        let rows: Vec<u64> = (0..).zip(rules).map(|(index, rule)| row(index * 16, *rule)).collect();
        let module = Module { start: 0x5000, end: 0x6000, base: 0x5000, first: 0, count: rows.len() as u32, framed };
        encode(&[module], &rows)
    }

    fn step(rule: Rule, stack: &[u64], activation: Activation) -> Step {
        let words = table(&[rule], false);
        Native::new(&words[1..]).step(&activation, &Words(stack.to_vec()))
    }

    const LEAF: Activation = Activation { instruction: 0x5004, stack: 0x1000, frame: 0x1018, interrupted: true };

    fn caller(instruction: u64, stack: u64, frame: u64) -> Step {
        Step::Caller(Activation { instruction, stack, frame, interrupted: false })
    }

    #[test]
    fn each_rule_leads_to_the_caller() {
        let stack = [1, 2, 3, 0x1040, 5, 6, 7, 8];
        for (rule, expected) in [
            (Rule::Stack { cfa: 8, saved: 0 }, caller(1, 0x1008, 0x1018)),
            (Rule::Stack { cfa: 24, saved: 16 }, caller(3, 0x1018, 2)),
            (Rule::Frame { cfa: 16, saved: 16 }, caller(5, 0x1028, 0x1040)),
            (Rule::Stored { at: 24, saved: 0 }, Step::Unknown),
            (Rule::Linkage { pushed: 11 }, caller(1, 0x1008, 0x1018)),
            (Rule::Linkage { pushed: 4 }, caller(2, 0x1010, 0x1018)),
            (Rule::End, Step::End),
            (Rule::Unknown, Step::Unknown),
            (Rule::Stack { cfa: 80, saved: 0 }, Step::Unknown),
        ] {
            assert_eq!(step(rule, &stack, LEAF), expected, "{rule:?}");
        }
        assert_eq!(step(Rule::Stored { at: 8, saved: 0 }, &[0, 0x1018, 0, 9, 0], LEAF), caller(9, 0x1020, 0x1018));
        // The CFA lies in the word below the frame, and is above it.
        assert_eq!(step(Rule::Realigned { below: 8 }, &[0, 0, 0x1030, 0x1777, 0, 9], LEAF), caller(9, 0x1030, 0x1777));
    }

    #[test]
    fn a_caller_is_above_and_a_cycle_has_an_end() {
        let below = Activation { stack: 0x1010, frame: 0x1000, ..LEAF };
        assert_eq!(step(Rule::Frame { cfa: 16, saved: 0 }, &[1, 2, 3], below), Step::Unknown);
        assert_eq!(step(Rule::Stack { cfa: 8, saved: 0 }, &[], LEAF), Step::Unknown);
        let high = Activation { stack: u64::MAX - 7, frame: u64::MAX - 7, ..LEAF };
        for rule in [
            Rule::Stack { cfa: 8, saved: 0 },
            Rule::Frame { cfa: 16, saved: 16 },
            Rule::Stored { at: 16, saved: 0 },
            Rule::Realigned { below: 8 },
            Rule::Signal,
        ] {
            assert_eq!(step(rule, &[1; 8], high), Step::Unknown, "{rule:?}");
        }
    }

    #[test]
    fn a_signal_leads_to_what_it_interrupted_exactly_there() {
        let mut stack = [0; 22];
        (stack[15], stack[20], stack[21]) = (0x1100, 0x1200, 0x5010);
        let interrupted = Activation { instruction: 0x5010, stack: 0x1200, frame: 0x1100, interrupted: true };
        assert_eq!(step(Rule::Signal, &stack, LEAF), Step::Caller(interrupted));
        assert_eq!(interrupted.running(), 0x5010);
        assert_eq!(interrupted.shown() - 1, 0x5010);
    }

    #[test]
    fn a_return_address_belongs_to_the_call_before_it() {
        let words = table(&[Rule::Stack { cfa: 8, saved: 0 }, Rule::End], false);
        let native = Native::new(&words[1..]);
        let at = |instruction, interrupted| Activation { instruction, interrupted, ..LEAF };
        let memory = Words([7; 4].to_vec());
        assert_eq!(native.step(&at(0x5010, true), &memory), Step::End);
        assert_eq!(native.step(&at(0x5010, false), &memory), caller(7, 0x1008, 0x1018));
        assert!(native.ends_at(0x5011) && !native.ends_at(0x5010) && !native.ends_at(0x4fff));
    }

    #[test]
    fn where_there_is_no_table_or_a_frame_the_chain_leads_on() {
        let memory = Words(Vec::from([7; 4]));
        let framed = table(&[Rule::Stack { cfa: 8, saved: 0 }], true);
        let native = Native::new(&framed[1..]);
        assert_eq!(native.step(&LEAF, &memory), caller(7, 0x1008, 0x1018), "it may be in its prolog");
        assert_eq!(native.step(&Activation { interrupted: false, ..LEAF }, &memory), Step::Chain);
        assert_eq!(native.step(&Activation { instruction: 0x6000, ..LEAF }, &memory), Step::Chain);
        assert_eq!(Native::default().step(&LEAF, &memory), Step::Chain);
        let silent = table(&[], false);
        assert_eq!(Native::new(&silent[1..]).step(&LEAF, &memory), Step::Chain);
        assert!(Native::new(&silent[1..]).ends_at(0x5004));
    }

    #[test]
    fn only_the_waiting_function_may_have_saved_the_frame_pointer_in_a_module_with_frames() {
        let rules = [Rule::Stack { cfa: 16, saved: 0 }, Rule::Stack { cfa: 24, saved: 16 }];
        let memory = Words([0, 0x5014, 0, 77, 0].to_vec());
        for (framed, found) in [(false, Some(77)), (true, None)] {
            let words = table(&rules, framed);
            assert_eq!(Native::new(&words[1..]).frame_of_system_call(0x5004, 0x1000, &memory), found);
            assert_eq!(Native::new(&words[1..]).frame_of_system_call(0x5014, 0x1010, &memory), Some(77));
        }
    }

    #[test]
    fn a_damaged_table_ends_a_walk_and_nothing_else() {
        let words = table(&[Rule::Stack { cfa: 8, saved: 0 }; 8], false);
        let memory = Words((0..64).collect());
        for index in 1..words.len() {
            for bit in 0..64 {
                let mut damaged = words.clone();
                damaged[index] ^= 1 << bit;
                let _ = Native::new(&damaged[1..]).step(&LEAF, &memory);
                let _ = Native::new(&damaged[1..]).ends_at(0x5021);
            }
        }
        for length in 1..words.len() {
            let _ = Native::new(&words[1..length]).step(&LEAF, &memory);
        }
    }
}
