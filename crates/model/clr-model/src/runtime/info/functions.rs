//! Identifies a function: by its id, by an address, by a token.

use super::{
    Answer, DONE, FunctionId, ModuleId, Server, answer_list, answer_whole_text, answered, args, has_place, invalid_if,
    list, named, write_answers,
};
use crate::mutation;
use crate::runtime::code::METHOD_DEFINITION;
use crate::runtime::objects::class_of;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_abi::enumerators::{Functions, enumerator};

const MEMBER_REFERENCE: u32 = 0x0A00_0000;
const KIND_OF_TOKEN: u32 = 0xFF00_0000;
/// The signature of a method without arguments that returns nothing: calling convention, count, `void` (ECMA-335, II.23.2.1).
pub(in crate::runtime) static NO_ARGUMENTS: [u8; 3] = [0x00, 0x00, 0x01];

fn is_of_method(token: u32) -> bool {
    [METHOD_DEFINITION, MEMBER_REFERENCE].contains(&(token & KIND_OF_TOKEN))
}

impl Server {
    /// Module and token of a function. A dynamic function is reported with the framework's module and an invalid token (live:
    /// info_calls.rs).
    fn identified(&self, function: usize, what: &str) -> Result<(ModuleId, u32), HResult> {
        named(function)?;
        let facts = self.about("function", what, |runtime| {
            let state = runtime.lock();
            let function = state.code.functions.get(&FunctionId(function))?;
            let (module, token) = match function.module {
                Some(module) => (Some(module), function.token),
                None => (state.code.framework(), METHOD_DEFINITION),
            };
            Some((if mutation::is("CAT-08/2") { Some(ModuleId(0)) } else { module }, token))
        })?;
        facts.0.map(|module| (module, facts.1)).ok_or(HResult::E_INVALIDARG)
    }

    pub(super) unsafe fn enum_jited_functions(&self, args: args::EnumJITedFunctions) -> Answer {
        // SAFETY: the profiler's own argument; the API has the same rules for both methods.
        unsafe { self.enum_jited_functions2(args::EnumJITedFunctions2 { ppEnum: args.ppEnum }) }
    }

    pub(super) unsafe fn enum_jited_functions2(&self, args: args::EnumJITedFunctions2) -> Answer {
        let runtime = self.runtime()?;
        invalid_if(args.ppEnum.is_null())?;
        let entry = |id: FunctionId| sys::COR_PRF_FUNCTION { functionId: id.0, reJitId: 0 };
        let functions = runtime.jitted_functions().into_iter().map(entry).collect();
        schedule::note("Profiler calls EnumJITedFunctions", 0);
        answered! { args.ppEnum => enumerator::<Functions>(functions, &runtime.enumerators) }
    }

    pub(super) unsafe fn get_function_from_ip(&self, args: args::GetFunctionFromIP) -> Answer {
        answered! { args.pFunctionId => self.function_from(args.ip as u64, false)?.0 }
    }

    pub(super) unsafe fn get_function_from_ip2(&self, args: args::GetFunctionFromIP2) -> Answer {
        let (function, version) = self.function_from(args.ip as u64, false)?;
        answered! { args.pFunctionId => function, args.pReJitId => version }
    }

    pub(super) unsafe fn get_function_from_ip3(&self, args: args::GetFunctionFromIP3) -> Answer {
        let (function, version) = self.function_from(args.ip as u64, true)?;
        answered! { args.functionId => function, args.pReJitId => version }
    }

    /// A token of another kind is a wrong argument, as is a token without a method (live: info_calls.rs).
    pub(super) unsafe fn get_function_from_token(&self, args: args::GetFunctionFromToken) -> Answer {
        invalid_if(args.moduleId == 0 || !is_of_method(args.token))?;
        let module = self.loaded_module(args.moduleId, "GetFunctionFromToken")?;
        let function = self.runtime()?.lock().function_from_token(module, args.token);
        answered! { args.pFunctionId => function?.0 }
    }

    pub(super) unsafe fn get_function_from_token_and_type_args(
        &self,
        args: args::GetFunctionFromTokenAndTypeArgs,
    ) -> Answer {
        invalid_if(args.moduleID == 0 || args.classId == 0 || !is_of_method(args.funcDef))?;
        let name = "GetFunctionFromTokenAndTypeArgs";
        let module = self.loaded_module(args.moduleID, name)?;
        self.about_class(args.classId, name)?;
        // SAFETY: the API requires a list that is null or has the stated length.
        let types = unsafe { list(args.typeArgs, args.cTypeArgs) };
        let function = self.runtime()?.lock().function_with_types(module, args.funcDef, &types);
        answered! { args.pFunctionID => function?.0 }
    }

    pub(super) unsafe fn get_function_info(&self, args: args::GetFunctionInfo) -> Answer {
        let (module, token) = self.identified(args.functionId, "GetFunctionInfo")?;
        answered! { args.pClassId => class_of(module).0, args.pModuleId => module.0, args.pToken => token }
    }

    pub(super) unsafe fn get_function_info2(&self, args: args::GetFunctionInfo2) -> Answer {
        invalid_if(!has_place(args.cTypeArgs, args.typeArgs))?;
        let (module, token) = self.identified(args.funcId, "GetFunctionInfo2")?;
        write_answers! { args.pClassId => class_of(module).0, args.pModuleId => module.0, args.pToken => token }
        // SAFETY: the API requires a list that is null or has the stated room.
        unsafe { answer_list(&[], args.cTypeArgs, args.pcTypeArgs, args.typeArgs) }
    }

    /// The metadata is that of the function's module.
    pub(super) unsafe fn get_token_and_meta_data_from_function(
        &self,
        args: args::GetTokenAndMetaDataFromFunction,
    ) -> Answer {
        let (runtime, profiler) = self.both()?;
        let (module, token) = self.identified(args.functionId, "GetTokenAndMetaDataFromFunction")?;
        write_answers! { args.pToken => token }
        if args.ppImport.is_null() {
            return DONE;
        }
        // SAFETY: the API requires an identifier and a place for the answer.
        Ok(unsafe { runtime.open_metadata(&profiler, module, args.riid, args.ppImport) })
    }

    pub(super) unsafe fn is_function_dynamic(&self, args: args::IsFunctionDynamic) -> Answer {
        let is_dynamic = self.about_function(args.functionId, "IsFunctionDynamic", |known| known.module.is_none())?;
        answered! { args.isDynamic => sys::BOOL::from(is_dynamic) }
    }

    /// For a function with metadata it writes nothing (source: proftoeeinterfaceimpl.cpp, GetDynamicFunctionInfo; live: cat_08).
    pub(super) unsafe fn get_dynamic_function_info(&self, args: args::GetDynamicFunctionInfo) -> Answer {
        let facts = |known: &crate::runtime::code::Function| (known.module, known.token, known.name);
        let (module, token, name) = self.about_function(args.functionId, "GetDynamicFunctionInfo", facts)?;
        invalid_if(module.is_some())?;
        let name = name.map_or_else(|| format!("dynamic{token:#x}"), str::to_owned);
        let framework = self.runtime()?.lock().code.framework();
        write_answers! { args.moduleId => framework.map_or(0, |module| module.0) }
        if !args.ppvSig.is_null() && !args.pbSig.is_null() {
            write_answers! { args.ppvSig => NO_ARGUMENTS.as_ptr(), args.pbSig => NO_ARGUMENTS.len() as u32 }
        }
        // SAFETY: the API requires a buffer that is null or has the stated room.
        unsafe { answer_whole_text(&name, args.cchName, args.pcchName, args.wszName) }
    }
}
