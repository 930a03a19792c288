//! Files as the target sees them, read from here: through its root, so that containers and chroots look like themselves.

use remora_symbols::{ElfImage, ManagedImage, MapEntry, NativeName, find_mapping, mapped_name, parse_maps};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// Longest file that is read for its names, bytes.
const LARGEST_FILE: u64 = 1 << 30;

/// The target's files, each read once.
pub struct Files {
    process: PathBuf,
    managed: HashMap<String, Option<Arc<ManagedImage>>>,
    native: HashMap<String, Option<ElfImage>>,
    maps: Vec<MapEntry>,
}

impl Files {
    /// Those of the process with this id.
    pub fn of(process_id: u32) -> Files {
        Files {
            process: PathBuf::from(format!("/proc/{process_id}")),
            managed: HashMap::new(),
            native: HashMap::new(),
            maps: Vec::new(),
        }
    }

    /// The managed module at `path`, with its portable PDB where there is one.
    pub fn managed(&mut self, path: &str) -> Option<Arc<ManagedImage>> {
        if let Some(known) = self.managed.get(path) {
            return known.clone();
        }
        let file = self.read_managed(path);
        self.managed.insert(path.to_owned(), file.clone());
        file
    }

    /// The ELF file behind a mapping; debug files beside it are taken where they belong to it.
    fn native(&mut self, entry: &MapEntry) -> Option<&ElfImage> {
        if !self.native.contains_key(&entry.path) {
            let image = self.read_native(entry);
            self.native.insert(entry.path.clone(), image);
        }
        self.native.get(&entry.path)?.as_ref()
    }

    /// What is at a native address, by the mappings as they were read last; they are read again for an address that is in none.
    pub fn name(&mut self, address: u64) -> NativeName {
        if find_mapping(&self.maps, address).is_none() {
            self.refresh_maps();
        }
        // The look-up borrows the mappings while it opens files.
        let maps = std::mem::take(&mut self.maps);
        let name = mapped_name(address, &maps, |entry| self.native(entry));
        self.maps = maps;
        name
    }

    /// Whether an address is certainly native code: in an ELF file, or in the kernel's own page. Managed code lies in memory
    /// without a file, or in a file of another kind.
    pub fn is_certainly_native(&mut self, address: u64) -> bool {
        let Some(entry) = find_mapping(&self.maps, address).cloned() else { return false };
        matches!(entry.path.as_str(), "[vdso]" | "[vsyscall]") || self.native(&entry).is_some()
    }

    /// Reads the mappings again; keeps the old ones if the target is gone.
    pub fn refresh_maps(&mut self) {
        if let Ok(text) = fs::read(self.process.join("maps")) {
            let maps = parse_maps(&String::from_utf8_lossy(&text));
            if !maps.is_empty() {
                self.maps = maps;
            }
        }
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let inside = self.process.join("root").join(path.trim_start_matches('/'));
        // A target that has ended has no root any more; its file may be the same as ours of that name.
        let file = fs::metadata(&inside).ok().map(|facts| (inside, facts))?;
        (file.1.is_file() && file.1.len() <= LARGEST_FILE).then(|| fs::read(file.0).ok())?
    }

    fn read_managed(&self, path: &str) -> Option<Arc<ManagedImage>> {
        let mut image = ManagedImage::parse(self.read(path)?).ok()?;
        if !image.use_embedded_pdb().unwrap_or(false) {
            // A PDB of another build is refused; without one there are names but no lines.
            let paths = image.pdb_paths(path);
            let _ = paths.iter().any(|path| self.read(path).is_some_and(|bytes| image.use_pdb(bytes).is_ok()));
        }
        Some(Arc::new(image))
    }

    fn read_native(&self, entry: &MapEntry) -> Option<ElfImage> {
        if entry.path == "[vdso]" {
            return None;
        }
        let bytes = if entry.deleted { self.read_deleted(entry) } else { self.read(&entry.path) };
        let mut image = ElfImage::parse(bytes?).ok()?;
        for path in image.debug_file_paths(&entry.path) {
            let added = self.read(&path).map(|bytes| image.add_debug_file(bytes));
            if matches!(added, Some(Ok(true))) {
                break;
            }
        }
        Some(image)
    }

    /// A file that was unlinked is still there behind the mapping, for those who may look.
    fn read_deleted(&self, entry: &MapEntry) -> Option<Vec<u8>> {
        fs::read(self.process.join("map_files").join(format!("{:x}-{:x}", entry.start, entry.end))).ok()
    }
}
