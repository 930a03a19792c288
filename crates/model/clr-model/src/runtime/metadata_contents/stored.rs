//! Blobs and texts as metadata stores them.

/// A length in one, two or four bytes, then the bytes (ECMA-335, II.24.2.4).
pub(in crate::runtime) fn stored_blob(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u32;
    let mut stored = match length {
        0..0x80 => vec![length as u8],
        0x80..0x4000 => (0x8000 | length as u16).to_be_bytes().to_vec(),
        _ => (0xC000_0000 | length).to_be_bytes().to_vec(),
    };
    stored.extend(bytes);
    stored
}

/// The same of a text of the program: UTF-16, and a last byte that says whether a character is unusual.
pub(in crate::runtime) fn stored_text(text: &str) -> Vec<u8> {
    let is_unusual = !text.chars().all(|one| (' '..='~').contains(&one) && one != '\'' && one != '-');
    let units = text.encode_utf16().flat_map(u16::to_le_bytes);
    stored_blob(&units.chain([u8::from(is_unusual)]).collect::<Vec<_>>())
}

/// The bytes of a stored blob from some offset on; `None` if its length exceeds the rest.
pub(in crate::runtime) fn blob_in(stored: &[u8]) -> Option<&[u8]> {
    let (length, rest) = match *stored {
        [one @ 0..0x80, ref rest @ ..] => (u32::from(one), rest),
        [high @ 0x80..0xC0, low, ref rest @ ..] => (u32::from(high & 0x3F) << 8 | u32::from(low), rest),
        [high, b, c, d, ref rest @ ..] => (u32::from_be_bytes([high & 0x1F, b, c, d]), rest),
        _ => return None,
    };
    rest.get(..length as usize)
}
