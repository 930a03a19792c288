//! The chunks of a snapshot, one after the other.

use crate::{Error, FORMAT};
use remora_chunks::{Chunk, Fault, HEADER, Next, Unpacked};
use serde::de::DeserializeOwned;
use std::io::Read;

/// Passes each chunk to `visit`. Returns the length of the whole ones, and of what an interrupted write left behind them.
///
/// `objects` is how many objects the state has: an error says how many were readable.
pub(crate) fn each_chunk<S>(
    mut input: impl Read,
    state: &mut S,
    objects: impl Fn(&S) -> u64,
    mut visit: impl FnMut(&mut S, &Chunk) -> Result<(), Error>,
) -> Result<(u64, u64), Error> {
    FORMAT.read_header(&mut input)?;
    let (mut offset, mut unpacked) = (HEADER as u64, Unpacked::default());
    loop {
        let before = objects(state);
        match FORMAT.next(&mut input, &mut unpacked).map_err(|fault| Error::from(fault).at(offset, before))? {
            Next::Chunk(chunk) => {
                visit(state, &chunk).map_err(|error| error.at(offset, before))?;
                offset += chunk.length;
            }
            Next::End => return Ok((offset, 0)),
            Next::Torn(bytes) => return Ok((offset, bytes)),
        }
    }
}

/// The JSON in a chunk; `what` is the error otherwise.
pub(crate) fn decoded<T: DeserializeOwned>(plain: &[u8], what: &'static str) -> Result<T, Fault> {
    serde_json::from_slice(plain).map_err(|_| Fault::Damaged(what))
}
