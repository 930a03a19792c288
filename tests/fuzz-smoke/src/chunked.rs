//! Recordings and snapshots chunk by chunk. Checksums reject damage, but an attacker computes valid ones.

use remora_chunks::{Format, HEADER, Next, Unpacked};
use remora_heap_file::FORMAT as HEAP;
use remora_recording::{Error, FORMAT as RECORDING, Recording};

/// Bytes before a piece: its kind, and two for its length.
const HEAD: usize = 3;

pub(crate) fn recording_chunks(bytes: &[u8]) -> bool {
    crate::outside::recording(&file(RECORDING, bytes))
}

/// The recording of which these are the pieces.
pub(crate) fn read_recording(bytes: &[u8]) -> Result<Recording, Error> {
    remora_recording::read(&file(RECORDING, bytes)[..])
}

pub(crate) fn heap_chunks(bytes: &[u8]) -> bool {
    crate::heaps::heap_file(&file(HEAP, bytes))
}

pub(crate) fn recordings() -> Vec<Vec<u8>> {
    crate::seeds::recordings().iter().map(|file| pieces(RECORDING, file)).collect()
}

pub(crate) fn pieces_of_recording(file: &[u8]) -> Vec<u8> {
    pieces(RECORDING, file)
}

pub(crate) fn heaps() -> Vec<Vec<u8>> {
    crate::seeds::heap_files().iter().map(|file| pieces(HEAP, file)).collect()
}

/// A file with these pieces as chunks.
fn file(format: Format, mut bytes: &[u8]) -> Vec<u8> {
    let mut file = format.header().to_vec();
    while let Some((&[kind, high, low], rest)) = bytes.split_first_chunk::<HEAD>() {
        let (piece, behind) = rest.split_at(usize::from(u16::from_be_bytes([high, low])).min(rest.len()));
        // An attacker need not respect the limit.
        format.put(&mut file, kind.into(), piece, &mut Unpacked::default());
        bytes = behind;
    }
    file
}

/// The pieces of a file.
fn pieces(format: Format, file: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest, mut unpacked) = (Vec::new(), &file[HEADER..], Unpacked::default());
    while let Ok(Next::Chunk(chunk)) = format.next(&mut rest, &mut unpacked) {
        let [high, low] = u16::try_from(chunk.plain.len()).expect("seeds are small").to_be_bytes();
        bytes.extend([chunk.kind as u8, high, low]);
        bytes.extend(chunk.plain);
    }
    bytes
}
