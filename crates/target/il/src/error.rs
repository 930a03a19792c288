//! Why a method body is refused.

use core::fmt;

/// Why a body cannot be wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It ends inside a header, an instruction, a clause or a signature.
    Truncated,
    /// Its header has an unknown form.
    Header,
    /// It has an opcode that ECMA-335 does not define.
    Opcode(u16),
    /// A branch, or a clause, begins or ends inside an instruction or outside the body.
    Boundary,
    /// It has a `tail.` call, which needs its caller's frame to be gone.
    TailCall,
    /// It leaves by `jmp`.
    Jump,
    /// A signature has an element that this crate does not know.
    Signature,
    /// The new body would exceed a limit of its format.
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "its code is cut off",
            Error::Header => "its header has an unknown form",
            Error::Opcode(_) => "it has an unknown instruction",
            Error::Boundary => "a branch or handler of it begins inside an instruction",
            Error::TailCall => "it has explicit tail calls",
            Error::Jump => "it jumps into another method",
            Error::Signature => "its signature has an unknown form",
            Error::TooLarge => "its code is too large",
        })
    }
}

impl core::error::Error for Error {}
