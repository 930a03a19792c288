//! Event streams of the runtime.

use crate::Manner;
use std::io::{Result, Write};
use std::os::unix::net::UnixStream;

/// Bytes of a block of events.
const BLOCK: u32 = 1 << 16;

/// Ids of event types in this stream.
const SAMPLE: u32 = 1;
const LISTED: u32 = 2;

/// Code of the only method.
const START: u64 = 0x1000;
const SIZE: u32 = 0x10;

/// Sends events: forever, or a short stream that looks valid.
pub(crate) fn send(manner: Manner, mut stream: UnixStream) -> Result<()> {
    match manner {
        Manner::Unreadable => loop {
            stream.write_all(&[0xA5; 1 << 16])?;
        },
        Manner::Named => stream.write_all(&named()),
        _ => endless(stream),
    }
}

/// Blocks of a kind that readers skip.
fn endless(mut stream: UnixStream) -> Result<()> {
    let mut all = Stream::new();
    stream.write_all(&all.bytes)?;
    loop {
        let before = all.bytes.len();
        all.block("Mine", &[0; BLOCK as usize]);
        stream.write_all(&all.bytes[before..])?;
        // Only the position within four bytes matters.
        all.bytes.truncate(all.bytes.len() % 4);
    }
}

/// A sample of a method whose type has a long argument, to which the signature refers again and again: 2.6 GB if nobody cuts it.
fn named() -> Vec<u8> {
    let mut stream = Stream::new();
    let mut trace = vec![0; 16];
    [0_u64, 1_000_000_000].iter().for_each(|number| trace.extend(number.to_le_bytes()));
    [8_u32, 77, 2, 1_000_000].iter().for_each(|number| trace.extend(number.to_le_bytes()));
    stream.object("Trace", &trace);
    let kinds = [
        (SAMPLE, "Microsoft-DotNETCore-SampleProfiler", 0_u32),
        (LISTED, "Microsoft-Windows-DotNETRuntimeRundown", 144),
    ];
    for (id, provider, number) in kinds {
        let payload = [&id.to_le_bytes()[..], &utf16(provider), &number.to_le_bytes(), &[0; 22]].concat();
        stream.blob("MetadataBlock", &[0x80], &payload);
    }
    let mut method = Vec::new();
    [1, 1, START].iter().for_each(|number: &u64| method.extend(number.to_le_bytes()));
    [SIZE, 0, 0].iter().for_each(|number| method.extend(number.to_le_bytes()));
    let (declaring, signature) = (format!("A`1[{}]", "B".repeat(2 << 20)), format!("void  ({})", "!0,".repeat(1300)));
    for text in [&declaring, "F", &signature] {
        method.extend(utf16(text));
    }
    stream.block("StackBlock", &[&[1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0][..], &START.to_le_bytes()].concat());
    // Flags: type, length; the sample also has a stack. The time follows the other fields.
    stream.blob("EventBlock", &[0x81, LISTED as u8, 1], &method);
    stream.blob("EventBlock", &[0x89, SAMPLE as u8, 1, 1], &2_u32.to_le_bytes());
    stream.bytes.push(1);
    stream.bytes
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Builds a stream.
struct Stream {
    bytes: Vec<u8>,
}

impl Stream {
    fn new() -> Stream {
        Stream { bytes: b"Nettrace\x14\0\0\0!FastSerialization.1".to_vec() }
    }

    fn head(&mut self, name: &str) {
        self.bytes.extend([5, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend((name.len() as u32).to_le_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(6);
    }

    fn object(&mut self, name: &str, content: &[u8]) {
        self.head(name);
        self.bytes.extend(content);
        self.bytes.push(6);
    }

    /// Its content is aligned to four bytes.
    fn block(&mut self, name: &str, content: &[u8]) {
        self.head(name);
        self.bytes.extend((content.len() as u32).to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(content);
        self.bytes.push(6);
    }

    /// A block with one event: the fields of its header up to its time, which is missing for a type, then its payload.
    fn blob(&mut self, name: &str, fields: &[u8], payload: &[u8]) {
        // The header of a block, whose events are compressed.
        let mut content = vec![4, 0, 1, 0];
        content.extend(fields);
        content.extend(if fields.len() == 1 { &[0][..] } else { &[] });
        let mut length = payload.len();
        while length >= 0x80 {
            content.push(length as u8 | 0x80);
            length >>= 7;
        }
        content.push(length as u8);
        content.extend(payload);
        self.block(name, &content);
    }
}
