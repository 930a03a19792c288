//! Frames: one entry of a stack, with its source.

/// Index of a text in a [`crate::Profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringIx(pub u32);

/// Index of a [`Frame`] in a [`crate::Profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameIx(pub u32);

/// The kind of a frame's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// A method of the application or its libraries, JIT-compiled or precompiled.
    Managed,
    /// Code of an ELF file: the runtime itself, libc, native libraries.
    Native,
    /// An address in no known mapping, shown as `[unknown]`.
    Unknown,
    /// Not code: a mark by Remora, shown in brackets, such as `[truncated]` or `[lost]`.
    Synthetic,
}

/// One entry of a stack. Frames with equal fields are the same frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The kind of code.
    pub kind: FrameKind,
    /// The displayed name: `Namespace.Type<T>.Method(int)`, `memcpy`, `libcoreclr.so+0x1234`, `[unknown]`.
    pub name: StringIx,
    /// File name of the assembly or ELF file, without directories: `MyApp.dll`, `libc.so.6`.
    pub module: Option<StringIx>,
    /// Source file, as in the debug information.
    pub file: Option<StringIx>,
    /// Line in that file, 1-based.
    pub line: Option<u32>,
}

impl Frame {
    /// A frame in no known mapping.
    pub fn unknown(name: StringIx) -> Self {
        Frame { kind: FrameKind::Unknown, name, module: None, file: None, line: None }
    }
}
