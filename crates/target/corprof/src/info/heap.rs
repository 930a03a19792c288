//! The heap, object by object. These calls allocate nothing and take no lock of the runtime. They are for a GC callback,
//! or for a copy of the process that was forked in one.

use super::{Alive, Info, Loading};
use crate::ids::{AppDomainId, ClassId, FieldToken, FunctionId, MethodToken, ModuleId, ObjectId, TypeToken};
use crate::mask::{AttachMask, HighAttachMask};
use crate::{HResult, sys};
use core::ffi::c_void;

/// A contiguous part of the heap.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GenerationRange {
    /// 0 to 2, 3 for large objects, 4 for pinned ones.
    pub generation: i32,
    /// The first object.
    pub start: usize,
    /// Bytes in use.
    pub length: usize,
    /// Bytes reserved.
    pub reserved: usize,
}

/// A part of the heap that is never collected: string literals and type objects, since .NET 8.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrozenRange {
    /// The first object.
    pub start: usize,
    /// Bytes in use.
    pub length: usize,
    /// Bytes reserved.
    pub reserved: usize,
}

/// The place of a field in an object.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldPlace {
    /// Its token in the class's module.
    pub token: u32,
    /// Its offset in the object, in bytes.
    pub offset: u32,
}

const _: () = assert!(size_of::<FieldPlace>() == size_of::<sys::COR_FIELD_OFFSET>());

/// A class. Its type arguments are in a separate buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassHead {
    /// Its module.
    pub module: ModuleId,
    /// Its token in that module.
    pub token: TypeToken,
    /// Its base class.
    pub parent: ClassId,
    /// The number of type arguments; more than were written if the buffer was too small.
    pub arguments: usize,
}

impl<L: Loading> Info<L, Alive> {
    /// A view of the heap for GC callbacks and forked copies.
    pub fn heap_view(&self) -> HeapView {
        HeapView { raw: self.as_raw(), version: self.version() }
    }
}

/// A view of the heap.
///
/// # Safety
/// Call its methods only in a GC callback, or in a copy of the process that was forked in one; [`HeapView::class_of`] also in
/// ExceptionThrown, for its exception. Never call them after a detach was accepted.
/// All ids and addresses must be from this very heap.
#[derive(Debug, Clone, Copy)]
pub struct HeapView {
    raw: *mut sys::ICorProfilerInfo,
    version: u8,
}

// SAFETY: the runtime's object may be called from any thread, and the view holds nothing else.
unsafe impl Send for HeapView {}
// SAFETY: the runtime's object may be called from several threads at a time, and the view holds nothing else.
unsafe impl Sync for HeapView {}

impl HeapView {
    /// The heap's parts. Returns their number, which may exceed the length of `into`.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn generation_bounds(&self, into: &mut [GenerationRange]) -> Result<usize, HResult> {
        self.has(2)?;
        let mut count = 0;
        let capacity = u32::try_from(into.len()).unwrap_or(u32::MAX);
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid; `into` has `capacity` ranges in the runtime's layout.
        let answer = unsafe {
            sys::ICorProfilerInfo2::GetGenerationBounds(self.raw.cast(), capacity, &mut count, into.as_mut_ptr().cast())
        };
        HResult(answer).ok()?;
        Ok(count as usize)
    }

    /// Replaces both halves of an attached profiler's event mask.
    ///
    /// The runtime takes no lock for it, and allows it in any callback (`SetEventMask2`, vm/proftoeeinterfaceimpl.cpp).
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn set_event_mask2(&self, low: AttachMask, high: HighAttachMask) -> Result<(), HResult> {
        self.has(5)?;
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid.
        HResult(unsafe { sys::ICorProfilerInfo5::SetEventMask2(self.raw.cast(), low.bits(), high.bits()) }).ok()
    }

    /// The parts that are never collected. Before .NET 8 there are none.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn frozen_bounds(&self, into: &mut [FrozenRange]) -> Result<usize, HResult> {
        if self.version < 14 {
            return Ok(0);
        }
        let mut count = 0;
        let capacity = u32::try_from(into.len()).unwrap_or(u32::MAX);
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid; `into` has `capacity` ranges in the runtime's layout.
        let answer = unsafe {
            sys::ICorProfilerInfo14::GetNonGCHeapBounds(self.raw.cast(), capacity, &mut count, into.as_mut_ptr().cast())
        };
        HResult(answer).ok()?;
        Ok(count as usize)
    }

    /// The class of an object.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn class_of(&self, object: ObjectId) -> Result<ClassId, HResult> {
        let mut class = 0;
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid. So is `object`.
        HResult(unsafe { sys::ICorProfilerInfo::GetClassFromObject(self.raw, object.0, &mut class) }).ok()?;
        Ok(ClassId(class))
    }

    /// The word at a heap address. An object's first word holds its class and the GC's marks.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn word(&self, address: usize) -> usize {
        // SAFETY: the caller upholds the rules of `HeapView`, so `address` is a readable word of the heap.
        unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_volatile() }
    }

    /// The size of an object in bytes.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn size_of(&self, object: ObjectId) -> Result<usize, HResult> {
        self.has(4)?;
        let mut size = 0;
        // SAFETY: the caller upholds the rules of `HeapView`, so the runtime's object is valid. So is `object`.
        HResult(unsafe { sys::ICorProfilerInfo4::GetObjectSize2(self.raw.cast(), object.0, &mut size) }).ok()?;
        Ok(size)
    }

    /// Calls `visit` for each object that an object refers to; it must not panic. False if the runtime reports that there is none.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn references<F: FnMut(ObjectId)>(&self, object: ObjectId, visit: &mut F) -> Result<bool, HResult> {
        self.has(10)?;
        let data = core::ptr::from_mut(visit).cast::<c_void>();
        // SAFETY: the caller upholds the rules of `HeapView`, so the runtime's object is valid.
        // The runtime calls `next` only during the call, with `data`.
        let answer = HResult(unsafe {
            sys::ICorProfilerInfo10::EnumerateObjectReferences(self.raw.cast(), object.0, Some(next::<F>), data)
        });
        answer.ok()?;
        Ok(answer == HResult::S_OK)
    }

    /// Calls `visit` for every object of the heap, garbage too, until it returns false. The runtime is suspended meanwhile.
    /// .NET 9 and later. `visit` must not panic.
    ///
    /// # Safety
    /// See [`HeapView`]; but no GC need be under way, and the caller must be allowed to suspend the runtime.
    pub unsafe fn enumerate<F: FnMut(ObjectId) -> bool>(&self, visit: &mut F) -> Result<(), HResult> {
        self.has(15)?;
        let data = core::ptr::from_mut(visit).cast::<c_void>();
        // SAFETY: the caller upholds the rules of `HeapView`, so the runtime's object is valid.
        // The runtime calls `object` only during the call, with `data`.
        HResult(unsafe { sys::ICorProfilerInfo15::EnumerateGCHeapObjects(self.raw.cast(), Some(object::<F>), data) })
            .ok()
    }

    /// A class. Writes as many of its type arguments to `arguments` as fit.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn class(&self, class: ClassId, arguments: &mut [ClassId]) -> Result<ClassHead, HResult> {
        self.has(2)?;
        let (mut module, mut token, mut parent, mut count) = (0, 0, 0, 0);
        let capacity = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid.
        // The out-pointers are live locals, and the buffer has room for `capacity`.
        let answer = unsafe {
            sys::ICorProfilerInfo2::GetClassIDInfo2(
                self.raw.cast(),
                class.0,
                &mut module,
                &mut token,
                &mut parent,
                capacity,
                &mut count,
                arguments.as_mut_ptr().cast(),
            )
        };
        HResult(answer).ok()?;
        Ok(ClassHead {
            module: ModuleId(module),
            token: TypeToken(token),
            parent: ClassId(parent),
            arguments: count as usize,
        })
    }

    /// Element type, element class and rank of an array; `None` if the class is no array.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn array(&self, class: ClassId) -> Result<Option<super::ArrayClass>, HResult> {
        let (mut element, mut element_class, mut rank) = (0, 0, 0);
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid; the out-pointers are live locals.
        let answer = HResult(unsafe {
            sys::ICorProfilerInfo::IsArrayClass(self.raw, class.0, &mut element, &mut element_class, &mut rank)
        });
        answer.ok()?;
        let array = super::ArrayClass { element, class: ClassId(element_class), rank };
        Ok((answer != HResult::S_FALSE).then_some(array))
    }

    /// The layout of a class's objects. Writes as many of its own fields as fit. Returns their number, and an object's size in bytes.
    ///
    /// It takes no lock, by its contract in the runtime (`GetClassLayout` in `vm/proftoeeinterfaceimpl.cpp`).
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn layout(&self, class: ClassId, into: &mut [FieldPlace]) -> Result<(usize, u32), HResult> {
        self.has(2)?;
        let (mut count, mut size) = (0, 0);
        let capacity = u32::try_from(into.len()).unwrap_or(u32::MAX);
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid; `into` has `capacity` places in the runtime's layout.
        let answer = unsafe {
            let into = into.as_mut_ptr().cast();
            sys::ICorProfilerInfo2::GetClassLayout(self.raw.cast(), class.0, into, capacity, &mut count, &mut size)
        };
        HResult(answer).ok()?;
        Ok((count as usize, size))
    }

    /// The function of a method whose class is loaded. A generic method, or a method of a generic class, has none.
    ///
    /// It takes no lock and loads nothing, by its contract in the runtime (`GetFunctionFromToken` in `vm/proftoeeinterfaceimpl.cpp`).
    /// `GetClassFromToken` does not promise that.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn function(&self, module: ModuleId, method: MethodToken) -> Result<FunctionId, HResult> {
        let mut function = 0;
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid; the out-pointer is a live local.
        let answer =
            unsafe { sys::ICorProfilerInfo::GetFunctionFromToken(self.raw, module.0, method.0, &mut function) };
        HResult(answer).ok()?;
        Ok(FunctionId(function))
    }

    /// The class that declares a function.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn class_of_function(&self, function: FunctionId) -> Result<ClassId, HResult> {
        let mut class = 0;
        let nowhere = core::ptr::null_mut();
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid.
        // `class` is a live local. The other out-pointers may be null.
        let answer = unsafe {
            sys::ICorProfilerInfo::GetFunctionInfo(self.raw, function.0, &mut class, nowhere, nowhere.cast())
        };
        HResult(answer).ok()?;
        Ok(ClassId(class))
    }

    /// The address of a class's static field: for a reference its slot, for a value type the value itself, inside a box on the heap.
    ///
    /// `CORPROF_E_DATAINCOMPLETE` while the class is not initialized. Thread-static fields have no answer.
    ///
    /// # Safety
    /// See [`HeapView`]. By its contract in the runtime it may take locks (`GetAppDomainStaticAddress` in
    /// `vm/proftoeeinterfaceimpl.cpp`). In a forked copy no other thread waits for the caller.
    pub unsafe fn static_address(
        &self,
        class: ClassId,
        field: FieldToken,
        domain: AppDomainId,
    ) -> Result<usize, HResult> {
        self.has(2)?;
        let mut address = core::ptr::null_mut();
        // SAFETY: the caller upholds the rules of `HeapView`, so the object is valid; the out-pointer is a live local.
        let answer = unsafe {
            sys::ICorProfilerInfo2::GetAppDomainStaticAddress(self.raw.cast(), class.0, field.0, domain.0, &mut address)
        };
        HResult(answer).ok()?;
        Ok(address.expose_provenance())
    }

    fn has(&self, version: u8) -> Result<(), HResult> {
        if self.version >= version { Ok(()) } else { Err(HResult::info_required(version)) }
    }
}

unsafe extern "C" fn object<F: FnMut(ObjectId) -> bool>(object: usize, data: *mut c_void) -> i32 {
    // SAFETY: the runtime passes the `data` that `enumerate` gave it, on the same thread, during that call.
    let visit = unsafe { &mut *data.cast::<F>() };
    i32::from(visit(ObjectId(object)))
}

unsafe extern "C" fn next<F: FnMut(ObjectId)>(_object: usize, reference: *mut usize, data: *mut c_void) -> i32 {
    // SAFETY: the runtime passes the `data` that `references` gave it, on the same thread, and a place inside the object.
    let (visit, target) = unsafe { (&mut *data.cast::<F>(), *reference) };
    visit(ObjectId(target));
    1
}
