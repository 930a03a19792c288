//! The runtime's enums and structs in the safe layer. Values that a newer runtime adds are passed through, never refused.

use crate::sys;

macro_rules! values {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $constant:ident = $raw:ident,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(transparent)]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct $name(pub u32);

            impl $name {
                $($(#[$doc])* pub const $constant: $name = $name(sys::$raw);)*

                /// Whether every bit of `other` is set; for flags.
                pub const fn contains(self, other: $name) -> bool {
                    self.0 & other.0 == other.0
                }
            }
        )*
    };
}

values! {
    /// Whether precompiled code was found.
    JitCache {
        /// It was.
        FOUND = COR_PRF_CACHED_FUNCTION_FOUND,
        /// It was not: the function will be compiled.
        NOT_FOUND = COR_PRF_CACHED_FUNCTION_NOT_FOUND,
    }
    /// Why code crosses between managed and native.
    TransitionReason {
        /// A call.
        CALL = COR_PRF_TRANSITION_CALL,
        /// A return.
        RETURN = COR_PRF_TRANSITION_RETURN,
    }
    /// Why the runtime suspends its threads.
    SuspendReason {
        /// Another reason.
        OTHER = COR_PRF_SUSPEND_OTHER,
        /// For a GC.
        FOR_GC = COR_PRF_SUSPEND_FOR_GC,
        /// To prepare for a GC.
        FOR_GC_PREP = COR_PRF_SUSPEND_FOR_GC_PREP,
        /// The process ends.
        FOR_SHUTDOWN = COR_PRF_SUSPEND_FOR_SHUTDOWN,
        /// To replace code.
        FOR_REJIT = COR_PRF_SUSPEND_FOR_REJIT,
        /// A profiler requested it.
        FOR_PROFILER = COR_PRF_SUSPEND_FOR_PROFILER,
    }
    /// Why a GC happens.
    GcReason {
        /// The heap needed it.
        OTHER = COR_PRF_GC_OTHER,
        /// It was requested.
        INDUCED = COR_PRF_GC_INDUCED,
    }
    /// The kind of root that holds an object.
    RootKind {
        /// Another kind.
        OTHER = COR_PRF_GC_ROOT_OTHER,
        /// A variable on a stack.
        STACK = COR_PRF_GC_ROOT_STACK,
        /// The finalizer queue.
        FINALIZER = COR_PRF_GC_ROOT_FINALIZER,
        /// A GC handle.
        HANDLE = COR_PRF_GC_ROOT_HANDLE,
    }
    /// How a root holds an object: flags.
    RootFlags {
        /// The object may not move.
        PINNING = COR_PRF_GC_ROOT_PINNING,
        /// It does not keep the object alive.
        WEAKREF = COR_PRF_GC_ROOT_WEAKREF,
        /// It points to the inside of the object.
        INTERIOR = COR_PRF_GC_ROOT_INTERIOR,
        /// COM references are counted on it.
        REFCOUNTED = COR_PRF_GC_ROOT_REFCOUNTED,
    }
    /// The kind of a module: flags.
    ModuleFlags {
        /// It was loaded from a file.
        DISK = COR_PRF_MODULE_DISK,
        /// It has precompiled code.
        NGEN = COR_PRF_MODULE_NGEN,
        /// It was made at run time and has no file.
        DYNAMIC = COR_PRF_MODULE_DYNAMIC,
        /// It can be unloaded.
        COLLECTIBLE = COR_PRF_MODULE_COLLECTIBLE,
        /// It holds only resources, and no metadata.
        RESOURCE = COR_PRF_MODULE_RESOURCE,
        /// It lies in memory as in the file, not as the loader would map it.
        FLAT_LAYOUT = COR_PRF_MODULE_FLAT_LAYOUT,
    }
    /// The kind of runtime.
    RuntimeKind {
        /// .NET Framework.
        DESKTOP_CLR = COR_PRF_DESKTOP_CLR,
        /// .NET.
        CORE_CLR = COR_PRF_CORE_CLR,
    }
}

/// A contiguous range of native code.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CodeRange {
    /// Its first address.
    pub start: usize,
    /// Its length in bytes.
    pub size: usize,
}

/// A range of native code and its IL, both relative to the method's start.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct IlMapping {
    /// The IL's offset, or one of the constants of this type.
    pub il_offset: u32,
    /// The offset of the first native byte.
    pub native_start: u32,
    /// The offset after the last native byte; equal to the start if the runtime does not know.
    pub native_end: u32,
}

impl IlMapping {
    /// As `il_offset`: the code has no IL.
    pub const NO_MAPPING: u32 = sys::NO_MAPPING;
    /// As `il_offset`: the method's prologue.
    pub const PROLOG: u32 = sys::PROLOG;
    /// As `il_offset`: the method's epilogue.
    pub const EPILOG: u32 = sys::EPILOG;
}

const _: () = assert!(size_of::<CodeRange>() == size_of::<sys::COR_PRF_CODE_INFO>());
const _: () = assert!(size_of::<IlMapping>() == size_of::<sys::COR_DEBUG_IL_TO_NATIVE_MAP>());
