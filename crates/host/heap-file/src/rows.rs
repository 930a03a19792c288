//! Rows in chunks: JSON lists, each within the chunk size limit.

use serde::Serialize;

/// Rows in a chunk.
pub(crate) const ROWS_CHUNK: usize = 512;
/// The longest text in a row, bytes; in JSON one byte may become six.
pub(crate) const NAME: usize = 16 << 10;
/// The longest row, bytes of JSON. Callers respect it.
pub(crate) const ROW: usize = 4 << 20;
/// Size after which the next row starts a new chunk. With one more row a chunk still fits into [`remora_chunks::CHUNK`].
const CHUNK: usize = 8 << 20;

/// Passes the chunks of these rows to `put`.
///
/// # Errors
/// Those of `put`.
pub(crate) fn chunked<R: Serialize, E>(
    rows: impl Iterator<Item = R>,
    mut put: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut chunk, mut count) = (Vec::new(), 0);
    for row in rows {
        chunk.push(if count == 0 { b'[' } else { b',' });
        chunk.extend(json(&row));
        count += 1;
        if count == ROWS_CHUNK || chunk.len() >= CHUNK {
            chunk.push(b']');
            put(&chunk)?;
            chunk.clear();
            count = 0;
        }
    }
    if count == 0 {
        return Ok(());
    }
    chunk.push(b']');
    put(&chunk)
}

/// A row as stored in a chunk.
pub(crate) fn json(row: &impl Serialize) -> Vec<u8> {
    // Plain data: serialization cannot fail.
    serde_json::to_vec(row).unwrap_or_default()
}
