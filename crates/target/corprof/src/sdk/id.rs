//! Ids branded with their runtime (contract SBS-03).

use crate::ids::*;
use core::fmt;
use core::marker::PhantomData;

/// Invariant in `'rt`: two brands are the same or unrelated.
pub(super) type Brand<'rt> = PhantomData<fn(&'rt ()) -> &'rt ()>;

/// An id of the runtime `'rt`. Passing it to another runtime does not compile.
///
/// This compiles:
/// ```
/// use corprof::sdk::*;
/// fn ask<'rt>(one: &Session<'rt>, module: Module<'rt>) {
///     let _ = one.module(module);
/// }
/// ```
/// This does not, nor does any other call to `other` with it:
/// ```compile_fail
/// use corprof::sdk::*;
/// fn ask<'rt, 'other>(one: &Session<'rt>, other: &Session<'other>, module: Module<'rt>) {
///     let _ = other.module(module);
/// }
/// ```
/// An id cannot be stored for a later load of the library:
/// ```compile_fail
/// use corprof::sdk::*;
/// static ASIDE: std::sync::Mutex<Option<Module<'static>>> = std::sync::Mutex::new(None);
/// fn keep<'rt>(module: Module<'rt>) {
///     *ASIDE.lock().unwrap() = Some(module);
/// }
/// ```
/// A module cannot be passed as a function:
/// ```compile_fail,E0308
/// use corprof::sdk::*;
/// fn ask<'rt>(one: &Session<'rt>, module: Module<'rt>) {
///     let _ = one.function(module);
/// }
/// ```
///
/// No type proves that it is still alive: an id is valid until the callback that announces its unload returns.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id<'rt, T> {
    plain: T,
    brand: Brand<'rt>,
}

impl<'rt, T> Id<'rt, T> {
    pub(super) fn brand(plain: T) -> Id<'rt, T> {
        Id { plain, brand: PhantomData }
    }

    pub(super) fn brand_all(plain: &[T]) -> &[Id<'rt, T>] {
        // SAFETY: `Id` is a transparent wrapper around `T`.
        unsafe { core::slice::from_raw_parts(plain.as_ptr().cast(), plain.len()) }
    }
}

impl<T: Copy> Id<'_, T> {
    /// The plain id, for a file or a ring. There is no safe way back.
    pub fn plain(self) -> T {
        self.plain
    }
}

impl<T: fmt::Debug> fmt::Debug for Id<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}

/// A module of the runtime `'rt`.
pub type Module<'rt> = Id<'rt, ModuleId>;
/// An assembly of the runtime `'rt`.
pub type Assembly<'rt> = Id<'rt, AssemblyId>;
/// A class of the runtime `'rt`.
pub type Class<'rt> = Id<'rt, ClassId>;
/// A function of the runtime `'rt`.
pub type Function<'rt> = Id<'rt, FunctionId>;
/// A managed thread of the runtime `'rt`.
pub type Thread<'rt> = Id<'rt, ThreadId>;
/// An object of the runtime `'rt`.
pub type Object<'rt> = Id<'rt, ObjectId>;
