//! The few questions about code that the agent asks the runtime, in plain values.

/// A method, as the runtime describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionFacts {
    /// By its token.
    Token {
        /// ModuleID.
        module: usize,
        /// mdMethodDef.
        token: u32,
        /// ClassID, where the runtime tells it.
        class: Option<usize>,
        /// ClassIDs of its own generic arguments.
        arguments: Vec<usize>,
    },
    /// Made at run time: no metadata.
    Dynamic {
        /// Its name.
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
    /// The runtime does not say.
    Unknown,
}

/// A module, as the runtime describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFacts {
    /// The path of its file, or what stands for one.
    pub path: String,
    /// Where it has no file of its own: its MVID, in the byte order of a file; zeros if that cannot be read.
    pub mvid: Option<[u8; 16]>,
}

/// One compiled body of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeBody {
    /// First address of its (hot) code.
    pub start: u64,
    /// First address beyond.
    pub end: u64,
}

/// E_NOTIMPL.
const NOT_THERE: u32 = 0x8000_4001;

/// See the module's text. All of it is called on the agent's thread, while the gate is passed.
pub trait Runtime {
    /// FunctionID of the managed code at an address; `None` if there is none.
    ///
    /// # Errors
    /// The HRESULT, if the runtime could not say.
    fn function_at(&self, address: u64) -> Result<Option<usize>, u32>;

    /// What a function is.
    ///
    /// # Errors
    /// The HRESULT.
    fn describe_function(&self, function: usize) -> Result<FunctionFacts, u32>;

    /// The names of a function's type and of itself, read through the runtime's metadata; `None` if its module is `on_disk`
    /// (they are then read outside), or if they cannot be had.
    fn names_of(&self, function: usize, on_disk: bool, token: u32) -> Option<(String, String)>;

    /// What a class is.
    ///
    /// # Errors
    /// The HRESULT.
    fn describe_type(&self, class: usize) -> Result<TypeFacts, u32>;

    /// A module's path, and whether there is a file.
    ///
    /// # Errors
    /// The HRESULT.
    fn describe_module(&self, module: usize) -> Result<ModuleFacts, u32>;

    /// The compiled bodies of a function.
    fn bodies(&self, function: usize) -> Vec<CodeBody>;

    /// The IL offset of a native offset in a body.
    fn il_offset(&self, function: usize, body: CodeBody, native_offset: u32) -> Option<u32>;

    /// The bytes of a body from `from` on, as many as fit, belong to it and can be read: it must not fault, whatever is there now.
    fn code<'a>(&self, body: CodeBody, from: u64, into: &'a mut [u8]) -> &'a [u8];

    /// The modules that are loaded.
    ///
    /// # Errors
    /// The HRESULT.
    fn modules(&self) -> Result<Vec<usize>, u32> {
        Err(NOT_THERE)
    }

    /// AppDomainID of what a module is loaded into.
    fn app_domain_of(&self, _module: usize) -> Option<usize> {
        None
    }

    /// Collects the whole heap, and has it copied when it stands ([`crate::Snapshot`]), unless more is to be told of it than would be cheap
    /// ([`crate::GcMonitor`]). Returns when the program goes on.
    ///
    /// # Errors
    /// The HRESULT.
    fn collect(&self) -> Result<(), u32> {
        Err(NOT_THERE)
    }

    /// Asks for everything that collections do, or for no more of it. What callbacks then need is in place.
    ///
    /// # Errors
    /// The HRESULT.
    fn track_heap(&self, _keeps: bool) -> Result<(), u32> {
        Err(NOT_THERE)
    }

    /// Has the heap copied as it is, without a collection. Returns when the program goes on.
    ///
    /// # Errors
    /// The HRESULT.
    fn suspend_and_fork(&self) -> Result<(), u32> {
        Err(NOT_THERE)
    }

    /// Whether the runtime's callbacks still arrive, shown by causing one. A notification-only profiler that is no longer heard
    /// of must not ask for detach: the runtime would crash on it (contract DET-18).
    fn callbacks_arrive(&self) -> bool;

    /// The methods whose locals hold objects have been described: dynamic ones may go unheard.
    fn methods_described(&self) {}

    /// Asks for no more callbacks and gives up every pointer into the runtime.
    fn clear_event_mask(&self);
}
