//! The checked content of a trace. All times are nanoseconds.

use remora_wire::method_trace::{Parameter, TraceValue};

/// The index of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodIx(pub u32);

/// The index of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIx(pub u32);

/// The index of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIx(pub u32);

/// A traced method. All instantiations of a generic one are one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// Namespace, types and name.
    pub name: String,
    /// The file of its module, or a name.
    pub module: String,
    /// Its token there.
    pub token: u32,
    /// Calls without a place in a tree.
    pub lost: u64,
    /// Its parameters, if arguments were wanted; and its result, if that is an enum or a structure.
    pub parameters: Vec<Parameter>,
}

/// A method, called on one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node that calls it; `None` for the outermost of its thread.
    pub parent: Option<NodeIx>,
    /// Its thread.
    pub thread: ThreadIx,
    /// Its method.
    pub method: MethodIx,
    /// Calls.
    pub calls: u64,
    /// Time of its calls and all that they call, without the cost of the hooks.
    pub total: u64,
    /// The same without traced callees.
    pub own: u64,
    /// The longest call, as measured: the hooks of its callees included.
    pub longest: u64,
    /// Calls that ended by an exception.
    pub exceptions: u64,
    /// Whether a call had not ended.
    pub is_active: bool,
}

/// Objects of one type, allocated by one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The node that allocates; `None` outside of traced methods.
    pub by: Option<NodeIx>,
    /// Its thread.
    pub thread: ThreadIx,
    /// Index of the type.
    pub ty: usize,
    /// How many.
    pub objects: u64,
    /// Their bytes, with headers and padding.
    pub bytes: u64,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The system's id in the target's namespace.
    pub id: u32,
    /// Its name, or nothing.
    pub name: String,
}

/// A call that took long.
#[derive(Debug, Clone, PartialEq)]
pub struct LongCall {
    /// Its node.
    pub node: NodeIx,
    /// When it began, since the start of the trace.
    pub start: u64,
    /// How long it took, as measured.
    pub duration: u64,
    /// Whether it ended by an exception.
    pub threw: bool,
    /// Arguments by position, from 0; the result has [`remora_wire::method_trace::RESULT`].
    pub values: Vec<(u8, TraceValue)>,
}

/// What a hooked call costs, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// In its own time.
    pub inside: f64,
    /// In its caller's time.
    pub outside: f64,
}

impl Cost {
    /// Both.
    pub fn whole(self) -> f64 {
        self.inside + self.outside
    }
}

/// What is missing, or only nearly right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Calls that are counted for their method, but have no place in a tree, because the memory was full.
    pub calls: u64,
    /// Those of them whose thread had no record.
    pub on_threads: u64,
    /// Long calls that are not in the list.
    pub long: u64,
    /// Calls whose end was noticed late, so that their time may be too long.
    pub late: u64,
    /// Exits without an entry.
    pub unmatched: u64,
    /// Methods without hooks, because the memory was full or the runtime did not describe them.
    pub methods: u64,
    /// Threads that share the tree of one that had ended.
    pub shared_threads: u64,
    /// Hooks with a number of no method, and parts of the memory that are damaged.
    pub damaged: u64,
    /// Callbacks that panicked.
    pub panics: u64,
    /// Allocated objects that are not in the list, because the memory was full.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
    /// Listed calls without their arguments, since those of enough calls are kept.
    pub values_beyond: u64,
    /// Listed calls without their arguments, because the memory was full.
    pub values: u64,
    /// Calls whose arguments the runtime did not give.
    pub values_refused: u64,
}

/// A trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calls {
    /// The methods that were called, and those that were hooked only.
    pub methods: Vec<Method>,
    /// The nodes of all trees. A node comes after the one that calls it.
    pub nodes: Vec<Node>,
    /// The threads.
    pub threads: Vec<Thread>,
    /// The long calls, in order of their ends.
    pub long: Vec<LongCall>,
    /// Whether listed calls have arguments and results.
    pub has_values: bool,
    /// Whether allocations were counted.
    pub counts_objects: bool,
    /// Names of allocated types.
    pub types: Vec<String>,
    /// What was allocated.
    pub allocations: Vec<Allocation>,
    /// The cost of the hooks, which was taken out of the times.
    pub cost: Cost,
    /// What is missing.
    pub losses: Losses,
    /// From the hooks to the end.
    pub duration: u64,
    /// The shortest time in the list of long calls.
    pub long_from: u64,
    /// Methods that the runtime compiled or looked for.
    pub considered: u64,
    /// Inlinings that were refused so that a method is called.
    pub inlining_refused: u64,
}

impl Calls {
    /// A method.
    pub fn method(&self, node: &Node) -> &Method {
        &self.methods[node.method.0 as usize]
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.nodes.iter().fold(self.losses.calls, |sum, node| sum.saturating_add(node.calls))
    }
}
