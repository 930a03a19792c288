//! Limits of a graph. The [`crate::Builder`] refuses input beyond them and never truncates silently.

/// Maximum numbers of a graph's items; lower ones suit untrusted input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Objects. The last 32-bit numbers are reserved for markers.
    pub objects: u32,
    /// References, over all objects.
    pub references: u32,
    /// Types.
    pub types: u32,
    /// Roots.
    pub roots: u32,
    /// Size of all objects together.
    pub bytes: u64,
}

impl Limits {
    /// The maximum for the arrays and an address space.
    pub const MOST: Limits =
        Limits { objects: u32::MAX - 3, references: u32::MAX, types: u32::MAX - 1, roots: u32::MAX, bytes: ADDRESSES };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::MOST
    }
}

/// Above the highest user address. It fits into 48 bits on x64 and Arm64 unless the process asks the kernel for more; the runtime does not.
/// Source: Documentation/arch/x86/x86_64/5level-paging.rst and Documentation/arch/arm64/memory.rst of Linux.
pub(crate) const ADDRESSES: u64 = 1 << 48;

/// Maximum threads for parallel work. More would wait for memory.
pub(crate) const WORKERS: usize = 8;
