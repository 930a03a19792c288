//! Lookups of ids and addresses.
//!
//! The runtime does not check ids: a stale one crashes the process. The caller must know that the id is alive.

use super::{Alive, Info, Loading};
use crate::buffer;
use crate::ids::{
    AppDomainId, AssemblyId, ClassId, FunctionId, MethodToken, ModuleId, ObjectId, RejitId, ThreadId, TypeToken,
};
use crate::values::{ModuleFlags, RuntimeKind};
use crate::{HResult, sys};

/// Identity and version of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeInformation {
    /// Its number among the runtimes of the process.
    pub instance: u16,
    /// The kind of runtime.
    pub kind: RuntimeKind,
    /// Major version. .NET Core 3.1 reports 4; see `version`.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Build number.
    pub build: u16,
    /// Update number.
    pub update: u16,
    /// The version as text, from the runtime.
    pub version: String,
}

/// A module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Its base address in memory; zero for a module without an image.
    pub base: usize,
    /// Its file. For a module without one: a name, or nothing.
    pub path: String,
    /// Its assembly; zero until it is attached to one.
    pub assembly: AssemblyId,
    /// The kind of module.
    pub flags: ModuleFlags,
}

/// An assembly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssemblyInfo {
    /// Its simple name.
    pub name: String,
    /// Its application domain.
    pub app_domain: AppDomainId,
    /// Its manifest module.
    pub module: ModuleId,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassInfo {
    /// The module that defines it.
    pub module: ModuleId,
    /// Its token in that module.
    pub token: TypeToken,
    /// Its base class; zero for none.
    pub parent: ClassId,
    /// Its type arguments.
    pub type_arguments: Vec<ClassId>,
}

/// The element type and rank of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayClass {
    /// The CorElementType of its elements.
    pub element: sys::CorElementType,
    /// The class of its elements; zero for none.
    pub class: ClassId,
    /// The number of dimensions.
    pub rank: u32,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its class; zero where the runtime needs a frame to decide, as for code that generic classes share.
    pub class: ClassId,
    /// The module that defines it.
    pub module: ModuleId,
    /// Its token in that module.
    pub token: MethodToken,
    /// Its own type arguments.
    pub type_arguments: Vec<ClassId>,
}

/// A function without metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicFunction {
    /// The module that the runtime assigns it to.
    pub module: ModuleId,
    /// Its name.
    pub name: String,
}

impl<L: Loading> Info<L, Alive> {
    /// Identity and version of the runtime.
    pub fn get_runtime_information(&self) -> Result<RuntimeInformation, HResult> {
        let raw = self.at(3)?;
        let (mut instance, mut kind) = (0, 0);
        let [mut major, mut minor, mut build, mut update] = [0u16; 4];
        let version = buffer::text(|capacity, needed, text| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::ICorProfilerInfo3::GetRuntimeInformation(
                    raw,
                    &mut instance,
                    &mut kind,
                    &mut major,
                    &mut minor,
                    &mut build,
                    &mut update,
                    capacity,
                    needed,
                    text,
                )
            }
        })?;
        Ok(RuntimeInformation { instance, kind: RuntimeKind(kind), major, minor, build, update, version })
    }

    /// A module's file, base address, assembly and kind.
    pub fn get_module_info2(&self, module: ModuleId) -> Result<ModuleInfo, HResult> {
        let raw = self.at(3)?;
        let (mut base, mut assembly, mut flags) = (core::ptr::null(), 0, 0);
        let path = buffer::text(|capacity, needed, text| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::ICorProfilerInfo3::GetModuleInfo2(
                    raw,
                    module.0,
                    &mut base,
                    capacity,
                    needed,
                    text,
                    &mut assembly,
                    &mut flags,
                )
            }
        })?;
        Ok(ModuleInfo { base: base as usize, path, assembly: AssemblyId(assembly), flags: ModuleFlags(flags) })
    }

    /// An assembly's name, domain and manifest module.
    pub fn get_assembly_info(&self, assembly: AssemblyId) -> Result<AssemblyInfo, HResult> {
        let (mut app_domain, mut module) = (0, 0);
        let name = buffer::text(|capacity, needed, text| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::ICorProfilerInfo::GetAssemblyInfo(
                    self.raw,
                    assembly.0,
                    capacity,
                    needed,
                    text,
                    &mut app_domain,
                    &mut module,
                )
            }
        })?;
        Ok(AssemblyInfo { name, app_domain: AppDomainId(app_domain), module: ModuleId(module) })
    }

    /// A class's module, token, base class and type arguments. Arrays return CORPROF_E_CLASSID_IS_ARRAY.
    pub fn get_class_id_info2(&self, class: ClassId) -> Result<ClassInfo, HResult> {
        let raw = self.at(2)?;
        let (mut module, mut token, mut parent) = (0, 0, 0);
        let type_arguments = buffer::list(|capacity, needed, list: *mut ClassId| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::ICorProfilerInfo2::GetClassIDInfo2(
                    raw,
                    class.0,
                    &mut module,
                    &mut token,
                    &mut parent,
                    capacity,
                    needed,
                    list.cast(),
                )
            }
        })?;
        let (module, token, parent) = (ModuleId(module), TypeToken(token), ClassId(parent));
        Ok(ClassInfo { module, token, parent, type_arguments })
    }

    /// The element type and rank of an array; `None` if the class is no array.
    pub fn is_array_class(&self, class: ClassId) -> Result<Option<ArrayClass>, HResult> {
        let (mut element, mut element_class, mut rank) = (0, 0, 0);
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live locals.
        let answer = HResult(unsafe {
            sys::ICorProfilerInfo::IsArrayClass(self.raw, class.0, &mut element, &mut element_class, &mut rank)
        });
        answer.ok()?;
        Ok((answer != HResult::S_FALSE).then_some(ArrayClass { element, class: ClassId(element_class), rank }))
    }

    /// A function's class, module, token and type arguments. Dynamic functions fail; see `is_function_dynamic`.
    pub fn get_function_info2(&self, function: FunctionId) -> Result<FunctionInfo, HResult> {
        let raw = self.at(2)?;
        let (mut class, mut module, mut token) = (0, 0, 0);
        let type_arguments = buffer::list(|capacity, needed, list: *mut ClassId| {
            // SAFETY: this `Info` is `Alive`, so its object is valid. A null frame is allowed.
            // The out-pointers are live, and the buffer has room for `capacity`.
            unsafe {
                sys::ICorProfilerInfo2::GetFunctionInfo2(
                    raw,
                    function.0,
                    0,
                    &mut class,
                    &mut module,
                    &mut token,
                    capacity,
                    needed,
                    list.cast(),
                )
            }
        })?;
        let (class, module, token) = (ClassId(class), ModuleId(module), MethodToken(token));
        Ok(FunctionInfo { class, module, token, type_arguments })
    }

    /// The function whose code is at this address: any managed code, dynamic and precompiled too.
    pub fn get_function_from_ip3(&self, address: usize) -> Result<(FunctionId, RejitId), HResult> {
        let raw = self.at(8)?;
        let (mut function, mut rejit) = (0, 0);
        // SAFETY: this `Info` is `Alive`, so its object is valid. The runtime looks the address up, and does not read it.
        let answer =
            unsafe { sys::ICorProfilerInfo8::GetFunctionFromIP3(raw, address as *const u8, &mut function, &mut rejit) };
        HResult(answer).ok()?;
        Ok((FunctionId(function), RejitId(rejit)))
    }

    /// The function whose code is at this address. Not dynamic ones.
    pub fn get_function_from_ip2(&self, address: usize) -> Result<(FunctionId, RejitId), HResult> {
        let raw = self.at(4)?;
        let (mut function, mut rejit) = (0, 0);
        // SAFETY: this `Info` is `Alive`, so its object is valid. The runtime looks the address up, and does not read it.
        let answer =
            unsafe { sys::ICorProfilerInfo4::GetFunctionFromIP2(raw, address as *const u8, &mut function, &mut rejit) };
        HResult(answer).ok()?;
        Ok((FunctionId(function), RejitId(rejit)))
    }

    /// The function whose code is at this address. Not dynamic ones. May be called at any time.
    pub fn get_function_from_ip(&self, address: usize) -> Result<FunctionId, HResult> {
        let mut function = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid. The runtime looks the address up, and does not read it.
        let answer = unsafe { sys::ICorProfilerInfo::GetFunctionFromIP(self.raw, address as *const u8, &mut function) };
        HResult(answer).ok()?;
        Ok(FunctionId(function))
    }

    /// Whether the function has no metadata: a dynamic method or a runtime stub.
    pub fn is_function_dynamic(&self, function: FunctionId) -> Result<bool, HResult> {
        let raw = self.at(8)?;
        let mut is_dynamic = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo8::IsFunctionDynamic(raw, function.0, &mut is_dynamic) }).ok()?;
        Ok(is_dynamic != 0)
    }

    /// Name and module of a function without metadata.
    pub fn get_dynamic_function_info(&self, function: FunctionId) -> Result<DynamicFunction, HResult> {
        let raw = self.at(8)?;
        let (mut module, mut signature, mut length) = (0, core::ptr::null(), 0);
        let name = buffer::text(|capacity, needed, text| {
            // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live, and the buffer has room for `capacity`.

            unsafe {
                sys::ICorProfilerInfo8::GetDynamicFunctionInfo(
                    raw,
                    function.0,
                    &mut module,
                    &mut signature,
                    &mut length,
                    capacity,
                    needed,
                    text,
                )
            }
        })?;
        Ok(DynamicFunction { module: ModuleId(module), name })
    }

    /// The operating system's id of a managed thread. The runtime reads the thread's object: the id must be alive.
    pub fn get_thread_info(&self, thread: ThreadId) -> Result<u32, HResult> {
        let mut os_thread = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo::GetThreadInfo(self.raw, thread.0, &mut os_thread) }).ok()?;
        Ok(os_thread)
    }

    /// The calling managed thread.
    pub fn get_current_thread_id(&self) -> Result<ThreadId, HResult> {
        let mut thread = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo::GetCurrentThreadID(self.raw, &mut thread) }).ok()?;
        Ok(ThreadId(thread))
    }

    /// The class of an object. Valid inside a GC callback or while the runtime is suspended.
    pub fn get_class_from_object(&self, object: ObjectId) -> Result<ClassId, HResult> {
        let mut class = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo::GetClassFromObject(self.raw, object.0, &mut class) }).ok()?;
        Ok(ClassId(class))
    }

    /// The size of an object in bytes, with its header, but without the padding to a multiple of eight. Valid inside a callback about it, or while the runtime is suspended.
    pub fn get_object_size2(&self, object: ObjectId) -> Result<usize, HResult> {
        let raw = self.at(4)?;
        let mut size = 0;
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo4::GetObjectSize2(raw, object.0, &mut size) }).ok()?;
        Ok(size)
    }

    /// Forces a GC, and returns when it has ended. On a native thread only, which then counts as a runtime thread.
    pub fn force_gc(&self) -> Result<(), HResult> {
        // SAFETY: this `Info` is `Alive`, so its object is valid.
        HResult(unsafe { sys::ICorProfilerInfo::ForceGC(self.raw) }).ok()
    }
}
