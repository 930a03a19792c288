//! The heap, object by object, in forms that allocate nothing and take no lock of the runtime's: for a callback of a collection, and
//! for a copy of the process that was forked in one.

use super::{Alive, Info, Loading};
use crate::ids::{AppDomainId, ClassId, FieldToken, FunctionId, MethodToken, ModuleId, ObjectId, TypeToken};
use crate::mask::{AttachMask, HighAttachMask};
use crate::{HResult, sys};
use core::ffi::c_void;

/// A part of the heap in which objects lie one behind the other.
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

/// A part of the heap that is never collected: string literals and objects of types, since .NET 8.
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

/// Where a field of an object is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldPlace {
    /// Its row in the module of the class.
    pub token: u32,
    /// Where it begins in an object, bytes.
    pub offset: u32,
}

const _: () = assert!(size_of::<FieldPlace>() == size_of::<sys::COR_FIELD_OFFSET>());

/// A class without its type arguments, which are written elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassHead {
    /// Its module.
    pub module: ModuleId,
    /// Its row there.
    pub token: TypeToken,
    /// The class it derives from.
    pub parent: ClassId,
    /// How many type arguments it has; more than were written where the place was too small.
    pub arguments: usize,
}

impl<L: Loading> Info<L, Alive> {
    /// A view of the heap for callbacks of collections and forked copies.
    pub fn heap_view(&self) -> HeapView {
        HeapView { raw: self.as_raw(), version: self.version() }
    }
}

/// The heap as it stands.
///
/// # Safety
/// All that it is asked: only while a callback of a collection runs, or in a copy of the process that was made in one, never once a
/// detach was accepted, and with ids and addresses of this very heap.
#[derive(Debug, Clone, Copy)]
pub struct HeapView {
    raw: *mut sys::ICorProfilerInfo,
    version: u8,
}

// SAFETY: as for `Info`: the runtime's object may be called from any thread.
unsafe impl Send for HeapView {}
// SAFETY: as above.
unsafe impl Sync for HeapView {}

impl HeapView {
    /// The parts, and how many there are, which may be more than `into` takes.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn generation_bounds(&self, into: &mut [GenerationRange]) -> Result<usize, HResult> {
        self.has(2)?;
        let mut count = 0;
        let capacity = u32::try_from(into.len()).unwrap_or(u32::MAX);
        // SAFETY: alive by the promise of who made the view; the ranges have the runtime's layout, and there are that many.
        let answer = unsafe {
            sys::ICorProfilerInfo2::GetGenerationBounds(self.raw.cast(), capacity, &mut count, into.as_mut_ptr().cast())
        };
        HResult(answer).ok()?;
        Ok(count as usize)
    }

    /// Replaces both halves of the event mask of a profiler that was attached. The runtime takes no lock for it and allows it in any callback
    /// (`SetEventMask2`, vm/proftoeeinterfaceimpl.cpp).
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn set_event_mask2(&self, low: AttachMask, high: HighAttachMask) -> Result<(), HResult> {
        self.has(5)?;
        // SAFETY: alive by the promise of who made the view.
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
        // SAFETY: as above.
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
        // SAFETY: alive, and a place for the answer; that there is an object is the caller's knowledge of the range.
        HResult(unsafe { sys::ICorProfilerInfo::GetClassFromObject(self.raw, object.0, &mut class) }).ok()?;
        Ok(ClassId(class))
    }

    /// The word at an address of the heap; of an object's first word, the class and marks of the collector.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn word(&self, address: usize) -> usize {
        // SAFETY: the caller knows that the heap is there, as for every method of this view.
        unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_volatile() }
    }

    /// The size of an object, bytes.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn size_of(&self, object: ObjectId) -> Result<usize, HResult> {
        self.has(4)?;
        let mut size = 0;
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo4::GetObjectSize2(self.raw.cast(), object.0, &mut size) }).ok()?;
        Ok(size)
    }

    /// Shows each object that an object refers to. False if the runtime says that there is none. `visit` must not panic.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn references<F: FnMut(ObjectId)>(&self, object: ObjectId, visit: &mut F) -> Result<bool, HResult> {
        self.has(10)?;
        let data = core::ptr::from_mut(visit).cast::<c_void>();
        // SAFETY: as above; the runtime calls back during the call only, with the data that it was given.
        let answer = HResult(unsafe {
            sys::ICorProfilerInfo10::EnumerateObjectReferences(self.raw.cast(), object.0, Some(next::<F>), data)
        });
        answer.ok()?;
        Ok(answer == HResult::S_OK)
    }

    /// Shows every object of the heap, garbage too, while the runtime stands still for it, until `visit` says that it wants no more. .NET 9
    /// and later. `visit` must not panic.
    ///
    /// # Safety
    /// See [`HeapView`], but that no collection need be under way; and the caller may stop the runtime.
    pub unsafe fn enumerate<F: FnMut(ObjectId) -> bool>(&self, visit: &mut F) -> Result<(), HResult> {
        self.has(15)?;
        let data = core::ptr::from_mut(visit).cast::<c_void>();
        // SAFETY: as above; the runtime calls back during the call only, with the data that it was given.
        HResult(unsafe { sys::ICorProfilerInfo15::EnumerateGCHeapObjects(self.raw.cast(), Some(object::<F>), data) })
            .ok()
    }

    /// What a class is. Its type arguments are written to `arguments`, as many as fit.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn class(&self, class: ClassId, arguments: &mut [ClassId]) -> Result<ClassHead, HResult> {
        self.has(2)?;
        let (mut module, mut token, mut parent, mut count) = (0, 0, 0, 0);
        let capacity = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
        // SAFETY: alive, places for the answers, and a buffer of that capacity.
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

    /// Element type, class of the element and rank of an array; `None` for a class that is no array.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn array(&self, class: ClassId) -> Result<Option<super::ArrayClass>, HResult> {
        let (mut element, mut element_class, mut rank) = (0, 0, 0);
        // SAFETY: alive, and places for the answers.
        let answer = HResult(unsafe {
            sys::ICorProfilerInfo::IsArrayClass(self.raw, class.0, &mut element, &mut element_class, &mut rank)
        });
        answer.ok()?;
        let array = super::ArrayClass { element, class: ClassId(element_class), rank };
        Ok((answer != HResult::S_FALSE).then_some(array))
    }

    /// How the objects of a class are laid out: how many fields it declares itself, of which as many as fit are written, and the bytes of an
    /// object. Takes no lock, by its contract in the runtime (`GetClassLayout` in `vm/proftoeeinterfaceimpl.cpp`).
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn layout(&self, class: ClassId, into: &mut [FieldPlace]) -> Result<(usize, u32), HResult> {
        self.has(2)?;
        let (mut count, mut size) = (0, 0);
        let capacity = u32::try_from(into.len()).unwrap_or(u32::MAX);
        // SAFETY: as above; the places have the runtime's layout, and there are that many.
        let answer = unsafe {
            let into = into.as_mut_ptr().cast();
            sys::ICorProfilerInfo2::GetClassLayout(self.raw.cast(), class.0, into, capacity, &mut count, &mut size)
        };
        HResult(answer).ok()?;
        Ok((count as usize, size))
    }

    /// The function of a method whose class is loaded. A method that is generic, or whose class is, has none. Takes no lock and loads
    /// nothing, by its contract in the runtime (`GetFunctionFromToken` in `vm/proftoeeinterfaceimpl.cpp`), other than
    /// `GetClassFromToken`.
    ///
    /// # Safety
    /// See [`HeapView`].
    pub unsafe fn function(&self, module: ModuleId, method: MethodToken) -> Result<FunctionId, HResult> {
        let mut function = 0;
        // SAFETY: alive, and a place for the answer.
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
        // SAFETY: alive, and a place for the answer; of the module and the token nothing is wanted.
        let answer = unsafe {
            sys::ICorProfilerInfo::GetFunctionInfo(self.raw, function.0, &mut class, nowhere, nowhere.cast())
        };
        HResult(answer).ok()?;
        Ok(ClassId(class))
    }

    /// Where a static field of a class is: of a reference the place that holds it, of a value type the value itself, which lies in a box
    /// of the heap. `CORPROF_E_DATAINCOMPLETE` while the class is not initialized; no answer for fields that each thread has.
    ///
    /// # Safety
    /// See [`HeapView`]. By its contract in the runtime it may take locks (`GetAppDomainStaticAddress` in
    /// `vm/proftoeeinterfaceimpl.cpp`): in a copy of the process nobody waits for the thread that asks.
    pub unsafe fn static_address(
        &self,
        class: ClassId,
        field: FieldToken,
        domain: AppDomainId,
    ) -> Result<usize, HResult> {
        self.has(2)?;
        let mut address = core::ptr::null_mut();
        // SAFETY: alive, and a place for the answer.
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
    // SAFETY: the runtime hands back what `enumerate` gave it, on the same thread.
    let visit = unsafe { &mut *data.cast::<F>() };
    i32::from(visit(ObjectId(object)))
}

unsafe extern "C" fn next<F: FnMut(ObjectId)>(_object: usize, reference: *mut usize, data: *mut c_void) -> i32 {
    // SAFETY: the runtime hands back what `references` gave it, on the same thread, and a place inside the object.
    let (visit, target) = unsafe { (&mut *data.cast::<F>(), *reference) };
    visit(ObjectId(target));
    1
}
