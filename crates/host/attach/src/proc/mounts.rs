//! `/proc/PID/mountinfo`: where a process may write and execute.

use remora_symbols::{TargetPath, TargetText};

/// A mount in the process's view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its mount point, relative to the process's root.
    pub point: TargetPath,
    /// File system type.
    pub kind: TargetText,
    /// Whether it is mounted noexec.
    pub no_execute: bool,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// Reads `mountinfo`; omits lines of an unknown form.
pub fn parse_mounts(bytes: &[u8]) -> Vec<Mount> {
    bytes.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// Space, tab, newline and backslash are escaped.
fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = words.iter().position(|word| *word == b"-")?;
    let has = |word: &[u8], option: &[u8]| word.split(|byte| *byte == b',').any(|one| one == option);
    let (options, of_file_system) = (words.get(5)?, words.get(dash + 3)?);
    Some(Mount {
        point: TargetPath::unescaped(words.get(4)?, octal),
        kind: TargetText::from_bytes(words.get(dash + 1)?),
        no_execute: has(options, b"noexec"),
        read_only: has(options, b"ro") || has(of_file_system, b"ro"),
    })
}
