//! The debug file of a native module: what identifies it, and where it may be.
//!
//! A debug file has the symbols that were stripped from a module. It counts only if it has the module's build id or, for a module without
//! one, the checksum in the module's debug link: the names of another build would be wrong.

use crate::elf_file::{Elf, build_id, section};
use crate::target_path::TargetPath;

/// Where distributions put debug files.
const DEBUG_FOLDER: &str = "/usr/lib/debug";
/// Bytes of a build id in a symbol store; a shorter one is filled up with zeros.
const STORE_ID: usize = 20;

/// Longer names are no file names.
const LONGEST_NAME: usize = 256;

/// What a module says about its debug file.
#[derive(Debug, Clone, Default)]
pub(crate) struct DebugFile {
    pub(crate) build_id: Option<Vec<u8>>,
    /// Name and CRC-32 of the debug file.
    link: Option<(String, u32)>,
}

/// Name and checksum in a debug link: the name ends with a zero, and the checksum follows at the next multiple of four.
fn link(bytes: &[u8]) -> Option<(String, u32)> {
    let end = bytes.iter().take(LONGEST_NAME).position(|byte| *byte == 0)?;
    let checksum = bytes.get((end + 1).next_multiple_of(4)..)?.first_chunk()?;
    Some((String::from_utf8_lossy(&bytes[..end]).into_owned(), u32::from_le_bytes(*checksum)))
}

impl DebugFile {
    /// What this module says.
    pub(crate) fn of(file: &Elf<'_>) -> DebugFile {
        let link = section(file, ".gnu_debuglink").and_then(|(_, bytes, _)| link(bytes));
        // Linkers write no directory.
        let link = link.filter(|(name, _)| is_file_name(name));
        DebugFile { build_id: build_id(file).map(<[u8]>::to_vec), link }
    }

    /// Whether `file` is it. `bytes` are the whole file.
    pub(crate) fn is(&self, file: &Elf<'_>, bytes: &[u8]) -> bool {
        match (&self.build_id, &self.link) {
            (Some(id), _) => build_id(file) == Some(id),
            (None, Some((_, checksum))) => crc32fast::hash(bytes) == *checksum,
            (None, None) => false,
        }
    }

    /// Possible paths in a directory with symbols, best first; `module` is the module's own path.
    pub(crate) fn names(&self, module: &TargetPath) -> Vec<String> {
        let mut names = Vec::new();
        if let Some((first, rest)) = self.hex_id() {
            names.extend([format!(".build-id/{first}/{rest}.debug"), format!("{first}/{rest}.debug")]);
            let missing = STORE_ID.saturating_sub(self.build_id.as_deref().map_or(0, <[u8]>::len));
            names.push(format!("_.debug/elf-buildid-sym-{first}{rest}{}/_.debug", "00".repeat(missing)));
        }
        names.extend(self.file_names(module));
        names
    }

    /// Possible paths in the module's view, best first; `module` is the module's own path.
    pub(crate) fn paths(&self, module: &TargetPath) -> Vec<TargetPath> {
        let folder = module.parent().unwrap_or_default();
        let names = self.file_names(module);
        let in_folder = |folder: TargetPath| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>();
        let mut paths = [in_folder(folder.clone()), in_folder(folder.join(".debug"))].concat();
        if let Some((first, rest)) = self.hex_id() {
            paths.push(format!("{DEBUG_FOLDER}/.build-id/{first}/{rest}.debug").into());
        }
        if let Some((link, _)) = &self.link {
            let below = folder.names().fold(TargetPath::from(DEBUG_FOLDER), |path, name| path.join(name));
            paths.push(below.join(link));
        }
        paths.retain(|candidate| candidate != module);
        paths
    }

    /// Its usual names; none if nothing identifies it.
    fn file_names(&self, module: &TargetPath) -> Vec<String> {
        let mut names: Vec<String> = self.link.iter().map(|(name, _)| name.clone()).collect();
        let own = module.file_name();
        if self.is_identified() && is_file_name(own) {
            for name in [format!("{own}.dbg"), format!("{own}.debug")] {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    fn is_identified(&self) -> bool {
        self.build_id.is_some() || self.link.is_some()
    }

    /// The build id as distributions write it: the first byte, and the others.
    fn hex_id(&self) -> Option<(String, String)> {
        let (first, rest) = self.build_id.as_deref()?.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        Some((format!("{first:02x}"), rest))
    }
}

/// Whether a name is that of a file in a directory: it leads nowhere else.
pub(crate) fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(build_id: Option<Vec<u8>>, link: Option<&str>) -> DebugFile {
        DebugFile { build_id, link: link.map(|name| (name.to_owned(), 7)) }
    }

    #[test]
    fn a_directory_with_symbols_has_them_by_build_id_as_in_a_store_or_by_name() {
        let by_id = named(Some(vec![0xab, 1, 0xcd]), None).names(&"/opt/libx.so".into());
        let zeros = "00".repeat(17);
        let expected = [
            ".build-id/ab/01cd.debug",
            "ab/01cd.debug",
            &format!("_.debug/elf-buildid-sym-ab01cd{zeros}/_.debug"),
            "libx.so.dbg",
            "libx.so.debug",
        ];
        assert_eq!(by_id, expected);
        assert_eq!(named(None, Some("x.sym")).names(&"/opt/libx.so".into()), ["x.sym", "libx.so.dbg", "libx.so.debug"]);
        assert_eq!(named(None, Some("libx.so.dbg")).names(&"libx.so".into()), ["libx.so.dbg", "libx.so.debug"]);
        // Nothing would tell whether a file is the right one.
        assert_eq!(named(None, None).names(&"/opt/libx.so".into()), [""; 0]);
        assert_eq!(named(Some(vec![1]), None).names(&"/".into()), [""; 0]);
    }

    #[test]
    fn a_name_with_a_directory_in_it_is_no_files_name() {
        for name in ["", ".", "..", "a/b", "../a", "/a", "a\0b"] {
            assert!(!is_file_name(name), "{name}");
        }
        assert!(is_file_name("...") && is_file_name("a..b") && is_file_name("libx.so.dbg"));
    }
}
