//! Raw calls of Info: with buffers of given size, or null, and with invalid ids.
//!
//! A failure is an answer like any other, since tests check its outputs: the first word is the code.

use crate::answers::{Room, answer, answer_text, number};
use crate::{metadata, tokens};
use corprof::sys;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Makes one call; `None` for an unknown question.
///
/// # Safety
/// Info is valid, of a version that has the call, and knows the ids, or the test checks the consequences.
pub unsafe fn ask(raw: *mut sys::ICorProfilerInfo, words: &[&str]) -> Option<String> {
    let (question, id, rest) = match *words {
        [question] => (question, 0, &[][..]),
        [question, id, ref rest @ ..] => (question, number(id) as usize, rest),
        [] => return None,
    };
    // SAFETY: the caller guarantees valid Info, version and ids.
    unsafe {
        if question == "meta" {
            return metadata::ask(raw, id, rest);
        }
        of_functions(raw, question, id, rest)
            .or_else(|| tokens::ask(raw, question, id, rest))
            .or_else(|| of_modules(raw, question, id, rest))
            .or_else(|| of_threads(raw, question, id))
            .or_else(|| of_objects(raw, question, id, rest))
            .or_else(|| of_heap(raw, question, &words[1..]))
    }
}

unsafe fn of_functions(raw: *mut sys::ICorProfilerInfo, question: &str, id: usize, rest: &[&str]) -> Option<String> {
    let (mut count, nothing) = (0, sys::COR_PRF_CODE_INFO { startAddress: 0, size: 0 });
    // SAFETY: the caller guarantees valid Info, version and ids; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "function" => {
                let (mut class, mut module, mut token) = (0, 0, 0);
                let (of_class, of_module) = (&raw mut class, &raw mut module);
                let code = sys::ICorProfilerInfo::GetFunctionInfo(raw, id, of_class, of_module, &raw mut token);
                answer(code, &[class, module, token as usize])
            }
            "function-metadata" => {
                let (mut import, mut token) = (null_mut(), 0);
                let interface = &sys::IID_IMetaDataImport;
                let places = (&raw mut import, &raw mut token);
                let code =
                    sys::ICorProfilerInfo::GetTokenAndMetaDataFromFunction(raw, id, interface, places.0, places.1);
                let is_open = usize::from(!import.is_null());
                if is_open == 1 {
                    sys::IUnknown::Release(import);
                }
                answer(code, &[is_open, token as usize])
            }
            "code" => {
                let (mut start, mut size) = (null(), 0);
                let code = sys::ICorProfilerInfo::GetCodeInfo(raw, id, &raw mut start, &raw mut size);
                answer(code, &[start as usize, size as usize])
            }
            "pieces" => {
                let mut room = Room::of(rest, nothing);
                let (place, many) = (room.place(), room.room);
                let code = sys::ICorProfilerInfo2::GetCodeInfo2(raw.cast(), id, many, &raw mut count, place);
                answer(code, &[count as usize, room.list[0].startAddress, room.list[0].size])
            }
            "pieces-at" => {
                let mut room = Room::of(rest, nothing);
                let (place, many) = (room.place(), room.room);
                let code = sys::ICorProfilerInfo9::GetCodeInfo4(raw.cast(), id, many, &raw mut count, place);
                answer(code, &[count as usize])
            }
            "starts" => {
                let mut room = Room::of(rest, 0);
                let (raw, place, many) = (raw.cast(), room.place(), room.room);
                let count = &raw mut count;
                let code = sys::ICorProfilerInfo9::GetNativeCodeStartAddresses(raw, id, 0, many, count, place);
                answer(code, &[*count as usize, room.list[0]])
            }
            "every-start" => {
                let mut room = Room::of(rest, 0);
                let (raw, place, many) = (raw.cast(), room.place(), room.room);
                let count = &raw mut count;
                let code = sys::ICorProfilerInfo9::GetNativeCodeStartAddresses(raw, id, 0, many, count, place);
                answer(code, &room.list[..(*count as usize).min(room.list.len())])
            }
            "map" => {
                let filler = sys::COR_DEBUG_IL_TO_NATIVE_MAP { ilOffset: 0, nativeStartOffset: 0, nativeEndOffset: 0 };
                let mut room = Room::of(rest, filler);
                let (place, many) = (room.place(), room.room);
                let code = sys::ICorProfilerInfo::GetILToNativeMapping(raw, id, many, &raw mut count, place);
                answer(code, &[count as usize])
            }
            "versions" => {
                let mut room = Room::of(rest, usize::MAX);
                let (place, many) = (room.place(), room.room);
                let code = sys::ICorProfilerInfo4::GetReJITIDs(raw.cast(), id, many, &raw mut count, place);
                answer(code, &[count as usize, room.list[0]])
            }
            _ => return None,
        }
    })
}

unsafe fn of_modules(raw: *mut sys::ICorProfilerInfo, question: &str, id: usize, rest: &[&str]) -> Option<String> {
    let mut name = Room::of(rest, 0_u16);
    let (mut length, mut first, mut second) = (0, 0, 0);
    let (place, many) = (name.place(), name.room);
    // SAFETY: the caller guarantees valid Info, version and ids; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "module" => {
                let (mut base, mut flags) = (null(), 0);
                let code = sys::ICorProfilerInfo3::GetModuleInfo2(
                    raw.cast(),
                    id,
                    &raw mut base,
                    many,
                    &raw mut length,
                    place,
                    &raw mut first,
                    &raw mut flags,
                );
                answer_text(code, &[length as usize, first], &name)
            }
            "assembly" => {
                let code = sys::ICorProfilerInfo::GetAssemblyInfo(
                    raw,
                    id,
                    many,
                    &raw mut length,
                    place,
                    &raw mut first,
                    &raw mut second,
                );
                answer_text(code, &[length as usize, first, second], &name)
            }
            "domain" => {
                let process = &raw mut first;
                let code = sys::ICorProfilerInfo::GetAppDomainInfo(raw, id, many, &raw mut length, place, process);
                answer_text(code, &[length as usize, first], &name)
            }
            "domains" => {
                let mut room = Room::of(rest, 0_usize);
                let (raw, count) = (raw.cast(), &raw mut length);
                let code =
                    sys::ICorProfilerInfo3::GetAppDomainsContainingModule(raw, id, room.room, count, room.place());
                answer(code, &[*count as usize, room.list[0]])
            }
            "metadata" => {
                // Without an output: only the checks before it count.
                let interface = sys::IID_IMetaDataImport2;
                let of = &raw const interface;
                answer(sys::ICorProfilerInfo::GetModuleMetaData(raw, id, many, of, null_mut()), &[])
            }
            _ => return None,
        }
    })
}

unsafe fn of_threads(raw: *mut sys::ICorProfilerInfo, question: &str, id: usize) -> Option<String> {
    let (mut number, mut found, mut handle) = (0, 0, null_mut());
    // SAFETY: the caller guarantees valid Info, version and ids; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "thread" => answer(sys::ICorProfilerInfo::GetThreadInfo(raw, id, &raw mut number), &[number as usize]),
            "thread-domain" => {
                answer(sys::ICorProfilerInfo2::GetThreadAppDomain(raw.cast(), id, &raw mut found), &[found])
            }
            "thread-context" => answer(sys::ICorProfilerInfo::GetThreadContext(raw, id, &raw mut found), &[found]),
            "thread-handle" => {
                answer(sys::ICorProfilerInfo::GetHandleFromThread(raw, id, &raw mut handle), &[handle as usize])
            }
            _ => return None,
        }
    })
}

unsafe fn of_objects(raw: *mut sys::ICorProfilerInfo, question: &str, id: usize, rest: &[&str]) -> Option<String> {
    let (mut first, mut second, mut size) = (0, 0, 0);
    // SAFETY: the caller guarantees valid Info, version and ids; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "class" => {
                let mut room = Room::of(rest, 0_usize);
                let (place, many) = (room.place(), room.room);
                let (mut token, mut count) = (0, 0);
                let code = sys::ICorProfilerInfo2::GetClassIDInfo2(
                    raw.cast(),
                    id,
                    &raw mut first,
                    &raw mut token,
                    &raw mut second,
                    many,
                    &raw mut count,
                    place,
                );
                answer(code, &[first, token as usize, second, count as usize])
            }
            "layout" => {
                let (nowhere, count) = (null_mut(), &raw mut size);
                let mut bytes = 0;
                let raw = raw.cast();
                let code = sys::ICorProfilerInfo2::GetClassLayout(raw, id, nowhere, 0, count, &raw mut bytes);
                answer(code, &[*count as usize])
            }
            "object-class" => answer(sys::ICorProfilerInfo::GetClassFromObject(raw, id, &raw mut first), &[first]),
            "object-size" => answer(sys::ICorProfilerInfo::GetObjectSize(raw, id, &raw mut size), &[size as usize]),
            "object-generation" => {
                let mut range = nowhere_in_the_heap();
                let code = sys::ICorProfilerInfo2::GetObjectGeneration(raw.cast(), id, &raw mut range);
                answer(code, &[range.generation as usize])
            }
            "frozen" => {
                let mut is_frozen = -1;
                let code = sys::ICorProfilerInfo10::IsFrozenObject(raw.cast(), id, &raw mut is_frozen);
                answer(code, &[is_frozen as usize])
            }
            _ => return None,
        }
    })
}

unsafe fn of_heap(raw: *mut sys::ICorProfilerInfo, question: &str, rest: &[&str]) -> Option<String> {
    let (mut count, mut other) = (0_u32, 0_u32);
    // SAFETY: the caller guarantees valid Info, version and ids; all outputs are local. This holds for each call below.
    Some(unsafe {
        match question {
            "generations" => {
                let mut room = Room::of(rest, nowhere_in_the_heap());
                let (place, many) = (room.place(), room.room);
                let raw = raw.cast();
                let code = sys::ICorProfilerInfo2::GetGenerationBounds(raw, many, &raw mut count, place);
                let highest = room.list.iter().map(|range| range.generation).max().unwrap_or_default();
                answer(code, &[count as usize, highest as usize])
            }
            "frozen-ranges" => {
                let nothing = sys::COR_PRF_NONGC_HEAP_RANGE { rangeStart: 0, rangeLength: 0, rangeLengthReserved: 0 };
                let mut room = Room::of(rest, nothing);
                let (place, many) = (room.place(), room.room);
                let raw = raw.cast();
                let code = sys::ICorProfilerInfo14::GetNonGCHeapBounds(raw, many, &raw mut count, place);
                answer(code, &[count as usize])
            }
            "large" => {
                let code = sys::ICorProfilerInfo10::GetLOHObjectSizeThreshold(raw.cast(), &raw mut count);
                answer(code, &[count as usize])
            }
            "strings" => {
                let (length, text) = (&raw mut count, &raw mut other);
                let code = sys::ICorProfilerInfo3::GetStringLayout2(raw.cast(), length, text);
                answer(code, &[count as usize, other as usize])
            }
            "walk" => {
                let mut seen = 0_usize;
                let state = (&raw mut seen).cast::<c_void>();
                let code = sys::ICorProfilerInfo15::EnumerateGCHeapObjects(raw.cast(), Some(one_more), state);
                answer(code, &[seen])
            }
            "version" => {
                let mut name = Room::of(rest, 0_u16);
                let (mut parts, place, many) = ([0_u16; 3], name.place(), name.room);
                let code = sys::ICorProfilerInfo3::GetRuntimeInformation(
                    raw.cast(),
                    null_mut(),
                    null_mut(),
                    &raw mut parts[0],
                    &raw mut parts[1],
                    &raw mut parts[2],
                    null_mut(),
                    many,
                    &raw mut count,
                    place,
                );
                let parts = parts.map(usize::from);
                answer_text(code, &[count as usize, parts[0], parts[1], parts[2]], &name)
            }
            "suspend" => answer(sys::ICorProfilerInfo10::SuspendRuntime(raw.cast()), &[]),
            "resume" => answer(sys::ICorProfilerInfo10::ResumeRuntime(raw.cast()), &[]),
            "provider" => provider(raw, rest),
            _ => return None,
        }
    })
}

/// The name of a provider. Nothing deletes the provider.
unsafe fn provider(raw: *mut sys::ICorProfilerInfo, rest: &[&str]) -> String {
    let name: Vec<u16> = "Probe".encode_utf16().chain([0]).collect();
    let (mut provider, mut length) = (0, 0);
    // SAFETY: the caller guarantees valid Info; the name is zero-terminated, and `provider` is valid for writing.
    let code =
        unsafe { sys::ICorProfilerInfo12::EventPipeCreateProvider(raw.cast(), name.as_ptr(), &raw mut provider) };
    if code != 0 {
        return answer(code, &[]);
    }
    let mut room = Room::of(rest, 0_u16);
    let (place, many) = (room.place(), room.room);
    let raw = raw.cast();
    // SAFETY: the caller guarantees valid Info; the provider was just created, and the buffer has `many` units.
    let code =
        unsafe { sys::ICorProfilerInfo12::EventPipeGetProviderInfo(raw, provider, many, &raw mut length, place) };
    answer_text(code, &[length as usize], &room)
}

fn nowhere_in_the_heap() -> sys::COR_PRF_GC_GENERATION_RANGE {
    sys::COR_PRF_GC_GENERATION_RANGE { generation: -1, rangeStart: 0, rangeLength: 0, rangeLengthReserved: 0 }
}

unsafe extern "C" fn one_more(_: usize, seen: *mut c_void) -> i32 {
    // SAFETY: `walk` passes a pointer to its own counter, which outlives the callback.
    unsafe { *seen.cast::<usize>() += 1 };
    1
}
