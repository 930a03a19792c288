//! Reads files as the target sees them: through its root directory, so that paths in containers and chroots resolve.

use crate::bundle::Executable;
use remora_attach::TargetPath;
use remora_attach::proc::Proc;
use remora_symbols::{
    ElfImage, ManagedImage, MapEntry, NativeName, UnwindRules, find_mapping, mapped_name, parse_maps,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum size of a file with names, bytes. The runtime with all its symbols has less than 200 MB, and so have most
/// single-file applications. The largest common native libraries of .NET applications, with math kernels, have some 450 MB.
const LARGEST_FILE: u64 = 512 << 20;
/// A file is read only if it is no larger than this part of the free memory: the target chooses its length, which costs it nothing if the
/// file is sparse.
const PART_FOR_A_FILE: u64 = 4;

/// Maximum number of bytes of all files, for all readers of a command together. The target chooses these files, and a sparse file costs it
/// nothing.
const MOST_BYTES: u64 = 2 << 30;

/// Maximum CPU time for decoding all of them. An application with some hundred libraries takes less than two seconds.
const MOST_TIME: Duration = Duration::from_secs(30);

/// First pause after the mappings were read in vain, for an address in none of them. Each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause: newly loaded code remains without names for up to this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The vDSO's name among the mappings, and its maximum size.
const VDSO: &str = "[vdso]";
const LARGEST_VDSO: usize = 1 << 20;

/// The magic number of an ELF file.
const ELF_MAGIC: [u8; 4] = *b"\x7fELF";

/// A module's MVID, in the byte order of its file.
pub type Mvid = [u8; 16];

/// The target's files. Each is read once.
#[derive(Default)]
pub struct Files {
    process_id: u32,
    managed: HashMap<(TargetPath, Option<Mvid>), Option<Arc<ManagedImage>>>,
    /// `None` before the first search.
    executable: Option<Option<Executable>>,
    native: HashMap<TargetPath, Option<ElfImage>>,
    maps: Vec<MapEntry>,
    refresh: Refresh,
    budget: Rc<Budget>,
}

/// How much may still be read of a target's files. All readers of a command share one budget.
#[derive(Debug)]
struct Budget {
    /// Remaining bytes.
    left: Cell<u64>,
    /// CPU time for decoding so far.
    decoding: Cell<Duration>,
    /// Number of files not read, because they are too large or the budget is spent.
    unread: Cell<u64>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { left: Cell::new(MOST_BYTES), decoding: Cell::default(), unread: Cell::default() }
    }
}

impl Budget {
    /// Decodes a file at the cost of the budget.
    fn decode<T>(&self, decode: impl FnOnce() -> T) -> T {
        let before = thread_time();
        let decoded = decode();
        self.decoding.set(self.decoding.get() + thread_time().saturating_sub(before));
        decoded
    }

    /// Subtracts a file's length from the budget; `None` if it is too large.
    fn take(&self, length: u64) -> Option<()> {
        // Asked anew for each file: what was read before may still be kept.
        let free = remora_attach::own_room().map_or(u64::MAX, |room| room.bytes);
        let largest = LARGEST_FILE.min(free / PART_FOR_A_FILE);
        let has_time = self.decoding.get() <= MOST_TIME;
        match self.left.get().checked_sub(length).filter(|_| length <= largest && has_time) {
            Some(left) => {
                self.left.set(left);
                Some(())
            }
            None => {
                self.unread.set(self.unread.get().saturating_add(1));
                None
            }
        }
    }
}

impl Files {
    /// The files of this process, for the first reader of a command.
    pub fn of(process_id: u32) -> Files {
        Files { process_id, ..Files::default() }
    }

    /// The same files for another reader. Both readers share the budget.
    pub(crate) fn for_another(&self) -> Files {
        Files { process_id: self.process_id, budget: Rc::clone(&self.budget), ..Files::default() }
    }

    /// The managed module at `path`, with its portable PDB where there is one. A module with an `mvid` has no file of its own, and may be
    /// in a single-file application.
    pub fn managed(&mut self, path: &TargetPath, mvid: Option<Mvid>) -> Option<Arc<ManagedImage>> {
        let key = (path.clone(), mvid);
        if let Some(known) = self.managed.get(&key) {
            return known.clone();
        }
        let image = match mvid {
            None => self.read(path).and_then(|bytes| self.managed_image(path, bytes)),
            Some(mvid) => self.bundled(path, mvid),
        };
        self.managed.insert(key, image.clone());
        image
    }

    /// The bundled module of this name, if it has the `mvid` of the loaded one: others may have been loaded from bytes under the same name.
    fn bundled(&mut self, name: &TargetPath, mvid: Mvid) -> Option<Arc<ManagedImage>> {
        let process_id = self.process_id;
        let executable = self.executable.get_or_insert_with(|| Executable::of(process_id)).as_ref()?;
        let name = name.to_str()?;
        // Each read costs, whatever the process says about the module.
        self.budget.take(executable.bytes_to_read(name)?)?;
        let (beside, bytes) = (executable.beside(name), executable.read(name)?);
        self.managed_image(&beside, bytes).filter(|image| image.mvid().is_some_and(|found| found.0 == mvid))
    }

    /// The ELF file of a mapping. Matching debug files beside it are used, too.
    fn native(&mut self, entry: &MapEntry) -> Option<&ElfImage> {
        if !self.native.contains_key(&entry.path) {
            let image = self.read_native(entry);
            self.native.insert(entry.path.clone(), image);
        }
        self.native.get(&entry.path)?.as_ref()
    }

    /// Starts another pass over the rings: the mappings may be read once more.
    pub fn begin_pass(&mut self, now: Instant) {
        self.refresh.begin_pass(now);
    }

    /// Whether the mappings settle what is at `address`. If none contains it, reads them again, except if this pass already did or recent
    /// attempts were in vain: then the answer remains open.
    pub fn is_settled(&mut self, address: u64) -> bool {
        if find_mapping(&self.maps, address).is_some() {
            return true;
        }
        let may_read = self.refresh.is_due;
        if may_read {
            self.refresh_maps();
            self.refresh.has_read(find_mapping(&self.maps, address).is_some());
        }
        may_read
    }

    /// The name at a native address, by the mappings of the last read.
    pub fn name(&mut self, address: u64) -> NativeName {
        // The lookup borrows the mappings while it opens files.
        let maps = std::mem::take(&mut self.maps);
        let name = mapped_name(address, &maps, |entry| self.native(entry));
        self.maps = maps;
        name
    }

    /// Whether an address is certainly native code: in an ELF file, or in the kernel's own page. Managed code is in memory without a file,
    /// or in a file of another kind.
    pub fn is_certainly_native(&mut self, address: u64) -> bool {
        let Some(entry) = find_mapping(&self.maps, address).cloned() else { return false };
        matches!(entry.path.to_str(), Some("[vdso]" | "[vsyscall]")) || self.native(&entry).is_some()
    }

    /// Reads the mappings again; keeps the old ones if the target has ended.
    pub fn refresh_maps(&mut self) {
        let maps = Proc::default().maps(self.process_id).unwrap_or_default();
        if !maps.is_empty() {
            self.maps = maps;
        }
    }

    /// The mappings of the last read.
    pub fn maps(&self) -> &[MapEntry] {
        &self.maps
    }

    /// The unwind rules of the ELF file behind a mapping; `None` if there is no such file.
    pub fn unwind_rules(&self, entry: &MapEntry) -> Option<UnwindRules> {
        let bytes = self.native_bytes(entry)?;
        self.budget.decode(|| UnwindRules::parse(&bytes))
    }

    /// A note about unread files, of all readers.
    pub(crate) fn note(&self) -> Option<String> {
        let unread = self.budget.unread.get();
        (unread > 0).then(|| {
            format!(
                "{unread} files of the process were not read, since one may have {} MiB, and all {} GiB and {} s of CPU time: names that \
                 stand in them are missing",
                LARGEST_FILE >> 20,
                MOST_BYTES >> 30,
                MOST_TIME.as_secs()
            )
        })
    }

    fn read(&self, path: &TargetPath) -> Option<Vec<u8>> {
        self.rest(self.open(path)?, Vec::new())
    }

    fn open(&self, path: &TargetPath) -> Option<File> {
        Proc::default().open(self.process_id, path).ok()
    }

    /// Reads all of a file that begins like an ELF file. Other mapped files may be large, and are not read.
    fn read_elf(&self, mut file: File) -> Option<Vec<u8>> {
        let mut bytes = vec![0; ELF_MAGIC.len()];
        file.read_exact(&mut bytes).ok().filter(|()| bytes == ELF_MAGIC)?;
        self.rest(file, bytes)
    }

    /// The complete contents of a file whose first bytes were already read; `None` if the file or the total is too large.
    fn rest(&self, file: File, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let length = file.metadata().ok()?.len();
        self.budget.take(length)?;
        // The file may grow meanwhile.
        file.take(length.saturating_sub(bytes.len() as u64)).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn managed_image(&self, path: &TargetPath, bytes: Vec<u8>) -> Option<Arc<ManagedImage>> {
        let decode = |bytes: &[u8]| {
            let mut image = ManagedImage::parse(bytes).ok()?;
            let has_pdb = image.use_embedded_pdb().unwrap_or(false);
            Some((image, has_pdb))
        };
        let (mut image, has_pdb) = self.budget.decode(|| decode(&bytes))?;
        if !has_pdb {
            // A PDB of another build is refused; without a PDB there are names but no lines.
            let paths = image.pdb_paths(path);
            let mut uses = |bytes| self.budget.decode(|| image.use_pdb(bytes).is_ok());
            let _ = paths.iter().any(|path| self.read(path).is_some_and(&mut uses));
        }
        if image.pdb().is_some() {
            self.budget.decode(|| image.find_locks(&bytes));
        }
        Some(Arc::new(image))
    }

    fn read_native(&self, entry: &MapEntry) -> Option<ElfImage> {
        if entry.path == VDSO {
            return None;
        }
        let bytes = self.native_bytes(entry)?;
        let mut image = self.budget.decode(|| ElfImage::parse(bytes)).ok()?;
        for path in image.debug_file_paths(&entry.path) {
            let added = self.read(&path).map(|bytes| self.budget.decode(|| image.add_debug_file(bytes)));
            if matches!(added, Some(Ok(true))) {
                break;
            }
        }
        Some(image)
    }

    fn native_bytes(&self, entry: &MapEntry) -> Option<Vec<u8>> {
        match () {
            // The kernel maps one page of code into every process.
            () if entry.path == VDSO => own_kernel_code(),
            // A memfd is no library and may be large: .NET 7 and later put all compiled code into one of 2 GiB.
            () if entry.deleted && entry.path.starts_with("/memfd:") => None,
            // An unlinked file is still readable through its mapping, given the rights.
            () if entry.deleted => self.read_elf(Proc::default().open_mapped(self.process_id, entry).ok()?),
            () => self.read_elf(self.open(&entry.path)?),
        }
    }
}

/// When to read the mappings again for an address in none of them. A process can have 65,530 mappings, and a target can send any number of
/// addresses.
struct Refresh {
    now: Instant,
    is_due: bool,
    /// No read before this time.
    next: Instant,
    pause: Duration,
}

impl Default for Refresh {
    fn default() -> Refresh {
        let now = Instant::now();
        Refresh { now, is_due: true, next: now, pause: Duration::ZERO }
    }
}

impl Refresh {
    fn begin_pass(&mut self, now: Instant) {
        self.now = now;
        self.is_due = now >= self.next;
    }

    fn has_read(&mut self, has_helped: bool) {
        self.is_due = false;
        self.pause = if has_helped { Duration::ZERO } else { (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE) };
        self.next = self.now + self.pause;
    }
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Reads the vDSO from this process.
fn own_kernel_code() -> Option<Vec<u8>> {
    let maps = parse_maps(&fs::read("/proc/self/maps").ok()?);
    let own = maps.iter().find(|entry| entry.path == VDSO)?;
    let mut bytes = vec![0; usize::try_from(own.end - own.start).ok().filter(|length| *length <= LARGEST_VDSO)?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, own.start).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_are_read_up_to_a_sum_of_bytes_whoever_of_a_command_reads_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, [1; 100]).expect("written");
        let files = Files::of(std::process::id());
        let others = files.for_another();
        files.budget.left.set(250);
        let read = |files: &Files| files.read(&path.clone().into()).map(|bytes| bytes.len());
        assert_eq!((files.note(), others.note()), (None, None));
        assert_eq!([read(&files), read(&others), read(&files), read(&others)], [Some(100), Some(100), None, None]);
        assert_eq!(files.note(), others.note());
        let said = files.note().expect("one was not read");
        assert!(said.starts_with("2 files of the process were not read"), "{said}");
    }

    #[test]
    fn no_file_is_read_once_decoding_others_has_taken_its_time() {
        let files = Files::of(std::process::id());
        let own = std::env::current_exe().expect("a path");
        let read = || files.read(&own.clone().into_os_string().into()).is_some();
        files.budget.decode(|| until_used(Duration::from_millis(1)));
        assert!(files.budget.decoding.get() >= Duration::from_millis(1) && read());
        files.budget.decoding.set(MOST_TIME + Duration::from_nanos(1));
        assert!(!read() && files.note().is_some());
    }

    /// Uses this CPU time.
    fn until_used(time: Duration) {
        let begun = thread_time();
        while thread_time() - begun < time {}
    }

    #[test]
    fn mappings_are_read_once_a_look_and_seldom_if_that_does_not_help() {
        let mut files = Files::of(std::process::id());
        let begun = Instant::now();
        let own_code = Files::of as *const () as u64;
        let mut reads = |milliseconds: u64, addresses: &[u64]| {
            files.begin_pass(begun + Duration::from_millis(milliseconds));
            addresses
                .iter()
                .filter(|address| {
                    files.maps.clear();
                    files.is_settled(**address)
                })
                .count()
        };
        // No process maps its first page.
        let nowhere: Vec<u64> = (0..1000).collect();
        assert_eq!(reads(0, &nowhere), 1);
        assert_eq!(reads(49, &nowhere), 0);
        assert_eq!(reads(50, &nowhere), 1);
        assert_eq!(reads(149, &nowhere), 0, "twice as long");
        assert_eq!((0..10_000).map(|time| reads(150 + time, &nowhere)).sum::<usize>(), 12);
        assert_eq!(reads(20_000, &[own_code; 3]), 1);
        assert_eq!(reads(20_000, &[own_code; 3]), 1, "the next look after one that has helped");
    }

    #[test]
    fn memory_with_a_name_is_not_read_and_neither_is_what_only_looks_like_a_library_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("library.so");
        let mut file = File::create(&path).expect("a file");
        // Sparse, like the runtime's own memory for code.
        file.set_len(LARGEST_FILE).expect("room for nothing");
        let files = Files::of(std::process::id());
        let read = || files.read_elf(File::open(&path).expect("a file"));
        assert_eq!((read(), files.budget.left.get()), (None, MOST_BYTES));
        file.write_all(&ELF_MAGIC).expect("room");
        file.set_len(LARGEST_FILE + 1).expect("room for nothing");
        assert_eq!((read(), files.budget.unread.get()), (None, 1), "too large");
        file.set_len(100).expect("less");
        assert_eq!(read().map(|bytes| bytes.len()), Some(100));
        let code = parse_maps(b"1000-2000 r-xs 00000000 00:01 7   /memfd:doublemapper (deleted)\n").remove(0);
        assert!(code.deleted);
        assert_eq!(Files::of(std::process::id()).native_bytes(&code), None);
    }
}
