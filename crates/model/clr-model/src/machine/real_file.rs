//! A library from the file system of this machine, and why it cannot be loaded.

use super::LoadError;
use crate::faults::Faults;
use crate::lab::library_file::LibraryFile;
use crate::library::Library;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;

/// Bytes of an ELF header up to its machine.
const HEADER: usize = 20;
/// ELFCLASS64.
const CLASS_64: u8 = 2;

/// Opens a library at once. On a failure, the kind and the reason as text.
pub(super) fn open(path: &str, faults: &Arc<Faults>) -> Result<Arc<Library>, (LoadError, String)> {
    look(path)?;
    let file = LibraryFile::open(path).map_err(|words| (kind(&words), words))?;
    Ok(Library::new(file, faults.clone()))
}

/// Looks for what the dynamic linker does not tell: its text has no kinds.
fn look(path: &str) -> Result<(), (LoadError, String)> {
    if !Path::new(path).is_absolute() {
        return Err((LoadError::Missing, "its path is not absolute".to_owned()));
    }
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => (LoadError::Forbidden, error.to_string()),
        _ => (LoadError::Missing, error.to_string()),
    };
    let no_library = |words: &str| (LoadError::NotALibrary, words.to_owned());
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(no_library("it is no regular file"));
    }
    let mut header = Vec::new();
    fs::File::open(path).and_then(|file| file.take(HEADER as u64).read_to_end(&mut header)).map_err(failed)?;
    if !header.starts_with(b"\x7fELF") || header.len() < HEADER {
        return Err(no_library("it is no ELF file"));
    }
    let (class, machine) = (header[4], u16::from_le_bytes([header[18], header[19]]));
    if (class, machine) != (CLASS_64, OWN_MACHINE) {
        let own = std::env::consts::ARCH;
        return Err((LoadError::Architecture, format!("it is made for another architecture than {own}")));
    }
    Ok(())
}

/// The kind behind the linker's text.
fn kind(words: &str) -> LoadError {
    let names_another_libc = ["musl", "GLIBC", "ld-linux", "libc.so"].iter().any(|name| words.contains(name));
    if names_another_libc { LoadError::Libc } else { LoadError::Missing }
}

/// e_machine of this program.
const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_another_libc_is_recognised_by_what_the_linker_misses() {
        let musl = "libc.musl-x86_64.so.1: cannot open shared object file: No such file or directory";
        let newer = "/lib/libc.so.6: version `GLIBC_2.99' not found (required by /opt/profiler.so)";
        let other = "libcurl.so.4: cannot open shared object file: No such file or directory";
        assert_eq!([musl, newer, other].map(kind), [LoadError::Libc, LoadError::Libc, LoadError::Missing]);
    }

    #[test]
    fn what_is_no_library_of_this_machine_is_refused_before_it_is_loaded() {
        let folder = std::env::temp_dir().join(format!("real-file-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("created");
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes).expect("written");
            path.to_str().expect("text").to_owned()
        };
        let mut foreign = b"\x7fELF\x02\x01\x01".to_vec();
        foreign.resize(64, 0);
        foreign[18] = 8;
        let cases = [
            (file("text", b"no library"), LoadError::NotALibrary),
            (file("foreign", &foreign), LoadError::Architecture),
            (folder.to_str().expect("text").to_owned(), LoadError::NotALibrary),
            (folder.join("missing").to_str().expect("text").to_owned(), LoadError::Missing),
            ("relative.so".to_owned(), LoadError::Missing),
        ];
        let faults = Arc::new(Faults::default());
        for (path, expected) in cases {
            assert_eq!(open(&path, &faults).map(drop).map_err(|(kind, _)| kind), Err(expected), "{path}");
        }
        fs::remove_dir_all(folder).expect("removed");
    }
}
