//! Metadata without Info, as profilers open it that look for MetaDataGetDispenser in the runtime's library: `dispenser QUESTION ...`.
//!
//! A failure is an answer here, too.

use crate::answers::{Room, answer, answer_text, number};
use corprof::{Guid, sys};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// CLSID_CorMetaDataDispenser.
const CLASS: Guid = Guid::from_u128(0xE5CB_7A31_7512_11D2_89CE_0080_C792_E5D8);
/// CLSID_CorMetaDataDispenserRuntime.
const RUNTIME_CLASS: Guid = Guid::from_u128(0x1EC2_DE53_75CC_11D2_9775_00A0_C9B4_D50C);

/// The library's name for the linker.
const LIBRARY: &CStr = c"libcoreclr.so";

type GetDispenser = unsafe extern "system" fn(*const Guid, *const Guid, *mut *mut c_void) -> i32;

/// Answers one question; `None` for an unknown one.
pub fn ask(words: &[&str]) -> Option<String> {
    match *words {
        ["found", way, name] => {
            let name: Vec<u8> = name.bytes().chain([0]).collect();
            let name = CStr::from_bytes_with_nul(&name).ok()?;
            let library = opened(way)?;
            Some(answer(
                0,
                &[usize::from(!library.is_null() || way == "default"), usize::from(symbol(library, name).is_some())],
            ))
        }
        ["make", class, interface] => {
            let (code, object) = made(class, interface)?;
            let is_made = usize::from(!object.is_null());
            release(object);
            Some(answer(code, &[is_made]))
        }
        ["open", flags, interface, path] => with_dispenser(|dispenser| {
            let path = if path == "no-path" { "" } else { path };
            let path: Vec<u16> = path.encode_utf16().chain([0]).collect();
            let mut scope = null_mut();
            // SAFETY: the dispenser has a reference; the path ends with a zero, and `scope` is valid for writing.
            let code = unsafe {
                sys::IMetaDataDispenser::OpenScope(
                    dispenser,
                    path.as_ptr(),
                    number(flags) as u32,
                    &interface_id(interface),
                    &raw mut scope,
                )
            };
            described(code, scope, interface)
        }),
        ["memory", flags, interface, content] => with_dispenser(|dispenser| {
            let bytes = content_of(content);
            let mut scope = null_mut();
            // SAFETY: the dispenser has a reference; the bytes outlive the scope, and `scope` is valid for writing.
            let code = unsafe {
                sys::IMetaDataDispenser::OpenScopeOnMemory(
                    dispenser,
                    bytes.as_ptr().cast(),
                    bytes.len() as u32,
                    number(flags) as u32,
                    &interface_id(interface),
                    &raw mut scope,
                )
            };
            described(code, scope, interface)
        }),
        ["define", class] => with_dispenser(|dispenser| {
            let mut scope = null_mut();
            let class = class_id(class);
            let interface = sys::IID_IMetaDataEmit;
            // SAFETY: the dispenser has a reference; `scope` is valid for writing.
            let code = unsafe {
                sys::IMetaDataDispenser::DefineScope(dispenser, &raw const class, 0, &interface, &raw mut scope)
            };
            let is_made = usize::from(!scope.is_null());
            release(scope.cast());
            answer(code, &[is_made])
        }),
        _ => None,
    }
}

/// The bytes of a file; or made ones: its first kilobyte, its metadata, nothing.
fn content_of(content: &str) -> Vec<u8> {
    if let Some(path) = content.strip_prefix("metadata-of:") {
        let bytes = std::fs::read(path).unwrap_or_default();
        let start = bytes.windows(4).position(|four| four == b"BSJB").unwrap_or(bytes.len());
        return bytes[start..].to_vec();
    }
    match content {
        "text" => b"This is no metadata at all, whoever reads it. ".repeat(40),
        "nothing" => Vec::new(),
        path => std::fs::read(path).unwrap_or_default(),
    }
}

fn class_id(name: &str) -> Guid {
    match name {
        "dispenser" => CLASS,
        "runtime" => RUNTIME_CLASS,
        _ => Guid::from_u128(7),
    }
}

fn interface_id(name: &str) -> Guid {
    match name {
        "unknown" => sys::IID_IUnknown,
        "dispenser" => sys::IID_IMetaDataDispenser,
        "dispenser-ex" => sys::IID_IMetaDataDispenserEx,
        "import" => sys::IID_IMetaDataImport,
        "import2" => sys::IID_IMetaDataImport2,
        "assembly" => sys::IID_IMetaDataAssemblyImport,
        "emit" => sys::IID_IMetaDataEmit,
        "tables" => sys::IID_IMetaDataTables,
        _ => sys::IID_ICorProfilerInfo,
    }
}

/// The runtime's library, in one of the ways in which a profiler finds it. Null for all libraries; `None` if there is no such way.
fn opened(way: &str) -> Option<*mut c_void> {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the linker passes valid information.
        let name = unsafe { (*info).dlpi_name };
        // SAFETY: the linker's names are null or end with a zero.
        if !name.is_null() && unsafe { CStr::from_ptr(name) }.to_bytes().ends_with(b"/libcoreclr.so") {
            // SAFETY: `opened` passes this place.
            unsafe { found.cast::<*const libc::c_char>().write(name) };
        }
        0
    }
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    match way {
        "default" => Some(libc::RTLD_DEFAULT),
        // SAFETY: the name ends with a zero; NOLOAD loads nothing.
        "name" => Some(unsafe { libc::dlopen(LIBRARY.as_ptr(), flags) }),
        "listed" => {
            let mut name: *const libc::c_char = std::ptr::null();
            // SAFETY: `look` expects this place, which outlives the call.
            unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut name).cast()) };
            // SAFETY: the linker's name of a library that stays; NOLOAD loads nothing.
            Some(if name.is_null() { null_mut() } else { unsafe { libc::dlopen(name, flags) } })
        }
        // The mappings, as some profilers read them: what follows the last space of a line.
        "mapped" => {
            let all = std::fs::read_to_string("/proc/self/maps").ok()?;
            let path =
                all.lines().filter_map(|line| line.rsplit(' ').next()).find(|path| path.ends_with("/libcoreclr.so"));
            let path: Vec<u8> = path.unwrap_or_default().bytes().chain([0]).collect();
            let path = CStr::from_bytes_with_nul(&path).ok().filter(|path| !path.is_empty());
            // SAFETY: the path ends with a zero; NOLOAD loads nothing.
            Some(path.map_or(null_mut(), |path| unsafe { libc::dlopen(path.as_ptr(), flags) }))
        }
        _ => None,
    }
}

fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a handle of the linker or null, which is RTLD_DEFAULT; the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn made(class: &str, interface: &str) -> Option<(i32, *mut sys::IUnknown)> {
    let function = symbol(opened("name").filter(|library| !library.is_null())?, c"MetaDataGetDispenser")?;
    // SAFETY: the export of that name has this signature.
    let function: GetDispenser = unsafe { std::mem::transmute(function) };
    let mut object = null_mut();
    // SAFETY: two identifiers, and a place for the answer.
    let code = unsafe { function(&class_id(class), &interface_id(interface), &raw mut object) };
    Some((code, object.cast()))
}

fn with_dispenser(question: impl FnOnce(*mut sys::IMetaDataDispenser) -> String) -> Option<String> {
    let (code, object) = made("dispenser", "dispenser")?;
    if object.is_null() {
        return Some(answer(code, &[]));
    }
    let answer = question(object.cast());
    release(object);
    Some(answer)
}

/// The code, whether there is an object, the module's id, the token of the program's class, and its name.
fn described(code: i32, scope: *mut sys::IUnknown, interface: &str) -> String {
    let import = scope.cast::<sys::IMetaDataImport>();
    if scope.is_null() || !interface.starts_with("import") {
        let is_made = usize::from(!scope.is_null());
        release(scope);
        return answer(code, &[is_made]);
    }
    let mut name = Room::of(&["200"], 0_u16);
    let (mut length, mut id, mut class) = (0, Guid::from_u128(0), 0);
    let (place, room) = (name.place(), name.room);
    // SAFETY: the scope has a reference; all outputs are local.
    unsafe { sys::IMetaDataImport::GetScopeProps(import, place, room, &raw mut length, (&raw mut id).cast()) };
    let wanted: Vec<u16> = "Obedient".encode_utf16().chain([0]).collect();
    // SAFETY: the scope has a reference; the name ends with a zero, and the output is local.
    unsafe { sys::IMetaDataImport::FindTypeDefByName(import, wanted.as_ptr(), 0, &raw mut class) };
    release(scope);
    answer_text(code, &[1, id.data1 as usize, class as usize], &name)
}

fn release(object: *mut sys::IUnknown) {
    if !object.is_null() {
        // SAFETY: a reference that this file got, and does not use any more.
        unsafe { sys::IUnknown::Release(object) };
    }
}
