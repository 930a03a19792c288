//! How large a graph may be. What is beyond is refused by the [`crate::Builder`], never cut silently.

/// The most of each thing that a graph may have; less can be asked for where the input is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Objects. The last numbers of 32 bits stand for what is no object.
    pub objects: u32,
    /// References, over all objects.
    pub references: u32,
    /// Types.
    pub types: u32,
    /// Roots.
    pub roots: u32,
    /// What all objects take together.
    pub bytes: u64,
}

impl Limits {
    /// As much as the arrays can count, and as an address space has room for.
    pub const MOST: Limits =
        Limits { objects: u32::MAX - 3, references: u32::MAX, types: u32::MAX - 1, roots: u32::MAX, bytes: ADDRESSES };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::MOST
    }
}

/// Above the highest address that a process can have, which fits into 48 bits on x64 and Arm64 unless it asks the kernel for more; the
/// runtime does not ask.
/// Source: Documentation/arch/x86/x86_64/5level-paging.rst and Documentation/arch/arm64/memory.rst of Linux.
pub(crate) const ADDRESSES: u64 = 1 << 48;

/// Threads that share the parts of the work that can be shared. More would wait for the memory.
pub(crate) const WORKERS: usize = 8;
