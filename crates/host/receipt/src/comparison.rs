//! Checks each kind of leftover: whether it is attributable to Remora, and whether the contract allows it (DET-14).
//!
//! Two leftovers are always allowed:
//! * the runtime's own detach thread on .NET 6 and later
//! * on musl an inert library that stays mapped, with its file, from which the next attach loads it again
//!
//! After a main profiler the placeholder that corrects the runtime's count is allowed, too. Without it, the next profiler's detach would
//! crash the process (DET-18). The command announces the placeholder.

use crate::left::{
    LIBRARY_PREFIX, THREAD_PREFIX, is_ours, is_tracers, is_tracers_page, stays_on_musl, stays_on_purpose,
};
use crate::{
    Child, EventSession, Facts, GcMode, Kind, Left, Presence, ProfilerCount, ProfilerSlot, Snapshot, Thread, Unread,
};

/// The two snapshots and the facts; collects the leftovers.
pub(crate) struct Case<'a> {
    pub(crate) before: &'a Snapshot,
    pub(crate) after: &'a Snapshot,
    pub(crate) facts: &'a Facts,
    pub(crate) left: Vec<Left>,
    pub(crate) allowed: Vec<Left>,
}

impl Case<'_> {
    /// Checks every kind.
    pub(crate) fn judge(&mut self) {
        self.unread();
        self.mappings();
        self.threads();
        self.descriptors();
        self.children();
        self.timers();
        self.dispositions();
        self.pending();
        self.masks();
        self.files();
        self.profiler_slot();
        self.gc_mode();
        self.event_session();
    }

    /// Checks files, which outlive the process.
    pub(crate) fn judge_ended(&mut self) {
        self.files();
    }

    fn leave(&mut self, kind: Kind, what: impl Into<String>, why: impl Into<String>) {
        self.left.push(Left::new(kind, what, why));
    }

    fn allow(&mut self, kind: Kind, what: impl Into<String>, why: impl Into<String>) {
        self.allowed.push(Left::new(kind, what, why));
    }

    fn unread(&mut self) {
        let both = [("before", &self.before.unread), ("after", &self.after.unread)];
        let all: Vec<Left> =
            both.iter().flat_map(|(when, unread)| unread.iter().map(|one| could_not_be_read(one, when))).collect();
        for one in all {
            // Report a kind once for each reason: a thousand unreadable descriptors are one finding.
            if !self.left.iter().any(|known| known.kind == one.kind && known.why == one.why) {
                self.left.push(one);
            }
        }
    }

    fn mappings(&mut self) {
        for (path, bytes) in paths_of_ours(self.after) {
            let what = format!("{path}, {} KiB", bytes >> 10);
            let earlier = self.before.mappings.ours.iter().any(|known| known.path == path);
            let library = is_library(&path);
            if self.was_inert(&path) {
                self.allow(Kind::Mapping, what, why_inert(&path));
            } else if is_one_of(&self.facts.refused, &path) {
                self.leave(Kind::Mapping, what, REFUSED);
            } else if self.has_stayed(&path) {
                self.leave(Kind::Mapping, what, self.why_it_stayed());
            } else if is_one_of(&self.facts.staying, &path) && self.facts.count == ProfilerCount::SetRight {
                let why = "as announced: inert, and there so that the runtime counts its profilers correctly";
                self.allow(Kind::Mapping, what, why);
            } else if library && self.facts.musl && self.facts.detach_confirmed {
                self.allow(Kind::Mapping, what, INERT_ON_MUSL);
            } else if self.is_of_the_recording(&path, bytes) {
                // Its own receipt judges it.
            } else if earlier && !self.is_own(&path) {
                self.leave(Kind::Mapping, what, "it was there before this attach: an earlier one left it");
            } else if !library {
                self.leave(Kind::Mapping, what, "shared memory of the recording was not unmapped");
            } else if let Some(reason) = self.facts.inert.clone() {
                self.leave(Kind::Mapping, what, format!("it stays, inert, until the process ends: {reason}"));
            } else if !self.facts.detach_confirmed {
                self.leave(Kind::Mapping, what, "the runtime did not confirm the detach: `remora detach` tries again");
            } else {
                self.leave(Kind::Mapping, what, "the runtime let go of it, but something still holds a reference");
            }
        }
        let (before, after) = (self.before.mappings.perf_events, self.after.mappings.perf_events);
        if self.facts.perf_events && after > before {
            let what = format!("{} perf event buffers", after - before);
            self.leave(Kind::Mapping, what, "perf events of the recording were not unmapped");
        }
    }

    /// Whether a recording beside has this mapped. It alone has unwind tables, and gets new ones when a library comes.
    fn is_of_the_recording(&self, path: &str, bytes: u64) -> bool {
        let is_own_memory = self.facts.memory_name.as_ref().is_some_and(|name| path.contains(name.as_str()));
        let is_tables = !is_library(path) && !is_own_memory;
        self.facts.beside && (is_tables || bytes <= bytes_of(self.before, path))
    }

    fn threads(&mut self) {
        let (before, after) = (self.before, self.after);
        let mut runtimes_own = None;
        for thread in &after.threads {
            if let Some(why) = self.why_ours(thread) {
                self.leave(Kind::Thread, named(thread), why);
            } else if !before.has_thread(thread) && self.is_like_the_detach_thread(thread) {
                // A diagnostics session of another tool may add threads. The runtime starts its detach thread first, so it is the oldest.
                let oldest = runtimes_own.get_or_insert(thread);
                if thread.start_time < oldest.start_time {
                    *oldest = thread;
                }
            }
        }
        if let Some(thread) = runtimes_own {
            let why =
                "the runtime's own detach thread: made once at the first attach, it waits idle until the process ends";
            self.allow(Kind::Thread, named(thread), why);
        }
    }

    fn why_ours(&self, thread: &Thread) -> Option<String> {
        let was_reported = self.facts.agent_threads.iter().any(|agent| {
            agent.id == thread.namespace_id && agent.start_time.is_none_or(|start| start == thread.start_time)
        });
        if was_reported {
            return Some("the agent's thread did not end".into());
        }
        let name = &self.facts.agent_thread_name;
        let named_so = thread.name.starts_with(THREAD_PREFIX) || (!name.is_empty() && thread.name == clipped(name));
        if !named_so || thread.name == self.after.name {
            return None;
        }
        // An application may have such a name itself, and its threads inherit it.
        let known = self.before.threads.iter().any(|known| known.name == thread.name);
        match (self.before.has_thread(thread), known) {
            (true, _) if self.facts.beside => None,
            (true, _) => Some("it was there before this attach: an earlier one left it".into()),
            (false, false) => Some("it carries the name of an agent's thread".into()),
            (false, true) => None,
        }
    }

    /// On .NET 6+ the first attach starts a permanent thread. It has no name of its own and inherits that of the diagnostics server thread:
    /// `.NET EventPipe` on 8, 9 and 10.
    fn is_like_the_detach_thread(&self, thread: &Thread) -> bool {
        if self.facts.slot == ProfilerSlot::None || self.facts.runtime_major().is_none_or(|major| major < 6) {
            return false;
        }
        let server = self.before.threads.iter().find(|known| known.name == DIAGNOSTICS_SERVER);
        match server {
            Some(server) => thread.name == server.name,
            None => thread.name == self.before.name,
        }
    }

    fn descriptors(&mut self) {
        let (before, after) = (self.before, self.after);
        let memory = self.facts.memory_name.as_ref().map(|name| format!("/memfd:{name} (deleted)"));
        for descriptor in &after.descriptors.named {
            let what = format!("descriptor {}: {}", descriptor.number, descriptor.target);
            let was_there = before.descriptors.named.binary_search(descriptor).is_ok();
            if was_there && self.facts.beside {
                continue;
            }
            if is_ours(&descriptor.target) || memory.as_ref() == Some(&descriptor.target) {
                let why = if was_there {
                    "it was there before this attach: an earlier one left it"
                } else {
                    "the agent did not close it"
                };
                self.leave(Kind::Descriptor, what, why);
            }
        }
        for (number, inode) in &after.descriptors.sockets {
            if self.facts.socket_inodes.contains(inode) {
                let what = format!("descriptor {number}: socket:[{inode}]");
                self.leave(Kind::Socket, what, "the agent's end of the transport is still open");
            }
        }
        let (before, after) = (before.descriptors.perf_events, after.descriptors.perf_events);
        if self.facts.perf_events && after > before {
            let what = format!("{} perf events", after - before);
            self.leave(Kind::Descriptor, what, "perf events of the recording were not closed");
        }
    }

    fn children(&mut self) {
        let after = self.after;
        for child in after.family() {
            if let Some(why) = self.why_our_child(child) {
                self.leave(Kind::Child, format!("process {} \"{}\"", child.id, child.name), why);
            }
        }
    }

    fn why_our_child(&self, child: &Child) -> Option<String> {
        // A child that the target itself forks has what stays in the target, too, until it executes its program.
        // A child is being recorded itself if the target never had its library.
        let is_anothers =
            |library: &str| !self.facts.library.is_empty() && !self.is_own(library) && !self.has_mapped(library);
        let is_copied = |library: &&String| !is_anothers(library) && !self.was_inert(library);
        if let Some(library) = child.library.as_ref().filter(is_copied) {
            return Some(format!("a forked copy of the target, with {library} in it, did not end"));
        }
        let earlier = self.before.family().any(|known| known.id == child.id && known.start_time == child.start_time);
        if earlier {
            return None;
        }
        let state = if child.zombie { "it ended, but nobody asked for its exit status" } else { "it did not end" };
        if self.facts.children.contains(&child.namespace_id) {
            return Some(format!("a child of the agent: {state}"));
        }
        let agent = clipped(&self.facts.agent_thread_name);
        (child.zombie && !agent.is_empty() && child.name == agent)
            .then(|| format!("it carries the agent's name: {state}"))
    }

    fn files(&mut self) {
        for path in &self.facts.placed {
            let what = path.display().to_string();
            let looked = self.after.files.iter().find(|placed| placed.path == *path).map(|placed| placed.presence);
            let why = match looked {
                Some(Presence::Absent) => continue,
                Some(Presence::Present) if self.facts.kept.as_ref() == Some(path) => {
                    self.allowed.push(Left::new(Kind::File, what, KEPT));
                    continue;
                }
                Some(Presence::Present) => "it was placed for the target and not taken away: `remora detach` does it",
                Some(Presence::Unknown) => "whether it is still there could not be read",
                None => "nobody looked whether it is still there",
            };
            self.left.push(Left::new(Kind::File, what, why));
        }
    }

    fn profiler_slot(&mut self) {
        let what = match self.facts.slot {
            ProfilerSlot::None => return,
            ProfilerSlot::NotificationOnly => "notification-only profiler",
            ProfilerSlot::Main => "main profiler",
        };
        if let Some(reason) = self.facts.inert.clone() {
            return self.leave(
                Kind::ProfilerSlot,
                what,
                format!("it keeps its place until the process ends: {reason}"),
            );
        }
        if !self.detached() {
            let why = if self.facts.attach_completed {
                "the runtime did not confirm the detach"
            } else {
                "the attach was never completed, and so was no detach"
            };
            return self.leave(Kind::ProfilerSlot, what, why);
        }
        if self.has_repaired() {
            let why = "it keeps its place until the process ends; with it the next one was called";
            self.leave(Kind::ProfilerSlot, "an inert notification-only profiler", why);
        }
        if self.facts.count == ProfilerCount::SetRight {
            let why = "as announced: after a main profiler, the runtime counts one notification-only profiler too few; with this inert one it counts correctly";
            return self.allow(Kind::ProfilerSlot, "an inert notification-only profiler", why);
        }
        if self.counts_wrong() {
            let why = "a main profiler that leaves makes .NET 6+ count one notification-only profiler too few: the next one gets no callbacks (a main one works)";
            self.leave(Kind::ProfilerSlot, "the runtime's profiler count", why);
        }
    }

    fn gc_mode(&mut self) {
        if self.facts.gc_mode == GcMode::OffUntilDetach && !self.detached() {
            self.leave(
                Kind::GcMode,
                "concurrent collection is off",
                "only a detach turns it on again, and there was none",
            );
        }
    }

    fn event_session(&mut self) {
        if let EventSession::NotEnded(reason) = &self.facts.event_session {
            let why = format!("{reason}; the runtime ends it by itself when it finds nobody at the other end");
            self.leave(Kind::EventSession, "the runtime's session of events", why);
        }
    }

    /// Whether agents that had to stay have corrected the runtime's count, and the next agent got callbacks.
    fn has_repaired(&self) -> bool {
        let Facts { stayed, attach_completed, inert, .. } = self.facts;
        !stayed.is_empty() && *attach_completed && inert.is_none() && !self.counts_wrong()
    }

    /// Whether a main profiler has detached, and the runtime's count was not seen to be right afterwards.
    fn counts_wrong(&self) -> bool {
        self.facts.slot == ProfilerSlot::Main
            && self.facts.count == ProfilerCount::Unknown
            && self.facts.runtime_major().is_none_or(|major| major >= 6)
    }

    /// Whether a library is one of those that got no callbacks, and stay.
    fn has_stayed(&self, path: &str) -> bool {
        let is_known = is_one_of(&self.facts.stayed, path);
        is_known || is_one_of(&self.facts.staying, path) && self.facts.count != ProfilerCount::SetRight
    }

    fn why_it_stayed(&self) -> String {
        match &self.facts.inert {
            Some(reason) => format!("it stays, inert, until the process ends: {reason}"),
            None if self.has_repaired() => REPAIRED.into(),
            None => UNPROVEN.into(),
        }
    }

    /// Whether a library is the one of this attach, which may have been mapped before (musl).
    fn is_own(&self, path: &str) -> bool {
        is_library(path) && file_name(path) == self.facts.library
    }

    fn has_mapped(&self, path: &str) -> bool {
        [self.before, self.after].iter().any(|when| when.mappings.ours.iter().any(|known| known.path == path))
    }

    /// Whether a library was mapped before and was inert, or came with a trace meanwhile. Mostly its name shows that. A library in memory and
    /// one on musl keep their names: there the agent's threads decide.
    fn was_inert(&self, path: &str) -> bool {
        if self.facts.traced && is_tracers(path) {
            return true;
        }
        let earlier = self.before.mappings.ours.iter().any(|known| known.path == path);
        let runs = || self.before.threads.iter().any(|thread| is_agents(thread, self.before));
        let may_be_inert = stays_on_purpose(path) || has_no_file(path) || (stays_on_musl(path) && !self.is_own(path));
        (is_library(path) || is_tracers_page(path)) && earlier && may_be_inert && !runs()
    }

    /// The runtime closes the library last: an unmapped library is detached, even without a confirmation.
    fn detached(&self) -> bool {
        let is_left = |path: &str| is_library(path) && !stays_on_purpose(path) && !self.was_inert(path);
        let mapped = self.after.mappings.ours.iter().any(|mapping| is_left(&mapping.path));
        let unknown = self.after.unread.iter().any(|unread| unread.kind == Kind::Mapping);
        self.facts.inert.is_none() && (self.facts.detach_confirmed || !(mapped || unknown))
    }
}

/// The reason if the agent did nothing of the kind.
pub(crate) const UNTOUCHED: &str = "nothing of the kind was touched";

/// Why a kind was not checked; `None` if it was. An untouched kind needs no comparison.
pub(crate) fn why_not_looked_at(kind: Kind, facts: &Facts) -> Option<&'static str> {
    let loaded = facts.slot != ProfilerSlot::None;
    let untouched = match kind {
        // Searched by name, so facts are not needed.
        Kind::Mapping | Kind::Thread | Kind::Descriptor | Kind::Child => false,
        Kind::Timer | Kind::SignalDisposition | Kind::SignalMask => facts.signal.is_none(),
        Kind::File => facts.placed.is_empty(),
        Kind::Socket if loaded && facts.socket_inodes.is_empty() => {
            return Some("the system did not show which one the agent had");
        }
        Kind::Socket | Kind::ProfilerSlot => !loaded,
        Kind::GcMode => facts.gc_mode == GcMode::Untouched,
        Kind::EventSession => facts.event_session == EventSession::None,
    };
    untouched.then_some(UNTOUCHED)
}

/// The reason shown for an inert library from before the attach.
fn why_inert(path: &str) -> &'static str {
    match () {
        () if is_tracers(path) => INERT_TRACER,
        () if has_no_file(path) => INERT_IN_MEMORY,
        () if stays_on_musl(path) => INERT_ON_MUSL,
        () => INERT,
    }
}

/// For a library on musl.
const INERT_ON_MUSL: &str = "musl never unmaps a library: it stays mapped, and is inert";

/// For the file of such a library.
const KEPT: &str = "the file of the library that musl keeps mapped: the next attach uses both again, and maps nothing more; `remora detach` \
                    deletes it";

/// For the tracer of an earlier trace.
const INERT_TRACER: &str =
    "inert: a trace of methods left it, and .NET does not detach a profiler that has changed methods";

/// For an inert library from before the attach.
const INERT: &str = "inert: it was there before, and sets right what the runtime counts since a main profiler has left";

/// For such a library in memory.
const INERT_IN_MEMORY: &str = "inert: it was there before, and no thread of it runs; it has no file, so its name does not show why \
                               it stays";

/// For a library without a free slot (vm/profilinghelper.cpp, LoadProfiler).
const REFUSED: &str = "the runtime loaded it to ask which kind of profiler it is, had no place for it, and keeps it mapped; no thread of \
                       it runs, and only the end of the process takes it away";

/// For a library that stays unannounced. The next command needs no other one.
const REPAIRED: &str = "it does nothing, and stays until the process ends: a main profiler had left before (a --watch or --roots that was \
                        killed, or another vendor's), after which the runtime does not call the next one that is only notified; the one \
                        that came after this one was called, and so is the next command's";

/// The same, if no later agent showed whether it was enough.
const UNPROVEN: &str = "it came, and stays until the process ends, since a main profiler has left, after which the runtime does not call \
                        the next one that is only notified; whether it does with this one the next command shows";

/// Name of the diagnostics server thread on .NET 8, 9 and 10, and so of the detach thread that it starts.
const DIAGNOSTICS_SERVER: &str = ".NET EventPipe";

/// The finding for something unreadable.
pub(crate) fn could_not_be_read(unread: &Unread, when: &str) -> Left {
    let why = format!("could not be read {when}: {}", unread.error);
    Left::new(unread.kind, unread.path.clone(), why)
}

/// Bytes of the mappings of this path.
fn bytes_of(snapshot: &Snapshot, path: &str) -> u64 {
    paths_of_ours(snapshot).into_iter().find(|(known, _)| known == path).map_or(0, |(_, bytes)| bytes)
}

/// Mapped paths of ours with their sizes, each path once.
pub(crate) fn paths_of_ours(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let mut paths: Vec<(String, u64)> = Vec::new();
    for mapping in &snapshot.mappings.ours {
        let bytes = mapping.end.saturating_sub(mapping.start);
        match paths.iter_mut().find(|(path, _)| *path == mapping.path) {
            Some((_, total)) => *total += bytes,
            None => paths.push((mapping.path.clone(), bytes)),
        }
    }
    paths
}

/// The display name of a thread.
pub(crate) fn named(thread: &Thread) -> String {
    format!("thread {} \"{}\"", thread.id, thread.name)
}

/// The kernel's prefix for a mapped memfd, which keeps its first name: it cannot be renamed to one that stays.
const IN_MEMORY: &str = "memfd:";

pub(crate) fn has_no_file(path: &str) -> bool {
    path.trim_start_matches('/').starts_with(IN_MEMORY)
}

/// The file name of a mapped path.
fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or_default();
    name.strip_prefix(IN_MEMORY).unwrap_or(name)
}

/// Whether a mapped path is one of these libraries of ours.
fn is_one_of(names: &[String], path: &str) -> bool {
    is_library(path) && names.iter().any(|name| file_name(path) == name)
}

/// Whether a mapped path is a library of ours.
pub(crate) fn is_library(path: &str) -> bool {
    file_name(path).starts_with(LIBRARY_PREFIX)
}

/// Whether a thread is an agent's. An application may have such a name itself: then its threads inherit it from the process.
pub(crate) fn is_agents(thread: &Thread, process: &Snapshot) -> bool {
    thread.name.starts_with(THREAD_PREFIX) && thread.name != process.name
}

/// The kernel keeps 15 bytes of a name.
fn clipped(name: &str) -> &str {
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
