//! A leftover in a process, and the names that identify ours.

/// The kind of a leftover. The names are part of the receipt's JSON and permanent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// A library or shared memory in the address space.
    Mapping,
    /// A thread.
    Thread,
    /// An open file descriptor that is not a socket.
    Descriptor,
    /// A child process.
    Child,
    /// A POSIX timer.
    Timer,
    /// A pending signal, or one with a changed disposition.
    SignalDisposition,
    /// A signal that a thread blocks now but did not before, or the reverse.
    SignalMask,
    /// A file placed for the target.
    File,
    /// A socket.
    Socket,
    /// The runtime's record of its profilers.
    ProfilerSlot,
    /// Whether the runtime may use concurrent GC.
    GcMode,
    /// An EventPipe session.
    EventSession,
}

impl Kind {
    /// Every kind, in display order.
    pub const ALL: &[Kind] = <Kind as strum::VariantArray>::VARIANTS;

    /// The permanent name: `signal-mask`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
/// A leftover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its kind.
    pub kind: Kind,
    /// Its name: `/tmp/libremora_agent-1.so (deleted)`, `thread 4711 "remora"`.
    pub what: String,
    /// Its cause, if known, and the fix.
    pub why: String,
}

impl Left {
    pub(crate) fn new(kind: Kind, what: impl Into<String>, why: impl Into<String>) -> Left {
        Left { kind, what: what.into(), why: why.into() }
    }
}

/// Prefix of the file names of all Remora libraries.
pub(crate) const LIBRARY_PREFIX: &str = "libremora_agent";
/// Suffix of the file name of a placeholder library, which stays to correct the runtime's count.
pub(crate) const STAYING_SUFFIX: &str = "-stays.so";
/// Suffix of the file name of a library on musl, which never unmaps it.
pub(crate) const MUSL_SUFFIX: &str = "-musl.so";
/// Prefix of the names of all shared memory.
pub(crate) const MEMORY_PREFIX: &str = "remora-";
/// Prefix of the names of all threads and children.
pub(crate) const THREAD_PREFIX: &str = "remora";

/// The page by which the next trace finds the tracer in a process.
const TRACER_PAGE: &str = "/memfd:remora-tracer";

/// Suffix of the file name of the tracer's library.
const TRACER_SUFFIX: &str = "-tracer-stays.so";

/// Whether a mapping of ours stays on purpose: a library, or the page of the tracer.
pub(crate) fn stays_on_purpose(path: &str) -> bool {
    path.strip_suffix(" (deleted)").unwrap_or(path).ends_with(STAYING_SUFFIX) || is_tracers_page(path)
}

/// Whether it is the page of the tracer.
pub(crate) fn is_tracers_page(path: &str) -> bool {
    path.strip_suffix(" (deleted)").unwrap_or(path) == TRACER_PAGE
}

/// Whether a mapping is the tracer's: its library, or its page.
pub(crate) fn is_tracers(path: &str) -> bool {
    path.strip_suffix(" (deleted)").unwrap_or(path).ends_with(TRACER_SUFFIX) || is_tracers_page(path)
}

/// Whether a mapped library of ours is one that musl keeps mapped. Its name does not show whether it is active.
pub(crate) fn stays_on_musl(path: &str) -> bool {
    path.strip_suffix(" (deleted)").unwrap_or(path).ends_with(MUSL_SUFFIX)
}

/// Whether a mapping's path or a descriptor's target is Remora's. Only the last part of the path counts: an application may well be in a
/// directory called `remora`.
pub(crate) fn is_ours(path: &str) -> bool {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    if let Some(memory) = path.strip_prefix("/memfd:") {
        return memory.starts_with(THREAD_PREFIX) || memory.starts_with(LIBRARY_PREFIX);
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with(LIBRARY_PREFIX) || (path.starts_with("/dev/shm/") && name.starts_with(MEMORY_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::{is_ours, stays_on_purpose};

    /// A library loaded from shared memory.
    const LIBRARY_IN_MEMORY: &str = "/memfd:libremora_agent-7.so (deleted)";

    #[test]
    fn ours_is_recognized_by_the_last_part_of_the_path() {
        for path in [
            "/tmp/.x/libremora_agent-7.so (deleted)",
            "/memfd:remora-ring (deleted)",
            "/dev/shm/remora-1",
            LIBRARY_IN_MEMORY,
        ] {
            assert!(is_ours(path), "{path}");
        }
        for path in
            ["/srv/remora-app/App.dll", "/srv/libremora_agent/App.dll", "/memfd:doublemapper (deleted)", "[heap]", ""]
        {
            assert!(!is_ours(path), "{path}");
        }
    }

    #[test]
    fn the_tracer_and_its_page_stay_on_purpose() {
        assert!(stays_on_purpose("/tmp/libremora_agent-7-tracer-stays.so (deleted)"));
        assert!(stays_on_purpose("/memfd:remora-tracer (deleted)"));
        assert!(!stays_on_purpose("/memfd:remora-ring (deleted)"));
    }
}
