//! Files with symbols of another file: debug files of native modules, PDBs of assemblies.
//!
//! They are in directories that the user named, and at usual places in the target's view. The user's are opened with the rights of this
//! process, the target's by [`Program::open`] alone. A file of another build is not used, and reported.

use remora_attach::{Program, TargetPath, open_named_file};
use remora_symbols::shortened;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

/// The user's directories with symbols, and the files that were of another build.
#[derive(Debug, Default)]
pub(crate) struct SymbolFiles {
    folders: Vec<PathBuf>,
    /// The first path, and the number of all.
    of_other_builds: RefCell<Option<(String, u64)>>,
}

/// Where a file with symbols may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// In a directory that the user named.
    Named(PathBuf),
    /// In the target's view.
    InTarget(TargetPath),
}

impl Candidate {
    /// Opens it, if it is a regular file.
    pub(crate) fn open(&self, program: Option<&Program>) -> Option<File> {
        match self {
            Candidate::Named(path) => open_named_file(path).ok(),
            Candidate::InTarget(path) => program?.open(path).ok(),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Candidate::Named(path) => path.display().fmt(formatter),
            Candidate::InTarget(path) => path.fmt(formatter),
        }
    }
}

/// Whether a file has the symbols that were sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It has.
    Fits,
    /// They are those of another build.
    OtherBuild,
    /// It is missing, too large, or no such file.
    Unusable,
}

impl SymbolFiles {
    /// With these directories.
    pub(crate) fn in_folders(folders: Vec<PathBuf>) -> SymbolFiles {
        SymbolFiles { folders, ..SymbolFiles::default() }
    }

    /// Tries the candidates until one fits: `names` in each of the user's directories, then `paths`. Returns whether one does.
    pub(crate) fn find(
        &self,
        names: &[String],
        paths: Vec<TargetPath>,
        mut fit: impl FnMut(&Candidate) -> Fit,
    ) -> bool {
        let named = self.folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        let candidates = named.map(Candidate::Named).chain(paths.into_iter().map(Candidate::InTarget));
        let mut first_other = None;
        for candidate in candidates {
            match fit(&candidate) {
                Fit::Fits => return true,
                Fit::OtherBuild => {
                    first_other.get_or_insert(candidate);
                }
                Fit::Unusable => {}
            }
        }
        if let Some(other) = first_other {
            let mut others = self.of_other_builds.borrow_mut();
            others.get_or_insert_with(|| (shortened(other.to_string()), 0)).1 += 1;
        }
        false
    }

    /// A note about files of another build, as far as no other file was found in their place.
    pub(crate) fn note(&self) -> Option<String> {
        match self.of_other_builds.borrow().as_ref()? {
            (only, 1) => Some(format!("the debug file {only} is of another build, and was not used")),
            (first, all) => {
                Some(format!("the debug file {first} and {} more are of another build, and were not used", all - 1))
            }
        }
    }
}
