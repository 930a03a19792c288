//! Requests to replace methods, and to restore them.

use super::threads::start_thread;
use corprof::{Alive, Attached, HResult, Info, MethodToken, ModuleId, sys};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Runs a ReJIT request on a thread of its own. The request makes its thread one of the runtime's, and such a thread may ask the runtime
/// little else.
fn on_own_thread(request: impl FnOnce() -> HResult + Send + 'static) -> Result<(), HResult> {
    let answer = Arc::new(AtomicI32::new(HResult::E_FAIL.0));
    let place = Arc::clone(&answer);
    let thread =
        start_thread(move || place.store(request().0, Ordering::SeqCst)).map_err(|_| HResult::E_OUTOFMEMORY)?;
    thread.join();
    HResult(answer.load(Ordering::SeqCst)).ok()
}

/// Asks the runtime to replace methods.
///
/// # Errors
/// The runtime's.
pub(super) fn rejit(info: &'static Info<Attached, Alive>, methods: &[(ModuleId, MethodToken)]) -> Result<(), HResult> {
    if info.version() < 10 {
        return Err(HResult::info_required(10));
    }
    let (with_inliners, alone): (Vec<_>, Vec<_>) =
        methods.iter().partition(|method| !crashes_with_unloaded(info) || is_loaded(info, method));
    for (methods, has_inliners) in [(with_inliners, true), (alone, false)] {
        let modules: Vec<usize> = methods.iter().map(|(module, _)| module.0).collect();
        let tokens: Vec<u32> = methods.iter().map(|(_, token)| token.0).collect();
        if !methods.is_empty() {
            on_own_thread(move || request_one(info, has_inliners, &modules, &tokens))?;
        }
    }
    Ok(())
}

fn request_one(info: &Info<Attached, Alive>, has_inliners: bool, modules: &[usize], tokens: &[u32]) -> HResult {
    let (raw, count) = (info.as_raw(), modules.len() as u32);
    // SAFETY: the object is valid and has this version; both lists have the announced length.
    HResult(unsafe {
        if has_inliners {
            // One method may be requested, and inline another one that is. The runtime then makes two versions of it, and the later one is
            // active: without this flag, the one for which it asks nobody (`ReJitManager::BindILVersion`, rejit.cpp).
            let flags = sys::COR_PRF_REJIT_BLOCK_INLINING | sys::COR_PRF_REJIT_INLINING_CALLBACKS;
            sys::ICorProfilerInfo10::RequestReJITWithInliners(
                raw.cast(),
                flags,
                count,
                modules.as_ptr(),
                tokens.as_ptr(),
            )
        } else {
            sys::ICorProfilerInfo4::RequestReJIT(raw.cast(), count, modules.as_ptr(), tokens.as_ptr())
        }
    })
}

/// Whether RequestReJITWithInliners crashes for a method that the runtime has not loaded: .NET Core 3.1.23 reads through a null pointer
/// (experiment: `ReJitManager::UpdateJitInlinerActiveILVersions`, `MethodDesc::GetModule`). 8, 9 and 10 do not; those between were not
/// tried. The JIT has not inlined an unloaded method yet, and inlines no replaced one. Precompiled code may have inlined it.
fn crashes_with_unloaded(info: &Info<Attached, Alive>) -> bool {
    const FIRST_TRIED: u16 = 8;
    // .NET Core 3.1 reports itself as 4.
    info.get_runtime_information().map_or(true, |runtime| runtime.major < FIRST_TRIED)
}

/// Whether the runtime has loaded a method. The request looks it up in the same way.
fn is_loaded(info: &Info<Attached, Alive>, (module, token): &(ModuleId, MethodToken)) -> bool {
    let mut function = 0;
    // SAFETY: the object is valid; the out-pointer is live.
    let answer = HResult(unsafe {
        sys::ICorProfilerInfo::GetFunctionFromToken(info.as_raw(), module.0, token.0, &mut function)
    });
    answer != HResult::CORPROF_E_DATAINCOMPLETE && answer != HResult::E_INVALIDARG
}

/// Restores methods. The answers are in the order of the methods.
pub(super) fn revert(info: &'static Info<Attached, Alive>, methods: &[(ModuleId, MethodToken)]) -> Vec<HResult> {
    if methods.is_empty() {
        return Vec::new();
    }
    let modules: Vec<usize> = methods.iter().map(|(module, _)| module.0).collect();
    let tokens: Vec<u32> = methods.iter().map(|(_, token)| token.0).collect();
    let answers: Arc<[AtomicI32]> = methods.iter().map(|_| AtomicI32::new(HResult::S_OK.0)).collect();
    let place = Arc::clone(&answers);
    let asked = on_own_thread(move || {
        let mut codes = vec![0; modules.len()];
        // SAFETY: the object is valid; the lists have the announced length.
        let answer = HResult(unsafe {
            sys::ICorProfilerInfo4::RequestRevert(
                info.as_raw().cast(),
                modules.len() as u32,
                modules.as_ptr(),
                tokens.as_ptr(),
                codes.as_mut_ptr(),
            )
        });
        place.iter().zip(codes).for_each(|(place, code)| place.store(code, Ordering::SeqCst));
        answer
    });
    let each = answers.iter().map(|code| HResult(code.load(Ordering::SeqCst)));
    match asked {
        Ok(()) => each.collect(),
        // The request as a whole failed, and may say nothing of single methods.
        Err(code) => each.map(|each| if each.is_success() { code } else { each }).collect(),
    }
}
