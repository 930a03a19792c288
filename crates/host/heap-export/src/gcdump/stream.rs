//! The serialization of the dumps: "FastSerialization", version 1, with 32-bit offsets (`FastSerialization.cs` and `StreamReaderWriter.cs`
//! of github.com/microsoft/perfview).
//!
//! Numbers are little-endian. An object is a tag, its type, its fields and an end tag. The type is itself an object with a version and a
//! name.
//! Fields newer than a type's first version have a tag each, so that older readers can skip them.
//! The file ends with a table of the offsets that forward references need.

use std::io::{self, Write};

const NULL: u8 = 1;
const BEGIN: u8 = 4;
const END: u8 = 6;
const BYTE: u8 = 8;
const SKIPPABLE: u8 = 12;
const TEXT: u8 = 13;

/// The file's first bytes.
const SIGNATURE: &str = "!FastSerialization.1";

/// The file being written.
pub(crate) struct Stream<'a> {
    out: &'a mut dyn Write,
    at: u64,
    /// For each skippable part its end, by number.
    ends: Vec<u32>,
}

impl<'a> Stream<'a> {
    pub(crate) fn begin(out: &'a mut dyn Write) -> io::Result<Stream<'a>> {
        let mut stream = Stream { out, at: 0, ends: Vec::new() };
        stream.text(Some(SIGNATURE))?;
        Ok(stream)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    pub(crate) fn i32(&mut self, number: i32) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }

    pub(crate) fn i64(&mut self, number: i64) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }

    /// The number of UTF-16 units, then each unit in one to three bytes, as UTF-8 encodes characters: unpaired surrogates stay so.
    pub(crate) fn text(&mut self, text: Option<&str>) -> io::Result<()> {
        let Some(text) = text else { return self.i32(-1) };
        let mut bytes = Vec::with_capacity(text.len());
        let mut count = 0;
        for unit in text.encode_utf16() {
            count += 1;
            match unit {
                ..0x80 => bytes.push(unit as u8),
                0x80..0x800 => bytes.extend([0xc0 | (unit >> 6) as u8, 0x80 | unit as u8 & 0x3f]),
                _ => {
                    bytes.extend([0xe0 | (unit >> 12) as u8, 0x80 | (unit >> 6) as u8 & 0x3f, 0x80 | unit as u8 & 0x3f])
                }
            }
        }
        self.i32(count)?;
        self.put(&bytes)
    }

    /// An object of a new type with this version, which readers of version `reader` or later understand.
    pub(crate) fn begin_object(&mut self, name: &str, version: i32, reader: i32) -> io::Result<()> {
        self.put(&[BEGIN, BEGIN, NULL])?;
        self.i32(version)?;
        self.i32(reader)?;
        self.text(Some(name))?;
        self.end_object()
    }

    pub(crate) fn end_object(&mut self) -> io::Result<()> {
        self.put(&[END])
    }

    /// A null object.
    pub(crate) fn null(&mut self) -> io::Result<()> {
        self.put(&[NULL])
    }

    pub(crate) fn tagged_byte(&mut self, byte: u8) -> io::Result<()> {
        self.put(&[BYTE, byte])
    }

    pub(crate) fn tagged_text(&mut self, text: &str) -> io::Result<()> {
        self.put(&[TEXT])?;
        self.text(Some(text))
    }

    /// A null object that older readers skip.
    pub(crate) fn skippable_null(&mut self) -> io::Result<()> {
        self.put(&[SKIPPABLE])?;
        self.i32(self.ends.len() as i32)?;
        self.null()?;
        self.ends.push(self.at as u32);
        Ok(())
    }

    /// The end of all objects, and the table of ends, found from the file's last bytes.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.end_object()?;
        let table = self.at as u32;
        self.i32(self.ends.len() as i32)?;
        for end in std::mem::take(&mut self.ends) {
            self.put(&end.to_le_bytes())?;
        }
        let trailer = self.at as u32;
        self.put(&table.to_le_bytes())?;
        self.put(&trailer.to_le_bytes())
    }
}
