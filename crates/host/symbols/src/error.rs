//! Errors in files with symbols, each with its likely cause and fix.

/// Why a file has no usable names.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SymbolError {
    /// The bytes are no PE file: a native library, or a file replaced since the target loaded it.
    #[error("not a PE file; the module may be native: use the names read in the target")]
    NotPortableExecutable,
    /// A PE file without managed code.
    #[error("the PE file holds no managed code; its functions have no metadata names")]
    NotManaged,
    /// A structure of the file contradicts itself: truncated download, obfuscated, or still being written.
    #[error("damaged {what}; the file may be truncated or obfuscated: rebuild or reinstall it")]
    Damaged {
        /// The structure that could not be read.
        what: &'static str,
    },
    /// The bytes are no portable PDB: most often a Windows PDB (`DebugType=full`).
    #[error("not a portable PDB; Windows PDBs are not read: build with <DebugType>portable</DebugType> or embedded")]
    NotPortablePdb,
    /// A portable PDB of another build of the same module.
    #[error("the PDB belongs to another build of the module; put the PDB of this very build beside the dll")]
    PdbMismatch,
    /// The embedded PDB claims to unpack to more than [`crate::EMBEDDED_PDB_LIMIT`] bytes.
    #[error("the embedded PDB is larger than the limit; give the PDB as a file")]
    PdbTooLarge,
    /// The bytes are no readable ELF file.
    #[error("not a readable ELF file ({reason}); its addresses are shown as module+offset")]
    NotElf {
        /// The ELF reader's message.
        reason: String,
    },
}
