//! The page by which a second library finds the first one in the same process.

/// The first word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RMRTRC\0\x01");
/// Word index of the address of the function that takes a request: its client data and their length.
pub const TAKE: usize = 1;
/// Word index of the process id of the agent: a forked copy has another one.
pub const PROCESS: usize = 2;
