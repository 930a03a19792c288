//! The orders of a test, from any seat: mostly one call into the runtime, answered with its code.

use crate::answers::number;
use crate::calls::About;
use crate::open_metadata::Open;
use crate::seat::{Seat, Snapshot, digest};
use crate::shared::{Loaded, Shared};
use crate::witness::Wish;
use crate::{calls, dispenser, hooks_with_info, metadata, own_thread, questions, rejit, unloading};
use corprof::{
    AttachMask, Enumerated, Enumeration, ForbiddenBits, FunctionId, HResult, HighAttachMask, Info, Loading, ModuleId,
    ProviderConfig, SessionId, sys,
};
use std::ffi::c_void;
use std::fmt::LowerHex;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

/// Maximum frames of an answered stack; deeper ones are dropped.
const FRAMES: usize = 256;

/// The wait of a probe between two premature detach requests.
const A_LITTLE: Duration = Duration::from_millis(1);
/// The expected duration of its callbacks, milliseconds.
const EXPECTED: u32 = 300;

/// Calls the same method on either kind of Info.
macro_rules! either {
    ($loaded:expr, $info:ident => $call:expr) => {
        match $loaded {
            Loaded::Attached($info) => $call,
            Loaded::Startup($info) => $call,
        }
    };
}

/// Executes orders until told to return, or until the test disconnects; returns the code.
pub fn prompt(mut seat: Seat<'_>) -> HResult {
    // Without a connection the callback succeeds.
    let Some(mut stream) = seat.stream.take() else { return HResult::S_OK };
    let mut line = String::new();
    while let Ok(1..) = stream.read_line(&mut line) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["return", code] = words[..] {
            return HResult(number(code) as i32);
        }
        let answer = obey(&mut seat, &words);
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            break;
        }
        line.clear();
    }
    if seat.is_devoted {
        leave(seat.shared);
    }
    HResult::S_OK
}

/// Takes a seat of this name, and executes its orders.
fn prompt_at(shared: &Arc<Shared>, place: &str) {
    prompt(Seat::take(shared, place, &[]));
}

/// Executes one order; returns the answering line.
fn obey(seat: &mut Seat<'_>, words: &[&str]) -> String {
    match obeyed(seat, words) {
        Ok(words) => format!("0x00000000 {words}\n"),
        Err(code) => format!("0x{:08x}\n", code.0),
    }
}

/// Requests the detach, repeatedly while it is too early.
fn leave(shared: &Shared) {
    let Some(loaded) = shared.loaded.get() else { return };
    while detach(loaded.raw(), EXPECTED) == Err(HResult::CORPROF_E_PROFILER_NOT_YET_INITIALIZED) {
        std::thread::sleep(A_LITTLE);
    }
}

fn obeyed(seat: &mut Seat<'_>, words: &[&str]) -> Result<String, HResult> {
    let journal = &seat.shared.journal;
    let known = |known: bool| if known { Ok(String::new()) } else { Err(HResult::E_INVALIDARG) };
    match *words {
        ["hold", unloading::PLACE] => {
            unloading::hold(seat.shared, |shared| prompt_at(shared, unloading::PLACE));
            Ok(String::new())
        }
        ["hold", slot] => known(journal.hold(slot, true)),
        ["let", slot] => known(journal.hold(slot, false)),
        ["counts"] => Ok(journal.counts()),
        ["log"] => Ok(journal.entries()),
        ["road"] => Ok(crate::road::steps()),
        ["data"] => Ok(digest(seat.data)),
        ["self"] => Ok(format!("{:p}", Arc::as_ptr(seat.shared))),
        ["hook", name] => hooks_with_info::set(seat.shared, name).map(|()| String::new()),
        ["dispenser", ref question @ ..] => dispenser::ask(question).ok_or(HResult::E_INVALIDARG),
        ["hooked"] => Ok(hooks_with_info::take_log()),
        ["clauses", low, high] => Ok(clauses(number(low) as u32, number(high) as u32)),
        ["witness", folder, ref walks @ ..] => journal_of_heap(seat.shared, folder, walks),
        ["witnessed"] => known(seat.shared.witness.is_done()),
        ["devoted"] => {
            seat.is_devoted = true;
            Ok(String::new())
        }
        ["thread", "bare"] => {
            let started = own_thread::start_without_reference(seat.shared, |shared| prompt_at(shared, "Bare"));
            started.ok().map(|()| String::new())
        }
        ["thread"] => {
            let started = own_thread::start(seat.shared, |shared| prompt_at(shared, "Thread"));
            started.ok().map(|()| String::new())
        }
        ["give", what] => {
            let raw = seat.shared.loaded.get().ok_or(HResult::E_UNEXPECTED)?.raw();
            seat.shared.parameters.give(raw, what).map(|()| String::new())
        }
        ["kept", ref question @ ..] => {
            let open = seat.metadata.as_ref().ok_or(HResult::E_UNEXPECTED)?;
            // SAFETY: the test orders this only with ids that the module has, while the module is loaded.
            unsafe { metadata::ask_open(open, question) }.ok_or(HResult::E_INVALIDARG)
        }
        ["give-back"] => known(seat.metadata.take().is_some()),
        ["next"] => next(seat.snapshot.as_mut().ok_or(HResult::E_UNEXPECTED)?),
        ["rest"] => rest(seat.snapshot.take().ok_or(HResult::E_UNEXPECTED)?),
        _ => {
            let loaded = seat.shared.loaded.get().ok_or(HResult::E_UNEXPECTED)?;
            match *words {
                ["snapshot", what] => {
                    seat.snapshot = Some(begin_snapshot(loaded, what)?);
                    Ok(String::new())
                }
                ["keep", module] => {
                    // SAFETY: the test orders this only while Info is valid, with a module that it knows.
                    let open = unsafe { Open::of(loaded.raw(), number(module) as usize) };
                    seat.metadata = Some(open.map_err(HResult)?);
                    Ok(String::new())
                }
                _ => changed(loaded.raw(), words).unwrap_or_else(|| looked_up(loaded, words)),
            }
        }
    }
}

/// The clauses by which the safe layer refuses this mask to an attached profiler; none if it accepts.
fn clauses(low: u32, high: u32) -> String {
    let refused = [AttachMask::from_bits(low).err(), HighAttachMask::from_bits(high).err()];
    refused.into_iter().flatten().flat_map(ForbiddenBits::clauses).map(|(clause, _)| format!("{clause} ")).collect()
}

/// Orders that change something, through the raw interface, so that refused calls are possible, too. `None` for other orders.
fn changed(raw: *mut sys::ICorProfilerInfo, words: &[&str]) -> Option<Result<String, HResult>> {
    let code = match *words {
        // SAFETY: the test orders this only while Info is valid. This holds for each call below; 3.1 has the slots of later versions that
        // are used.
        ["mask", low, high] => unsafe {
            sys::ICorProfilerInfo5::SetEventMask2(raw.cast(), number(low) as u32, number(high) as u32)
        },
        // SAFETY: the test orders this only while Info is valid.
        ["mask", low] => unsafe { sys::ICorProfilerInfo::SetEventMask(raw, number(low) as u32) },
        ["detach", milliseconds] => return Some(detach(raw, number(milliseconds) as u32).map(|()| String::new())),
        // SAFETY: the test orders this only while Info is valid.
        ["gc"] => unsafe { sys::ICorProfilerInfo::ForceGC(raw) },
        _ => return None,
    };
    Some(HResult(code).ok().map(|()| String::new()))
}

fn detach(raw: *mut sys::ICorProfilerInfo, milliseconds: u32) -> Result<(), HResult> {
    // SAFETY: the test orders this only while Info is valid; 3.1 has the slot.
    HResult(unsafe { sys::ICorProfilerInfo3::RequestProfilerDetach(raw.cast(), milliseconds) }).ok()
}

fn looked_up(loaded: &Loaded, words: &[&str]) -> Result<String, HResult> {
    match *words {
        ["info"] => Ok(format!("{:p}", loaded.raw())),
        ["getmask"] => either!(loaded, info => info.get_event_mask2()).map(|(low, high)| format!("{low:#x} {high:#x}")),
        ["modules"] => rest(begin_snapshot(loaded, "modules")?),
        ["functions"] => rest(begin_snapshot(loaded, "functions")?),
        ["threads"] => either!(loaded, info => all(info.enum_threads()?, |thread| thread.0)),
        ["thread", "current"] => {
            either!(loaded, info => info.get_current_thread_id()).map(|thread| format!("{:#x}", thread.0))
        }
        ["runtime"] => either!(loaded, info => info.get_runtime_information())
            .map(|runtime| format!("{}.{}", runtime.major, runtime.minor)),
        ["module", module] => {
            let module = ModuleId(number(module) as usize);
            either!(loaded, info => info.get_module_info2(module))
                .map(|module| format!("{:#x} {}", module.assembly.0, module.path))
        }
        ["class", class] => {
            let class = corprof::ClassId(number(class) as usize);
            either!(loaded, info => info.get_class_id_info2(class))
                .map(|class| format!("{:#x} {:#x}", class.module.0, class.token.0))
        }
        ["describe", class] => {
            let class = corprof::ClassId(number(class) as usize);
            either!(loaded, info => description(info, class))
        }
        ["function", function] => {
            let function = FunctionId(number(function) as usize);
            either!(loaded, info => function_words(info, function))
        }
        ["dynamic", function] => {
            let function = FunctionId(number(function) as usize);
            either!(loaded, info => info.get_dynamic_function_info(function))
                .map(|function| format!("{:#x} {}", function.module.0, function.name))
        }
        ["address", address] => {
            let address = number(address) as usize;
            either!(loaded, info => info.get_function_from_ip3(address))
                .map(|(function, _)| format!("{:#x}", function.0))
        }
        ["start", function] => {
            let function = FunctionId(number(function) as usize);
            either!(loaded, info => info.get_native_code_start_addresses(function, corprof::RejitId(0)))
                .map(|starts| listed(starts.iter()))
        }
        ["body", function] => {
            let function = FunctionId(number(function) as usize);
            either!(loaded, info => same_body_again(info, function)).map(|()| String::new())
        }
        ["rejit" | "revert", function, ..] => {
            let function = FunctionId(number(function) as usize);
            let found = either!(loaded, info => info.get_function_info2(function))?;
            let asked = rejit::ask(loaded.raw(), words, (found.module.0, found.token.0));
            asked.unwrap_or(Err(HResult::E_INVALIDARG)).map(|status| format!("{:#x}", status.0))
        }
        ["listen", keywords] => {
            let runtime = "Microsoft-Windows-DotNETRuntime".to_owned();
            let config = ProviderConfig { name: runtime, keywords: number(keywords), level: 5, filter: String::new() };
            // SAFETY: the test orders `unlisten` before the detach, or checks the consequences.
            either!(loaded, info => unsafe { info.event_pipe_start_session(&[config]) })
                .map(|session| session.0.to_string())
        }
        ["unlisten", session] => {
            let session = SessionId(number(session));
            either!(loaded, info => info.event_pipe_stop_session(session)).map(|()| String::new())
        }
        // SAFETY: the test orders this only while Info is valid, with ids and calls that this version knows.
        ["ask", ref question @ ..] => unsafe { questions::ask(loaded.raw(), question) }.ok_or(HResult::E_INVALIDARG),
        ["call", name, ref about @ ..] => named_call(loaded, name, about).map(|()| String::new()),
        ["stack"] => stack_of_this_thread(loaded.raw()),
        _ => Err(HResult::E_INVALIDARG),
    }
}

/// Calls the method of that name, for a function if one is given.
fn named_call(loaded: &Loaded, name: &str, about: &[&str]) -> Result<(), HResult> {
    let mut on = About::default();
    if let [function] = *about {
        let function = FunctionId(number(function) as usize);
        let found = either!(loaded, info => info.get_function_info2(function))?;
        on = About { module: found.module.0, token: found.token.0, function: function.0 };
    }
    // SAFETY: the test orders this only while Info is valid, and the runtime has just answered about the function.
    unsafe { calls::call(loaded.raw(), name, on) }.unwrap_or(HResult::E_INVALIDARG).ok()
}

/// `array`, element class, element kind and rank; or `plain`, the names from the outermost class on, and type arguments after `|`.
fn description<L: Loading>(info: &Info<L, corprof::Alive>, class: corprof::ClassId) -> Result<String, HResult> {
    if let Some(array) = info.is_array_class(class)? {
        return Ok(format!("array {:#x} {:#x} {}", array.class.0, array.element, array.rank));
    }
    let found = info.get_class_id_info2(class)?;
    let metadata = info.get_module_metadata(found.module)?.ok_or(HResult::E_UNEXPECTED)?;
    let (mut names, mut token) = (Vec::new(), Some(found.token));
    while let Some(row) = token {
        names.push(metadata.type_definition(row)?.name);
        token = metadata.enclosing_type(row)?;
    }
    names.reverse();
    let arguments =
        found.type_arguments.iter().map(|argument| format!("{:#x}", argument.0)).collect::<Vec<_>>().join(" ");
    Ok(format!("plain {} | {arguments}", names.join(" ")))
}

/// Records the heap in the next induced full GC into this folder.
fn journal_of_heap(shared: &Shared, folder: &str, walks: &[&str]) -> Result<String, HResult> {
    let walks = match *walks {
        [] => false,
        ["walk"] => true,
        _ => return Err(HResult::E_INVALIDARG),
    };
    shared.witness.wish(Wish { folder: folder.into(), walks });
    Ok(String::new())
}

/// The function's class, module, row and name.
fn function_words<L: Loading>(info: &Info<L, corprof::Alive>, function: FunctionId) -> Result<String, HResult> {
    let found = info.get_function_info2(function)?;
    let metadata = info.get_module_metadata(found.module)?.ok_or(HResult::E_UNEXPECTED)?;
    let name = metadata.method(found.token)?.name;
    Ok(format!("{:#x} {:#x} {:#x} {name}", found.class.0, found.module.0, found.token.0))
}

/// Gives a function that is about to be compiled a copy of its own IL: a change without effect.
fn same_body_again<L: Loading>(info: &Info<L, corprof::Alive>, function: FunctionId) -> Result<(), HResult> {
    let found = info.get_function_info2(function)?;
    let (module, token) = (found.module.0, found.token.0);
    let raw = info.as_raw();
    let (mut body, mut length) = (std::ptr::null(), 0);
    // SAFETY: the test orders this only while Info is valid; the outputs are local.
    HResult(unsafe { sys::ICorProfilerInfo::GetILFunctionBody(raw, module, token, &mut body, &mut length) }).ok()?;
    let mut allocator = std::ptr::null_mut();
    // SAFETY: the test orders this only while Info is valid; the output is local.
    HResult(unsafe { sys::ICorProfilerInfo::GetILFunctionBodyAllocator(raw, module, &mut allocator) }).ok()?;
    // SAFETY: the runtime has just returned this allocator for that module.
    let copy = unsafe { sys::IMethodMalloc::Alloc(allocator, length) }.cast::<u8>();
    if copy.is_null() {
        return Err(HResult::E_OUTOFMEMORY);
    }
    // SAFETY: the runtime's body and the new allocation both have `length` bytes.
    unsafe { std::ptr::copy_nonoverlapping(body.cast::<u8>(), copy, length as usize) };
    // SAFETY: the copy is a valid header and body from the runtime, in memory of the module's allocator.
    HResult(unsafe { sys::ICorProfilerInfo::SetILFunctionBody(raw, module, token, copy) }).ok()
}

/// `FUNCTION@ADDRESS` for each managed frame of the calling thread, innermost first.
fn stack_of_this_thread(raw: *mut sys::ICorProfilerInfo) -> Result<String, HResult> {
    unsafe extern "C" fn frame(
        function: usize,
        address: usize,
        _: usize,
        _: u32,
        _: *mut u8,
        list: *mut c_void,
    ) -> i32 {
        // SAFETY: `list` is the client data of the walk below, which outlives the callback.
        let list = unsafe { &mut *list.cast::<Vec<(usize, usize)>>() };
        if function != 0 && list.len() < FRAMES {
            list.push((function, address));
        }
        HResult::S_OK.0
    }
    let mut list: Vec<(usize, usize)> = Vec::with_capacity(FRAMES);
    let client = (&raw mut list).cast::<c_void>();
    // SAFETY: the test orders this only while Info is valid; thread zero is the calling one; the callback's list outlives the call.
    let code =
        unsafe { sys::ICorProfilerInfo2::DoStackSnapshot(raw.cast(), 0, Some(frame), 0, client, std::ptr::null(), 0) };
    HResult(code).ok()?;
    Ok(list.iter().map(|(function, address)| format!("{function:#x}@{address:#x} ")).collect())
}

fn begin_snapshot<'a>(loaded: &'a Loaded, what: &str) -> Result<Snapshot<'a>, HResult> {
    match what {
        "modules" => either!(loaded, info => info.enum_modules()).map(Box::new).map(Snapshot::Modules),
        "functions" => either!(loaded, info => info.enum_jited_functions2()).map(Box::new).map(Snapshot::Functions),
        _ => Err(HResult::E_INVALIDARG),
    }
}

/// The next entry of an enumeration; an empty line at its end.
fn next(snapshot: &mut Snapshot<'_>) -> Result<String, HResult> {
    let next = match snapshot {
        Snapshot::Modules(modules) => modules.next().map(|module| module.map(|module| module.0)),
        Snapshot::Functions(functions) => functions.next().map(|function| function.map(|function| function.function.0)),
    };
    Ok(next.transpose()?.map(|id| format!("{id:#x}")).unwrap_or_default())
}

fn rest(snapshot: Snapshot<'_>) -> Result<String, HResult> {
    match snapshot {
        Snapshot::Modules(modules) => all(*modules, |module| module.0),
        Snapshot::Functions(functions) => all(*functions, |function| function.function.0),
    }
}

fn all<T: Enumerated>(items: Enumeration<'_, T>, id: impl Fn(T) -> usize) -> Result<String, HResult> {
    let ids: Vec<usize> = items.map(|item| item.map(&id)).collect::<Result<_, _>>()?;
    Ok(listed(ids.iter()))
}

fn listed<N: LowerHex>(numbers: impl Iterator<Item = N>) -> String {
    numbers.map(|number| format!("{number:#x} ")).collect()
}
