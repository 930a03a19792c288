//! The metadata of the program `obedient`: the members of its main class, and the types of every program.
//!
//! Left out: the program's worker threads, the types that it makes while it runs, and what the compiler adds by itself.

use remora_clr_model::runtime::{Contents, in_signature};

/// Flags of fields (source: corhdr.h, CorFieldAttr).
const PRIVATE_STATIC: u32 = 0x11;
const PRIVATE_READ_ONLY: u32 = 0x31;

/// Flags of methods (source: corhdr.h, CorMethodAttr).
const STATIC: u32 = 0x91;
const CLASS_CONSTRUCTOR: u32 = 0x1891;

/// Signatures of methods (ECMA-335, II.23.2).
const NOTHING: [u8; 3] = [0x00, 0x00, 0x01];
const GIVES_TEXT: [u8; 3] = [0x00, 0x00, 0x0E];

/// The module's metadata.
pub fn contents() -> Contents {
    Contents::of_program("Obedient", |made, framework| {
        made.field(PRIVATE_READ_ONLY, "own", &[0x06, 0x1D, 0x05]);
        made.field(PRIVATE_STATIC, "kept", &[0x06, 0x1C]);
        made.method(STATIC, "Main", &NOTHING);
        made.method(STATIC, "Do", &[0x00, 0x01, 0x0E, 0x0E]);
        made.parameter(0, 1, "verb");
        for name in ["Load", "Many", "Unload", "Compile", "Often", "Emit", "NameThread", "Block", "Throw", "Filter"] {
            made.method(STATIC, name, &GIVES_TEXT);
        }
        made.method(STATIC, "BeginUnload", &[0x00, 0x00, 0x12, in_signature(framework.weak)]);
        made.method(STATIC, "Called", &[0x00, 0x01, 0x08, 0x08]);
        made.parameter(0, 1, "number");
        let fresh = made.method(STATIC, "Fresh", &[0x10, 0x01, 0x01, 0x08, 0x08]);
        made.parameter(0, 1, "number");
        made.type_parameter(fresh, 0, 0, "T");
        made.method(STATIC, "Drop", &NOTHING);
        made.method(CLASS_CONSTRUCTOR, ".cctor", &NOTHING);
    })
}
