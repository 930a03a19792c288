//! Raw calls of Info from tokens to ids.

use crate::answers::{answer, number};
use corprof::sys;
use std::ptr::null;

/// The initial value of an output.
const UNTOUCHED: usize = 0x77;

/// What a call finds for a module's token. Each further word is a type argument; for a function, the class comes before them.
///
/// # Safety
/// Info is valid, of a version that has the call, and knows the ids.
pub unsafe fn ask(raw: *mut sys::ICorProfilerInfo, question: &str, module: usize, rest: &[&str]) -> Option<String> {
    let words: Vec<u64> = rest.iter().map(|word| number(word)).collect();
    let (token, further) = words.split_first().map_or((0, &[][..]), |(first, further)| (*first as u32, further));
    let ids: Vec<usize> = further.iter().map(|id| *id as usize).collect();
    let mut found = UNTOUCHED;
    // SAFETY: the caller guarantees valid Info, version and ids; all outputs are local. This holds for each call below.
    let code = unsafe {
        match question {
            "token" => sys::ICorProfilerInfo::GetFunctionFromToken(raw, module, token, &raw mut found),
            "token-with" => {
                let (class, types) = ids.split_first().map_or((0, &[][..]), |(first, types)| (*first, types));
                let (many, place) = list(types);
                let raw = raw.cast();
                let place_of_answer = &raw mut found;
                sys::ICorProfilerInfo2::GetFunctionFromTokenAndTypeArgs(
                    raw,
                    module,
                    token,
                    class,
                    many,
                    place,
                    place_of_answer,
                )
            }
            "class-token" => sys::ICorProfilerInfo::GetClassFromToken(raw, module, token, &raw mut found),
            "class-token-with" => {
                let (many, place) = list(&ids);
                let raw = raw.cast();
                sys::ICorProfilerInfo2::GetClassFromTokenAndTypeArgs(raw, module, token, many, place, &raw mut found)
            }
            _ => return None,
        }
    };
    Some(answer(code, &[found]))
}

/// Length and place of a list; an empty one has no place.
fn list(ids: &[usize]) -> (u32, *const usize) {
    (ids.len() as u32, if ids.is_empty() { null() } else { ids.as_ptr() })
}
