//! The files of an archive. Archives are sorted, belong to root and have one time, so that the same files give the same bytes.

use flate2::{Compression, GzBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use tar::{EntryType, Header};

/// One file.
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    /// The permissions: 0755 for a program, else 0644.
    pub(crate) mode: u32,
}

/// Files by path, which has no `/` at its beginning.
#[derive(Default)]
pub(crate) struct Tree(BTreeMap<String, File>);

impl Tree {
    /// Adds a file that is read.
    pub(crate) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), File { bytes: bytes.into(), mode: 0o644 });
    }

    /// Adds a file that is run.
    pub(crate) fn add_program(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), File { bytes: bytes.into(), mode: 0o755 });
    }

    /// The files with their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.0.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// A compressed tarball of the files and their folders.
    pub(crate) fn tarball(&self, seconds: u64) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut folders = BTreeSet::new();
        for (path, file) in &self.0 {
            for (end, _) in path.match_indices('/') {
                let folder = &path[..=end];
                if folders.insert(folder) {
                    let mut header = header(EntryType::Directory, 0o755, seconds)?;
                    archive.append_data(&mut header, folder, io::empty())?;
                }
            }
            let mut header = header(EntryType::Regular, file.mode, seconds)?;
            header.set_size(file.bytes.len() as u64);
            archive.append_data(&mut header, path, file.bytes.as_slice())?;
        }
        compressed(&archive.into_inner()?)
    }
}

/// `bytes` as a gzip file, without a time.
pub(crate) fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = GzBuilder::new().write(Vec::new(), Compression::best());
    compressor.write_all(bytes)?;
    compressor.finish()
}

/// The head of an entry without content, which belongs to root.
fn header(kind: EntryType, mode: u32, seconds: u64) -> io::Result<Header> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(seconds);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    header.set_size(0);
    Ok(header)
}
