//! The file of `--client-data @FILE`, and other small files that the user names.

use crate::failure::Failure;
use std::fs::File;
use std::io::{Error, Read};
use std::path::Path;

/// Bytes of the largest client data that a trigger sends.
pub(crate) const LARGEST: u64 = 65_536;

/// Opens a regular file. Opening a pipe would wait for its writer, and a device may have no end.
pub(crate) fn regular(file: &Path) -> std::io::Result<File> {
    match std::fs::metadata(file)?.is_file() {
        true => File::open(file),
        false => Err(Error::other("it is no regular file")),
    }
}

/// The content of the file after the `@`.
pub(crate) fn content(file: &str) -> Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    let read = regular(Path::new(file)).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut data));
    read.map_err(|error| Failure::Usage(format!("the file of `--client-data @{file}` cannot be read: {error}")))?;
    require_fit(&data)?;
    Ok(data)
}

/// Whether it can be sent.
pub(crate) fn require_fit(data: &[u8]) -> Result<(), Failure> {
    if data.len() as u64 > LARGEST {
        return Err(Failure::Usage(format!("client data of more than {LARGEST} bytes is not sent; give less")));
    }
    Ok(())
}
