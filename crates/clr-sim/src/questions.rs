//! What scripted profilers ask, through the raw interfaces: the answers as they come, refusals included.

mod about_code;
mod about_heap;
mod about_metadata;
mod about_modules;

pub use about_metadata::{Metadata, TokenList};

use crate::scripted::Script;
use corprof::{HResult, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

/// An answer, or the code that came instead.
pub type Answered<T> = Result<T, HResult>;

impl Script {
    /// Info as one of its interfaces.
    fn at<T>(&self) -> *mut T {
        self.raw().cast()
    }

    /// EnumModules, not read yet.
    pub fn module_list(&self) -> Answered<ModuleList> {
        let mut list = null_mut();
        // SAFETY: the runtime's object, which the model keeps; a place for the answer. The same for every call below.
        answered(unsafe { sys::ICorProfilerInfo3::EnumModules(self.at(), &raw mut list) }, ())?;
        Ok(ModuleList(list))
    }

    /// EnumModules, read to its end.
    pub fn modules(&self) -> Answered<Vec<usize>> {
        Ok(self.module_list()?.collect())
    }

    /// EnumJITedFunctions, read to its end.
    pub fn jitted_functions(&self) -> Answered<Vec<usize>> {
        let mut list = null_mut();
        // SAFETY: as above.
        answered(unsafe { sys::ICorProfilerInfo3::EnumJITedFunctions(self.at(), &raw mut list) }, ())?;
        let mut functions = Vec::new();
        let mut next = sys::COR_PRF_FUNCTION { functionId: 0, reJitId: 0 };
        let mut fetched = 0;
        // SAFETY: a live enumerator, and places for one answer.
        while unsafe { sys::ICorProfilerFunctionEnum::Next(list, 1, &raw mut next, &raw mut fetched) } == 0 {
            functions.push(next.functionId);
        }
        // SAFETY: gives up the only reference.
        unsafe { sys::IUnknown::Release(list.cast()) };
        Ok(functions)
    }

    /// GetModuleInfo, its answer left aside.
    pub fn ask_about_module(&self, module: usize) -> HResult {
        let (mut base, mut count, mut assembly, mut flags) = (std::ptr::null(), 0, 0, 0);
        // SAFETY: as above.
        HResult(unsafe {
            sys::ICorProfilerInfo3::GetModuleInfo2(
                self.at(),
                module,
                &raw mut base,
                0,
                &raw mut count,
                null_mut(),
                &raw mut assembly,
                &raw mut flags,
            )
        })
    }

    /// GetFunctionFromIP.
    pub fn function_at(&self, address: u64) -> Answered<usize> {
        let mut function = 0;
        // SAFETY: as above.
        let code =
            unsafe { sys::ICorProfilerInfo::GetFunctionFromIP(self.raw(), address as *const u8, &raw mut function) };
        answered(code, function)
    }

    /// GetFunctionFromIP3: function and version, dynamic ones too.
    pub fn any_function_at(&self, address: u64) -> Answered<(usize, usize)> {
        let (mut function, mut version) = (0, 0);
        // SAFETY: as above.
        let code = unsafe {
            sys::ICorProfilerInfo8::GetFunctionFromIP3(
                self.at(),
                address as *const u8,
                &raw mut function,
                &raw mut version,
            )
        };
        answered(code, (function, version))
    }

    /// GetFunctionInfo2: class, module, token.
    pub fn function_info(&self, function: usize) -> Answered<(usize, usize, u32)> {
        let (mut class, mut module, mut token, mut count) = (0, 0, 0, 0);
        // SAFETY: as above.
        let code = unsafe {
            sys::ICorProfilerInfo2::GetFunctionInfo2(
                self.at(),
                function,
                0,
                &raw mut class,
                &raw mut module,
                &raw mut token,
                0,
                &raw mut count,
                null_mut(),
            )
        };
        answered(code, (class, module, token))
    }

    /// GetClassIDInfo2: module, token, parent.
    pub fn class_info(&self, class: usize) -> Answered<(usize, u32, usize)> {
        let (mut module, mut token, mut parent, mut count) = (0, 0, 0, 0);
        // SAFETY: as above.
        let code = unsafe {
            sys::ICorProfilerInfo2::GetClassIDInfo2(
                self.at(),
                class,
                &raw mut module,
                &raw mut token,
                &raw mut parent,
                0,
                &raw mut count,
                null_mut(),
            )
        };
        answered(code, (module, token, parent))
    }

    /// IsArrayClass: what it is an array of.
    pub fn element_of(&self, class: usize) -> Answered<Option<usize>> {
        let (mut kind, mut element, mut rank) = (0, 0, 0);
        // SAFETY: as above.
        let code = unsafe {
            sys::ICorProfilerInfo::IsArrayClass(self.raw(), class, &raw mut kind, &raw mut element, &raw mut rank)
        };
        answered(code, (code == 0).then_some(element))
    }

    /// GetClassFromObject.
    pub fn class_of(&self, object: usize) -> Answered<usize> {
        let mut class = 0;
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo::GetClassFromObject(self.raw(), object, &raw mut class) };
        answered(code, class)
    }

    /// GetObjectSize.
    pub fn size_of(&self, object: usize) -> Answered<u32> {
        let mut size = 0;
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo::GetObjectSize(self.raw(), object, &raw mut size) };
        answered(code, size)
    }

    /// The application domain that a module is in: GetAppDomainsContainingModule.
    pub fn app_domain_of(&self, module: usize) -> Answered<usize> {
        let (mut domain, mut count) = (0, 0);
        // SAFETY: as above; room for one.
        let code = unsafe {
            sys::ICorProfilerInfo3::GetAppDomainsContainingModule(self.at(), module, 1, &raw mut count, &raw mut domain)
        };
        answered(code, domain)
    }

    /// GetAppDomainStaticAddress, and the ObjectID that lies there.
    pub fn static_object(&self, class: usize, field: u32, domain: usize) -> Answered<usize> {
        let mut place = null_mut();
        // SAFETY: as above.
        let code = unsafe {
            sys::ICorProfilerInfo2::GetAppDomainStaticAddress(self.at(), class, field, domain, &raw mut place)
        };
        // SAFETY: where the runtime keeps the field, on success.
        answered(code, ()).map(|()| unsafe { place.cast::<usize>().read() })
    }

    /// ForceGC.
    pub fn force_gc(&self) -> HResult {
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo::ForceGC(self.raw()) })
    }

    /// SuspendRuntime.
    pub fn suspend_runtime(&self) -> HResult {
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo10::SuspendRuntime(self.at()) })
    }

    /// ResumeRuntime.
    pub fn resume_runtime(&self) -> HResult {
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo10::ResumeRuntime(self.at()) })
    }

    /// DoStackSnapshot: functions and addresses, innermost first. 0 is the running thread.
    pub fn stack_of(&self, thread: usize) -> Answered<Vec<(usize, usize)>> {
        let mut frames: Vec<(usize, usize)> = Vec::new();
        let data = (&raw mut frames).cast::<c_void>();
        // SAFETY: as above; the callback takes what `data` is.
        let code = unsafe {
            sys::ICorProfilerInfo2::DoStackSnapshot(self.at(), thread, Some(note_frame), 0, data, std::ptr::null(), 0)
        };
        answered(code, frames)
    }

    /// RequestReJIT of one method.
    pub fn request_rejit(&self, module: usize, token: u32) -> HResult {
        // SAFETY: as above; two lists of one.
        HResult(unsafe { sys::ICorProfilerInfo4::RequestReJIT(self.at(), 1, &raw const module, &raw const token) })
    }

    /// RequestRevert of one method: the answer, and that of the method.
    pub fn request_revert(&self, module: usize, token: u32) -> (HResult, HResult) {
        let mut status = 0;
        // SAFETY: as above; two lists of one, and a place for one code.
        let code = unsafe {
            sys::ICorProfilerInfo4::RequestRevert(self.at(), 1, &raw const module, &raw const token, &raw mut status)
        };
        (HResult(code), HResult(status))
    }

    /// SetILFunctionBody.
    pub fn replace_body(&self, module: usize, token: u32) -> HResult {
        // SAFETY: as above; the model does not read the body.
        HResult(unsafe { sys::ICorProfilerInfo::SetILFunctionBody(self.raw(), module, token, std::ptr::null()) })
    }

    /// EventPipeStartSession.
    pub fn start_session(&self) -> Answered<u64> {
        let mut session = 0;
        let name = units("Microsoft-Windows-DotNETRuntime");
        let config = listening(&name);
        // SAFETY: as above; a list of one.
        let code = unsafe {
            sys::ICorProfilerInfo12::EventPipeStartSession(self.at(), 1, &raw const config, 0, &raw mut session)
        };
        answered(code, session)
    }

    /// EventPipeStopSession.
    pub fn stop_session(&self, session: u64) -> HResult {
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo12::EventPipeStopSession(self.at(), session) })
    }

    /// EventPipeCreateProvider.
    pub fn create_provider(&self) -> HResult {
        self.provider_called("").map_or_else(|code| code, |_| HResult::S_OK)
    }

    /// The same by a name: the provider.
    pub fn provider_called(&self, name: &str) -> Answered<usize> {
        let (name, mut provider) = (units(name), 0);
        // SAFETY: as above; a text that ends.
        let code =
            unsafe { sys::ICorProfilerInfo12::EventPipeCreateProvider(self.at(), name.as_ptr(), &raw mut provider) };
        answered(code, provider)
    }

    /// EventPipeGetProviderInfo: the code, and how long the name is; the name is in `list` then.
    pub fn provider_info(&self, provider: usize, list: &mut [u16]) -> (HResult, u32) {
        let ((room, places), mut length) = (room(list), 0);
        // SAFETY: as above, and a list with so much room.
        let code = unsafe {
            sys::ICorProfilerInfo12::EventPipeGetProviderInfo(self.at(), provider, room, &raw mut length, places)
        };
        (HResult(code), length)
    }

    /// EventPipeAddProviderToSession.
    pub fn listen_to(&self, session: u64, provider: &str) -> HResult {
        let name = units(provider);
        // SAFETY: as above; a text that ends.
        HResult(unsafe { sys::ICorProfilerInfo12::EventPipeAddProviderToSession(self.at(), session, listening(&name)) })
    }

    /// EventPipeDefineEvent, with one parameter of this type: the event.
    pub fn define_event(&self, provider: usize, id: u32, parameter: u32) -> Answered<usize> {
        let (name, mut event) = (units("an event"), 0);
        let parameter = sys::COR_PRF_EVENTPIPE_PARAM_DESC { r#type: parameter, elementType: 0, name: name.as_ptr() };
        // SAFETY: as above; a list of one.
        let code = unsafe {
            sys::ICorProfilerInfo12::EventPipeDefineEvent(
                self.at(),
                provider,
                name.as_ptr(),
                id,
                0,
                1,
                4,
                0,
                0,
                1,
                &raw const parameter,
                &raw mut event,
            )
        };
        answered(code, event)
    }

    /// EventPipeWriteEvent.
    pub fn write_event(&self, event: usize, bytes: &[u8]) -> HResult {
        let (none, size) = (std::ptr::null(), bytes.len() as u32);
        let data = sys::COR_PRF_EVENT_DATA { ptr: bytes.as_ptr() as u64, size, reserved: 0 };
        // SAFETY: as above; a list of one, with bytes that live.
        HResult(unsafe {
            sys::ICorProfilerInfo12::EventPipeWriteEvent(self.at(), event, 1, &raw const data, none, none)
        })
    }

    /// ApplyMetaData.
    pub fn apply_metadata(&self, module: usize) -> HResult {
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo7::ApplyMetaData(self.at(), module) })
    }

    /// SetEnvironmentVariable.
    pub fn set_variable(&self, name: &str, value: &str) -> HResult {
        let (name, value) = (units(name), units(value));
        // SAFETY: as above; texts that end.
        HResult(unsafe { sys::ICorProfilerInfo11::SetEnvironmentVariable(self.at(), name.as_ptr(), value.as_ptr()) })
    }

    /// CreateHandle: 1 weak, 2 strong, 3 pinned.
    pub fn create_handle(&self, object: usize, kind: u32) -> Answered<usize> {
        let mut handle = null_mut();
        // SAFETY: as above.
        let code = unsafe { sys::ICorProfilerInfo13::CreateHandle(self.at(), object, kind, &raw mut handle) };
        answered(code, handle as usize)
    }

    /// DestroyHandle.
    pub fn destroy_handle(&self, handle: usize) -> HResult {
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo13::DestroyHandle(self.at(), handle as sys::ObjectHandleID) })
    }
}

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn listening(name: &[u16]) -> sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
    sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
        providerName: name.as_ptr(),
        keywords: 0,
        loggingLevel: 5,
        filterData: std::ptr::null(),
    }
}

/// A list of the profiler's, as Info wants it: how much room there is, and where; nowhere if there is none.
fn room<T>(list: &mut [T]) -> (u32, *mut T) {
    let place = if list.is_empty() { null_mut() } else { list.as_mut_ptr() };
    (list.len() as u32, place)
}

fn answered<T>(code: i32, value: T) -> Answered<T> {
    HResult(code).ok().map(|()| value)
}

unsafe extern "C" fn note_frame(
    function: usize,
    ip: usize,
    _frame: usize,
    _size: u32,
    _context: *mut u8,
    data: *mut c_void,
) -> i32 {
    // SAFETY: what `stack_of` gave.
    unsafe { (*data.cast::<Vec<(usize, usize)>>()).push((function, ip)) };
    0
}

/// A list of modules as the runtime gave it, read one by one.
pub struct ModuleList(*mut sys::ICorProfilerModuleEnum);

impl Iterator for ModuleList {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let (mut module, mut fetched) = (0, 0);
        // SAFETY: a live enumerator, and places for one answer.
        let code = unsafe { sys::ICorProfilerModuleEnum::Next(self.0, 1, &raw mut module, &raw mut fetched) };
        (code == 0 && fetched == 1).then_some(module)
    }
}

impl Drop for ModuleList {
    fn drop(&mut self) {
        // SAFETY: gives up the only reference.
        unsafe { sys::IUnknown::Release(self.0.cast()) };
    }
}
