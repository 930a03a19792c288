//! Unpacks deflate data of a declared size.

use flate2::read::DeflateDecoder;
use std::io::Read;

/// The unpacked bytes, if there are exactly `size`.
pub(crate) fn inflated(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let length = DeflateDecoder::new(packed).take(size.checked_add(1)?).read_to_end(&mut unpacked).ok()?;
    (length as u64 == size).then_some(unpacked)
}
