//! Raw calls about the contents of rows: fields, parameters, properties, events, generics, attributes, references, constants.

use crate::answers::{Room, answer, answer_text, number};
use crate::open_metadata::{Open, UNTOUCHED};
use corprof::sys;
use std::ptr::null;

/// The bytes of a signature as one number, up to seven, and their count.
///
/// # Safety
/// `place` is null or valid for `length` bytes.
pub unsafe fn bytes(place: *const u8, length: u32) -> [usize; 2] {
    if place.is_null() || length == UNTOUCHED {
        return [usize::from(!place.is_null()), length as usize];
    }
    // SAFETY: not null, so the caller guarantees `length` valid bytes.
    let all = unsafe { std::slice::from_raw_parts(place, (length as usize).min(7)) };
    [all.iter().fold(1, |sum, byte| sum << 8 | usize::from(*byte)), length as usize]
}

/// A constant as numbers: its type, its first bytes, its length in characters.
#[derive(Clone, Copy)]
struct Constant {
    kind: u32,
    value: sys::UVCP_CONSTANT,
    count: u32,
}

impl Constant {
    const UNASKED: Constant = Constant { kind: UNTOUCHED, value: null(), count: UNTOUCHED };

    /// # Safety
    /// The runtime has written its parts.
    unsafe fn numbers(self) -> [usize; 3] {
        let size = match self.kind {
            kind if kind == sys::ELEMENT_TYPE_I4 => 4,
            kind if kind == sys::ELEMENT_TYPE_STRING => self.count * 2,
            _ => 0,
        };
        // SAFETY: a constant has as many bytes as its type says.
        let [start, _] = unsafe { bytes(self.value.cast(), size) };
        [self.kind as usize, start, self.count as usize]
    }
}

/// The answer with a name, numbers, a signature, and a constant.
///
/// # Safety
/// The runtime has written the constant, if there is one.
unsafe fn row(code: i32, numbers: &[u32], more: &[[usize; 2]], constant: Option<Constant>, name: &Room<u16>) -> String {
    let mut all: Vec<usize> = numbers.iter().map(|one| *one as usize).collect();
    all.extend(more.iter().flatten());
    if let Some(constant) = constant {
        // SAFETY: the caller guarantees it.
        all.extend(unsafe { constant.numbers() });
    }
    answer_text(code, &all, name)
}

/// Rows with names.
///
/// # Safety
/// The metadata is open.
pub unsafe fn of_rows(open: &Open, question: &str, token: u32, rest: &[&str]) -> Option<String> {
    let mut name = Room::of(rest, 0_u16);
    let (place, many, mut wide) = (name.place(), name.room, UNTOUCHED);
    let [mut owner, mut flags, mut first, mut second, mut third, mut size] = [UNTOUCHED; 6];
    let (mut signature, mut constant, mut others) = (null(), Constant::UNASKED, [UNTOUCHED; 4]);
    let (kind, value, length) = (&raw mut constant.kind, &raw mut constant.value, &raw mut constant.count);
    let import = open.first();
    // SAFETY: `open` keeps the interface valid; all outputs are local. This holds for each call below.
    unsafe {
        Some(match question {
            "field" => {
                let (class, attributes) = (&raw mut owner, &raw mut flags);
                let (blob, bytes_of) = (&raw mut signature, &raw mut size);
                let code = sys::IMetaDataImport::GetFieldProps(
                    import,
                    token,
                    class,
                    place,
                    many,
                    &raw mut wide,
                    attributes,
                    blob,
                    bytes_of,
                    kind,
                    value,
                    length,
                );
                row(code, &[wide, owner, flags], &[bytes(signature, size)], Some(constant), &name)
            }
            "parameter" => {
                let (method, sequence) = (&raw mut owner, &raw mut first);
                let code = sys::IMetaDataImport::GetParamProps(
                    import,
                    token,
                    method,
                    sequence,
                    place,
                    many,
                    &raw mut wide,
                    &raw mut flags,
                    kind,
                    value,
                    length,
                );
                row(code, &[wide, owner, first, flags], &[], Some(constant), &name)
            }
            "property" => {
                let code = sys::IMetaDataImport::GetPropertyProps(
                    import,
                    token,
                    &raw mut owner,
                    place,
                    many,
                    &raw mut wide,
                    &raw mut flags,
                    &raw mut signature,
                    &raw mut size,
                    kind,
                    value,
                    length,
                    &raw mut first,
                    &raw mut second,
                    others.as_mut_ptr(),
                    others.len() as u32,
                    &raw mut third,
                );
                let numbers = [wide, owner, flags, first, second, third];
                row(code, &numbers, &[bytes(signature, size)], Some(constant), &name)
            }
            "event" => {
                let code = sys::IMetaDataImport::GetEventProps(
                    import,
                    token,
                    &raw mut owner,
                    place,
                    many,
                    &raw mut wide,
                    &raw mut flags,
                    &raw mut size,
                    &raw mut first,
                    &raw mut second,
                    &raw mut third,
                    others.as_mut_ptr(),
                    others.len() as u32,
                    &raw mut others[3],
                );
                row(code, &[wide, owner, flags, size, first, second, third, others[3]], &[], None, &name)
            }
            "type-parameter" => {
                let code = sys::IMetaDataImport2::GetGenericParamProps(
                    open.import,
                    token,
                    &raw mut first,
                    &raw mut flags,
                    &raw mut owner,
                    &raw mut third,
                    place,
                    many,
                    &raw mut wide,
                );
                row(code, &[wide, first, flags, owner, third], &[], None, &name)
            }
            "member-ref" => {
                let (blob, bytes_of) = (&raw mut signature, &raw mut size);
                let code = sys::IMetaDataImport::GetMemberRefProps(
                    import,
                    token,
                    &raw mut owner,
                    place,
                    many,
                    &raw mut wide,
                    blob,
                    bytes_of,
                );
                row(code, &[wide, owner], &[bytes(signature, size)], None, &name)
            }
            _ => return None,
        })
    }
}

/// Rows without names; `rest` has a second token.
///
/// # Safety
/// The metadata is open.
pub unsafe fn of_tokens(open: &Open, question: &str, token: u32, rest: &[&str]) -> Option<String> {
    let import = open.first();
    let [mut first, mut second, mut size] = [UNTOUCHED; 3];
    let (mut signature, mut data) = (null(), null());
    let other = rest.first().map(|word| number(word) as u32);
    // SAFETY: `open` keeps the interface valid; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "method-spec" => {
                let (blob, size) = (&raw mut signature, &raw mut size);
                let code = sys::IMetaDataImport2::GetMethodSpecProps(open.import, token, &raw mut first, blob, size);
                let [start, size] = bytes(signature, *size);
                answer(code, &[first as usize, start, size])
            }
            "constraint" => {
                let (of, to) = (&raw mut first, &raw mut second);
                let code = sys::IMetaDataImport2::GetGenericParamConstraintProps(open.import, token, of, to);
                answer(code, &[first as usize, second as usize])
            }
            "attribute-at" => {
                let (of, to, size) = (&raw mut first, &raw mut second, &raw mut size);
                let code = sys::IMetaDataImport::GetCustomAttributeProps(import, token, of, to, &raw mut data, size);
                let [start, size] = bytes(data.cast(), *size);
                answer(code, &[first as usize, second as usize, start, size])
            }
            "implemented" => {
                let (class, interface) = (&raw mut first, &raw mut second);
                let code = sys::IMetaDataImport::GetInterfaceImplProps(import, token, class, interface);
                answer(code, &[first as usize, second as usize])
            }
            "semantics-of" => {
                let of = other.unwrap_or(0x1700_0001);
                let code = sys::IMetaDataImport::GetMethodSemantics(import, token, of, &raw mut first);
                answer(code, &[first as usize])
            }
            "parameter-at" => {
                let code =
                    sys::IMetaDataImport::GetParamForMethodIndex(import, token, other.unwrap_or(1), &raw mut first);
                answer(code, &[first as usize])
            }
            // The first method that overrides one, and that.
            "override" => {
                let mut list = std::ptr::null_mut();
                let (body, declared, count) = (&raw mut first, &raw mut second, &raw mut size);
                let code =
                    sys::IMetaDataImport::EnumMethodImpls(import, &raw mut list, token, body, declared, 1, count);
                sys::IMetaDataImport::CloseEnum(import, list);
                answer(code, &[first as usize, second as usize, size as usize])
            }
            _ => return None,
        }
    })
}
