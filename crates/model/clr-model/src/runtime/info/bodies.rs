//! Method bodies: reading, replacing, and recompiling them.

use super::{Answer, FunctionId, ModuleId, Server, answer_list, answered, args, invalid_if, list, named};
use corprof::{HResult, sys};
use std::ptr::null_mut;

impl Server {
    pub(super) unsafe fn get_il_function_body(&self, args: args::GetILFunctionBody) -> Answer {
        let module = self.loaded_module(args.moduleId, "GetILFunctionBody")?;
        let il = self.runtime()?.il_of(module, args.methodId).ok_or(HResult::E_INVALIDARG)?;
        answered! { args.ppMethodHeader => il.as_ptr(), args.pcbMethodSize => il.len() as u32 }
    }

    pub(super) unsafe fn get_il_function_body_allocator(&self, args: args::GetILFunctionBodyAllocator) -> Answer {
        invalid_if(args.ppMalloc.is_null())?;
        self.loaded_module(args.moduleId, "GetILFunctionBodyAllocator")?;
        answered! { args.ppMalloc => crate::runtime::il::allocator() }
    }

    pub(super) unsafe fn set_il_instrumented_code_map(&self, args: args::SetILInstrumentedCodeMap) -> Answer {
        self.about_function(args.functionId, "SetILInstrumentedCodeMap", |_| HResult::S_OK)
    }

    pub(super) unsafe fn set_il_function_body(&self, args: args::SetILFunctionBody) -> Answer {
        named(args.moduleId)?;
        self.with_both(|runtime, profiler| runtime.replace_body(profiler, ModuleId(args.moduleId)))
    }

    pub(super) unsafe fn request_rejit(&self, args: args::RequestReJIT) -> Answer {
        // SAFETY: the API requires lists that are null or have the stated length.
        let methods = unsafe { methods(args.cFunctions, args.moduleIds, args.methodIds) };
        self.with_both(|runtime, profiler| runtime.request_rejit(profiler, &methods, None))
    }

    pub(super) unsafe fn request_rejit_with_inliners(&self, args: args::RequestReJITWithInliners) -> Answer {
        // SAFETY: the API requires lists that are null or have the stated length.
        let methods = unsafe { methods(args.cFunctions, args.moduleIds, args.methodIds) };
        self.with_both(|runtime, profiler| runtime.request_rejit(profiler, &methods, Some(args.dwRejitFlags)))
    }

    pub(super) unsafe fn request_revert(&self, args: args::RequestRevert) -> Answer {
        // SAFETY: the API requires lists that are null or have the stated length.
        let methods = unsafe { methods(args.cFunctions, args.moduleIds, args.methodIds) };
        let (runtime, profiler) = self.both()?;
        let codes = runtime.request_revert(&profiler, &methods)?.into_iter().map(|code| code.0);
        let codes: Vec<sys::HRESULT> = codes.collect();
        // SAFETY: the API requires a list that is null or has a place for each method.
        unsafe { answer_list(&codes, args.cFunctions, null_mut(), args.status) }
    }

    /// A function that must be alive when the call begins and when it is answered.
    pub(super) fn about_function<T>(
        &self,
        function: usize,
        what: &str,
        look: impl Fn(&crate::runtime::code::Function) -> T,
    ) -> Result<T, HResult> {
        named(function)?;
        self.about("function", what, |runtime| runtime.lock().code.functions.get(&FunctionId(function)).map(&look))
    }
}

/// The modules and tokens of a request.
///
/// # Safety
/// Both lists are as long as `count` says, or null.
unsafe fn methods(count: u32, modules: *const usize, tokens: *const u32) -> Vec<(ModuleId, u32)> {
    // SAFETY: the caller guarantees both lengths.
    let (modules, tokens) = unsafe { (list(modules, count), list(tokens, count)) };
    modules.iter().zip(tokens).map(|(module, token)| (ModuleId(*module), token)).collect()
}
