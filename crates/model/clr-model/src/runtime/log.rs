//! The runtime's log, and where others can read it.

use super::{Entry, Runtime};
use crate::differences::Log;
use crate::mutation;
use corprof::HResult;
use std::fmt;

/// The event source of the entries.
pub const EVENT_SOURCE: &str = ".NET Runtime";
/// The event id of all entries about profilers (source: profilinghelper.cpp, LogProfEventVA, COR_Profiler).
pub const EVENT_ID: u32 = 1022;

impl Entry {
    /// The level: `Information` or `Error` (source: profilinghelper.cpp, LogProfInfo and LogProfError).
    pub fn level(&self) -> &'static str {
        match self {
            Entry::Loaded | Entry::Attached | Entry::Detached => "Information",
            Entry::Failed(_) | Entry::TooOld(_) | Entry::OtherRuntimeHasOne => "Error",
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Loaded => out.write_str("A profiler was loaded when the runtime started."),
            Entry::Attached => out.write_str("A profiler was attached."),
            Entry::Detached => out.write_str("A profiler was detached and unloaded."),
            Entry::Failed(code) => {
                write!(out, "A profiler could not be loaded: {}. Remove the cause and try again.", HResult(*code as i32))
            }
            Entry::TooOld(_) if mutation::is("CMP-01/2") => out.write_str("A profiler was not loaded. Upgrade it."),
            Entry::TooOld(variable) => write!(
                out,
                "A profiler was not loaded, since it is made for version 2 of the runtime. Upgrade it to one for version 4, or set \
                 {variable} to EnableV2Profiler to load it nevertheless."
            ),
            Entry::OtherRuntimeHasOne => out.write_str(
                "A profiler was not loaded, since it is made for one runtime in a process and another runtime has one. Upgrade it to \
                 one for version 4.",
            ),
        }
    }
}

impl Runtime {
    /// The log entries that others can read: none if the runtime writes them nowhere.
    pub fn published_log(&self) -> Vec<Entry> {
        match self.differences().log {
            Log::EventLog | Log::Events => self.log(),
            Log::None if mutation::is("ATT-15/2") => self.log(),
            Log::None => Vec::new(),
        }
    }
}
