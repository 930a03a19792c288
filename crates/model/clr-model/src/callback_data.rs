//! The callbacks of a scripted profiler, with their arguments.

/// One callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackData {
    /// ModuleLoadFinished.
    ModuleLoaded(usize),
    /// ModuleUnloadStarted.
    ModuleUnloads(usize),
    /// JITCompilationFinished.
    Compiled(usize),
    /// GarbageCollectionStarted: the collected generations, and the reason.
    CollectionBegins(Vec<bool>, u32),
    /// GarbageCollectionFinished.
    CollectionEnds,
    /// MovedReferences2, or MovedReferences: old address, new address, bytes.
    Moved(Vec<(usize, usize, usize)>),
    /// SurvivingReferences2, or SurvivingReferences: address, bytes.
    Survived(Vec<(usize, usize)>),
    /// RootReferences2: object, kind, flags, id.
    Roots(Vec<(usize, u32, u32, usize)>),
    /// ObjectReferences: object, class, referenced objects.
    References(usize, usize, Vec<usize>),
    /// ObjectAllocated: object, class.
    Allocated(usize, usize),
    /// ExceptionThrown: the exception.
    Thrown(usize),
    /// ObjectsAllocatedByClass: class, objects.
    AllocatedByClass(Vec<(usize, u32)>),
    /// ConditionalWeakTableElementReferences: key, value.
    Weak(Vec<(usize, usize)>),
    /// FinalizeableObjectQueued.
    Queued(usize),
    /// HandleCreated: handle, object.
    HandleCreated(usize, usize),
    /// HandleDestroyed.
    HandleDestroyed(usize),
    /// ReJITCompilationFinished: function, version.
    CompiledAgain(usize, usize),
    /// ReJITError: function, code.
    NotCompiledAgain(usize, i32),
    /// EventPipeEventDelivered: event, its data.
    Event(u32, Vec<u8>),
}
