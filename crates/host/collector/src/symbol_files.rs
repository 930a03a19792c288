//! Files with symbols of another file: debug files of native modules, PDBs of assemblies.
//!
//! They are in directories that the user named, and at usual places in the target's view. The user's are opened with the rights of this
//! process, the target's by [`Program::open`] alone. A file of another build is not used, and reported; so is one that may not be opened.

use remora_attach::{Program, TargetPath, open_named_file};
use remora_symbols::shortened;
use std::cell::RefCell;
use std::collections::BTreeMap;
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
    without_lines: RefCell<BTreeMap<String, NoSymbols>>,
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

/// Why no file has the symbols that were sought. Of several reasons the last one in this order says most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoSymbols {
    /// No candidate exists.
    Missing,
    /// The module was built without debug information, so that no PDB belongs to it.
    NotBuilt,
    /// Empty, truncated or no such file at all.
    Damaged,
    /// A Windows PDB, not a portable one.
    NotPortable,
    /// Too large, or all files together are.
    TooLarge,
    /// It may not be opened.
    Refused,
    /// It is of another build.
    OtherBuild,
}

/// The reason, and the first file for which it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotFound {
    pub(crate) why: NoSymbols,
    candidate: Option<Candidate>,
}

/// Maximum number of assemblies whose lines are missing. The target chooses how many it loads.
const MOST_WITHOUT_LINES: usize = 4096;

impl SymbolFiles {
    /// With these directories.
    pub(crate) fn in_folders(folders: Vec<PathBuf>) -> SymbolFiles {
        SymbolFiles { folders, ..SymbolFiles::default() }
    }

    /// Tries the candidates until one fits: `names` in each of the user's directories, then `paths`.
    pub(crate) fn find(
        &self,
        names: &[String],
        paths: Vec<TargetPath>,
        mut fit: impl FnMut(&Candidate) -> Result<(), NoSymbols>,
    ) -> Result<(), NotFound> {
        let named = self.folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        let candidates = named.map(Candidate::Named).chain(paths.into_iter().map(Candidate::InTarget));
        let mut found = NotFound { why: NoSymbols::Missing, candidate: None };
        for candidate in candidates {
            match fit(&candidate) {
                Ok(()) => return Ok(()),
                Err(why) if why > found.why => found = NotFound { why, candidate: Some(candidate) },
                Err(_) => {}
            }
        }
        Err(found)
    }

    /// Adds a native module whose debug file was not found, for the notes.
    pub(crate) fn lacks_names(&self, not_found: &NotFound) {
        match (&not_found.candidate, not_found.why) {
            (Some(other), NoSymbols::OtherBuild) => self.of_other_builds.add(other),
            (Some(refused), NoSymbols::Refused) => self.refused.add(refused),
            _ => {}
        }
    }

    /// Adds an assembly whose PDB was not found.
    pub(crate) fn lacks_lines(&self, assembly: &str, why: NoSymbols) {
        let mut without_lines = self.without_lines.borrow_mut();
        if without_lines.len() < MOST_WITHOUT_LINES {
            without_lines.insert(shortened(assembly.to_owned()), why);
        }
    }

    /// The assemblies without a PDB, by the names of their files.
    pub(crate) fn without_lines(&self) -> Vec<(String, NoSymbols)> {
        self.without_lines.borrow().iter().map(|(assembly, why)| (assembly.clone(), *why)).collect()
    }

    /// Notes about files of another build and those that may not be opened, as far as no other file was found in their place.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let others = self
            .of_other_builds
            .note("is of another build, and was not used", "are of another build, and were not used");
        const REFUSED: &str = "may not be opened: names are missing";
        let refused = self.refused.note(REFUSED, REFUSED);
        others.into_iter().chain(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_file_that_may_not_be_opened_was_missing_without_a_word() {
        use NoSymbols::{Missing, OtherBuild, Refused};
        let files = SymbolFiles::default();
        let find = |fits: &[Result<(), NoSymbols>]| {
            let mut fits = fits.iter().copied();
            let paths = (0..fits.len()).map(|number| format!("/lib/{number}.debug").as_str().into()).collect();
            let found = files.find(&[], paths, |_| fits.next().expect("no more than there are"));
            found.inspect_err(|not_found| files.lacks_names(not_found)).is_ok()
        };
        let notes = || files.notes().collect::<Vec<_>>();
        assert!(find(&[Err(Refused), Ok(())]) && !find(&[Err(Missing)]) && notes().is_empty());
        assert!(!find(&[Err(Missing), Err(Refused), Err(Refused)]));
        assert_eq!(notes(), ["the debug file /lib/1.debug may not be opened: names are missing"]);
        assert!(!find(&[Err(Refused), Err(OtherBuild)]) && !find(&[Err(Refused)]));
        assert_eq!(
            notes(),
            [
                "the debug file /lib/1.debug is of another build, and was not used",
                "the debug file /lib/1.debug and 1 more may not be opened: names are missing"
            ]
        );
    }
}
