//! Libraries as files: whether a certain process can open and map one, and what its runtime answers where it cannot (contract ATT-06).

use super::{Process, ROOT};
use crate::differences::RuntimeVersion;
use crate::library::Library;
use crate::mutation;
use corprof::HResult;
use std::fmt;
use std::sync::Arc;

/// What a program or a library is made for, and, of a process, where it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Build {
    /// 0 is that of the machine.
    pub architecture: u8,
    /// 0 is glibc, or Windows' own; 1 is musl.
    pub libc: u8,
    /// The mount namespace; 0 is the machine's.
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
    /// One that everybody can load.
    pub fn of(library: &Arc<Library>) -> File {
        File { library: library.clone(), made_for: Build::default(), only_for: None, is_on_noexec: false }
    }

    /// One that only a user may read.
    #[must_use]
    pub fn only_for(self, user: u32) -> File {
        File { only_for: Some(user), ..self }
    }

    /// One made for another architecture or libc, or in another mount namespace.
    #[must_use]
    pub fn made_for(self, made_for: Build) -> File {
        File { made_for, ..self }
    }

    /// One on a file system that is mounted noexec.
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
    /// There is no such file.
    Missing,
    /// It is in another mount namespace.
    Elsewhere,
    /// The process's user may not read it.
    Forbidden,
    /// It is on a file system mounted noexec.
    Noexec,
    /// It is made for another architecture.
    Architecture,
    /// It is made for another C library.
    Libc,
}

impl LoadError {
    /// What the runtime answers. Linux has one code for all of them, since dlopen says why only in words (measured.md).
    pub(super) fn code(self, runtime_version: RuntimeVersion) -> HResult {
        let differences = runtime_version.differences();
        match self {
            LoadError::Architecture if mutation::is("ATT-06/2") => HResult::ERROR_MOD_NOT_FOUND,
            LoadError::Missing | LoadError::Elsewhere | LoadError::Noexec | LoadError::Libc => {
                HResult::ERROR_MOD_NOT_FOUND
            }
            LoadError::Forbidden => HResult(differences.unreadable_library as i32),
            LoadError::Architecture => HResult(differences.foreign_library as i32),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            LoadError::Missing => "The target cannot load the library, since there is no such file. Check its path.",
            LoadError::Elsewhere => {
                "The target cannot load the library, since its mount namespace does not have the file. Put it where the target sees it."
            }
            LoadError::Forbidden => {
                "The target cannot load the library, since its user may not read the file. Give that user permission, or put the \
                 library where it has it."
            }
            LoadError::Noexec => {
                "The target cannot load the library, since its file system is mounted noexec. Put it on another one."
            }
            LoadError::Architecture => {
                "The target cannot load the library, since it is made for another architecture. Use the one for the target's."
            }
            LoadError::Libc => {
                "The target cannot load the library, since it is made for another C library. Use the one for the target's."
            }
        })
    }
}
