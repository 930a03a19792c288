//! Method bodies in IL, the runtime's bytecode: reads them, and wraps them in probes.
//!
//! # Purpose
//! `remora trace` replaces the bodies of methods in a running process. The new body calls a probe, runs the old body inside a protected
//! region, and calls a second probe at its end, whether it returns or throws.
//!
//! # Design constraints
//! `no_std` with alloc, no dependency. The bytes come from the target's own files, which may be damaged or hostile: every read is checked,
//! and a body that is not understood is refused. A refused method runs unchanged.
//!
//! # Supported
//! Bodies by ECMA-335 II.25.4: tiny and fat headers, small and fat exception clauses, every opcode of III.
//!
//! # Rejected
//! - Methods with the `tail.` prefix. Inside a protected region the call would keep its caller's frame, and a recursion that needs no stack
//!   today could overflow it.
//! - A `catch` that rethrows, to see exceptions: filters of callers would run after the handlers here, and a crash dump would show the
//!   second throw. A `fault` handler changes neither.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod assembler;
mod body;
mod error;
mod instructions;
mod signature;
mod wrap;

pub use assembler::Assembler;
pub use body::{Body, Clause, Handler};
pub use error::Error;
pub use instructions::{Instruction, Instructions, Operand};
pub use signature::{MethodSignature, NamedType, Value, locals_with, type_text};
pub use wrap::{Probes, wrap};
