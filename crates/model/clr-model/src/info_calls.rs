//! Calls of scripted profilers to Info, through the raw interfaces. They return every answer, refusals included.

mod code;
mod heap;
mod metadata;
mod modules;

pub use metadata::{Metadata, TokenList};

use crate::scripted::Script;
use corprof::{HResult, sys};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// An answer, or the error code.
pub type Answered<T> = Result<T, HResult>;

/// Calls, one per line: `name(arguments) -> (answers) = Interface::Slot(arguments of the slot)`. With a list before the answers, the caller
/// passes the list to fill, and gets the code, the count and the answers. Without either, it gets the code.
macro_rules! calls {
    () => {};
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> ($($out:ident: $out_ty:ty),+)
        = $interface:ident::$slot:ident($($value:expr),* $(,)?); $($rest:tt)*) => {
        impl Script {
            $(#[$doc])*
            #[allow(unused_parens, reason = "one answer is no tuple")]
            pub fn $name(&self $(, $arg: $ty)*) -> Answered<($($out_ty),+)> {
                $(let mut $out = <$out_ty>::default();)+
                // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
                answered(unsafe { sys::$interface::$slot(self.at() $(, $value)*) }, ($($out),+))
            }
        }
        calls! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> [$room:ident, $count:ident, $places:ident: $item:ty]
        $(($($out:ident: $out_ty:ty),+))? = $interface:ident::$slot:ident($($value:expr),* $(,)?); $($rest:tt)*) => {
        impl Script {
            $(#[$doc])*
            pub fn $name(&self $(, $arg: $ty)*, list: &mut [$item]) -> (HResult, u32 $($(, $out_ty)+)?) {
                let (($room, $places), mut $count) = (room(list), 0);
                $($(let mut $out = <$out_ty>::default();)+)?
                // SAFETY: the model keeps Info alive during the schedule; a list with that much room, and locals.
                let code = unsafe { sys::$interface::$slot(self.at() $(, $value)*) };
                (HResult(code), $count $($(, $out)+)?)
            }
        }
        calls! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*)
        = $interface:ident::$slot:ident($($value:expr),* $(,)?); $($rest:tt)*) => {
        impl Script {
            $(#[$doc])*
            pub fn $name(&self $(, $arg: $ty)*) -> HResult {
                // SAFETY: the model keeps Info alive during the schedule; the lists have one item, and the texts end with a zero.
                HResult(unsafe { sys::$interface::$slot(self.at() $(, $value)*) })
            }
        }
        calls! { $($rest)* }
    };
}
use calls;

calls! {
    /// GetFunctionFromIP.
    function_at(address: u64) -> (function: usize)
        = ICorProfilerInfo::GetFunctionFromIP(address as *const u8, &raw mut function);
    /// GetFunctionFromIP3: function and version, dynamic ones too.
    any_function_at(address: u64) -> (function: usize, version: usize)
        = ICorProfilerInfo8::GetFunctionFromIP3(address as *const u8, &raw mut function, &raw mut version);
    /// GetFunctionInfo2: class, module, token.
    function_info(function: usize) -> (class: usize, module: usize, token: u32) = ICorProfilerInfo2::GetFunctionInfo2(
        function, 0, &raw mut class, &raw mut module, &raw mut token, 0, null_mut(), null_mut());
    /// GetClassIDInfo2: module, token, parent.
    class_info(class: usize) -> (module: usize, token: u32, parent: usize) = ICorProfilerInfo2::GetClassIDInfo2(
        class, &raw mut module, &raw mut token, &raw mut parent, 0, null_mut(), null_mut());
    /// GetModuleInfo2; the answer is ignored.
    ask_about_module(module: usize) = ICorProfilerInfo3::GetModuleInfo2(
        module, null_mut(), 0, null_mut(), null_mut(), null_mut(), null_mut());
    /// GetClassFromObject.
    class_of(object: usize) -> (class: usize) = ICorProfilerInfo::GetClassFromObject(object, &raw mut class);
    /// GetObjectSize.
    size_of(object: usize) -> (size: u32) = ICorProfilerInfo::GetObjectSize(object, &raw mut size);
    /// The application domain that a module is in: GetAppDomainsContainingModule, with room for one.
    app_domain_of(module: usize) -> (domain: usize)
        = ICorProfilerInfo3::GetAppDomainsContainingModule(module, 1, &mut 0, &raw mut domain);
    /// GetAppDomainStaticAddress.
    static_address(class: usize, field: u32, domain: usize) -> (place: usize)
        = ICorProfilerInfo2::GetAppDomainStaticAddress(class, field, domain, (&raw mut place).cast());
    /// ForceGC.
    force_gc() = ICorProfilerInfo::ForceGC();
    /// SuspendRuntime.
    suspend_runtime() = ICorProfilerInfo10::SuspendRuntime();
    /// ResumeRuntime.
    resume_runtime() = ICorProfilerInfo10::ResumeRuntime();
    /// RequestReJIT of one method.
    request_rejit(module: usize, token: u32) = ICorProfilerInfo4::RequestReJIT(1, &raw const module, &raw const token);
    /// RequestReJITWithInliners of one method.
    request_rejit_with_inliners(flags: u32, module: usize, token: u32)
        = ICorProfilerInfo10::RequestReJITWithInliners(flags, 1, &raw const module, &raw const token);
    /// SetILFunctionBody, with a body that the model does not read.
    replace_body(module: usize, token: u32) = ICorProfilerInfo::SetILFunctionBody(module, token, null());
    /// EventPipeStopSession.
    stop_session(session: u64) = ICorProfilerInfo12::EventPipeStopSession(session);
    /// ApplyMetaData.
    apply_metadata(module: usize) = ICorProfilerInfo7::ApplyMetaData(module);
    /// CreateHandle: 1 weak, 2 strong, 3 pinned.
    create_handle(object: usize, kind: u32) -> (handle: usize)
        = ICorProfilerInfo13::CreateHandle(object, kind, (&raw mut handle).cast());
    /// DestroyHandle.
    destroy_handle(handle: usize) = ICorProfilerInfo13::DestroyHandle(handle as sys::ObjectHandleID);
    /// SetEnvironmentVariable.
    set_variable(name: &str, value: &str)
        = ICorProfilerInfo11::SetEnvironmentVariable(units(name).as_ptr(), units(value).as_ptr());
    /// EventPipeStartSession for the runtime's own provider.
    start_session() -> (session: u64) = ICorProfilerInfo12::EventPipeStartSession(
        1, &listening(&units("Microsoft-Windows-DotNETRuntime")), 0, &raw mut session);
    /// EventPipeAddProviderToSession.
    listen_to(session: u64, provider: &str)
        = ICorProfilerInfo12::EventPipeAddProviderToSession(session, listening(&units(provider)));
    /// EventPipeCreateProvider, byname; returns the provider.
    provider_called(name: &str) -> (provider: usize)
        = ICorProfilerInfo12::EventPipeCreateProvider(units(name).as_ptr(), &raw mut provider);
    /// EventPipeGetProviderInfo: the code and the length of the name. The name is in the list.
    provider_info(provider: usize) -> [room, length, places: u16]
        = ICorProfilerInfo12::EventPipeGetProviderInfo(provider, room, &raw mut length, places);
    /// EventPipeDefineEvent with one parameter of this type. Returns the event.
    define_event(provider: usize, id: u32, parameter: u32) -> (event: usize) = ICorProfilerInfo12::EventPipeDefineEvent(
        provider, units("an event").as_ptr(), id, 0, 1, 4, 0, 0, 1, &sys::COR_PRF_EVENTPIPE_PARAM_DESC {
            r#type: parameter, elementType: 0, name: units("an event").as_ptr() }, &raw mut event);
    /// EventPipeWriteEvent.
    write_event(event: usize, bytes: &[u8]) = ICorProfilerInfo12::EventPipeWriteEvent(event, 1, &sys::COR_PRF_EVENT_DATA {
        ptr: bytes.as_ptr() as u64, size: bytes.len() as u32, reserved: 0 }, null(), null());
    /// SetEventMask2.
    set_mask(low: u32, high: u32) = ICorProfilerInfo5::SetEventMask2(low, high);
    /// SetEventMask.
    set_mask_low(low: u32) = ICorProfilerInfo::SetEventMask(low);
    /// RequestProfilerDetach.
    request_detach(milliseconds: u32) = ICorProfilerInfo3::RequestProfilerDetach(milliseconds);
}

impl Script {
    /// Info as one of its interfaces.
    fn at<T>(&self) -> *mut T {
        self.raw().cast()
    }

    /// EnumModules; the list is not read yet.
    pub fn module_list(&self) -> Answered<ModuleList> {
        let mut list = null_mut();
        // SAFETY: the model keeps Info alive during the schedule; a place for the answer.
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
        // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
        answered(unsafe { sys::ICorProfilerInfo3::EnumJITedFunctions(self.at(), &raw mut list) }, ())?;
        let (mut functions, mut fetched) = (Vec::new(), 0);
        let mut next = sys::COR_PRF_FUNCTION { functionId: 0, reJitId: 0 };
        // SAFETY: the enumerator is live; the out pointers are locals with room for one item.
        while unsafe { sys::ICorProfilerFunctionEnum::Next(list, 1, &raw mut next, &raw mut fetched) } == 0 {
            functions.push(next.functionId);
        }
        // SAFETY: releases the only reference.
        unsafe { sys::IUnknown::Release(list.cast()) };
        Ok(functions)
    }

    /// IsArrayClass: the class of its elements.
    pub fn element_of(&self, class: usize) -> Answered<Option<usize>> {
        let (mut kind, mut element, mut rank) = (0, 0, 0);
        // SAFETY: the model keeps Info alive during the schedule; the out pointers are locals.
        let code = unsafe {
            sys::ICorProfilerInfo::IsArrayClass(self.raw(), class, &raw mut kind, &raw mut element, &raw mut rank)
        };
        answered(code, (code == 0).then_some(element))
    }

    /// DoStackSnapshot: functions and addresses, innermost first. 0 is the running thread.
    pub fn stack_of(&self, thread: usize) -> Answered<Vec<(usize, usize)>> {
        let mut frames: Vec<(usize, usize)> = Vec::new();
        let data = (&raw mut frames).cast::<c_void>();
        // SAFETY: the model keeps Info alive during the schedule; the callback expects the type of `data`.
        let code =
            unsafe { sys::ICorProfilerInfo2::DoStackSnapshot(self.at(), thread, Some(note_frame), 0, data, null(), 0) };
        answered(code, frames)
    }

    /// RequestRevert of one method: the answer of the call, and that of the method.
    pub fn request_revert(&self, module: usize, token: u32) -> (HResult, HResult) {
        let mut status = 0;
        // SAFETY: the model keeps Info alive during the schedule; two lists of one, and a place for one code.
        let code = unsafe {
            sys::ICorProfilerInfo4::RequestRevert(self.at(), 1, &raw const module, &raw const token, &raw mut status)
        };
        (HResult(code), HResult(status))
    }

    /// SetILFunctionBody of the last function control.
    pub fn give_body(&self, body: &[u8]) -> HResult {
        let (control, length) = (self.control(), body.len() as u32);
        // SAFETY: the model never frees a function control; a list with that length.
        HResult(unsafe { sys::ICorProfilerFunctionControl::SetILFunctionBody(control, length, body.as_ptr()) })
    }

    /// Takes a reference on the last function control.
    pub fn keep_control(&self) {
        // SAFETY: the model never frees a function control.
        unsafe { sys::IUnknown::AddRef(self.control().cast()) };
    }

    /// The ObjectID at the address from GetAppDomainStaticAddress.
    pub fn static_object(&self, class: usize, field: u32, domain: usize) -> Answered<usize> {
        // SAFETY: the runtime keeps the field at this address while the class is loaded.
        self.static_address(class, field, domain).map(|place| unsafe { (place as *const usize).read() })
    }

    /// EventPipeCreateProvider of a provider without a name.
    pub fn create_provider(&self) -> HResult {
        self.provider_called("").map_or_else(|code| code, |_| HResult::S_OK)
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
        filterData: null(),
    }
}

/// A list as arguments for Info: its room and its address, or null without room.
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
    // SAFETY: `stack_of` passed this pointer.
    unsafe { (*data.cast::<Vec<(usize, usize)>>()).push((function, ip)) };
    0
}

/// The module enumerator, read one by one.
pub struct ModuleList(*mut sys::ICorProfilerModuleEnum);

impl Iterator for ModuleList {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let (mut module, mut fetched) = (0, 0);
        // SAFETY: the enumerator is live; the out pointers are locals with room for one item.
        let code = unsafe { sys::ICorProfilerModuleEnum::Next(self.0, 1, &raw mut module, &raw mut fetched) };
        (code == 0 && fetched == 1).then_some(module)
    }
}

impl Drop for ModuleList {
    fn drop(&mut self) {
        // SAFETY: releases the only reference.
        unsafe { sys::IUnknown::Release(self.0.cast()) };
    }
}
