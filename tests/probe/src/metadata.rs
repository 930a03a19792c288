//! Raw calls about a module's metadata: `ask meta MODULE QUESTION ...`.
//!
//! Each opens the metadata, makes the call, and releases it: a profiler that has requested its detach may keep none of it. What happens if
//! it does, `keep MODULE` and `kept QUESTION ...` show. A failure is an answer here, too.

use crate::answers::{Room, answer, answer_text, number};
use crate::metadata_contents::{self, bytes};
use crate::open_metadata::{Open, UNTOUCHED};
use crate::{metadata_tables, token_lists};
use corprof::{Guid, sys};
use std::ffi::CStr;
use std::ptr::{null, null_mut};

/// Makes one call; `None` for an unknown question.
///
/// # Safety
/// Info is valid and knows the module, and all ids of the question are valid.
pub unsafe fn ask(raw: *mut sys::ICorProfilerInfo, module: usize, words: &[&str]) -> Option<String> {
    let (question, rest) = words.split_first()?;
    if *question == "open" {
        // SAFETY: the caller guarantees that Info is valid and knows the module.
        return Some(unsafe { interface(raw, module, rest) });
    }
    // SAFETY: the caller guarantees that Info is valid and knows the module.
    let open = match unsafe { Open::of(raw, module) } {
        Ok(open) => open,
        Err(code) => return Some(answer(code, &[])),
    };
    // SAFETY: the caller guarantees valid ids.
    unsafe { ask_open(&open, words) }
}

/// Makes one call of open metadata; `None` for an unknown question.
///
/// # Safety
/// All ids of the question are valid.
pub unsafe fn ask_open(open: &Open, words: &[&str]) -> Option<String> {
    let (question, rest) = words.split_first()?;
    let token = rest.first().map_or(0, |word| number(word)) as u32;
    let after = rest.get(1..).unwrap_or_default();
    // SAFETY: `open` keeps both interfaces valid until the end of this call.
    unsafe {
        of_module(open, question, rest)
            .or_else(|| of_rows(open, question, token, after))
            .or_else(|| metadata_contents::of_rows(open, question, token, after))
            .or_else(|| by_name(open, question, rest))
            .or_else(|| of_tokens(open, question, token))
            .or_else(|| metadata_contents::of_tokens(open, question, token, after))
            .or_else(|| metadata_tables::ask(open, question, rest))
            .or_else(|| if *question == "all" { token_lists::all(open, rest) } else { None })
            .or_else(|| token_lists::listed(open, question, rest))
    }
}

/// Opens the metadata with one interface, then queries further interfaces; reports which exist.
unsafe fn interface(raw: *mut sys::ICorProfilerInfo, module: usize, rest: &[&str]) -> String {
    let id = |name: &str| match name {
        "import" => sys::IID_IMetaDataImport,
        "import2" => sys::IID_IMetaDataImport2,
        "assembly" => sys::IID_IMetaDataAssemblyImport,
        "emit" => sys::IID_IMetaDataEmit,
        "emit2" => sys::IID_IMetaDataEmit2,
        "assembly-emit" => sys::IID_IMetaDataAssemblyEmit,
        "tables" => sys::IID_IMetaDataTables,
        "tables2" => sys::IID_IMetaDataTables2,
        "unknown" => sys::IID_IUnknown,
        _ => sys::IID_ICorProfilerInfo,
    };
    let wanted: Vec<Guid> = rest.iter().map(|name| id(name)).collect();
    let [first, then @ ..] = &wanted[..] else { return answer(-1, &[]) };
    let mut object = null_mut();
    // SAFETY: the caller guarantees that Info is valid and knows the module; `object` is valid for writing.
    let code = unsafe { sys::ICorProfilerInfo::GetModuleMetaData(raw, module, 0, first, &raw mut object) };
    let mut numbers = vec![usize::from(!object.is_null())];
    let mut current: *mut sys::IUnknown = object;
    for next in then {
        let mut other = null_mut();
        // SAFETY: `current` has a reference of ours; `other` is valid for writing.
        let code = unsafe { sys::IUnknown::QueryInterface(current, next, &raw mut other) };
        numbers.push(code as u32 as usize);
        if !other.is_null() {
            // SAFETY: a reference of ours, replaced by that in `other`.
            unsafe { sys::IUnknown::Release(current) };
            current = other.cast();
        }
    }
    if !current.is_null() {
        // SAFETY: the last reference of ours, which is not used any more.
        unsafe { sys::IUnknown::Release(current) };
    }
    answer(code, &numbers)
}

unsafe fn of_module(open: &Open, question: &str, rest: &[&str]) -> Option<String> {
    let mut name = Room::of(rest, 0_u16);
    let (place, many, mut length) = (name.place(), name.room, UNTOUCHED);
    // SAFETY: `open` keeps the interface valid; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "scope" => {
                let mut mvid = Guid::from_u128(0);
                let id = (&raw mut mvid).cast();
                let code = sys::IMetaDataImport::GetScopeProps(open.first(), place, many, &raw mut length, id);
                answer_text(code, &[length as usize, usize::from(mvid != Guid::from_u128(0))], &name)
            }
            "module" => {
                answer(sys::IMetaDataImport::GetModuleFromScope(open.first(), &raw mut length), &[length as usize])
            }
            "assembly" => answer(
                sys::IMetaDataAssemblyImport::GetAssemblyFromScope(open.assembly, &raw mut length),
                &[length as usize],
            ),
            "kind" => {
                let mut machine = UNTOUCHED;
                let code = sys::IMetaDataImport2::GetPEKind(open.import, &raw mut length, &raw mut machine);
                answer(code, &[length as usize, machine as usize])
            }
            "version" => {
                let code = sys::IMetaDataImport2::GetVersionString(open.import, place, many, &raw mut length);
                answer_text(code, &[length as usize], &name)
            }
            _ => return None,
        }
    })
}

unsafe fn of_rows(open: &Open, question: &str, token: u32, rest: &[&str]) -> Option<String> {
    let mut name = Room::of(rest, 0_u16);
    let (place, many, mut length) = (name.place(), name.room, UNTOUCHED);
    let (mut owner, mut flags, mut other, mut address) = (UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED);
    let (mut signature, mut size) = (null(), UNTOUCHED);
    let import = open.first();
    // SAFETY: `open` keeps the interface valid; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "type" => {
                let (flags, extends) = (&raw mut flags, &raw mut other);
                let code =
                    sys::IMetaDataImport::GetTypeDefProps(import, token, place, many, &raw mut length, flags, extends);
                answer_text(code, &[length, *flags, *extends].map(|one| one as usize), &name)
            }
            "ref" => {
                let code =
                    sys::IMetaDataImport::GetTypeRefProps(import, token, &raw mut owner, place, many, &raw mut length);
                answer_text(code, &[length, owner].map(|one| one as usize), &name)
            }
            "method" | "member" => {
                let (mut kind, mut value, mut count) = (UNTOUCHED, null(), UNTOUCHED);
                let (class, wide, attributes) = (&raw mut owner, &raw mut length, &raw mut flags);
                let (blob, bytes_of, rva, implementation) =
                    (&raw mut signature, &raw mut size, &raw mut address, &raw mut other);
                let code = if question == "method" {
                    sys::IMetaDataImport::GetMethodProps(
                        import,
                        token,
                        class,
                        place,
                        many,
                        wide,
                        attributes,
                        blob,
                        bytes_of,
                        rva,
                        implementation,
                    )
                } else {
                    sys::IMetaDataImport::GetMemberProps(
                        import,
                        token,
                        class,
                        place,
                        many,
                        wide,
                        attributes,
                        blob,
                        bytes_of,
                        rva,
                        implementation,
                        &raw mut kind,
                        &raw mut value,
                        &raw mut count,
                    )
                };
                let [start, size] = bytes(signature, size);
                let numbers = [length, owner, flags, other, address].map(|one| one as usize);
                answer_text(code, &[&numbers[..], &[start, size, kind as usize]].concat(), &name)
            }
            "module-ref" => {
                let code = sys::IMetaDataImport::GetModuleRefProps(import, token, place, many, &raw mut length);
                answer_text(code, &[length as usize], &name)
            }
            "text" => {
                let code = sys::IMetaDataImport::GetUserString(import, token, place, many, &raw mut length);
                answer_text(code, &[length as usize], &name)
            }
            "identity" | "reference" => of_assembly(open, question, token, &mut name),
            _ => return None,
        }
    })
}

/// The name of an assembly, or of one that it references.
unsafe fn of_assembly(open: &Open, question: &str, token: u32, name: &mut Room<u16>) -> String {
    let (place, many, mut length) = (name.place(), name.room, UNTOUCHED);
    let (mut key, mut size, mut hash, mut flags) = (null(), UNTOUCHED, UNTOUCHED, UNTOUCHED);
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut facts: sys::ASSEMBLYMETADATA = unsafe { std::mem::zeroed() };
    let (of_key, of_size, of_facts, of_flags) = (&raw mut key, &raw mut size, &raw mut facts, &raw mut flags);
    let wide = &raw mut length;
    // SAFETY: `open` keeps the interface valid; all outputs are local.
    let code = unsafe {
        if question == "identity" {
            let algorithm = &raw mut hash;
            sys::IMetaDataAssemblyImport::GetAssemblyProps(
                open.assembly,
                token,
                of_key,
                of_size,
                algorithm,
                place,
                many,
                wide,
                of_facts,
                of_flags,
            )
        } else {
            let (blob, bytes_of) = (null_mut(), &raw mut hash);
            sys::IMetaDataAssemblyImport::GetAssemblyRefProps(
                open.assembly,
                token,
                of_key,
                of_size,
                place,
                many,
                wide,
                of_facts,
                blob,
                bytes_of,
                of_flags,
            )
        }
    };
    let version = usize::from(facts.usMajorVersion) << 16 | usize::from(facts.usMinorVersion);
    let numbers = [length, size, hash, flags, facts.cbLocale].map(|one| one as usize);
    answer_text(code, &[&numbers[..], &[version]].concat(), name)
}

unsafe fn by_name(open: &Open, question: &str, rest: &[&str]) -> Option<String> {
    let wide = |text: &str| -> Vec<u16> { text.encode_utf16().chain([0]).collect() };
    let (import, mut found) = (open.first(), UNTOUCHED);
    let token = |at: usize| rest.get(at).map_or(0, |word| number(word)) as u32;
    let name = wide(rest.first().copied().unwrap_or_default());
    let text = if rest.first() == Some(&"nowhere") { null() } else { name.as_ptr() };
    // SAFETY: `open` keeps the interface valid; strings are zero-terminated, and all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "find-type" => {
                let code = sys::IMetaDataImport::FindTypeDefByName(import, text, token(1), &raw mut found);
                answer(code, &[found as usize])
            }
            "find-ref" => {
                let code = sys::IMetaDataImport::FindTypeRef(import, token(1), text, &raw mut found);
                answer(code, &[found as usize])
            }
            // In a type; with a method's signature, or any.
            "find-method" | "find-member" | "find-field" => {
                let (mut signature, mut size) = (null(), 0);
                if token(2) != 0 {
                    let nothing = null_mut();
                    let (blob, bytes_of) = (&raw mut signature, &raw mut size);
                    sys::IMetaDataImport::GetMemberProps(
                        import,
                        token(2),
                        nothing,
                        null_mut(),
                        0,
                        nothing,
                        nothing,
                        blob,
                        bytes_of,
                        nothing,
                        nothing,
                        nothing,
                        null_mut(),
                        nothing,
                    );
                }
                let find = match question {
                    "find-method" => sys::IMetaDataImport::FindMethod,
                    "find-member" => sys::IMetaDataImport::FindMember,
                    _ => sys::IMetaDataImport::FindField,
                };
                answer(find(import, token(1), text, signature, size, &raw mut found), &[found as usize])
            }
            "find-foreign" => {
                let code = sys::IMetaDataImport::FindMemberRef(import, token(1), text, null(), 0, &raw mut found);
                answer(code, &[found as usize])
            }
            "find-resource" => {
                let code =
                    sys::IMetaDataAssemblyImport::FindManifestResourceByName(open.assembly, text, &raw mut found);
                answer(code, &[found as usize])
            }
            "find-exported" => {
                let found = &raw mut found;
                let code = sys::IMetaDataAssemblyImport::FindExportedTypeByName(open.assembly, text, token(1), found);
                answer(code, &[*found as usize])
            }
            "attribute" => {
                let (mut data, mut size) = (std::ptr::dangling(), UNTOUCHED);
                let code = sys::IMetaDataImport::GetCustomAttributeByName(
                    import,
                    token(1),
                    text,
                    &raw mut data,
                    &raw mut size,
                );
                answer(code, &[usize::from(data.is_null()), size as usize])
            }
            _ => return None,
        }
    })
}

unsafe fn of_tokens(open: &Open, question: &str, token: u32) -> Option<String> {
    let (import, mut first, mut second) = (open.first(), UNTOUCHED, UNTOUCHED);
    let (mut signature, mut text) = (null(), null());
    // SAFETY: `open` keeps the interface valid; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "valid" => answer(sys::IMetaDataImport::IsValidToken(import, token), &[]),
            "global" => {
                let mut is_global = -1;
                let code = sys::IMetaDataImport::IsGlobal(import, token, &raw mut is_global);
                answer(code, &[is_global as u32 as usize])
            }
            "nested" => {
                answer(sys::IMetaDataImport::GetNestedClassProps(import, token, &raw mut first), &[first as usize])
            }
            "address" => {
                let code = sys::IMetaDataImport::GetRVA(import, token, &raw mut first, &raw mut second);
                answer(code, &[first as usize, second as usize])
            }
            "signature" => {
                let code = sys::IMetaDataImport::GetSigFromToken(import, token, &raw mut signature, &raw mut first);
                answer(code, &bytes(signature, first))
            }
            "spec" => {
                let code =
                    sys::IMetaDataImport::GetTypeSpecFromToken(import, token, &raw mut signature, &raw mut first);
                answer(code, &bytes(signature, first))
            }
            "resolve" => {
                let mut scope = null_mut();
                let interface = &sys::IID_IMetaDataImport;
                let code =
                    sys::IMetaDataImport::ResolveTypeRef(import, token, interface, &raw mut scope, &raw mut first);
                answer(code, &[usize::from(!scope.is_null()), first as usize])
            }
            "convention" => {
                // No parameters, and no result.
                let signature = [0_u8, 0, 1];
                let start = signature.as_ptr().cast();
                let code = sys::IMetaDataImport::GetNativeCallConvFromSig(import, start, 3, &raw mut first);
                answer(code, &[first as usize])
            }
            "assemblies" => {
                let name: Vec<u16> = "obedient".encode_utf16().chain([0]).collect();
                let (mut found, name) = (null_mut(), name.as_ptr());
                let place = &raw mut found;
                let code = sys::IMetaDataAssemblyImport::FindAssembliesByName(
                    open.assembly,
                    null(),
                    null(),
                    name,
                    place,
                    1,
                    &raw mut first,
                );
                answer(code, &[first as usize])
            }
            "layout" => {
                let (nowhere, count, bytes) = (null_mut(), &raw mut first, &raw mut second);
                let code = sys::IMetaDataImport::GetClassLayout(import, token, null_mut(), nowhere, 0, count, bytes);
                answer(code, &[*count as usize, *bytes as usize])
            }
            "marshalled" => {
                let code = sys::IMetaDataImport::GetFieldMarshal(import, token, &raw mut signature, &raw mut first);
                answer(code, &[first as usize])
            }
            "imported" => {
                let (flags, nothing) = (&raw mut first, null_mut());
                let code = sys::IMetaDataImport::GetPinvokeMap(import, token, flags, null_mut(), 0, nothing, nothing);
                answer(code, &[*flags as usize])
            }
            "permission" => {
                let (action, size) = (&raw mut first, &raw mut second);
                let code = sys::IMetaDataImport::GetPermissionSetProps(import, token, action, &raw mut text, size);
                answer(code, &[*action as usize])
            }
            "name" => {
                let mut name = null();
                let code = sys::IMetaDataImport::GetNameFromToken(import, token, &raw mut name);
                let text = if code == 0 { CStr::from_ptr(name).to_string_lossy().into_owned() } else { String::new() };
                format!("{} {}", answer(code, &[]), if text.is_empty() { "-" } else { &text })
            }
            _ => return None,
        }
    })
}
