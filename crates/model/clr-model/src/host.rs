//! A runtime of the model in a real process: real threads, an environment, profilers' libraries from real files.
//!
//! # Purpose
//! A test that attaches a profiler to a process cannot tell such a process from one of .NET: that is how one body of a test judges both
//! (docs/design/0010-one-suite.md). What the process does with its runtime is the program's affair (`tests/model-host`).
//!
//! # Design constraints
//! What a profiler does wrong is not checked here: the process lives or dies of it, as a real one does.

use crate::differences::RuntimeVersion;
use crate::faults::Faults;
use crate::lab::library_file::LibraryFile;
use crate::library::Library;
use crate::runtime::{GcMode, ProcessEnvironment, Runtime, RuntimeConfig, give_the_heap_memory};
use crate::schedule::threads;
use corprof::HResult;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The first release that reads its settings from variables with the newer prefix as well.
const FIRST_DOTNET: u16 = 6;

/// So much faster does time pass than in a live runtime: what waits for a detach gets its answer sooner, and still takes long enough for
/// who is to be seen in the middle of it.
const COMPRESSION: u32 = 10;

/// Bytes of an image.
const IMAGE: usize = 0x1_0000;

/// The variables that a process was started with.
pub type Environment = BTreeMap<String, String>;

/// Starts the process's runtime, and with it the profiler that the environment names. To be called once.
pub fn start(runtime_version: RuntimeVersion, seed: u64, environment: Environment) -> Arc<Runtime> {
    threads::use_os_threads_at(seed, COMPRESSION);
    give_the_heap_memory();
    let faults = Arc::new(Faults::default());
    let gc_mode = gc_mode(runtime_version, &environment);
    let process = Arc::new(OwnProcess { environment, faults: faults.clone() });
    let config = RuntimeConfig { gc_mode, process, ..RuntimeConfig::of(runtime_version) };
    Runtime::start_in(runtime_version, faults, config)
}

/// Maps an image without content under a name that the process's mappings show, for [`Runtime::load_image`]; it stays. Where it begins.
///
/// # Errors
/// The system gives no memory.
pub fn map_image(name: &CStr) -> std::io::Result<u64> {
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, IMAGE as u64)?;
    // SAFETY: memory at an address of the system's choice, which nobody has a reference into.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), IMAGE, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(start as u64) }
}

/// Collections run beside the program unless a setting says otherwise (source: clrconfignames.h, gcConcurrent).
fn gc_mode(runtime_version: RuntimeVersion, environment: &Environment) -> GcMode {
    let is_dotnet = runtime_version.differences().release.0 >= FIRST_DOTNET;
    let prefixes: &[&str] = if is_dotnet { &["DOTNET", "COMPlus"] } else { &["COMPlus"] };
    let setting = prefixes.iter().find_map(|prefix| environment.get(&format!("{prefix}_gcConcurrent")));
    if setting.is_some_and(|setting| setting == "0") { GcMode::Blocking } else { GcMode::Concurrent }
}

/// This very process.
struct OwnProcess {
    environment: Environment,
    /// For the libraries that are opened in it.
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
        // SAFETY: takes numbers. Nobody handles the one, so that the process ends as by the fault itself.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        // SAFETY: takes a number; the process has no handler for it any more.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
}
