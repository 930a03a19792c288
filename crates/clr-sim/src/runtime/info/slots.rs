//! Every slot of ICorProfilerInfo that the model serves: each goes on, as it came, to the method of the same name in the file of its theme.
//!
//! tidy: catalogue

use super::Server;
use corprof::{HResult, sys};
use remora_clr_sim_abi::{InfoServer, Slot};
use std::any::Any;
use std::ffi::c_void;

macro_rules! served {
    ($($slot:ident($($argument:ident: $type:ty),*);)*) => {
        impl InfoServer for Server {
            fn version(&self) -> u8 {
                self.newest()
            }

            fn enter(&self, slot: Slot) -> Result<(), HResult> {
                self.admit(slot)
            }

            fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
                self.confess(slot, &payload);
            }

            $(
                unsafe fn $slot(&self, $($argument: $type),*) -> HResult {
                    // SAFETY: the profiler's pointers, passed on. The method is the server's own, which goes before the trait's.
                    unsafe { Server::$slot(self, $($argument),*) }
                }
            )*
        }
    };
}

served! {
    get_class_from_object(objectId: sys::ObjectID, pClassId: *mut sys::ClassID);
    get_class_from_token(moduleId: sys::ModuleID, typeDef: sys::mdTypeDef, pClassId: *mut sys::ClassID);
    get_code_info(functionId: sys::FunctionID, pStart: *mut sys::LPCBYTE, pcSize: *mut sys::ULONG);
    get_event_mask(pdwEvents: *mut sys::DWORD);
    get_function_from_ip(ip: sys::LPCBYTE, pFunctionId: *mut sys::FunctionID);
    get_function_from_token(moduleId: sys::ModuleID, token: sys::mdToken, pFunctionId: *mut sys::FunctionID);
    get_handle_from_thread(threadId: sys::ThreadID, phThread: *mut sys::HANDLE);
    get_object_size(objectId: sys::ObjectID, pcSize: *mut sys::ULONG);
    is_array_class(
        classId: sys::ClassID, pBaseElemType: *mut sys::CorElementType, pBaseClassId: *mut sys::ClassID,
        pcRank: *mut sys::ULONG
    );
    get_thread_info(threadId: sys::ThreadID, pdwWin32ThreadId: *mut sys::DWORD);
    get_current_thread_id(pThreadId: *mut sys::ThreadID);
    get_class_id_info(classId: sys::ClassID, pModuleId: *mut sys::ModuleID, pTypeDefToken: *mut sys::mdTypeDef);
    get_function_info(
        functionId: sys::FunctionID, pClassId: *mut sys::ClassID, pModuleId: *mut sys::ModuleID,
        pToken: *mut sys::mdToken
    );
    set_event_mask(dwEvents: sys::DWORD);
    set_enter_leave_function_hooks(
        pFuncEnter: Option<sys::FunctionEnter>, pFuncLeave: Option<sys::FunctionLeave>,
        pFuncTailcall: Option<sys::FunctionTailcall>
    );
    set_function_id_mapper(pFunc: Option<sys::FunctionIDMapper>);
    get_token_and_meta_data_from_function(
        functionId: sys::FunctionID, riid: sys::REFIID, ppImport: *mut *mut sys::IUnknown, pToken: *mut sys::mdToken
    );
    get_module_info(
        moduleId: sys::ModuleID, ppBaseLoadAddress: *mut sys::LPCBYTE, cchName: sys::ULONG,
        pcchName: *mut sys::ULONG, szName: *mut sys::WCHAR, pAssemblyId: *mut sys::AssemblyID
    );
    get_module_meta_data(
        moduleId: sys::ModuleID, dwOpenFlags: sys::DWORD, riid: sys::REFIID, ppOut: *mut *mut sys::IUnknown
    );
    get_il_function_body(
        moduleId: sys::ModuleID, methodId: sys::mdMethodDef, ppMethodHeader: *mut sys::LPCBYTE,
        pcbMethodSize: *mut sys::ULONG
    );
    get_il_function_body_allocator(moduleId: sys::ModuleID, ppMalloc: *mut *mut sys::IMethodMalloc);
    set_il_function_body(moduleId: sys::ModuleID, methodid: sys::mdMethodDef, pbNewILMethodHeader: sys::LPCBYTE);
    get_app_domain_info(
        appDomainId: sys::AppDomainID, cchName: sys::ULONG, pcchName: *mut sys::ULONG, szName: *mut sys::WCHAR,
        pProcessId: *mut sys::ProcessID
    );
    get_assembly_info(
        assemblyId: sys::AssemblyID, cchName: sys::ULONG, pcchName: *mut sys::ULONG, szName: *mut sys::WCHAR,
        pAppDomainId: *mut sys::AppDomainID, pModuleId: *mut sys::ModuleID
    );
    force_gc();
    set_il_instrumented_code_map(
        functionId: sys::FunctionID, fStartJit: sys::BOOL, cILMapEntries: sys::ULONG,
        rgILMapEntries: *const sys::COR_IL_MAP
    );
    get_thread_context(threadId: sys::ThreadID, pContextId: *mut sys::ContextID);
    get_il_to_native_mapping(
        functionId: sys::FunctionID, cMap: sys::ULONG32, pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP
    );
    do_stack_snapshot(
        thread: sys::ThreadID, callback: Option<sys::StackSnapshotCallback>, infoFlags: sys::ULONG32,
        clientData: *mut c_void, context: *const sys::BYTE, contextSize: sys::ULONG32
    );
    set_enter_leave_function_hooks2(
        pFuncEnter: Option<sys::FunctionEnter2>, pFuncLeave: Option<sys::FunctionLeave2>,
        pFuncTailcall: Option<sys::FunctionTailcall2>
    );
    get_function_info2(
        funcId: sys::FunctionID, frameInfo: sys::COR_PRF_FRAME_INFO, pClassId: *mut sys::ClassID,
        pModuleId: *mut sys::ModuleID, pToken: *mut sys::mdToken, cTypeArgs: sys::ULONG32,
        pcTypeArgs: *mut sys::ULONG32, typeArgs: *mut sys::ClassID
    );
    get_string_layout(
        pBufferLengthOffset: *mut sys::ULONG, pStringLengthOffset: *mut sys::ULONG, pBufferOffset: *mut sys::ULONG
    );
    get_class_layout(
        classID: sys::ClassID, rFieldOffset: *mut sys::COR_FIELD_OFFSET, cFieldOffset: sys::ULONG,
        pcFieldOffset: *mut sys::ULONG, pulClassSize: *mut sys::ULONG
    );
    get_class_id_info2(
        classId: sys::ClassID, pModuleId: *mut sys::ModuleID, pTypeDefToken: *mut sys::mdTypeDef,
        pParentClassId: *mut sys::ClassID, cNumTypeArgs: sys::ULONG32, pcNumTypeArgs: *mut sys::ULONG32,
        typeArgs: *mut sys::ClassID
    );
    get_code_info2(
        functionID: sys::FunctionID, cCodeInfos: sys::ULONG32, pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO
    );
    get_class_from_token_and_type_args(
        moduleID: sys::ModuleID, typeDef: sys::mdTypeDef, cTypeArgs: sys::ULONG32, typeArgs: *const sys::ClassID,
        pClassID: *mut sys::ClassID
    );
    get_function_from_token_and_type_args(
        moduleID: sys::ModuleID, funcDef: sys::mdMethodDef, classId: sys::ClassID, cTypeArgs: sys::ULONG32,
        typeArgs: *const sys::ClassID, pFunctionID: *mut sys::FunctionID
    );
    enum_module_frozen_objects(moduleID: sys::ModuleID, ppEnum: *mut *mut sys::ICorProfilerObjectEnum);
    get_array_object_info(
        objectId: sys::ObjectID, cDimensions: sys::ULONG32, pDimensionSizes: *mut sys::ULONG32,
        pDimensionLowerBounds: *mut sys::int, ppData: *mut *mut sys::BYTE
    );
    get_box_class_layout(classId: sys::ClassID, pBufferOffset: *mut sys::ULONG32);
    get_thread_app_domain(threadId: sys::ThreadID, pAppDomainId: *mut sys::AppDomainID);
    get_rva_static_address(classId: sys::ClassID, fieldToken: sys::mdFieldDef, ppAddress: *mut *mut c_void);
    get_app_domain_static_address(
        classId: sys::ClassID, fieldToken: sys::mdFieldDef, appDomainId: sys::AppDomainID,
        ppAddress: *mut *mut c_void
    );
    get_thread_static_address(
        classId: sys::ClassID, fieldToken: sys::mdFieldDef, threadId: sys::ThreadID, ppAddress: *mut *mut c_void
    );
    get_context_static_address(
        classId: sys::ClassID, fieldToken: sys::mdFieldDef, contextId: sys::ContextID, ppAddress: *mut *mut c_void
    );
    get_static_field_info(
        classId: sys::ClassID, fieldToken: sys::mdFieldDef, pFieldInfo: *mut sys::COR_PRF_STATIC_TYPE
    );
    get_generation_bounds(
        cObjectRanges: sys::ULONG, pcObjectRanges: *mut sys::ULONG, ranges: *mut sys::COR_PRF_GC_GENERATION_RANGE
    );
    get_object_generation(objectId: sys::ObjectID, range: *mut sys::COR_PRF_GC_GENERATION_RANGE);
    get_notified_exception_clause_info(pinfo: *mut sys::COR_PRF_EX_CLAUSE_INFO);
    enum_jited_functions(ppEnum: *mut *mut sys::ICorProfilerFunctionEnum);
    request_profiler_detach(dwExpectedCompletionMilliseconds: sys::DWORD);
    set_function_id_mapper2(pFunc: Option<sys::FunctionIDMapper2>, clientData: *mut c_void);
    get_string_layout2(pStringLengthOffset: *mut sys::ULONG, pBufferOffset: *mut sys::ULONG);
    set_enter_leave_function_hooks3(
        pFuncEnter3: Option<sys::FunctionEnter3>, pFuncLeave3: Option<sys::FunctionLeave3>,
        pFuncTailcall3: Option<sys::FunctionTailcall3>
    );
    set_enter_leave_function_hooks3_with_info(
        pFuncEnter3WithInfo: Option<sys::FunctionEnter3WithInfo>,
        pFuncLeave3WithInfo: Option<sys::FunctionLeave3WithInfo>,
        pFuncTailcall3WithInfo: Option<sys::FunctionTailcall3WithInfo>
    );
    get_function_enter3_info(
        functionId: sys::FunctionID, eltInfo: sys::COR_PRF_ELT_INFO, pFrameInfo: *mut sys::COR_PRF_FRAME_INFO,
        pcbArgumentInfo: *mut sys::ULONG, pArgumentInfo: *mut sys::COR_PRF_FUNCTION_ARGUMENT_INFO
    );
    get_function_leave3_info(
        functionId: sys::FunctionID, eltInfo: sys::COR_PRF_ELT_INFO, pFrameInfo: *mut sys::COR_PRF_FRAME_INFO,
        pRetvalRange: *mut sys::COR_PRF_FUNCTION_ARGUMENT_RANGE
    );
    get_function_tailcall3_info(
        functionId: sys::FunctionID, eltInfo: sys::COR_PRF_ELT_INFO, pFrameInfo: *mut sys::COR_PRF_FRAME_INFO
    );
    enum_modules(ppEnum: *mut *mut sys::ICorProfilerModuleEnum);
    get_runtime_information(
        pClrInstanceId: *mut sys::USHORT, pRuntimeType: *mut sys::COR_PRF_RUNTIME_TYPE,
        pMajorVersion: *mut sys::USHORT, pMinorVersion: *mut sys::USHORT, pBuildNumber: *mut sys::USHORT,
        pQFEVersion: *mut sys::USHORT, cchVersionString: sys::ULONG, pcchVersionString: *mut sys::ULONG,
        szVersionString: *mut sys::WCHAR
    );
    get_thread_static_address2(
        classId: sys::ClassID, fieldToken: sys::mdFieldDef, appDomainId: sys::AppDomainID, threadId: sys::ThreadID,
        ppAddress: *mut *mut c_void
    );
    get_app_domains_containing_module(
        moduleId: sys::ModuleID, cAppDomainIds: sys::ULONG32, pcAppDomainIds: *mut sys::ULONG32,
        appDomainIds: *mut sys::AppDomainID
    );
    get_module_info2(
        moduleId: sys::ModuleID, ppBaseLoadAddress: *mut sys::LPCBYTE, cchName: sys::ULONG,
        pcchName: *mut sys::ULONG, szName: *mut sys::WCHAR, pAssemblyId: *mut sys::AssemblyID,
        pdwModuleFlags: *mut sys::DWORD
    );
    enum_threads(ppEnum: *mut *mut sys::ICorProfilerThreadEnum);
    initialize_current_thread();
    request_rejit(cFunctions: sys::ULONG, moduleIds: *const sys::ModuleID, methodIds: *const sys::mdMethodDef);
    request_revert(
        cFunctions: sys::ULONG, moduleIds: *const sys::ModuleID, methodIds: *const sys::mdMethodDef,
        status: *mut sys::HRESULT
    );
    get_code_info3(
        functionID: sys::FunctionID, reJitId: sys::ReJITID, cCodeInfos: sys::ULONG32, pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO
    );
    get_function_from_ip2(ip: sys::LPCBYTE, pFunctionId: *mut sys::FunctionID, pReJitId: *mut sys::ReJITID);
    get_rejit_ids(
        functionId: sys::FunctionID, cReJitIds: sys::ULONG, pcReJitIds: *mut sys::ULONG, reJitIds: *mut sys::ReJITID
    );
    get_il_to_native_mapping2(
        functionId: sys::FunctionID, reJitId: sys::ReJITID, cMap: sys::ULONG32, pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP
    );
    enum_jited_functions2(ppEnum: *mut *mut sys::ICorProfilerFunctionEnum);
    get_object_size2(objectId: sys::ObjectID, pcSize: *mut sys::SIZE_T);
    get_event_mask2(pdwEventsLow: *mut sys::DWORD, pdwEventsHigh: *mut sys::DWORD);
    set_event_mask2(dwEventsLow: sys::DWORD, dwEventsHigh: sys::DWORD);
    enum_ngen_module_methods_inlining_this_method(
        inlinersModuleId: sys::ModuleID, inlineeModuleId: sys::ModuleID, inlineeMethodId: sys::mdMethodDef,
        incompleteData: *mut sys::BOOL, ppEnum: *mut *mut sys::ICorProfilerMethodEnum
    );
    apply_meta_data(moduleId: sys::ModuleID);
    get_in_memory_symbols_length(moduleId: sys::ModuleID, pCountSymbolBytes: *mut sys::DWORD);
    read_in_memory_symbols(
        moduleId: sys::ModuleID, symbolsReadOffset: sys::DWORD, pSymbolBytes: *mut sys::BYTE,
        countSymbolBytes: sys::DWORD, pCountSymbolBytesRead: *mut sys::DWORD
    );
    is_function_dynamic(functionId: sys::FunctionID, isDynamic: *mut sys::BOOL);
    get_function_from_ip3(ip: sys::LPCBYTE, functionId: *mut sys::FunctionID, pReJitId: *mut sys::ReJITID);
    get_dynamic_function_info(
        functionId: sys::FunctionID, moduleId: *mut sys::ModuleID, ppvSig: *mut sys::PCCOR_SIGNATURE,
        pbSig: *mut sys::ULONG, cchName: sys::ULONG, pcchName: *mut sys::ULONG, wszName: *mut sys::WCHAR
    );
    get_native_code_start_addresses(
        functionID: sys::FunctionID, reJitId: sys::ReJITID, cCodeStartAddresses: sys::ULONG32,
        pcCodeStartAddresses: *mut sys::ULONG32, codeStartAddresses: *mut sys::UINT_PTR
    );
    get_il_to_native_mapping3(
        pNativeCodeStartAddress: sys::UINT_PTR, cMap: sys::ULONG32, pcMap: *mut sys::ULONG32,
        map: *mut sys::COR_DEBUG_IL_TO_NATIVE_MAP
    );
    get_code_info4(
        pNativeCodeStartAddress: sys::UINT_PTR, cCodeInfos: sys::ULONG32, pcCodeInfos: *mut sys::ULONG32,
        codeInfos: *mut sys::COR_PRF_CODE_INFO
    );
    enumerate_object_references(
        objectId: sys::ObjectID, callback: Option<sys::ObjectReferenceCallback>, clientData: *mut c_void
    );
    is_frozen_object(objectId: sys::ObjectID, pbFrozen: *mut sys::BOOL);
    get_loh_object_size_threshold(pThreshold: *mut sys::DWORD);
    request_rejit_with_inliners(
        dwRejitFlags: sys::DWORD, cFunctions: sys::ULONG, moduleIds: *const sys::ModuleID,
        methodIds: *const sys::mdMethodDef
    );
    suspend_runtime();
    resume_runtime();
    get_environment_variable(
        szName: *const sys::WCHAR, cchValue: sys::ULONG, pcchValue: *mut sys::ULONG, szValue: *mut sys::WCHAR
    );
    set_environment_variable(szName: *const sys::WCHAR, szValue: *const sys::WCHAR);
    event_pipe_start_session(
        cProviderConfigs: sys::UINT32, pProviderConfigs: *const sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG,
        requestRundown: sys::BOOL, pSession: *mut sys::EVENTPIPE_SESSION
    );
    event_pipe_add_provider_to_session(
        session: sys::EVENTPIPE_SESSION, providerConfig: sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG
    );
    event_pipe_stop_session(session: sys::EVENTPIPE_SESSION);
    event_pipe_create_provider(providerName: *const sys::WCHAR, pProvider: *mut sys::EVENTPIPE_PROVIDER);
    event_pipe_get_provider_info(
        provider: sys::EVENTPIPE_PROVIDER, cchName: sys::ULONG, pcchName: *mut sys::ULONG,
        providerName: *mut sys::WCHAR
    );
    event_pipe_define_event(
        provider: sys::EVENTPIPE_PROVIDER, eventName: *const sys::WCHAR, eventID: sys::UINT32, keywords: sys::UINT64,
        eventVersion: sys::UINT32, level: sys::UINT32, opcode: sys::UINT8, needStack: sys::BOOL,
        cParamDescs: sys::UINT32, pParamDescs: *const sys::COR_PRF_EVENTPIPE_PARAM_DESC,
        pEvent: *mut sys::EVENTPIPE_EVENT
    );
    event_pipe_write_event(
        event: sys::EVENTPIPE_EVENT, cData: sys::UINT32, data: *const sys::COR_PRF_EVENT_DATA,
        pActivityId: sys::LPCGUID, pRelatedActivityId: sys::LPCGUID
    );
    create_handle(object: sys::ObjectID, r#type: sys::COR_PRF_HANDLE_TYPE, pHandle: *mut sys::ObjectHandleID);
    destroy_handle(handle: sys::ObjectHandleID);
    get_object_id_from_handle(handle: sys::ObjectHandleID, pObject: *mut sys::ObjectID);
    enumerate_non_gc_objects(ppEnum: *mut *mut sys::ICorProfilerObjectEnum);
    get_non_gc_heap_bounds(
        cObjectRanges: sys::ULONG, pcObjectRanges: *mut sys::ULONG, ranges: *mut sys::COR_PRF_NONGC_HEAP_RANGE
    );
    event_pipe_create_provider2(
        providerName: *const sys::WCHAR, pCallback: Option<sys::EventPipeProviderCallback>,
        pProvider: *mut sys::EVENTPIPE_PROVIDER
    );
    enumerate_gc_heap_objects(callback: Option<sys::ObjectCallback>, callbackState: *mut c_void);
}
