//! Libraries as files: whether a process can open and map one, and the runtime's answer otherwise (contract ATT-06).

use super::{Process, ROOT};
use crate::differences::RuntimeVersion;
use crate::library::Library;
use crate::mutation;
use corprof::HResult;
use std::fmt;
use std::sync::Arc;

/// The target platform of a program or library, and a process's mount namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Build {
    /// 0 is the machine's own.
    pub architecture: u8,
    /// 0 is glibc, or Windows' own; 1 is musl.
    pub libc: u8,
    /// The mount namespace; 0 is the machine's own.
    pub namespace: u8,
}

/// A library's file.
pub struct File {
    library: Arc<Library>,
    made_for: Build,
    only_for: Option<u32>,
    is_on_noexec: bool,
}

impl File {
    /// A file that every process can load.
    pub fn of(library: &Arc<Library>) -> File {
        File { library: library.clone(), made_for: Build::default(), only_for: None, is_on_noexec: false }
    }

    /// The same, readable by one user only.
    #[must_use]
    pub fn only_for(self, user: u32) -> File {
        File { only_for: Some(user), ..self }
    }

    /// The same for another architecture, libc or mount namespace.
    #[must_use]
    pub fn made_for(self, made_for: Build) -> File {
        File { made_for, ..self }
    }

    /// The same on a file system mounted noexec.
    #[must_use]
    pub fn on_noexec(self) -> File {
        File { is_on_noexec: true, ..self }
    }

    pub(super) fn open(&self, process: &Process) -> Result<Arc<Library>, LoadError> {
        let (file, target) = (self.made_for, process.build);
        let may_read_all = process.account.is_administrator || process.account.user == ROOT || mutation::is("ATT-06");
        let faults = [
            (LoadError::Elsewhere, file.namespace != target.namespace),
            (LoadError::Forbidden, self.only_for.is_some_and(|user| user != process.account.user) && !may_read_all),
            (LoadError::Noexec, self.is_on_noexec),
            (LoadError::Architecture, file.architecture != target.architecture),
            (LoadError::Libc, file.libc != target.libc),
        ];
        let fault = faults.into_iter().find(|(_, is_there)| *is_there);
        fault.map_or_else(|| Ok(self.library.clone()), |(fault, _)| Err(fault))
    }
}

/// Why a process cannot load a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadError {
    /// The file does not exist.
    Missing,
    /// It is in another mount namespace.
    Elsewhere,
    /// The process's user may not read it.
    Forbidden,
    /// It is on a file system mounted noexec.
    Noexec,
    /// It is built for another architecture.
    Architecture,
    /// It is built for another C library.
    Libc,
    /// It is no library.
    NotALibrary,
}

impl LoadError {
    /// The runtime's answer. Linux has one code for all: dlopen gives the reason only as text (measured.md).
    pub(super) fn code(self, runtime_version: RuntimeVersion) -> HResult {
        let differences = runtime_version.differences();
        match self {
            LoadError::Architecture if mutation::is("ATT-06/2") => HResult::ERROR_MOD_NOT_FOUND,
            LoadError::Missing | LoadError::Elsewhere | LoadError::Noexec | LoadError::Libc => {
                HResult::ERROR_MOD_NOT_FOUND
            }
            LoadError::Forbidden => HResult(differences.unreadable_library as i32),
            LoadError::Architecture | LoadError::NotALibrary => HResult(differences.foreign_library as i32),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            LoadError::Missing => "there is no such file. Check its path.",
            LoadError::Elsewhere => "its mount namespace does not have the file. Put it where the target sees it.",
            LoadError::Forbidden => {
                "its user may not read the file. Give that user permission, or put the library where it has it."
            }
            LoadError::Noexec => "its file system is mounted noexec. Put it on another one.",
            LoadError::Architecture => "it is made for another architecture. Use the one for the target's.",
            LoadError::NotALibrary => "it is no library. Check its path.",
            LoadError::Libc => "it is made for another C library. Use the one for the target's.",
        };
        write!(out, "The target cannot load the library, since {reason}")
    }
}
