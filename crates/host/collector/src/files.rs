//! Reads files as the target sees them: through its root directory, so that paths in containers and chroots resolve.

use crate::bundle::Executable;
use crate::symbol_files::{Candidate, NoSymbols, SymbolFiles};
use remora_attach::proc::Proc;
use remora_attach::{Program, TargetPath};
use remora_symbols::{
    ElfImage, ManagedImage, MapEntry, NativeName, SymbolError, UnwindRules, find_mapping, mapped_name, parse_maps,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum size of a file with names, bytes. The runtime with all its symbols has less than 200 MB, and so have most
/// single-file applications. The largest common native libraries of .NET applications, with math kernels, have some 450 MB.
const LARGEST_FILE: u64 = 512 << 20;
/// A file is read only if it is no larger than this part of the free memory: the target chooses its length, which costs it nothing if the
/// file is sparse. The functions of a file take up to six times its length: 24 bytes of it can be one.
const PART_FOR_A_FILE: u64 = 8;

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

/// The error at opening a file without content.
const EMPTY: i32 = rustix::io::Errno::NODATA.raw_os_error();

/// The magic number of an ELF file.
const ELF_MAGIC: [u8; 4] = *b"\x7fELF";

/// A module's MVID, in the byte order of its file.
pub type Mvid = [u8; 16];

/// The target's files. Each is read once.
#[derive(Default)]
pub struct Files {
    /// `None`: it could not be read.
    program: Option<Program>,
    managed: HashMap<(TargetPath, Option<Mvid>), Option<Arc<ManagedImage>>>,
    /// `None` before the first search.
    executable: Option<Option<Executable>>,
    native: HashMap<TargetPath, Option<ElfImage>>,
    maps: Vec<MapEntry>,
    refresh: Refresh,
    budget: Rc<Budget>,
    symbols: Rc<SymbolFiles>,
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
        let free = remora_attach::own_room().unwrap_or(u64::MAX);
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
    /// The files of the process with this program, for the first reader of a command.
    pub fn of(program: Program) -> Files {
        Files { program: Some(program), ..Files::default() }
    }

    /// The files of this process itself.
    pub(crate) fn of_ourselves() -> Files {
        Files { program: Program::of(&Proc::default(), std::process::id()).ok(), ..Files::default() }
    }

    /// Also uses the symbols in these directories of the user.
    pub(crate) fn with_symbols(self, folders: Vec<PathBuf>) -> Files {
        Files { symbols: Rc::new(SymbolFiles::in_folders(folders)), ..self }
    }

    /// The same files for another reader. Both readers share the budget.
    pub(crate) fn for_another(&self) -> Files {
        let (budget, symbols) = (Rc::clone(&self.budget), Rc::clone(&self.symbols));
        Files { program: self.program.clone(), budget, symbols, ..Files::default() }
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
        let program = self.program.as_ref()?;
        let executable = self.executable.get_or_insert_with(|| Executable::of(program)).as_ref()?;
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
        let maps = self.program.as_ref().and_then(|program| program.maps().ok()).unwrap_or_default();
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
                "{unread} files of the process were not read, since one may have {} MiB or an eighth of the free memory, and all {} GiB \
                 and {} s of CPU time: names that stand in them are missing",
                LARGEST_FILE >> 20,
                MOST_BYTES >> 30,
                MOST_TIME.as_secs()
            )
        })
    }

    /// Notes about files with symbols that were not used.
    pub(crate) fn notes_on_symbols(&self) -> impl Iterator<Item = String> {
        self.symbols.notes()
    }

    /// The assemblies without lines, of all readers.
    pub(crate) fn without_lines(&self) -> Vec<(String, NoSymbols)> {
        self.symbols.without_lines()
    }

    fn read(&self, path: &TargetPath) -> Option<Vec<u8>> {
        self.rest(self.program.as_ref()?.open(path).ok()?, Vec::new())
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
            let embedded = image.use_embedded_pdb();
            Some((image, embedded))
        };
        let (mut image, embedded) = self.budget.decode(|| decode(&bytes))?;
        if embedded != Ok(true) {
            // Without a PDB there are names but no lines.
            let (names, paths) = (image.pdb_names(path), image.pdb_paths(path));
            let found = self.symbols.find(&names, paths, |candidate| {
                self.fit(candidate, |bytes| match image.use_pdb(bytes) {
                    Err(SymbolError::PdbMismatch) => Ok(false),
                    used => used.map(|()| true),
                })
            });
            if let Err(not_found) = found {
                let why = match embedded {
                    _ if image.code_view().is_none() => NoSymbols::NotBuilt,
                    Err(error) => not_found.why.max(no_symbols(&error)),
                    Ok(_) => not_found.why,
                };
                self.symbols.lacks_lines(path.file_name(), why);
            }
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
        let (names, paths) = (image.debug_file_names(&entry.path), image.debug_file_paths(&entry.path));
        let found =
            self.symbols.find(&names, paths, |candidate| self.fit(candidate, |bytes| image.add_debug_file(bytes)));
        if let Err(not_found) = found {
            self.symbols.lacks_names(&not_found);
        }
        Some(image)
    }

    /// Reads and decodes a file with symbols; `decode` returns whether it is of the right build.
    fn fit(
        &self,
        candidate: &Candidate,
        decode: impl FnOnce(Vec<u8>) -> Result<bool, SymbolError>,
    ) -> Result<(), NoSymbols> {
        let file = candidate.open(self.program.as_ref()).map_err(|error| match error.kind() {
            _ if error.raw_os_error() == Some(EMPTY) => NoSymbols::Damaged,
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => NoSymbols::Missing,
            // No right to it, or a pipe, a directory, a device, a circle of links.
            _ => NoSymbols::Refused,
        })?;
        let mut head = [0; 4];
        file.read_exact_at(&mut head, 0).map_err(|_| NoSymbols::Damaged)?;
        // Another file may be large, and would be read for nothing.
        if !SYMBOL_FILES.contains(&head) {
            return Err(NoSymbols::Damaged);
        }
        let bytes = self.rest(file, Vec::new()).ok_or(NoSymbols::TooLarge)?;
        match self.budget.decode(|| decode(bytes)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(NoSymbols::OtherBuild),
            Err(error) => Err(no_symbols(&error)),
        }
    }

    fn native_bytes(&self, entry: &MapEntry) -> Option<Vec<u8>> {
        match () {
            // The kernel maps one page of code into every process.
            () if entry.path == VDSO => own_kernel_code(),
            // A memfd is no library and may be large: .NET 7 and later put all compiled code into one of 2 GiB.
            () if entry.deleted && entry.path.starts_with("/memfd:") => None,
            // An unlinked file is still readable through its mapping, given the rights.
            () if entry.deleted => self.read_elf(self.program.as_ref()?.open_mapped(entry).ok()?),
            () => self.read_elf(self.program.as_ref()?.open_path_of(entry).ok()?),
        }
    }
}

/// The first bytes of portable PDBs, Windows PDBs and ELF files.
const SYMBOL_FILES: [[u8; 4]; 3] = [*b"BSJB", *b"Micr", *b"\x7fELF"];

/// What an error in a file with symbols means for the one who looks for them.
fn no_symbols(error: &SymbolError) -> NoSymbols {
    match error {
        SymbolError::PdbMismatch => NoSymbols::OtherBuild,
        SymbolError::PdbTooLarge => NoSymbols::TooLarge,
        SymbolError::NotPortablePdb => NoSymbols::NotPortable,
        _ => NoSymbols::Damaged,
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
mod tests;
