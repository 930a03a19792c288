//! Arguments and results, read in the hooks with info.
//!
//! When the runtime compiles a method, its types decide about its values. The hooks then read numbers of known sizes, and strings, where the
//! runtime finds them. The thread is in cooperative mode there, so no object moves.

use crate::fixed_modules::fixed;
use crate::parameters::Types;
use crate::rejit::metadata::Metadata;
use crate::state::{RUNNING, Running, State};
use corprof::{Alive, ArgumentRoom, FunctionId, Info, MethodToken, ModuleId, Startup, sys};
use remora_call_table::{Kind, MethodIndex, RESULT, Values, layout};
use remora_il::MethodSignature;
use remora_wire::method_trace::MOST_VALUES;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A string is a pointer to its type, its length, its UTF-16 units: `StringObject` of src/coreclr/vm/object.h. The tests see it on every
/// runtime.
const STRING_LENGTH: usize = 8;
const STRING_UNITS: usize = 12;

/// The hooks get places of values only with these flags, which are immutable.
pub const LOW_MASK: u32 = sys::COR_PRF_ENABLE_FUNCTION_ARGS | sys::COR_PRF_ENABLE_FUNCTION_RETVAL;

/// The first version of Info whose runtime gives structures to hooks without damage.
///
/// .NET Core 3.1 copies a structure out of registers to where it saves xmm0 and xmm1, and restores these after the hook (ProfileEnterNaked in
/// vm/amd64/asmhelpers.S, `buffer` in vm/amd64/profiler.cpp). Experiment: a `Vector4` and a structure with a double changed on 3.1, not on
/// 8, 9 and 10. 5 to 7 were not tried.
const FIRST_WITH_STRUCTURES: u8 = 14;

/// Bytes of parameters' texts in which enums have constants: after that, the room is for names.
const MOST_TEXTS: usize = 2 << 20;
/// Bytes of such texts until now.
static TEXTS: AtomicUsize = AtomicUsize::new(0);

/// By the number of a method.
static SHAPES: [AtomicPtr<Shape>; layout::METHODS] = [const { AtomicPtr::new(null_mut()) }; layout::METHODS];

/// How to read a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// A number of so many bytes.
    Number(Kind, usize),
    /// A reference to a string.
    Text,
    /// A structure of 16 bytes.
    Wide,
}

impl Reading {
    /// How to read a type: ECMA-335 II.23.1.16. An enum is read as its number.
    fn of(of_type: &[u8], types: &Types<'_, Startup>) -> Option<Reading> {
        if let Some(structure) = types.structure(of_type) {
            return Some(if structure.bytes() == 16 { Reading::Wide } else { Reading::Number(Kind::Unsigned, 8) });
        }
        Some(match types.element(of_type)? {
            0x02 => Reading::Number(Kind::Bool, 1),
            0x03 => Reading::Number(Kind::Char, 2),
            0x04 => Reading::Number(Kind::Signed, 1),
            0x05 => Reading::Number(Kind::Unsigned, 1),
            0x06 => Reading::Number(Kind::Signed, 2),
            0x07 => Reading::Number(Kind::Unsigned, 2),
            0x08 => Reading::Number(Kind::Signed, 4),
            0x09 => Reading::Number(Kind::Unsigned, 4),
            0x0A | 0x18 => Reading::Number(Kind::Signed, 8),
            0x0B | 0x19 => Reading::Number(Kind::Unsigned, 8),
            0x0C => Reading::Number(Kind::Float, 4),
            0x0D => Reading::Number(Kind::Float, 8),
            0x0E => Reading::Text,
            _ => return None,
        })
    }
}

/// Whether a type can be that of a structure; not an enum whose numbers are read.
fn may_be_structure(of_type: &[u8], types: &Types<'_, Startup>) -> bool {
    match of_type {
        [0x11, ..] => types.element(of_type).is_none(),
        // Type parameters, instantiations, typed references.
        [0x13 | 0x15 | 0x16 | 0x1E, ..] => true,
        _ => false,
    }
}

/// The values of a method.
#[derive(Debug)]
pub struct Shape {
    function: FunctionId,
    has_this: bool,
    arguments: Vec<(u8, Reading)>,
    result: Option<Reading>,
    /// Texts of all parameters, one on each line.
    pub parameters: String,
}

impl Shape {
    /// Describes a method.
    pub fn of(
        info: &Info<Startup, Alive>,
        (function, module, token): (FunctionId, ModuleId, MethodToken),
        signature: &[u8],
    ) -> Option<Shape> {
        let (metadata, others) = (Metadata::of(info, module).ok()?, fixed(info));
        let types = Types::of(info, &metadata, &others);
        let signature = MethodSignature::read(signature).ok()?;
        let may_ask = info.version() >= FIRST_WITH_STRUCTURES
            || !signature.parameters.iter().any(|of_type| may_be_structure(of_type, &types));
        // .NET Core 3.1 gives the first 8 bytes of a result, and zeros.
        let is_whole = |reading: &Reading| *reading != Reading::Wide || info.version() >= FIRST_WITH_STRUCTURES;
        let most = if may_ask { MOST_VALUES - 1 } else { 0 };
        let arguments = (0..).zip(signature.parameters.iter().take(most));
        let room = MOST_TEXTS.saturating_sub(TEXTS.load(Ordering::Relaxed));
        let texts = types.parameters(token.0, &signature, signature.result, room).join("\n");
        TEXTS.fetch_add(texts.len(), Ordering::Relaxed);
        Some(Shape {
            function,
            has_this: signature.has_this,
            arguments: arguments
                .filter_map(|(position, of_type)| Some((position, Reading::of(of_type, &types)?)))
                .collect(),
            result: signature.result.and_then(|result| Reading::of(result, &types)).filter(is_whole),
            parameters: texts,
        })
    }

    /// Makes it that of a method, for good.
    pub fn store(self, method: MethodIndex) {
        if let Some(place) = SHAPES.get(method.0 as usize) {
            place.store(Box::into_raw(Box::new(self)), Ordering::Release);
        }
    }

    fn known(method: u32) -> Option<&'static Shape> {
        let shape = SHAPES.get(method as usize)?.load(Ordering::Acquire);
        // SAFETY: null, or from `store`, which gives it away for good.
        unsafe { shape.as_ref() }
    }
}

/// The arguments of the call that begins.
///
/// # Safety
/// In a hook at entry: `method` is the hooked one, and `hook` the argument from the runtime.
pub unsafe fn of_entry(state: &State, method: u32, hook: usize) -> Values {
    let mut values = Values::default();
    let (Some(Running { info, .. }), Some(shape)) = (RUNNING.get(), Shape::known(method)) else { return values };
    if shape.arguments.is_empty() {
        return values;
    }
    let mut room = ArgumentRoom::default();
    // SAFETY: the caller guarantees it.
    match unsafe { info.get_function_enter3_info(shape.function, hook, &mut room) } {
        Ok(places) => {
            for (position, reading) in &shape.arguments {
                if let Some(place) = places.get(usize::from(*position) + usize::from(shape.has_this)) {
                    // SAFETY: the place of an argument of this type, from the runtime, inside of the same hook.
                    unsafe { add(&mut values, *position, *reading, place) };
                }
            }
        }
        Err(_) => state.table.count(layout::VALUES_REFUSED),
    }
    values
}

/// Adds the result of the call that ends.
///
/// # Safety
/// In a hook at exit: `method` is the hooked one, and `hook` the argument from the runtime.
pub unsafe fn of_exit(state: &State, method: u32, hook: usize, values: &mut Values) {
    let (Some(Running { info, .. }), Some(shape)) = (RUNNING.get(), Shape::known(method)) else { return };
    let Some(reading) = shape.result else { return };
    // SAFETY: the caller guarantees it.
    match unsafe { info.get_function_leave3_info(shape.function, hook) } {
        // SAFETY: the place of the result, of this type, from the runtime, inside of the same hook.
        Ok(place) => unsafe { add(values, RESULT, reading, &place) },
        Err(_) => state.table.count(layout::VALUES_REFUSED),
    }
}

/// Reads a value.
///
/// # Safety
/// The place has a value of that type, and no GC moves it meanwhile.
unsafe fn add(values: &mut Values, position: u8, reading: Reading, place: &sys::COR_PRF_FUNCTION_ARGUMENT_RANGE) {
    let bytes = match reading {
        Reading::Number(_, bytes) => bytes,
        Reading::Text => 8,
        Reading::Wide => 16,
    };
    if place.startAddress == 0 || (place.length as usize) < bytes {
        return;
    }
    let mut word = [0_u8; 16];
    // SAFETY: the place has at least `bytes` bytes, and `word` has no fewer.
    unsafe { std::ptr::copy_nonoverlapping(place.startAddress as *const u8, word.as_mut_ptr(), bytes) };
    let all = u128::from_le_bytes(word);
    let bits = all as u64;
    match reading {
        Reading::Number(kind, bytes) => values.add_number(position, kind, widened(kind, bytes, bits)),
        Reading::Wide => values.add_wide(position, all),
        Reading::Text if bits == 0 => values.add_null(position),
        // SAFETY: a reference that is not null, so a string.
        Reading::Text => unsafe { add_text(values, position, bits as usize) },
    }
}

/// The number as one of 64 bits.
fn widened(kind: Kind, bytes: usize, bits: u64) -> u64 {
    let unused = 64 - 8 * bytes as u32;
    match kind {
        Kind::Signed => ((bits << unused) as i64 >> unused) as u64,
        Kind::Float if bytes == 4 => f64::from(f32::from_bits(bits as u32)).to_bits(),
        Kind::Bool => u64::from(bits != 0),
        _ => bits,
    }
}

/// Reads a string.
///
/// # Safety
/// The address is that of a string, and no GC moves it meanwhile.
unsafe fn add_text(values: &mut Values, position: u8, text: usize) {
    // SAFETY: the length of a string is there.
    let length = unsafe { ((text + STRING_LENGTH) as *const u32).read() };
    // SAFETY: so many units follow.
    let units = unsafe { std::slice::from_raw_parts((text + STRING_UNITS) as *const u16, length as usize) };
    values.add_text(position, length, units.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_keep_their_sign() {
        for (kind, bytes, bits, expected) in [
            (Kind::Signed, 1, 0xFE, -2_i64 as u64),
            (Kind::Signed, 2, 0x7FFF, 0x7FFF),
            (Kind::Signed, 4, 0x8000_0000, i64::from(i32::MIN) as u64),
            (Kind::Signed, 8, u64::MAX, u64::MAX),
            (Kind::Unsigned, 1, 0xFE, 0xFE),
            (Kind::Float, 4, u64::from(1.5_f32.to_bits()), 1.5_f64.to_bits()),
            (Kind::Float, 8, 0.1_f64.to_bits(), 0.1_f64.to_bits()),
            (Kind::Bool, 1, 7, 1),
        ] {
            assert_eq!(widened(kind, bytes, bits), expected, "{kind:?} {bytes} {bits:x}");
        }
    }
}
