//! Many small numbers as text: LEB128 in base64. Half as long as JSON where numbers are distances, and read as fast.

use data_encoding::BASE64;

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

    /// Appends the distance from `from` to `to`: twice its amount, less 1 if it is backwards.
    pub fn distance(&mut self, from: u32, to: u32) {
        self.number((u64::from(to.abs_diff(from)) << 1) - u64::from(to < from));
    }

    /// All of them as text.
    pub fn base64(&self) -> String {
        BASE64.encode(&self.0)
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
        assert_eq!(packed.base64(), "AH+AAeWOJg==");
        let mut packed = Packed::default();
        [(7, 7), (7, 10), (10, 7)].into_iter().for_each(|(from, to)| packed.distance(from, to));
        assert_eq!(packed.0, [0, 6, 5]);
    }
}
