//! The runtime's enumerators as iterators: snapshots, read in blocks, released on drop.

use super::{Alive, Info, Loading};
use crate::ids::{AppDomainId, FunctionId, ModuleId, ObjectId, RejitId, ThreadId};
use crate::{HResult, sys};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The number of items fetched at a time.
const BLOCK: usize = 64;

mod private {
    /// Seals [`super::Enumerated`]: only this module implements it.
    pub trait Closed {}
}

/// An id that the runtime enumerates.
pub trait Enumerated: Copy + Default + private::Closed {
    /// Fetches up to `count` of them.
    ///
    /// # Safety
    /// `this` is a live enumerator of them, `items` has room for `count`, `fetched` for the number.
    #[doc(hidden)]
    unsafe fn next(this: NonNull<sys::IUnknown>, count: u32, items: *mut Self, fetched: *mut u32) -> HResult;

    /// The total number.
    ///
    /// # Safety
    /// `this` is a live enumerator of them.
    #[doc(hidden)]
    unsafe fn total(this: NonNull<sys::IUnknown>, total: *mut u32) -> HResult;
}

/// A compiled function and its version.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct JittedFunction {
    /// The function.
    pub function: FunctionId,
    /// Zero unless ReJIT made this code.
    pub rejit: RejitId,
}

const _: () = assert!(size_of::<JittedFunction>() == size_of::<sys::COR_PRF_FUNCTION>());

macro_rules! enumerated {
    ($($item:ty, $interface:ident;)*) => {
        $(
            impl private::Closed for $item {}

            impl Enumerated for $item {
                unsafe fn next(this: NonNull<sys::IUnknown>, count: u32, items: *mut Self, fetched: *mut u32) -> HResult {
                    // SAFETY: the caller guarantees a live enumerator and the room; the item has the layout of the raw one.
                    HResult(unsafe { sys::$interface::Next(this.as_ptr().cast(), count, items.cast(), fetched) })
                }

                unsafe fn total(this: NonNull<sys::IUnknown>, total: *mut u32) -> HResult {
                    // SAFETY: the caller guarantees a live enumerator, and a place for the number.
                    HResult(unsafe { sys::$interface::GetCount(this.as_ptr().cast(), total) })
                }
            }
        )*
    };
}

enumerated! {
    ModuleId, ICorProfilerModuleEnum;
    ThreadId, ICorProfilerThreadEnum;
    ObjectId, ICorProfilerObjectEnum;
    JittedFunction, ICorProfilerFunctionEnum;
}

/// A snapshot from the time of the call. An event about an id outranks it, even during the iteration.
///
/// Ends after the first error.
#[derive(Debug)]
pub struct Enumeration<'info, T: Enumerated> {
    raw: NonNull<sys::IUnknown>,
    block: [T; BLOCK],
    taken: usize,
    filled: usize,
    is_over: bool,
    info: PhantomData<&'info ()>,
}

impl<T: Enumerated> Enumeration<'_, T> {
    fn new(raw: *mut sys::IUnknown) -> Result<Self, HResult> {
        let raw = NonNull::new(raw).ok_or(HResult::E_POINTER)?;
        Ok(Enumeration { raw, block: [T::default(); BLOCK], taken: 0, filled: 0, is_over: false, info: PhantomData })
    }

    /// The number of items in the snapshot.
    pub fn total(&self) -> Result<u32, HResult> {
        let mut total = 0;
        // SAFETY: the enumerator lives until `drop` releases it; `total` is a live local.
        unsafe { T::total(self.raw, &mut total) }.ok()?;
        Ok(total)
    }

    fn fill(&mut self) -> Result<(), HResult> {
        let mut fetched = 0;
        // SAFETY: the enumerator lives until `drop` releases it, and the block has room for `BLOCK` items.
        let answer = unsafe { T::next(self.raw, BLOCK as u32, self.block.as_mut_ptr(), &mut fetched) };
        answer.ok()?;
        self.taken = 0;
        self.filled = (fetched as usize).min(BLOCK);
        Ok(())
    }
}

impl<T: Enumerated> Iterator for Enumeration<'_, T> {
    type Item = Result<T, HResult>;

    fn next(&mut self) -> Option<Result<T, HResult>> {
        if self.taken == self.filled && !self.is_over {
            if let Err(code) = self.fill() {
                self.is_over = true;
                return Some(Err(code));
            }
            self.is_over = self.filled == 0;
        }
        if self.is_over {
            return None;
        }
        let item = *self.block.get(self.taken)?;
        self.taken += 1;
        Some(Ok(item))
    }
}

impl<T: Enumerated> Drop for Enumeration<'_, T> {
    fn drop(&mut self) {
        // SAFETY: releases the one reference that the runtime handed over.
        unsafe { sys::IUnknown::Release(self.raw.as_ptr()) };
    }
}

impl<L: Loading> Info<L, Alive> {
    /// Every loaded module. Not before `profiler_attach_complete`, or some are missed.
    pub fn enum_modules(&self) -> Result<Enumeration<'_, ModuleId>, HResult> {
        let raw = self.at(3)?;
        let mut made = core::ptr::null_mut();
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo3::EnumModules(raw, &mut made) }).ok()?;
        Enumeration::new(made.cast())
    }

    /// The application domain of a module: the first, if there are several, as on .NET Framework.
    pub fn app_domain_of(&self, module: ModuleId) -> Result<AppDomainId, HResult> {
        let raw = self.at(3)?;
        let (mut count, mut domain) = (0, 0);
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointers are live locals with room for one id.
        let answer =
            unsafe { sys::ICorProfilerInfo3::GetAppDomainsContainingModule(raw, module.0, 1, &mut count, &mut domain) };
        HResult(answer).ok()?;
        if count == 0 || domain == 0 { Err(HResult::E_FAIL) } else { Ok(AppDomainId(domain)) }
    }

    /// Every function compiled at run time. Not functions with precompiled code, and not dynamic ones.
    pub fn enum_jited_functions2(&self) -> Result<Enumeration<'_, JittedFunction>, HResult> {
        let raw = self.at(4)?;
        let mut made = core::ptr::null_mut();
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo4::EnumJITedFunctions2(raw, &mut made) }).ok()?;
        Enumeration::new(made.cast())
    }

    /// Every managed thread. Not inside a suspend callback: .NET 9.0.0 deadlocks there.
    pub fn enum_threads(&self) -> Result<Enumeration<'_, ThreadId>, HResult> {
        let raw = self.at(4)?;
        let mut made = core::ptr::null_mut();
        // SAFETY: this `Info` is `Alive`, so its object is valid; the out-pointer is a live local.
        HResult(unsafe { sys::ICorProfilerInfo4::EnumThreads(raw, &mut made) }).ok()?;
        Enumeration::new(made.cast())
    }
}
