//! Calls about the process and the runtime: version, environment, detach.

use super::{
    Answer, DONE, INSUFFICIENT_BUFFER, Server, answer_list, answer_text, args, invalid_if, text, write_answers,
};
use crate::lab::request;
use corprof::HResult;
use std::ptr::null_mut;

impl Server {
    pub(super) unsafe fn request_profiler_detach(&self, args: args::RequestProfilerDetach) -> Answer {
        let (runtime, profiler) = self.both()?;
        let ask = || runtime.request_detach(&profiler, args.dwExpectedCompletionMilliseconds);
        Ok(request::detach(|| profiler.library.ways_in(), ask))
    }

    pub(super) unsafe fn get_runtime_information(&self, args: args::GetRuntimeInformation) -> Answer {
        let runtime = self.runtime()?;
        let (number, kind, release) = runtime.identity();
        invalid_if(!args.szVersionString.is_null() && args.pcchVersionString.is_null())?;
        write_answers! {
            args.pClrInstanceId => number,
            args.pRuntimeType => kind,
            args.pMajorVersion => release.0,
            args.pMinorVersion => release.1,
            args.pBuildNumber => release.2,
            args.pQFEVersion => 0,
        }
        let text = release.to_string();
        let text = if runtime.differences().reported_with_v { &text } else { text.trim_start_matches('v') };
        let (room, count, places) = (args.cchVersionString, args.pcchVersionString, args.szVersionString);
        // SAFETY: the API requires a buffer that is null or has the stated room.
        unsafe { answer_text(text, room, count, places) }
    }

    pub(super) unsafe fn set_environment_variable(&self, args: args::SetEnvironmentVariable) -> Answer {
        let (runtime, profiler) = self.both()?;
        // SAFETY: the API requires texts that are null or end with a zero.
        let (name, value) = unsafe { (text(args.szName), text(args.szValue)) };
        Ok(runtime.set_variable(&profiler, name, value))
    }

    /// The length of a value that fits excludes the zero (source: GetEnvironmentVariableW, pal/src/misc/environ.cpp).
    pub(super) unsafe fn get_environment_variable(&self, args: args::GetEnvironmentVariable) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.szName.is_null() || args.cchValue != 0 && args.szValue.is_null())?;
        // SAFETY: the API requires a name that ends with a zero.
        let name = unsafe { text(args.szName) };
        let value = runtime.variable(&name).ok_or(HResult::ERROR_ENVVAR_NOT_FOUND)?;
        let units: Vec<u16> = value.encode_utf16().chain([0]).collect();
        if args.cchValue as usize >= units.len() {
            write_answers! { args.pcchValue => units.len() as u32 - 1 }
            // SAFETY: the API requires a buffer with the stated room.
            return unsafe { answer_list(&units, args.cchValue, null_mut(), args.szValue) };
        }
        write_answers! { args.pcchValue => units.len() as u32 }
        if args.szValue.is_null() { DONE } else { Err(INSUFFICIENT_BUFFER) }
    }
}
