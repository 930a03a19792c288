//! Files with symbols of another file: debug files of native modules, PDBs of assemblies.
//!
//! They are in directories that the user named, and at usual places in the target's view. The user's are opened with the rights of this
//! process, the target's by [`Program::open`] alone. A file of another build is not used, and reported; so is one that may not be opened.

use remora_attach::{Program, TargetPath, open_named_file};
use remora_symbols::shortened;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// The user's directories with symbols, and the files that were of another build.
#[derive(Debug, Default)]
pub(crate) struct SymbolFiles {
    folders: Vec<PathBuf>,
    of_other_builds: Unused,
    refused: Unused,
}

/// Files that were not used: the first path, and the number of all.
#[derive(Debug, Default)]
struct Unused(RefCell<Option<(String, u64)>>);

impl Unused {
    fn add(&self, candidate: &Candidate) {
        let mut unused = self.0.borrow_mut();
        unused.get_or_insert_with(|| (shortened(candidate.to_string()), 0)).1 += 1;
    }

    /// Their name with a verb, by `one` or `several`.
    fn note(&self, one: &str, several: &str) -> Option<String> {
        Some(match self.0.borrow().as_ref()? {
            (only, 1) => format!("the debug file {only} {one}"),
            (first, all) => format!("the debug file {first} and {} more {several}", all - 1),
        })
    }
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
    pub(crate) fn open(&self, program: Option<&Program>) -> io::Result<File> {
        match self {
            Candidate::Named(path) => open_named_file(path),
            Candidate::InTarget(path) => program.ok_or(io::ErrorKind::NotFound)?.open(path),
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
    /// It is there, perhaps, and may not be opened.
    Refused,
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
        let (mut first_other, mut first_refused) = (None, None);
        for candidate in candidates {
            match fit(&candidate) {
                Fit::Fits => return true,
                Fit::OtherBuild => {
                    first_other.get_or_insert(candidate);
                }
                Fit::Refused => {
                    first_refused.get_or_insert(candidate);
                }
                Fit::Unusable => {}
            }
        }
        match (first_other, first_refused) {
            (Some(other), _) => self.of_other_builds.add(&other),
            (None, Some(refused)) => self.refused.add(&refused),
            (None, None) => {}
        }
        false
    }

    /// Notes about files of another build and those that may not be opened, as far as no other file was found in their place.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let others = self
            .of_other_builds
            .note("is of another build, and was not used", "are of another build, and were not used");
        const REFUSED: &str = "may not be opened: lines or names are missing";
        let refused = self.refused.note(REFUSED, REFUSED);
        others.into_iter().chain(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pdb_that_may_not_be_opened_was_missing_without_a_word() {
        let files = SymbolFiles::default();
        let find = |fits: &[Fit]| {
            let mut fits = fits.iter().copied();
            let paths = (0..fits.len()).map(|number| format!("/app/{number}.pdb").as_str().into()).collect();
            files.find(&[], paths, |_| fits.next().expect("no more than there are"))
        };
        let notes = || files.notes().collect::<Vec<_>>();
        assert!(find(&[Fit::Refused, Fit::Fits]) && !find(&[Fit::Unusable]) && notes().is_empty());
        assert!(!find(&[Fit::Unusable, Fit::Refused, Fit::Refused]));
        assert_eq!(notes(), ["the debug file /app/1.pdb may not be opened: lines or names are missing"]);
        assert!(!find(&[Fit::Refused, Fit::OtherBuild]) && !find(&[Fit::Refused]));
        assert_eq!(
            notes(),
            [
                "the debug file /app/1.pdb is of another build, and was not used",
                "the debug file /app/1.pdb and 1 more may not be opened: lines or names are missing"
            ]
        );
    }
}
