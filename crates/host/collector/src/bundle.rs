//! The executable of a single-file application, opened for the assemblies in it.

use memchr::memmem;
use remora_attach::{Program, TargetPath};
use remora_symbols::{BUNDLE_MARK, BUNDLED_FILE_LIMIT, Bundle, list_of_bundle};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// Bytes read at once in the search for the mark.
const PIECE: usize = 1 << 20;
/// The search for the mark ends here: the launcher comes first in the file, and has some ten megabytes.
const LARGEST_LAUNCHER: u64 = 1 << 26;
/// The longest list of files: some hundred bytes for each.
const LONGEST_LIST: u64 = 1 << 24;
/// The offset of the list is in front of the mark.
const PLACE: usize = 8;

/// An open executable, readable even after the process has ended.
pub(crate) struct Executable {
    file: File,
    bundle: Bundle,
    folder: TargetPath,
}

impl Executable {
    /// The file of this program, if it is a single-file application.
    pub(crate) fn of(program: &Program) -> Option<Executable> {
        let (path, file) = program.open_executable().ok()?;
        let bundle = bundle_in(&file).ok()??;
        Some(Executable { file, bundle, folder: path.parent()? })
    }

    /// The path that a file of this name would have outside the executable, as the process sees it.
    pub(crate) fn beside(&self, name: &str) -> TargetPath {
        self.folder.join(name)
    }

    /// Cost of reading the file with this path, in bytes: its packed or its unpacked size, whichever is larger.
    pub(crate) fn bytes_to_read(&self, name: &str) -> Option<u64> {
        self.bundle.file(name).map(|file| file.stored.max(file.size))
    }

    /// The file with this path in the application's folder.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let file = self.bundle.file(name)?;
        let mut stored = vec![0; usize::try_from(file.stored).ok().filter(|_| file.stored <= BUNDLED_FILE_LIMIT)?];
        self.file.read_exact_at(&mut stored, file.offset).ok()?;
        file.unpack(stored).ok()
    }
}

/// Parses the list of files after the mark; `None` without a mark or a list.
fn bundle_in(file: &File) -> io::Result<Option<Bundle>> {
    let Some(before) = before_mark(file)? else { return Ok(None) };
    let Some(offset) = list_of_bundle(before) else { return Ok(None) };
    let mut list = Vec::new();
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    file.take(LONGEST_LIST).read_to_end(&mut list)?;
    Ok(Bundle::parse(&list).ok())
}

/// The bytes before the mark. Pieces overlap, so that one of them contains it whole.
fn before_mark(file: &File) -> io::Result<Option<[u8; PLACE]>> {
    let finder = memmem::Finder::new(&BUNDLE_MARK);
    let overlap = PLACE + BUNDLE_MARK.len();
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < LARGEST_LAUNCHER {
        let length = file.read_at(&mut piece, offset)?;
        let found = finder.find(&piece[..length]).and_then(|at| piece.get(at.checked_sub(PLACE)?..at)?.try_into().ok());
        if found.is_some() || length <= overlap {
            return Ok(found);
        }
        offset += (length - overlap) as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// An executable with the mark at this place, and one file in it.
    fn executable(mark_at: usize) -> File {
        let content = b"an assembly";
        let list_at = (mark_at + 100) as u64;
        let mut bytes = vec![0; mark_at - PLACE];
        bytes.extend(list_at.to_le_bytes());
        bytes.extend(BUNDLE_MARK);
        let content_at = bytes.len() as u64;
        bytes.extend(content);
        bytes.resize(list_at as usize, 0);
        bytes.extend([1_u32, 0, 1].map(u32::to_le_bytes).concat());
        bytes.extend(b"\x02id");
        bytes.extend([content_at, content.len() as u64].map(u64::to_le_bytes).concat());
        bytes.extend(b"\x01\x05a.dll");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("room");
        file
    }

    #[test]
    fn the_list_is_found_wherever_the_mark_lies() {
        for mark_at in [PLACE, 5000, PIECE - 33, PIECE - 1, PIECE, PIECE + 7, 3 * PIECE + 11] {
            let file = executable(mark_at);
            let bundle = bundle_in(&file).expect("it can be read").expect("a list");
            let executable = Executable { file, bundle, folder: "/app".into() };
            assert_eq!(executable.read("a.dll").as_deref(), Some(&b"an assembly"[..]), "mark at {mark_at}");
            for other in ["b.dll", "/app/a.dll", ""] {
                assert_eq!(executable.read(other), None, "{other}");
            }
            assert_eq!(executable.beside("a.dll"), "/app/a.dll");
        }
    }

    #[test]
    fn a_program_that_is_no_such_application_has_none() {
        let ourselves = Program::of(&remora_attach::proc::Proc::default(), std::process::id()).expect("it lives");
        assert!(Executable::of(&ourselves).is_none());
    }
}
