//! What a profiler asks of the process and of the runtime as a whole: its version, the environment, and the way out.

use super::{INSUFFICIENT_BUFFER, Server, answer_list, answer_text, tell, text};
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
        if !szVersionString.is_null() && pcchVersionString.is_null() {
            return HResult::E_INVALIDARG;
        }
        tell! {
            pClrInstanceId => number,
            pRuntimeType => kind,
            pMajorVersion => release.0,
            pMinorVersion => release.1,
            pBuildNumber => release.2,
            pQFEVersion => 0,
        }
        // SAFETY: the profiler's room.
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
        if szName.is_null() || cchValue != 0 && szValue.is_null() {
            return HResult::E_INVALIDARG;
        }
        // SAFETY: the profiler's text.
        let Some(value) = runtime.variable(&unsafe { text(szName) }) else {
            return HResult::ERROR_ENVVAR_NOT_FOUND;
        };
        let units: Vec<u16> = value.encode_utf16().chain([0]).collect();
        // What is told of a value that fits is its length without the zero (source: GetEnvironmentVariableW, pal/src/misc/environ.cpp).
        if cchValue as usize >= units.len() {
            tell! { pcchValue => units.len() as u32 - 1 }
            // SAFETY: the profiler's room.
            return unsafe { answer_list(&units, cchValue, std::ptr::null_mut(), szValue) };
        }
        tell! { pcchValue => units.len() as u32 }
        if szValue.is_null() { HResult::S_OK } else { INSUFFICIENT_BUFFER }
    }
}
