//! Opening a file that is to be a snapshot, without ever waiting for it: a pipe is waited for until somebody writes into it, and a device
//! has its own ways. A snapshot is read more than once besides, which neither allows.

use crate::Error;
use std::fs::{self, File, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens it, if it is a file.
pub fn open_file(file: &Path) -> Result<File, Error> {
    let input = |error| Error::Open { file: file.to_owned(), error };
    let kind = fs::metadata(file).map_err(input)?.file_type();
    if kind.is_dir() {
        return Err(input(io::ErrorKind::IsADirectory.into()));
    }
    if !kind.is_file() {
        return Err(Error::NotAFile { file: file.to_owned(), kind: called(kind) });
    }
    File::open(file).map_err(input)
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
