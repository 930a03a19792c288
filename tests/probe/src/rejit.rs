//! ReJIT on the test's order: requests, and what a method is given in GetReJITParameters.

use crate::answers::number;
use corprof::{HResult, sys};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// The method of the last GetReJITParameters, and the object for its new body.
#[derive(Default)]
pub struct Parameters {
    module: AtomicUsize,
    token: AtomicU32,
    control: AtomicPtr<sys::ICorProfilerFunctionControl>,
}

impl Parameters {
    /// The runtime asks for these.
    pub fn are_asked(&self, module: usize, token: u32, control: *mut sys::ICorProfilerFunctionControl) {
        self.module.store(module, Ordering::SeqCst);
        self.token.store(token, Ordering::SeqCst);
        self.control.store(control, Ordering::SeqCst);
    }

    /// Gives a copy of the method's own body, or an empty one. The test orders this only inside GetReJITParameters.
    pub fn give(&self, raw: *mut sys::ICorProfilerInfo, what: &str) -> Result<(), HResult> {
        let (module, token) = (self.module.load(Ordering::SeqCst), self.token.load(Ordering::SeqCst));
        let (mut body, mut length) = (std::ptr::null(), 0);
        // SAFETY: the test orders this only while Info is valid; the outputs are local.
        HResult(unsafe { sys::ICorProfilerInfo::GetILFunctionBody(raw, module, token, &mut body, &mut length) })
            .ok()?;
        let length = match what {
            "own" => length,
            "empty" => 0,
            _ => return Err(HResult::E_INVALIDARG),
        };
        let control = self.control.load(Ordering::SeqCst);
        // SAFETY: the object is valid inside the callback; the runtime copies the body.
        HResult(unsafe { sys::ICorProfilerFunctionControl::SetILFunctionBody(control, length, body.cast()) }).ok()
    }
}

/// RequestReJIT, RequestReJITWithInliners or RequestRevert of one method; the answer is the status that RequestRevert wrote, otherwise 0.
/// `None` for other words.
pub fn ask(
    raw: *mut sys::ICorProfilerInfo,
    words: &[&str],
    (module, token): (usize, u32),
) -> Option<Result<HResult, HResult>> {
    let (module, token) = (&raw const module, &raw const token);
    let mut status = HResult::E_UNEXPECTED.0;
    // SAFETY: the test orders this only while Info is valid, with a method that is loaded; the lists have one item. This holds for each
    // call below.
    let code = match *words {
        ["rejit", _] => {
            status = 0;
            // SAFETY: see above.
            unsafe { sys::ICorProfilerInfo4::RequestReJIT(raw.cast(), 1, module, token) }
        }
        ["rejit", _, flags] => {
            status = 0;
            let flags = number(flags) as u32;
            // SAFETY: see above.
            unsafe { sys::ICorProfilerInfo10::RequestReJITWithInliners(raw.cast(), flags, 1, module, token) }
        }
        // SAFETY: see above.
        ["revert", _] => unsafe {
            sys::ICorProfilerInfo4::RequestRevert(raw.cast(), 1, module, token, &raw mut status)
        },
        _ => return None,
    };
    Some(HResult(code).ok().map(|()| HResult(status)))
}
