//! Rows in chunks: lists in JSON, of which none is longer than a chunk may be.

use serde::Serialize;

/// Rows in a chunk.
pub(crate) const ROWS_CHUNK: usize = 512;
/// The longest text in a row, bytes; in JSON a byte may become six.
pub(crate) const NAME: usize = 16 << 10;
/// The longest row, bytes of JSON. Who makes rows keeps to it.
pub(crate) const ROW: usize = 4 << 20;
/// Bytes of a chunk behind which another one begins. With another row it still is no longer than [`remora_chunks::CHUNK`].
const CHUNK: usize = 8 << 20;

/// Hands over the chunks of these rows.
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

/// A row as it stands in a chunk.
pub(crate) fn json(row: &impl Serialize) -> Vec<u8> {
    // Plain data: it cannot fail.
    serde_json::to_vec(row).unwrap_or_default()
}
