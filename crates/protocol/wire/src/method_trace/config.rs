//! The client data of the attach that begins a trace of single methods.

use crate::bytes::{Malformed, Reader, Writer};

/// The first bytes of the client data.
const MAGIC: &[u8; 8] = b"RMRTRACE";

/// The client data of the attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceConfig {
    /// Proves to both ends that they belong to the same attach.
    pub nonce: [u8; 16],
    /// The socket to connect to, as the target sees it.
    pub socket_path: String,
}

impl TraceConfig {
    /// The encoded client data.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(MAGIC).u32(crate::VERSION).bytes(&self.nonce).text(&self.socket_path);
        writer.bytes
    }

    /// Reads what [`TraceConfig::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] if it is something else, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<TraceConfig, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC || reader.u32()? != crate::VERSION {
            return Err(Malformed);
        }
        Ok(TraceConfig { nonce: reader.array()?, socket_path: reader.text()? })
    }
}
