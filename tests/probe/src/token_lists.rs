//! Enumerations of metadata, in every valid way: with a small buffer, beyond their end, and again after a reset.

use crate::answers::{answer, number};
use crate::open_metadata::{Open, UNTOUCHED};
use corprof::sys;
use std::ptr::null_mut;

/// More entries than any list of the tests' programs.
const MANY: u32 = 512;

/// What is listed: `QUESTION TOKEN [NAME or TYPE]`.
struct Question<'a> {
    open: &'a Open,
    /// The name of the list.
    list: &'a str,
    token: u32,
    /// Only for lists that filter by it: a name that ends with a zero.
    name: Vec<u16>,
    /// Only for attributes: their type.
    of_type: u32,
}

impl<'a> Question<'a> {
    fn of(open: &'a Open, list: &'a str, rest: &[&str]) -> Question<'a> {
        let filter = rest.get(1).copied();
        Question {
            open,
            list,
            token: rest.first().map_or(0, |word| number(word)) as u32,
            name: filter.unwrap_or("Nobody").encode_utf16().chain([0]).collect(),
            of_type: filter.map_or(0, number) as u32,
        }
    }

    /// One call; `None` for an unknown list.
    ///
    /// # Safety
    /// The metadata is open, the cursor is null or one of this list, and the buffers have `room` entries.
    unsafe fn next(
        &self,
        cursor: *mut sys::HCORENUM,
        (place, declared, room): (*mut u32, *mut u32, u32),
        of: *mut u32,
    ) -> Option<i32> {
        let (import, newer, assembly) = (self.open.first(), self.open.import, self.open.assembly);
        let (token, name) = (self.token, self.name.as_ptr());
        // SAFETY: the caller guarantees all arguments. This holds for each call below.
        Some(unsafe {
            match self.list {
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
                "overrides" => sys::IMetaDataImport::EnumMethodImpls(import, cursor, token, place, declared, room, of),
                "permissions" => sys::IMetaDataImport::EnumPermissionSets(import, cursor, token, 0, place, room, of),
                "properties" => sys::IMetaDataImport::EnumProperties(import, cursor, token, place, room, of),
                "events" => sys::IMetaDataImport::EnumEvents(import, cursor, token, place, room, of),
                "semantics" => sys::IMetaDataImport::EnumMethodSemantics(import, cursor, token, place, room, of),
                "module-refs" => sys::IMetaDataImport::EnumModuleRefs(import, cursor, place, room, of),
                "unresolved" => sys::IMetaDataImport::EnumUnresolvedMethods(import, cursor, place, room, of),
                "signatures" => sys::IMetaDataImport::EnumSignatures(import, cursor, place, room, of),
                "specs" => sys::IMetaDataImport::EnumTypeSpecs(import, cursor, place, room, of),
                "texts" => sys::IMetaDataImport::EnumUserStrings(import, cursor, place, room, of),
                "attributes" => {
                    sys::IMetaDataImport::EnumCustomAttributes(import, cursor, token, self.of_type, place, room, of)
                }
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
        })
    }
}

/// `all LIST TOKEN [NAME or TYPE]`: the code of the first call, and every token.
///
/// # Safety
/// `open` is valid, and so are all ids of the question.
pub unsafe fn all(open: &Open, rest: &[&str]) -> Option<String> {
    let (list, rest) = rest.split_first()?;
    let question = Question::of(open, list, rest);
    let [mut tokens, mut declared] = [(); 2].map(|()| vec![UNTOUCHED; MANY as usize]);
    let (mut cursor, mut count) = (null_mut(), 0);
    let buffers = (tokens.as_mut_ptr(), declared.as_mut_ptr(), MANY);
    // SAFETY: the caller guarantees that `open` is valid. The cursor is null, and the buffers have so many entries.
    let code = unsafe { question.next(&raw mut cursor, buffers, &raw mut count) }?;
    // SAFETY: the caller guarantees that `open` is valid; the cursor is a list or null, and not used any more.
    unsafe { sys::IMetaDataImport::CloseEnum(open.first(), cursor) };
    let found = tokens.iter().take(count as usize).map(|token| *token as usize);
    Some(answer(code, &found.collect::<Vec<_>>()))
}

/// `LIST ROOM TOKEN [NAME or TYPE]`. Reads a list from beginning to end. Returns:
/// - code and count of the first call, the total, and whether there is anything to close
/// - code and count of the next call
/// - code and count of a call after a reset
/// - the first entry
///
/// # Safety
/// `open` is valid, and so are all ids of the question.
pub unsafe fn listed(open: &Open, question: &str, rest: &[&str]) -> Option<String> {
    let room = rest.first().map_or(0, |word| number(word)) as u32;
    let import = open.first();
    let question = Question::of(open, question, rest.get(1..).unwrap_or_default());
    let [mut list, mut other] = [(); 2].map(|()| vec![UNTOUCHED; room as usize + 1]);
    let mut cursor = null_mut();
    let mut next = || {
        let (cursor, mut count) = (&raw mut cursor, UNTOUCHED);
        let buffers = (list.as_mut_ptr(), other.as_mut_ptr(), room);
        // SAFETY: the caller guarantees that `open` is valid. The cursor belongs to this question or is null; the buffers have `room`
        // entries.
        let code = unsafe { question.next(cursor, buffers, &raw mut count) }?;
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
