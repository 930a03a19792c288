//! Bounded little-endian reads: each returns `None` at the end of the bytes, none panics.

/// Reads forward through a slice.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of all `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// A reader that starts `offset` bytes into `bytes`.
    pub fn at(bytes: &'a [u8], offset: usize) -> Option<Self> {
        bytes.get(offset..).map(Reader::new)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(length)?;
        self.rest = tail;
        Some(head)
    }

    /// The next byte, which stays.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A 16-bit number.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned integer of one, two or four bytes (ECMA-335 II.23.2).
    pub fn compressed(&mut self) -> Option<u32> {
        self.compressed_with_width().map(|(value, _)| value)
    }

    /// A signed integer: the sign is the lowest bit, and the width determines the offset of a negative one.
    pub fn compressed_signed(&mut self) -> Option<i32> {
        let (value, bits) = self.compressed_with_width()?;
        let magnitude = (value >> 1) as i32;
        Some(if value & 1 == 0 { magnitude } else { magnitude - (1 << (bits - 1)) })
    }

    /// The bytes of a blob: its length, then as many bytes.
    pub fn blob(&mut self) -> Option<&'a [u8]> {
        let length = self.compressed()? as usize;
        self.take(length)
    }

    /// Seven bits a byte, lowest first; bits beyond 32 are damage.
    pub fn leb128_u32(&mut self) -> Option<u32> {
        self.leb128()?.try_into().ok()
    }

    /// Seven bits a byte, lowest first; bits beyond 64 are damage.
    pub fn leb128(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// UTF-16 up to a zero; unpaired surrogates become U+FFFD.
    pub fn utf16(&mut self) -> Option<String> {
        let units: Vec<u16> = self
            .rest()
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .take_while(|&unit| unit != 0)
            .collect();
        self.take(units.len() * 2 + 2)?;
        Some(String::from_utf16_lossy(&units))
    }

    fn compressed_with_width(&mut self) -> Option<(u32, u32)> {
        let first = u32::from(self.byte()?);
        if first & 0x80 == 0 {
            return Some((first, 7));
        }
        if first & 0xc0 == 0x80 {
            return Some(((first & 0x3f) << 8 | u32::from(self.byte()?), 14));
        }
        if first & 0xe0 == 0xc0 {
            let rest = self.take(3)?;
            return Some((
                (first & 0x1f) << 24 | u32::from(rest[0]) << 16 | u32::from(rest[1]) << 8 | u32::from(rest[2]),
                29,
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_integers_have_the_values_of_the_standard() {
        for (bytes, value) in [
            (&[0x03u8][..], 3),
            (&[0x7f], 0x7f),
            (&[0x80, 0x80], 0x80),
            (&[0xae, 0x57], 0x2e57),
            (&[0xbf, 0xff], 0x3fff),
            (&[0xc0, 0x00, 0x40, 0x00], 0x4000),
            (&[0xdf, 0xff, 0xff, 0xff], 0x1fff_ffff),
        ] {
            assert_eq!(Reader::new(bytes).compressed(), Some(value), "{bytes:x?}");
        }
        for (bytes, value) in [
            (&[0x06u8][..], 3),
            (&[0x7b], -3),
            (&[0x80, 0x80], 64),
            (&[0x01], -64),
            (&[0xc0, 0x00, 0x40, 0x00], 8192),
            (&[0x80, 0x01], -8192),
            (&[0xdf, 0xff, 0xff, 0xfe], 268_435_455),
            (&[0xc0, 0x00, 0x00, 0x01], -268_435_456),
        ] {
            assert_eq!(Reader::new(bytes).compressed_signed(), Some(value), "{bytes:x?}");
        }
    }

    #[test]
    fn reading_past_the_end_is_none() {
        for bytes in [&[][..], &[0x80], &[0xc0, 0, 0], &[0xff]] {
            assert_eq!(Reader::new(bytes).compressed(), None, "{bytes:x?}");
        }
        assert_eq!(Reader::new(&[5, 1]).blob(), None);
        assert!(Reader::at(&[1], 2).is_none());
    }

    #[test]
    fn compressed_numbers_end_where_they_should() {
        assert_eq!(Reader::new(&[0xac, 0x02]).leb128_u32(), Some(300));
        assert_eq!(Reader::new(&[0xff; 9]).leb128(), None);
        let mut largest = vec![0xff; 9];
        largest.push(0x01);
        assert_eq!(Reader::new(&largest).leb128(), Some(u64::MAX));
        assert_eq!(Reader::new(&largest).leb128_u32(), None);
        largest[9] = 0x02;
        assert_eq!(Reader::new(&largest).leb128(), None);
    }

    #[test]
    fn a_text_needs_its_zero() {
        assert_eq!(Reader::new(b"a\0b\0\0\0c\0").utf16().as_deref(), Some("ab"));
        assert_eq!(Reader::new(b"a\0b\0").utf16(), None);
        assert_eq!(Reader::new(b"a\0b\0\0").utf16(), None);
    }
}
