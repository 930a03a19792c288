//! Opens a snapshot file without blocking: opening a pipe waits for a writer, and devices behave in their own ways.
//! Neither can be read more than once, which reports need.

use crate::Error;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, FileType};
use std::io::{self, BufReader};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Size of the read buffer.
const BUFFER: usize = 1 << 20;

/// Reads a snapshot's file with `read`.
pub(crate) fn read_file<T>(
    file: &Path,
    read: impl FnOnce(BufReader<File>) -> Result<T, remora_heap_file::Error>,
) -> Result<T, Error> {
    let input = BufReader::with_capacity(BUFFER, open_file(file)?);
    read(input).map_err(|error| Error::Snapshot { file: file.to_owned(), error })
}

/// Opens a regular file.
pub fn open_file(file: &Path) -> Result<File, Error> {
    let input = |error| Error::Open { file: file.to_owned(), error };
    let check = |kind: FileType| match () {
        () if kind.is_dir() => Err(input(io::ErrorKind::IsADirectory.into())),
        () if !kind.is_file() => Err(Error::NotAFile { file: file.to_owned(), kind: called(kind) }),
        () => Ok(()),
    };
    check(fs::metadata(file).map_err(input)?.file_type())?;
    // What was a file may be a pipe by now.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = File::from(rustix::fs::open(file, flags, Mode::empty()).map_err(|errno| input(errno.into()))?);
    check(opened.metadata().map_err(input)?.file_type())?;
    Ok(opened)
}

fn called(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
