//! The questions about code that the agent asks the runtime, in plain values.

/// A method, as the runtime describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionFacts {
    /// A method with metadata.
    Token {
        /// ModuleID.
        module: usize,
        /// mdMethodDef.
        token: u32,
        /// ClassID, where the runtime reports it.
        class: Option<usize>,
        /// ClassIDs of the method's own generic arguments.
        arguments: Vec<usize>,
    },
    /// Made at run time, without metadata.
    Dynamic {
        /// Name.
        name: String,
        /// ModuleID.
        module: Option<usize>,
    },
}

/// A type, as the runtime describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeFacts {
    /// A class or value type.
    Class {
        /// ModuleID.
        module: usize,
        /// mdTypeDef.
        token: u32,
        /// ClassIDs.
        arguments: Vec<usize>,
    },
    /// An array.
    Array {
        /// ClassID of the element.
        element: Option<usize>,
        /// Dimensions.
        rank: u32,
        /// CorElementType of the element.
        element_kind: u32,
    },
    /// The runtime gives no description.
    Unknown,
}

/// A module, as the runtime describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFacts {
    /// Path of the file, or the runtime's substitute for it.
    pub path: String,
    /// MVID of a module without a file, in file byte order. Zeros if it cannot be read. `None` for a module with a file.
    pub mvid: Option<[u8; 16]>,
}

/// One compiled body of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeBody {
    /// First address of its hot code.
    pub start: u64,
    /// First address after it.
    pub end: u64,
}

/// E_NOTIMPL.
const NOT_THERE: u32 = 0x8000_4001;

/// The runtime's answers. The worker thread calls these methods, and looks code up inside a batch of the unload barrier.
pub trait Runtime {
    /// FunctionID of the managed code at an address; `None` if there is none.
    ///
    /// # Errors
    /// The HRESULT, if the runtime failed to answer.
    fn function_at(&self, address: u64) -> Result<Option<usize>, u32>;

    /// Describes a function.
    ///
    /// # Errors
    /// The HRESULT.
    fn describe_function(&self, function: usize) -> Result<FunctionFacts, u32>;

    /// Names of a function's type and of the function, read through the runtime's metadata. `None` if they cannot be read, or if the module
    /// is `on_disk`: then the recorder reads them.
    fn names_of(&self, function: usize, on_disk: bool, token: u32) -> Option<(String, String)>;

    /// Describes a class.
    ///
    /// # Errors
    /// The HRESULT.
    fn describe_type(&self, class: usize) -> Result<TypeFacts, u32>;

    /// A module's path, and its MVID if it has no file.
    ///
    /// # Errors
    /// The HRESULT.
    fn describe_module(&self, module: usize) -> Result<ModuleFacts, u32>;

    /// The compiled bodies of a function.
    fn bodies(&self, function: usize) -> Vec<CodeBody>;

    /// The IL offset of a native offset in a body.
    fn il_offset(&self, function: usize, body: CodeBody, native_offset: u32) -> Option<u32>;

    /// Copies bytes of a body, starting at `from`: as many as fit, belong to the body and can be read. Must not fault, whatever is mapped
    /// there now.
    fn code<'a>(&self, body: CodeBody, from: u64, into: &'a mut [u8]) -> &'a [u8];

    /// The loaded modules.
    ///
    /// # Errors
    /// The HRESULT.
    fn modules(&self) -> Result<Vec<usize>, u32> {
        Err(NOT_THERE)
    }

    /// AppDomainID of a module.
    fn app_domain_of(&self, _module: usize) -> Option<usize> {
        None
    }

    /// Forces a full GC. When it finishes, the platform forks the snapshot ([`crate::Snapshot`]), unless monitoring this GC would be too
    /// expensive ([`crate::GcMonitor`]). Returns when the application resumes.
    ///
    /// # Errors
    /// The HRESULT.
    fn collect(&self) -> Result<(), u32> {
        Err(NOT_THERE)
    }

    /// Turns the reports of all GC details on or off. Prepares the state that callbacks need for them.
    ///
    /// # Errors
    /// The HRESULT.
    fn track_heap(&self, _keeps: bool) -> Result<(), u32> {
        Err(NOT_THERE)
    }

    /// Suspends the runtime and forks the process, without a GC. Returns when the application resumes.
    ///
    /// # Errors
    /// The HRESULT.
    fn suspend_and_fork(&self) -> Result<(), u32> {
        Err(NOT_THERE)
    }

    /// Turns the callbacks of exceptions on or off.
    ///
    /// # Errors
    /// The HRESULT.
    fn watch_exceptions(&self, _watches: bool) -> Result<(), u32> {
        Err(NOT_THERE)
    }

    /// Causes a callback, and returns whether it arrived. A notification-only profiler without callbacks must not request its detach: the
    /// runtime would crash (contract DET-18).
    fn callbacks_arrive(&self) -> bool;

    /// The worker has described the methods whose locals hold objects. Unload callbacks of dynamic methods may be disabled now.
    fn methods_described(&self) {}

    /// Disables all callbacks, and drops every pointer into the runtime.
    fn clear_event_mask(&self);
}
