//! A cursor over untrusted bytes: every read returns `None` at the end.

pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Seven bits a byte, lowest first; bits beyond 32 are damage.
    pub(crate) fn compressed_u32(&mut self) -> Option<u32> {
        self.compressed_u64()?.try_into().ok()
    }

    /// Seven bits a byte, lowest first; bits beyond 64 are damage.
    pub(crate) fn compressed_u64(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
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
    pub(crate) fn utf16(&mut self) -> Option<String> {
        let units: Vec<u16> = self
            .rest
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .take_while(|&unit| unit != 0)
            .collect();
        self.take(units.len() * 2 + 2)?;
        Some(String::from_utf16_lossy(&units))
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn compressed_numbers_end_where_they_should() {
        assert_eq!(Bytes::new(&[0xac, 0x02]).compressed_u32(), Some(300));
        assert_eq!(Bytes::new(&[0xff; 9]).compressed_u64(), None);
        let mut largest = vec![0xff; 9];
        largest.push(0x01);
        assert_eq!(Bytes::new(&largest).compressed_u64(), Some(u64::MAX));
        assert_eq!(Bytes::new(&largest).compressed_u32(), None);
        largest[9] = 0x02;
        assert_eq!(Bytes::new(&largest).compressed_u64(), None);
    }

    #[test]
    fn a_text_needs_its_zero() {
        assert_eq!(Bytes::new(b"a\0b\0\0\0c\0").utf16().as_deref(), Some("ab"));
        assert_eq!(Bytes::new(b"a\0b\0").utf16(), None);
        assert_eq!(Bytes::new(b"a\0b\0\0").utf16(), None);
    }
}
