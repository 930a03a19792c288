//! A model runtime in a real process: real threads, an environment, profiler libraries from real files.
//!
//! # Purpose
//! A test cannot distinguish such a process from a .NET process when it attaches a profiler. So one test body checks both
//! (docs/design/0010-one-suite.md). The program decides what the process does with its runtime (`tests/model-host`).
//!
//! # Design constraints
//! A profiler's faults are not checked here: the process survives or crashes, as a real one does.

use crate::differences::RuntimeVersion;
use crate::faults::Faults;
use crate::lab::library_file::LibraryFile;
use crate::library::Library;
use crate::runtime::{GcMode, ProcessEnvironment, Runtime, RuntimeConfig, give_the_heap_memory, map_own_library};
use crate::schedule::threads;
use corprof::HResult;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// The first release that also reads settings from variables with the newer prefix.
const FIRST_DOTNET: u16 = 6;

/// Time passes this much faster than in a live runtime. A detach completes sooner, and still takes long enough that a test sees its callers
/// waiting.
const COMPRESSION: u32 = 10;

/// Bytes of an image.
const IMAGE: usize = 0x1_0000;

/// The variables at the start of a process.
pub type Environment = BTreeMap<String, String>;

/// Starts the process's runtime, with the profiler that the environment names. Call it once. `own_library` is the path of
/// [`write_own_library`](crate::runtime::write_own_library), if profilers are to find the runtime's library.
pub fn start(
    runtime_version: RuntimeVersion,
    seed: u64,
    environment: Environment,
    own_library: Option<&Path>,
) -> Arc<Runtime> {
    threads::use_os_threads_at(seed, COMPRESSION);
    give_the_heap_memory();
    if let Some(path) = own_library {
        // In a folder that forbids execution, profilers do not find it.
        let _ = map_own_library(path);
    }
    let faults = Arc::new(Faults::default());
    let gc_mode = gc_mode(runtime_version, &environment);
    let process = Arc::new(OwnProcess { environment, faults: faults.clone() });
    let config = RuntimeConfig { gc_mode, process, ..RuntimeConfig::of(runtime_version) };
    Runtime::start_in(runtime_version, faults, config)
}

/// Maps an empty image under a name that the mappings show, for [`Runtime::load_image`]. It stays mapped. Returns its start.
///
/// # Errors
/// The system has no memory.
pub fn map_image(name: &CStr) -> std::io::Result<u64> {
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, IMAGE as u64)?;
    // SAFETY: the kernel chooses the address, so no reference points into this memory.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), IMAGE, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(start as u64) }
}

/// GC is concurrent unless a setting says otherwise (source: clrconfignames.h, gcConcurrent).
fn gc_mode(runtime_version: RuntimeVersion, environment: &Environment) -> GcMode {
    let is_dotnet = runtime_version.differences().release.0 >= FIRST_DOTNET;
    let prefixes: &[&str] = if is_dotnet { &["DOTNET", "COMPlus"] } else { &["COMPlus"] };
    let setting = prefixes.iter().find_map(|prefix| environment.get(&format!("{prefix}_gcConcurrent")));
    if setting.is_some_and(|setting| setting == "0") { GcMode::Blocking } else { GcMode::Concurrent }
}

/// The process itself.
struct OwnProcess {
    environment: Environment,
    /// For the libraries opened in it.
    faults: Arc<Faults>,
}

impl ProcessEnvironment for OwnProcess {
    fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }

    fn open(&self, path: &str) -> Result<Arc<Library>, HResult> {
        let image = LibraryFile::open(path).map_err(|_| HResult::ERROR_MOD_NOT_FOUND)?;
        Ok(Library::new(image, self.faults.clone()))
    }

    fn crash(&self) {
        // SAFETY: takes numbers only. The default handler lets the process die as by the fault itself.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        // A fault ends the process also where a profiler's thread blocks the signal.
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut fault: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: a local set, and a valid signal.
        unsafe { libc::sigaddset(&raw mut fault, libc::SIGSEGV) };
        // SAFETY: a local set; the old one is not wanted.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const fault, std::ptr::null_mut()) };
        // SAFETY: takes a number only; the process has no handler for this signal now.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
}
