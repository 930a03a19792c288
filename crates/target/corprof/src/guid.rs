//! The 16-byte identifiers of classes and interfaces, with their layout in memory.

use core::fmt;

/// A GUID in memory order: three little-endian numbers and eight bytes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guid {
    /// The first group of its text form.
    pub data1: u32,
    /// The second group.
    pub data2: u16,
    /// The third group.
    pub data3: u16,
    /// The last two groups.
    pub data4: [u8; 8],
}

impl Guid {
    /// The GUID whose text form, read as one hexadecimal number, is `number`.
    pub const fn from_u128(number: u128) -> Guid {
        Guid {
            data1: (number >> 96) as u32,
            data2: (number >> 80) as u16,
            data3: (number >> 64) as u16,
            data4: (number as u64).to_be_bytes(),
        }
    }

    /// The GUID as one number, the reverse of [`from_u128`](Guid::from_u128).
    pub const fn to_u128(self) -> u128 {
        ((self.data1 as u128) << 96)
            | ((self.data2 as u128) << 80)
            | ((self.data3 as u128) << 64)
            | u64::from_be_bytes(self.data4) as u128
    }

    /// Its bytes in memory order, which files use too.
    pub const fn to_bytes(self) -> [u8; 16] {
        let [a, b, c, d] = self.data1.to_le_bytes();
        let ([e, f], [g, h]) = (self.data2.to_le_bytes(), self.data3.to_le_bytes());
        let [i, j, k, l, m, n, o, p] = self.data4;
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.to_u128();
        write!(
            f,
            "{:08X}-{:04X}-{:04X}-{:04X}-{:012X}",
            self.data1,
            self.data2,
            self.data3,
            (number >> 48) as u16,
            number & 0xFFFF_FFFF_FFFF
        )
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_lies_in_memory_as_the_runtime_reads_it() {
        let guid = Guid::from_u128(0x176FBED1_A55C_4796_98CA_A9DA0EF883E7);
        assert_eq!((guid.data1, guid.data2, guid.data3), (0x176F_BED1, 0xA55C, 0x4796));
        assert_eq!(guid.data4, [0x98, 0xCA, 0xA9, 0xDA, 0x0E, 0xF8, 0x83, 0xE7]);
        assert_eq!(guid.to_string(), "176FBED1-A55C-4796-98CA-A9DA0EF883E7");
        assert_eq!(Guid::from_u128(guid.to_u128()), guid);
    }
}
