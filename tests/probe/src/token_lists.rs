//! Enumerations of metadata, in every valid way: with a small buffer, beyond their end, and again after a reset.

use crate::answers::{answer, number};
use crate::open_metadata::{Open, UNTOUCHED};
use corprof::sys;
use std::ptr::null_mut;

/// Reads a list from beginning to end. Returns:
/// - code and count of the first call, the total, and whether there is anything to close
/// - code and count of the next call
/// - code and count of a call after a reset
/// - the first entry
///
/// # Safety
/// `open` is valid, and so are all ids of the question.
pub unsafe fn listed(open: &Open, question: &str, rest: &[&str]) -> Option<String> {
    let room = rest.first().map_or(0, |word| number(word)) as u32;
    let token = rest.get(1).map_or(0, |word| number(word)) as u32;
    let (import, newer, assembly) = (open.first(), open.import, open.assembly);
    let mut list = vec![UNTOUCHED; room as usize + 1];
    let mut other = vec![UNTOUCHED; room as usize + 1];
    let all: Vec<u16> = "Nobody".encode_utf16().chain([0]).collect();
    let name = all.as_ptr();
    let mut cursor = null_mut();
    let mut next = || {
        let (cursor, place, mut count) = (&raw mut cursor, list.as_mut_ptr(), UNTOUCHED);
        let of = &raw mut count;
        // SAFETY: the caller guarantees that `open` is valid. The cursor belongs to this question or is null; the buffer has `room`
        // entries.
        let code = unsafe {
            match question {
                "types" => sys::IMetaDataImport::EnumTypeDefs(import, cursor, place, room, of),
                "refs" => sys::IMetaDataImport::EnumTypeRefs(import, cursor, place, room, of),
                "interfaces" => sys::IMetaDataImport::EnumInterfaceImpls(import, cursor, token, place, room, of),
                "members" => sys::IMetaDataImport::EnumMembers(import, cursor, token, place, room, of),
                "members-of-name" => {
                    sys::IMetaDataImport::EnumMembersWithName(import, cursor, token, name, place, room, of)
                }
                "methods" => sys::IMetaDataImport::EnumMethods(import, cursor, token, place, room, of),
                "methods-of-name" => {
                    sys::IMetaDataImport::EnumMethodsWithName(import, cursor, token, name, place, room, of)
                }
                "fields" => sys::IMetaDataImport::EnumFields(import, cursor, token, place, room, of),
                "fields-of-name" => {
                    sys::IMetaDataImport::EnumFieldsWithName(import, cursor, token, name, place, room, of)
                }
                "parameters" => sys::IMetaDataImport::EnumParams(import, cursor, token, place, room, of),
                "member-refs" => sys::IMetaDataImport::EnumMemberRefs(import, cursor, token, place, room, of),
                "overrides" => {
                    let declared = other.as_mut_ptr();
                    sys::IMetaDataImport::EnumMethodImpls(import, cursor, token, place, declared, room, of)
                }
                "permissions" => sys::IMetaDataImport::EnumPermissionSets(import, cursor, token, 0, place, room, of),
                "properties" => sys::IMetaDataImport::EnumProperties(import, cursor, token, place, room, of),
                "events" => sys::IMetaDataImport::EnumEvents(import, cursor, token, place, room, of),
                "semantics" => sys::IMetaDataImport::EnumMethodSemantics(import, cursor, token, place, room, of),
                "module-refs" => sys::IMetaDataImport::EnumModuleRefs(import, cursor, place, room, of),
                "unresolved" => sys::IMetaDataImport::EnumUnresolvedMethods(import, cursor, place, room, of),
                "signatures" => sys::IMetaDataImport::EnumSignatures(import, cursor, place, room, of),
                "specs" => sys::IMetaDataImport::EnumTypeSpecs(import, cursor, place, room, of),
                "texts" => sys::IMetaDataImport::EnumUserStrings(import, cursor, place, room, of),
                "attributes" => sys::IMetaDataImport::EnumCustomAttributes(import, cursor, token, 0, place, room, of),
                "type-parameters" => sys::IMetaDataImport2::EnumGenericParams(newer, cursor, token, place, room, of),
                "constraints" => {
                    sys::IMetaDataImport2::EnumGenericParamConstraints(newer, cursor, token, place, room, of)
                }
                "method-specs" => sys::IMetaDataImport2::EnumMethodSpecs(newer, cursor, token, place, room, of),
                "references" => sys::IMetaDataAssemblyImport::EnumAssemblyRefs(assembly, cursor, place, room, of),
                "files" => sys::IMetaDataAssemblyImport::EnumFiles(assembly, cursor, place, room, of),
                "exported" => sys::IMetaDataAssemblyImport::EnumExportedTypes(assembly, cursor, place, room, of),
                "resources" => sys::IMetaDataAssemblyImport::EnumManifestResources(assembly, cursor, place, room, of),
                _ => return None,
            }
        };
        // SAFETY: the call above has just written there.
        Some((code, count, unsafe { *cursor }, list[0]))
    };
    let (code, count, begun, first) = next()?;
    let mut total = UNTOUCHED;
    // SAFETY: the caller guarantees that `open` is valid; `begun` is a list or null, and `total` is valid for writing.
    let counted = unsafe { sys::IMetaDataImport::CountEnum(import, begun, &raw mut total) };
    let (then, others, _, _) = next()?;
    let (_, _, still, _) = next()?;
    // SAFETY: the caller guarantees that `open` is valid; `still` is a list or null.
    let reset = unsafe { sys::IMetaDataImport::ResetEnum(import, still, 0) };
    let (again, third, end, _) = next()?;
    // SAFETY: the caller guarantees that `open` is valid; `end` is a list or null, and not used any more.
    unsafe { sys::IMetaDataImport::CloseEnum(import, end) };
    let codes = [then, again, counted, reset].map(|code| code as u32 as usize);
    let numbers = [count, total, others, third, first].map(|one| one as usize);
    let is_open = usize::from(!begun.is_null());
    let [then, again, counted, reset] = codes;
    let [count, total, others, third, first] = numbers;
    Some(answer(code, &[count, total, is_open, first, then, others, again, third, counted, reset]))
}
