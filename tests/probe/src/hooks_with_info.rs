//! Hooks with info for the methods of one name, whose arguments and results are strings.
//!
//! The runtime calls them by the C convention, from code of its own, so they need no assembly. They log arguments and results.

use crate::shared::{Loaded, Shared};
use corprof::{Alive, FunctionId, HResult, Info, Startup, sys};
use std::ffi::c_void;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// Arguments of a hooked method at most.
const MOST_ARGUMENTS: usize = 8;

/// The hooked functions, and the log.
static STATE: Mutex<State> =
    Mutex::new(State { shared: 0, name: String::new(), functions: Vec::new(), log: String::new() });

struct State {
    /// The address of the shared state, which is also the mapper's data.
    shared: usize,
    name: String,
    /// By the number that hooks get, from 1.
    functions: Vec<FunctionId>,
    log: String,
}

/// The places of arguments, as the runtime writes them.
#[repr(C)]
struct Places {
    count: u32,
    bytes: u32,
    places: [MaybeUninit<sys::COR_PRF_FUNCTION_ARGUMENT_RANGE>; MOST_ARGUMENTS],
}

/// Sets mapper and hooks, in Initialize.
pub fn set(shared: &Shared, name: &str) -> Result<(), HResult> {
    let Some(Loaded::Startup(info)) = shared.loaded.get() else { return Err(HResult::E_UNEXPECTED) };
    let data = std::ptr::from_ref(shared);
    with(|state| (state.shared, state.name) = (data as usize, name.to_owned()));
    // SAFETY: the mapper is a function of this library, which stays, and so does its data: the runtime keeps the profiler.
    unsafe { info.set_function_id_mapper2(map, data.cast_mut().cast()) }?;
    let hooks = corprof::EnterLeave3WithInfo { enter: Some(enter), leave: Some(leave), tailcall: Some(tailcall) };
    // SAFETY: functions of the C convention in this library, which stays.
    unsafe { info.set_enter_leave_function_hooks3_with_info(hooks) }
}

/// The log since the last time: `HOOK NUMBER CODE VALUES`, with `;` behind each.
pub fn take_log() -> String {
    with(|state| std::mem::take(&mut state.log))
}

fn with<T>(act: impl FnOnce(&mut State) -> T) -> T {
    act(&mut STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

unsafe extern "C" fn map(function: usize, data: *mut c_void, is_hooked: *mut i32) -> usize {
    // SAFETY: the data given with this function, which the profiler keeps.
    let shared = unsafe { &*data.cast::<Shared>() };
    let name = match shared.loaded.get() {
        Some(Loaded::Startup(info)) => name_of(info, FunctionId(function)).unwrap_or_default(),
        _ => String::new(),
    };
    let number = with(|state| {
        (state.shared == data as usize && state.name == name).then(|| {
            state.functions.push(FunctionId(function));
            state.functions.len()
        })
    });
    // SAFETY: the runtime's own place for the answer.
    unsafe { is_hooked.write(number.is_some().into()) };
    number.unwrap_or(function)
}

fn name_of(info: &Info<Startup, Alive>, function: FunctionId) -> Result<String, HResult> {
    let found = info.get_function_info2(function)?;
    let metadata = info.get_module_metadata(found.module)?.ok_or(HResult::E_UNEXPECTED)?;
    Ok(metadata.method(found.token)?.name)
}

unsafe extern "C" fn enter(number: usize, hook: usize) {
    let Some((raw, function)) = hooked(number) else { return };
    let mut room = Places { count: 0, bytes: 0, places: [MaybeUninit::uninit(); MOST_ARGUMENTS] };
    let (mut frame, mut bytes) = (0, size_of::<Places>() as u32);
    let place = (&raw mut room).cast();
    // SAFETY: inside of the hook of this function, with its argument; `bytes` is the size of the room.
    let code =
        unsafe { sys::ICorProfilerInfo3::GetFunctionEnter3Info(raw, function.0, hook, &mut frame, &mut bytes, place) };
    let mut line = format!("enter {number} {:#010x}", code as u32);
    if HResult(code).is_success() {
        for place in room.places.iter().take(room.count as usize) {
            // SAFETY: the runtime has written so many places.
            let place = unsafe { place.assume_init_ref() };
            // SAFETY: the place of a string, inside of the hook.
            line += &unsafe { text_at(place) };
        }
    }
    with(|state| state.log += &format!("{line};"));
}

unsafe extern "C" fn leave(number: usize, hook: usize) {
    let Some((raw, function)) = hooked(number) else { return };
    let (mut frame, mut place) = (0, MaybeUninit::uninit());
    // SAFETY: inside of the hook of this function, with its argument; the outputs are local.
    let code =
        unsafe { sys::ICorProfilerInfo3::GetFunctionLeave3Info(raw, function.0, hook, &mut frame, place.as_mut_ptr()) };
    let mut line = format!("leave {number} {:#010x}", code as u32);
    if HResult(code).is_success() {
        // SAFETY: the runtime has written it.
        let place = unsafe { place.assume_init_ref() };
        // SAFETY: the place of a string, inside of the hook.
        line += &unsafe { text_at(place) };
    }
    with(|state| state.log += &format!("{line};"));
}

unsafe extern "C" fn tailcall(number: usize, _hook: usize) {
    with(|state| state.log += &format!("tailcall {number};"));
}

fn hooked(number: usize) -> Option<(*mut sys::ICorProfilerInfo3, FunctionId)> {
    let (shared, function) = with(|state| Some((state.shared, *state.functions.get(number.checked_sub(1)?)?)))?;
    // SAFETY: the profiler's state, which the runtime keeps with the profiler.
    let shared = unsafe { &*(shared as *const Shared) };
    Some((shared.loaded.get()?.raw().cast(), function))
}

/// ` LENGTH:TEXT`: the bytes of the place, and the string to which it refers.
///
/// # Safety
/// A place from the runtime, of a string that no GC moves meanwhile.
unsafe fn text_at(place: &sys::COR_PRF_FUNCTION_ARGUMENT_RANGE) -> String {
    let mut text = format!(" {}:", place.length);
    if place.startAddress == 0 {
        return text;
    }
    // SAFETY: the place of a reference.
    let string = unsafe { (place.startAddress as *const usize).read() };
    if string == 0 {
        return text;
    }
    // SAFETY: a string is a pointer to its type, its length, its UTF-16 units.
    let length = unsafe { ((string + 8) as *const u32).read() } as usize;
    // SAFETY: so many units follow the length.
    let units = unsafe { std::slice::from_raw_parts((string + 12) as *const u16, length) };
    // Writing to a string does not fail.
    let _ = write!(text, "{}", String::from_utf16_lossy(units));
    text
}
