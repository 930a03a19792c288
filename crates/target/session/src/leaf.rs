//! Finds a method's return address from the method's own first and last instructions.
//!
//! The JIT gives small optimised methods no frame. While one runs, or calls another, RBP is still its caller's frame. A walk along frame
//! pointers loses that caller. The same holds for the first and last instructions of every method.
//! The prologs that the JIT writes on x64 are a handful of forms (push, sub rsp, lea or mov rbp); they are followed here
//! instruction by instruction up to the executing one. Anything else ends the prolog.

use remora_sampler::Link;

/// Where to find the caller of the executing method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// In the frame that RBP points to, as the walk assumes.
    InFrame,
    /// In the word this many bytes above the stack pointer; RBP is a frame further out.
    OnStack(u64),
}

/// Bytes of a method to read from its start, at most.
pub const PROLOG_BYTES: usize = 64;

/// Bytes to read from the executing instruction on, at most.
pub const EPILOG_BYTES: usize = 32;

/// `mov rax, [rbp]; push rax`: only the optimised body of an OSR method begins so. RBP still points to the first body's frame. The
/// optimised body makes its own frame on top.
pub(crate) const REPLACEMENT: [u8; 5] = [0x48, 0x8b, 0x45, 0x00, 0x50];

/// `push rbp`: each method with a frame begins so, and no other.
const PUSH_FRAME_POINTER: u8 = 0x55;

/// Alignment of the stack at every call, bytes. The method's own return address takes eight.
const ALIGNMENT: u64 = 16;

enum Step {
    Push,
    Subtract(u64),
    Frame,
    Nothing,
}

/// Where the caller is, just before the instruction at `offset` of a method executes.
///
/// `prolog` are the method's first bytes, `here` the bytes from the instruction on; both may be truncated.
pub fn caller(prolog: &[u8], offset: usize, here: &[u8]) -> Caller {
    if prolog.starts_with(&REPLACEMENT) {
        return if has_left_frame(here) { Caller::OnStack(0) } else { Caller::InFrame };
    }
    let mut at = 0;
    let mut depth = 0;
    while at < offset {
        let Some((step, length)) = prolog.get(at..).and_then(prolog_step) else {
            let has_frame = prolog.first() == Some(&PUSH_FRAME_POINTER);
            return match epilog_depth(here) {
                Some(depth) => Caller::OnStack(depth),
                None if has_frame => Caller::InFrame,
                None => Caller::OnStack(depth),
            };
        };
        match step {
            Step::Push => depth += 8,
            Step::Subtract(bytes) => depth += bytes,
            Step::Frame => return if has_left_frame(here) { Caller::OnStack(0) } else { Caller::InFrame },
            Step::Nothing => {}
        }
        at += length;
    }
    Caller::OnStack(depth)
}

/// Whether a method has a frame at a call `offset` bytes behind its start. `None` if its prolog is unknown.
pub fn link(prolog: &[u8], offset: usize) -> Option<Link> {
    if *prolog.first()? == PUSH_FRAME_POINTER || prolog.starts_with(&REPLACEMENT) {
        return Some(Link::Framed);
    }
    let depth = depth_at_call(prolog, offset)?;
    ((depth + 8).is_multiple_of(ALIGNMENT)).then_some(Link::Frameless(depth))
}

/// How many bytes a method without a frame keeps below its return address, at a call `offset` bytes behind its start. `None` if it makes a
/// frame. The stack is aligned there, except for calls of write barriers.
pub fn depth_at_call(prolog: &[u8], offset: usize) -> Option<u64> {
    if *prolog.first()? == PUSH_FRAME_POINTER || prolog.starts_with(&REPLACEMENT) {
        return None;
    }
    let (mut at, mut depth) = (0, 0_u64);
    while at < offset
        && let Some((step, length)) = prolog.get(at..).and_then(prolog_step)
    {
        match step {
            Step::Push => depth += 8,
            Step::Subtract(bytes) => depth += bytes,
            Step::Frame => return None,
            Step::Nothing => {}
        }
        at += length;
    }
    Some(depth)
}

/// One instruction of a prolog and its length; `None` for any other instruction.
fn prolog_step(code: &[u8]) -> Option<(Step, usize)> {
    Some(match *code {
        [0x50..=0x57, ..] => (Step::Push, 1),
        [0x41, 0x50..=0x57, ..] => (Step::Push, 2),
        [0x48, 0x83, 0xec, bytes, ..] => (Step::Subtract(u64::from(bytes)), 4),
        [0x48, 0x81, 0xec, a, b, c, d, ..] => (Step::Subtract(u64::from(u32::from_le_bytes([a, b, c, d]))), 7),
        [0x48, 0x8d, 0x6c, 0x24, _, ..] => (Step::Frame, 5),
        [0x48, 0x8d, 0xac, 0x24, _, _, _, _, ..] => (Step::Frame, 8),
        [0x48, 0x8b, 0xec, ..] | [0x48, 0x89, 0xe5, ..] => (Step::Frame, 3),
        // A large frame touches its pages first: `test [rsp-n], eax`, or `lea r11, [rsp-n]` and a call.
        [0x85, 0x84, 0x24, _, _, _, _, ..] => (Step::Nothing, 7),
        [0x4c, 0x8d, 0x9c, 0x24, a, b, c, d, ..] => {
            let bytes = i32::from_le_bytes([a, b, c, d]);
            (Step::Subtract(u64::from(bytes.checked_neg().filter(|bytes| *bytes >= 0)?.unsigned_abs())), 8)
        }
        [0xc5, 0xf8, 0x77, ..] => (Step::Nothing, 3),
        _ => return None,
    })
}

/// If only an epilog is left (add rsp, pops, return): how many bytes it still pops from the stack.
fn epilog_depth(code: &[u8]) -> Option<u64> {
    let mut rest = code;
    let mut depth = 0;
    if let [0x48, 0x83, 0xc4, bytes, after @ ..] = rest {
        depth += u64::from(*bytes);
        rest = after;
    }
    loop {
        match *rest {
            [0x58..=0x5f, ref after @ ..] | [0x41, 0x58..=0x5f, ref after @ ..] => {
                depth += 8;
                rest = after;
            }
            [0xc3, ..] => return Some(depth),
            _ => return None,
        }
    }
}

/// Whether a method with a frame has popped it already: only the return is left.
fn has_left_frame(code: &[u8]) -> bool {
    matches!(*code, [0xc3, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &[u8], offset: usize, expected: Caller) {
        assert_eq!(caller(code, offset, &code[offset..]), expected, "at {offset} of {code:02x?}");
    }

    #[test]
    fn a_method_with_a_frame_is_left_alone_but_at_its_edges() {
        // push rbp; push rbx; sub rsp,8; lea rbp,[rsp+16]; nop; add rsp,8; pop rbx; pop rbp; ret
        let code =
            [0x55, 0x53, 0x48, 0x83, 0xec, 8, 0x48, 0x8d, 0x6c, 0x24, 16, 0x90, 0x48, 0x83, 0xc4, 8, 0x5b, 0x5d, 0xc3];
        check(&code, 0, Caller::OnStack(0));
        check(&code, 1, Caller::OnStack(8));
        check(&code, 2, Caller::OnStack(16));
        check(&code, 6, Caller::OnStack(24));
        check(&code, 11, Caller::InFrame);
        check(&code, 17, Caller::InFrame);
        check(&code, 18, Caller::OnStack(0));
    }

    #[test]
    fn a_frameless_method_has_its_caller_on_the_stack_at_every_instruction() {
        // push r15; sub rsp,16; mov eax,edi; add rsp,16; pop r15; ret
        let code = [0x41, 0x57, 0x48, 0x83, 0xec, 16, 0x89, 0xf8, 0x48, 0x83, 0xc4, 16, 0x41, 0x5f, 0xc3];
        check(&code, 0, Caller::OnStack(0));
        check(&code, 2, Caller::OnStack(8));
        check(&code, 6, Caller::OnStack(24));
        check(&code, 8, Caller::OnStack(24));
        check(&code, 12, Caller::OnStack(8));
        check(&code, 14, Caller::OnStack(0));
        // lea eax,[rdi+1]; ret: no prolog at all
        let code = [0x8d, 0x47, 0x01, 0xc3];
        check(&code, 0, Caller::OnStack(0));
        check(&code, 3, Caller::OnStack(0));
    }

    #[test]
    fn large_frames_and_other_forms_of_the_frame_pointer_are_known() {
        // push rbp; sub rsp,0x1000; lea rbp,[rsp+0x1000]; nop
        let code = [0x55, 0x48, 0x81, 0xec, 0, 0x10, 0, 0, 0x48, 0x8d, 0xac, 0x24, 0, 0x10, 0, 0, 0x90];
        check(&code, 8, Caller::OnStack(0x1008));
        check(&code, 16, Caller::InFrame);
        // push rbp; mov rbp,rsp; vzeroupper
        check(&[0x55, 0x48, 0x8b, 0xec, 0xc5, 0xf8, 0x77, 0x90], 7, Caller::InFrame);
        // push rbp; vzeroupper; mov rbp,rsp
        check(&[0x55, 0xc5, 0xf8, 0x77, 0x48, 0x89, 0xe5, 0x90], 4, Caller::OnStack(8));
    }

    #[test]
    fn where_a_method_has_called_on_its_prolog_says_whether_it_has_a_frame_and_how_large_its_part_of_the_stack_is() {
        let cases: [(&[u8], Option<Link>); 9] = [
            (&[0x55, 0x48, 0x8b, 0xec, 0x90], Some(Link::Framed)),
            // The rest of the prolog may be unknown.
            (&[0x55, 0x0f, 0x0b], Some(Link::Framed)),
            (&REPLACEMENT, Some(Link::Framed)),
            // push rax; sub rsp,8 and push r15; push rbx; sub rsp,8
            (&[0x50, 0x90], Some(Link::Frameless(8))),
            (&[0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 8, 0x90], Some(Link::Frameless(24))),
            // test [rsp-0x1000],eax; sub rsp,0x1008 and lea r11,[rsp-0x4008]; call
            (
                &[0x85, 0x84, 0x24, 0, 0xf0, 0xff, 0xff, 0x48, 0x81, 0xec, 8, 0x10, 0, 0, 0x90],
                Some(Link::Frameless(0x1008)),
            ),
            (&[0x4c, 0x8d, 0x9c, 0x24, 0xf8, 0xbf, 0xff, 0xff, 0xe8], Some(Link::Frameless(0x4008))),
            // The stack is not aligned for a call.
            (&[0x48, 0x83, 0xec, 0x10, 0x90], None),
            (&[], None),
        ];
        for (prolog, expected) in cases {
            assert_eq!(link(prolog, 64), expected, "{prolog:02x?}");
        }
    }

    #[test]
    fn the_optimised_body_of_a_method_that_was_exchanged_has_a_frame_from_its_first_instruction_on() {
        check(&[0x48, 0x8b, 0x45, 0x00, 0x50, 0x41, 0x57, 0x90, 0xc3], 5, Caller::InFrame);
        check(&[0x48, 0x8b, 0x45, 0x00, 0x50, 0x41, 0x57, 0x90, 0xc3], 8, Caller::OnStack(0));
    }

    #[test]
    fn cut_code_never_panics() {
        let code = [0x55, 0x48, 0x81, 0xec, 0];
        for length in 0..code.len() {
            for offset in 0..8 {
                let _ = (caller(&code[..length], offset, &[]), link(&code[..length], offset));
            }
        }
    }
}
