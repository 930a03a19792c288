//! Parses `/proc/PID/maps`. Pure text; malformed lines are left out, since a newer kernel may add some.

use crate::target_path::TargetPath;

/// One mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapEntry {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Its permissions.
    pub permissions: Permissions,
    /// Offset of the mapping in the file.
    pub offset: u64,
    /// The device of the file, major and minor number.
    pub device: (u32, u32),
    /// The inode of the file; 0 for anonymous memory.
    pub inode: u64,
    /// The path as the process sees it, `[vdso]` and the like, or empty for anonymous memory.
    pub path: TargetPath,
    /// The file was unlinked after it was mapped: a file at `path` now is another one. The mapped file is readable through
    /// `/proc/PID/map_files`.
    pub deleted: bool,
}

/// The permissions of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
    /// Shared with other processes, not private.
    pub shared: bool,
}

impl MapEntry {
    /// Whether the mapping holds `address`.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether the mapping is of a file whose code can have names: not anonymous memory, heap, stack or a memory file.
    pub fn is_module(&self) -> bool {
        let pseudo = ["/memfd:", "/dev/", "/SYSV", "anon_inode:", "/anon_hugepage"];
        self.path == "[vdso]" || (self.path.is_absolute() && !pseudo.iter().any(|prefix| self.path.starts_with(prefix)))
    }

    /// The file's name without its folders.
    pub fn file_name(&self) -> &str {
        self.path.file_name()
    }
}

/// The entries of a `/proc/PID/maps`, in its order (by address).
pub fn parse_maps(bytes: &[u8]) -> Vec<MapEntry> {
    bytes.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// The entry that contains `address`; the entries must be sorted by address, as the kernel lists them.
pub fn find_mapping(maps: &[MapEntry], address: u64) -> Option<&MapEntry> {
    let after = maps.partition_point(|entry| entry.start <= address);
    maps[..after].last().filter(|entry| entry.contains(address))
}

fn parse_line(line: &[u8]) -> Option<MapEntry> {
    let (range, rest) = word(line)?;
    let (start, end) = range.split_once('-')?;
    let (permissions, rest) = word(rest)?;
    let (offset, rest) = word(rest)?;
    let (device, rest) = word(rest)?;
    let (major, minor) = device.split_once(':')?;
    let (inode, rest) = word(rest)?;
    let path = rest.trim_ascii_start();
    let (path, deleted) = match path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let has = |index, letter| permissions.as_bytes().get(index) == Some(&letter);
    Some(MapEntry {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        permissions: Permissions {
            read: has(0, b'r'),
            write: has(1, b'w'),
            execute: has(2, b'x'),
            shared: has(3, b's'),
        },
        offset: hexadecimal(offset)?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        // The kernel escapes a line break as octal, and no other character.
        path: TargetPath::unescaped(path, |digits| (digits == b"012").then_some(b'\n')),
        deleted,
    })
    .filter(|entry| entry.start <= entry.end)
}

/// Splits off the first word.
fn word(line: &[u8]) -> Option<(&str, &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    std::str::from_utf8(word).ok().filter(|word| !word.is_empty()).map(|word| (word, rest))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c8a00000-55d0c8a02000 r--p 00000000 08:01 1234                       /usr/bin/my app
55d0c8a02000-55d0c8a05000 r-xp 00002000 08:01 1234                       /usr/bin/my app
7f0000000000-7f0000001000 rwxs 00000000 00:01 2048                       /memfd:doublemapper (deleted)
7f0000001000-7f0000002000 rw-p 00000000 00:00 0
7f0000003000-7f0000004000 r-xp 00001000 fd:0a 77                         /tmp/a\\012b.so (deleted)
garbage
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn every_kind_of_line_is_read() {
        let maps = parse_maps(MAPS.as_bytes());
        let seen: Vec<_> =
            maps.iter().map(|entry| (entry.path.to_str().expect("text"), entry.deleted, entry.is_module())).collect();
        assert_eq!(
            seen,
            [
                ("/usr/bin/my app", false, true),
                ("/usr/bin/my app", false, true),
                ("/memfd:doublemapper", true, false),
                ("", false, false),
                ("/tmp/a\nb.so", true, true),
                ("[vdso]", false, true),
                ("[vsyscall]", false, false),
            ]
        );
        assert_eq!(
            (maps[1].start, maps[1].end, maps[1].offset, maps[1].inode),
            (0x55d0c8a02000, 0x55d0c8a05000, 0x2000, 1234)
        );
        assert_eq!(maps[1].permissions, Permissions { read: true, execute: true, ..Permissions::default() });
        assert!(maps[2].permissions.shared && maps[2].permissions.write);
        assert_eq!(maps[4].device, (0xfd, 0x0a));
        assert_eq!(maps[0].file_name(), "my app");
    }

    #[test]
    fn an_address_is_found_in_its_mapping_only() {
        let maps = parse_maps(MAPS.as_bytes());
        for (address, path) in [
            (0x55d0c8a00000, Some("/usr/bin/my app")),
            (0x55d0c8a04fff, Some("/usr/bin/my app")),
            (0x55d0c8a05000, None),
            (0x7f0000002000, None),
            (0x7f0000001800, Some("")),
            (0, None),
            (u64::MAX, None),
        ] {
            assert_eq!(
                find_mapping(&maps, address).map(|entry| entry.path.to_str().expect("text")),
                path,
                "{address:x}"
            );
        }
    }

    #[test]
    fn hostile_lines_are_left_out() {
        for line in [
            "",
            "-",
            "1-2",
            "1-2 r",
            "2-1 r-xp 0 0:0 0 x",
            "1-zz r-xp 0 0:0 0 x",
            "1-2 r-xp 0 00 0 x",
            "1-2 r-xp 0 0:0 x",
        ] {
            assert_eq!(parse_maps(line.as_bytes()), [], "{line}");
        }
    }
}
