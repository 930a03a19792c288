//! Many small numbers as text: LEB128 in base64. Half as long as JSON where numbers are distances, and read as fast.

/// Numbers, packed.
#[derive(Debug, Default)]
pub(super) struct Packed(Vec<u8>);

impl Packed {
    /// Appends `value`: seven bits a byte, the lowest first; all but the last byte have the top bit.
    pub fn number(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// All of them as text.
    pub fn base64(&self) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(self.0.len().div_ceil(3) * 4);
        for group in self.0.chunks(3) {
            let all = group.iter().chain([&0, &0]).take(3).fold(0, |all, byte| (all << 8) | usize::from(*byte));
            let digits = [18, 12, 6, 0].map(|shift| char::from(DIGITS[(all >> shift) & 63]));
            text.extend(digits.iter().take(group.len() + 1));
            text.extend(std::iter::repeat_n('=', 3 - group.len()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_are_as_their_standards_say() {
        let mut packed = Packed::default();
        [0, 127, 128, 624_485].into_iter().for_each(|value| packed.number(value));
        assert_eq!(packed.0, [0, 0x7f, 0x80, 1, 0xe5, 0x8e, 0x26]);
        for (bytes, text) in [("", ""), ("M", "TQ=="), ("Ma", "TWE="), ("Man", "TWFu"), ("light w", "bGlnaHQgdw==")] {
            assert_eq!(Packed(bytes.as_bytes().to_vec()).base64(), text);
        }
    }
}
