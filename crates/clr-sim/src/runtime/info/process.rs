//! What a profiler asks of the process and of the runtime as a whole: its version, the environment, and the way out.

use super::{Server, answer, answer_text, text};
use crate::lab::witness;
use corprof::{HResult, sys};

impl Server {
    pub(super) unsafe fn request_profiler_detach(&self, dwExpectedCompletionMilliseconds: sys::DWORD) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        witness::detach(&profiler.library, || runtime.request_detach(&profiler, dwExpectedCompletionMilliseconds))
    }

    pub(super) unsafe fn get_runtime_information(
        &self,
        pClrInstanceId: *mut sys::USHORT,
        pRuntimeType: *mut sys::COR_PRF_RUNTIME_TYPE,
        pMajorVersion: *mut sys::USHORT,
        pMinorVersion: *mut sys::USHORT,
        pBuildNumber: *mut sys::USHORT,
        pQFEVersion: *mut sys::USHORT,
        cchVersionString: sys::ULONG,
        pcchVersionString: *mut sys::ULONG,
        szVersionString: *mut sys::WCHAR,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        let (number, kind, release) = runtime.identity();
        // SAFETY: as above.
        unsafe { answer(pClrInstanceId, number) };
        // SAFETY: as above.
        unsafe { answer(pRuntimeType, kind) };
        for (place, value) in
            [(pMajorVersion, release.0), (pMinorVersion, release.1), (pBuildNumber, release.2), (pQFEVersion, 0)]
        {
            // SAFETY: as above.
            unsafe { answer(place, value) };
        }
        // SAFETY: as above.
        unsafe { answer_text(&release.to_string(), cchVersionString, pcchVersionString, szVersionString) }
    }

    pub(super) unsafe fn set_environment_variable(
        &self,
        szName: *const sys::WCHAR,
        szValue: *const sys::WCHAR,
    ) -> HResult {
        let Some((runtime, profiler)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's texts.
        let (name, value) = unsafe { (text(szName), text(szValue)) };
        runtime.set_variable(&profiler, name, value)
    }

    pub(super) unsafe fn get_environment_variable(
        &self,
        szName: *const sys::WCHAR,
        cchValue: sys::ULONG,
        pcchValue: *mut sys::ULONG,
        szValue: *mut sys::WCHAR,
    ) -> HResult {
        let Some((runtime, _)) = self.both() else { return HResult::E_UNEXPECTED };
        // SAFETY: the profiler's text.
        let known = runtime.variable(&unsafe { text(szName) });
        // SAFETY: as above.
        known.map_or(HResult::E_FAIL, |value| unsafe { answer_text(&value, cchValue, pcchValue, szValue) })
    }
}
