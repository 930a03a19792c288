//! The name of a slot, for its server and its callers.

/// One slot of ICorProfilerInfo, of ICorProfilerCallback, or of another interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its place in the vtable: 3 is the first after IUnknown.
    pub index: usize,
    /// Its name in the vtable.
    pub name: &'static str,
    /// The version of the interface that added it, from 1 on; 0 for IUnknown.
    pub version: u8,
}

impl Slot {
    /// Slot 0 of every interface.
    pub const QUERY_INTERFACE: Slot = Slot { index: 0, name: "QueryInterface", version: 0 };
    /// Slot 1 of every interface.
    pub const ADD_REF: Slot = Slot { index: 1, name: "AddRef", version: 0 };
    /// Slot 2 of every interface.
    pub const RELEASE: Slot = Slot { index: 2, name: "Release", version: 0 };
}
