//! Messages of the diagnostics port, from the runtime's end.
//!
//! Sources: dotnet/diagnostics, documentation/design-docs/ipc-protocol.md; dotnet/runtime, src/native/eventpipe/ds-protocol.c.

use std::io::{Error, ErrorKind, Read, Write};

/// A message begins with these bytes.
const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
/// Magic, size, command set, command, two bytes that are reserved.
const HEADER: usize = 20;
/// The command set of answers, with one command for success and one for failure.
const ANSWER: u8 = 0xFF;
const SUCCESS: u8 = 0x00;
const FAILURE: u8 = 0xFF;

/// A command and what belongs to it.
#[derive(Debug)]
pub struct Message {
    /// Set and command.
    pub command: (u8, u8),
    /// The rest, which [`Message::take`] and its like read from the front.
    payload: Vec<u8>,
    read: usize,
}

impl Message {
    /// The next one.
    ///
    /// # Errors
    /// The other end is gone, or speaks something else.
    pub fn receive(stream: &mut impl Read) -> std::io::Result<Message> {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header)?;
        let size = usize::from(u16::from_le_bytes([header[14], header[15]]));
        if !header.starts_with(MAGIC) || size < HEADER {
            return Err(broken("a message without a header"));
        }
        let mut payload = vec![0; size - HEADER];
        stream.read_exact(&mut payload)?;
        Ok(Message { command: (header[16], header[17]), payload, read: 0 })
    }

    /// The next bytes of what belongs to it.
    pub fn take(&mut self, length: usize) -> std::io::Result<&[u8]> {
        let end = self.read.checked_add(length).filter(|end| *end <= self.payload.len());
        let end = end.ok_or_else(|| broken("a message that ends too early"))?;
        let taken = &self.payload[self.read..end];
        self.read = end;
        Ok(taken)
    }

    /// A number of 32 bits.
    pub fn number(&mut self) -> std::io::Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A text: the number of its units, the zero at its end among them, and those.
    pub fn text(&mut self) -> std::io::Result<String> {
        let units = self.number()? as usize;
        let bytes = self.take(units.checked_mul(2).ok_or_else(|| broken("a text without an end"))?)?;
        let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
        Ok(String::from_utf16_lossy(&units).trim_end_matches('\0').to_owned())
    }

    /// Bytes, with their number before them.
    pub fn bytes(&mut self) -> std::io::Result<Vec<u8>> {
        let length = self.number()? as usize;
        Ok(self.take(length)?.to_vec())
    }
}

/// A text as it stands in a message.
pub fn text(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let length = (units.len() as u32).to_le_bytes();
    length.into_iter().chain(units.into_iter().flat_map(u16::to_le_bytes)).collect()
}

/// Answers that it is done, with what was asked for; or the code of the failure.
pub fn answer(stream: &mut impl Write, result: Result<Vec<u8>, u32>) -> std::io::Result<()> {
    let (id, payload) = match result {
        Ok(payload) => (SUCCESS, payload),
        Err(code) => (FAILURE, code.to_le_bytes().to_vec()),
    };
    let mut message = MAGIC.to_vec();
    message.extend(((HEADER + payload.len()) as u16).to_le_bytes());
    message.extend([ANSWER, id, 0, 0]);
    message.extend(payload);
    stream.write_all(&message)
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_read() {
        let mut said = Vec::new();
        let payload = [text("/tmp/lib.so"), 2_u32.to_le_bytes().to_vec(), vec![7, 8]].concat();
        answer(&mut said, Ok(payload)).unwrap();
        let mut message = Message::receive(&mut said.as_slice()).unwrap();
        assert_eq!(message.command, (ANSWER, SUCCESS));
        assert_eq!(message.text().unwrap(), "/tmp/lib.so");
        assert_eq!(message.bytes().unwrap(), [7, 8]);
        assert!(message.take(1).is_err());
    }

    #[test]
    fn a_failure_carries_its_code() {
        let mut said = Vec::new();
        answer(&mut said, Err(0x8013_1375)).unwrap();
        assert_eq!(said.len(), HEADER + 4);
        let mut message = Message::receive(&mut said.as_slice()).unwrap();
        assert_eq!((message.command, message.number().unwrap()), ((ANSWER, FAILURE), 0x8013_1375));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(Message::receive(&mut &[0_u8; 40][..]).is_err());
        let mut lying = MAGIC.to_vec();
        lying.extend([0xFF, 0xFF, 3, 1, 0, 0]);
        assert!(Message::receive(&mut lying.as_slice()).is_err());
    }
}
