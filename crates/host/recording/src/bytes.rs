//! Numbers and texts as bytes: variable-length integers, seven bits a byte, lowest first; texts after their length.
//!
//! The reader never allocates by a number from the input.

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the difference from `before` to `value`, small in either direction.
pub(crate) fn put_step(out: &mut Vec<u8>, before: u64, value: u64) {
    let step = value.wrapping_sub(before) as i64;
    put(out, (step.wrapping_shl(1) ^ (step >> 63)) as u64);
}

/// Appends `text`.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads the encoded values.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// The bytes are invalid.
pub(crate) type Malformed = &'static str;

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or("a number is cut off")?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    /// The next number, which must fit 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits")
    }

    /// The next number, given as the step from `before`.
    pub(crate) fn step(&mut self, before: u64) -> Result<u64, Malformed> {
        let folded = self.number()?;
        Ok(before.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg()))
    }

    /// The next number, a count of items that follow, each at least one byte.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.number()?;
        if count > self.rest.len() as u64 {
            return Err("a table is longer than its chunk");
        }
        Ok(count as usize)
    }

    /// The next text.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.count()?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| "a text is not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_steps_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), 1 << 62, u64::MAX] {
            for before in [0, 5, u64::MAX] {
                let mut out = Vec::new();
                put(&mut out, value);
                put_step(&mut out, before, value);
                let mut reader = Reader::new(&out);
                assert_eq!(reader.number(), Ok(value));
                assert_eq!(reader.step(before), Ok(value));
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        assert!(Reader::new(&[]).number().is_err());
        assert!(Reader::new(&[0x80]).number().is_err());
        assert!(Reader::new(&[0xff; 10]).number().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x7f]).small().is_err());
        assert!(Reader::new(&[5, 1, 2]).count().is_err());
        assert!(Reader::new(&[2, 0xc3, 0x28]).text().is_err());
    }
}
