//! `/proc/PID/net/unix`: finds listening sockets without connecting.

use remora_symbols::TargetPath;

/// Flag of a socket that accepts connections (`__SO_ACCEPTCON`).
const ACCEPTS: u32 = 0x1_0000;

/// A Unix socket that accepts connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningSocket {
    /// The bound path, in the view of the process that bound it.
    pub path: TargetPath,
    /// Inode of the socket, as in `/proc/PID/fd`.
    pub inode: u64,
}

/// Reads `net/unix`; omits sockets without a path or in the abstract name space.
pub fn parse_listening(bytes: &[u8]) -> Vec<ListeningSocket> {
    bytes.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<ListeningSocket> {
    let mut rest = line;
    let mut words: [&[u8]; 7] = [&[]; 7];
    for slot in &mut words {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        (*slot, rest) = rest.split_at(end);
    }
    let path = rest.strip_prefix(b" ").filter(|path| path.starts_with(b"/"))?;
    let flags = u32::from_str_radix(std::str::from_utf8(words[3]).ok()?, 16).ok()?;
    let inode = std::str::from_utf8(words[6]).ok()?.parse().ok()?;
    (flags & ACCEPTS != 0).then(|| ListeningSocket { path: TargetPath::from_bytes(path), inode })
}
