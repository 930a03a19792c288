//! Facts from the kernel about a process, to compare before and after: independent of the product, so that both share no mistake.

use crate::until;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// One line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `rwxp`, as the kernel writes it.
    pub permissions: String,
    /// The file, or a name in brackets, or nothing.
    pub name: String,
}

/// Threads or descriptors with their names.
pub type Named = BTreeMap<u32, String>;

/// Every fact about a process that Remora could change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its mappings.
    pub maps: Vec<Mapping>,
    /// Its threads, by id, with their names.
    pub threads: Named,
    /// Its descriptors, by number, with their targets.
    pub descriptors: Named,
    /// Its children.
    pub children: BTreeSet<u32>,
    /// Its POSIX timers, as the kernel lists them.
    pub timers: Vec<String>,
    /// Signals ignored and signals caught, as masks.
    pub dispositions: (u64, u64),
    /// Signals blocked, by thread.
    pub blocked: BTreeMap<u32, u64>,
    /// Resident memory in KiB.
    pub resident: u64,
}

impl Facts {
    /// Reads them.
    pub fn of(pid: u32) -> Facts {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let status = read(&process.join("status"));
        let threads: Named = numbered(&process.join("task"), |path| {
            fs::read_to_string(path.join("comm")).unwrap_or_default().trim_end().to_owned()
        });
        let blocked = threads.keys().map(|thread| {
            let status = text_of(process.join(format!("task/{thread}/status"))).unwrap_or_default();
            (*thread, hexadecimal(&status, "SigBlk:"))
        });
        Facts {
            maps: read(&process.join("maps")).lines().filter_map(mapping).collect(),
            children: children_of(pid, threads.keys()),
            timers: fs::read_to_string(process.join("timers")).unwrap_or_default().lines().map(str::to_owned).collect(),
            dispositions: (hexadecimal(&status, "SigIgn:"), hexadecimal(&status, "SigCgt:")),
            resident: field(&status, "VmRSS:").and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0),
            descriptors: numbered(&process.join("fd"), |path| {
                fs::read_link(path).map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
            }),
            blocked: blocked.collect(),
            threads,
        }
    }

    /// Everything of Remora in the process: mapped files, named memory, threads and descriptors with its name.
    pub fn remora(&self) -> Vec<String> {
        let mapped: BTreeSet<&str> =
            self.maps.iter().map(|mapping| mapping.name.as_str()).filter(|name| is_ours(name)).collect();
        let mut found: Vec<String> = mapped.into_iter().map(|name| format!("mapping {name}")).collect();
        found.extend(self.threads.values().filter(|name| is_ours(name)).map(|name| format!("thread {name}")));
        found.extend(self.descriptors.values().filter(|name| is_ours(name)).map(|name| format!("descriptor {name}")));
        found
    }

    /// New facts in process `pid` since `before`, see [`Facts::left_since`]. It checks while no thread creates another: libc blocks all
    /// signals in such a thread for a moment.
    pub fn left_in(pid: u32, before: &Facts) -> Vec<String> {
        let mut facts = Facts::of(pid);
        until("no thread gives birth to another", || {
            facts = Facts::of(pid);
            let known = |thread| before.blocked.get(thread).is_some_and(|mask| mask & ALL_REAL_TIME != ALL_REAL_TIME);
            !facts.blocked.iter().any(|(thread, mask)| mask & ALL_REAL_TIME == ALL_REAL_TIME && known(thread))
        });
        facts.left_since(before)
    }

    /// Whether the library is mapped.
    pub fn library_is_mapped(&self) -> bool {
        self.maps.iter().any(|mapping| mapping.name.contains("libremora_agent"))
    }

    /// The content of the library mapped into process `pid`, though its file is unlinked; of the active one, if another stays.
    pub fn library_in(pid: u32) -> Vec<u8> {
        let facts = Facts::of(pid);
        let ours = facts.maps.iter().filter(|map| map.name.contains("libremora_agent"));
        let (stay, at_work): (Vec<&Mapping>, Vec<&Mapping>) = ours.partition(|map| map.name.contains("-stays"));
        let ours = if at_work.is_empty() { stay } else { at_work };
        assert!(ours.iter().all(|map| map.name == ours[0].name), "more than one library: {ours:?}");
        fs::read(format!("/proc/{pid}/map_files/{:x}-{:x}", ours[0].start, ours[0].end)).expect("the library's file")
    }

    /// New facts since `before` that a session could have left. New threads of the runtime's pool do not count. A newly blocked signal
    /// counts if no handler for it was installed before.
    pub fn left_since(&self, before: &Facts) -> Vec<String> {
        let mut left = self.remora();
        let mut add = |what: String| left.push(what);
        for child in self.children.difference(&before.children) {
            add(format!("child {child}"));
        }
        let (count, earlier) = (self.timer_count(), before.timer_count());
        if count > earlier {
            add(format!("{} POSIX timers", count - earlier));
        }
        if self.dispositions != before.dispositions {
            add(format!("signal dispositions {:x?}, before {:x?}", self.dispositions, before.dispositions));
        }
        for (thread, mask) in &self.blocked {
            // A thread inside a handler of the application blocks that signal until the handler returns, now or before.
            let handlers_of_its_own = before.dispositions.1;
            if let Some(earlier) = before.blocked.get(thread)
                && (mask ^ earlier) & !handlers_of_its_own != 0
                && earlier & ALL_REAL_TIME != ALL_REAL_TIME
            {
                add(format!("thread {thread} blocks {mask:x}, before {earlier:x}"));
            }
        }
        left
    }

    fn timer_count(&self) -> usize {
        self.timers.iter().filter(|line| line.starts_with("ID:")).count()
    }
}

/// The real-time signals. A thread that blocks them all is just being created, or is about to wait for one, which the kernel shows as an
/// empty mask.
const ALL_REAL_TIME: u64 = !0 << 33;

fn is_ours(name: &str) -> bool {
    name.contains("remora-") || name.contains("libremora")
}

fn read(path: &std::path::Path) -> String {
    text_of(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// A file of `/proc`. Thread names in it need not be UTF-8.
pub(crate) fn text_of(path: impl AsRef<std::path::Path>) -> std::io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut parts = line.splitn(6, ' ');
    let (start, end) = parts.next()?.split_once('-')?;
    let permissions = parts.next()?.to_owned();
    let name = parts.nth(3).unwrap_or_default().trim_start().to_owned();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { start: number(start)?, end: number(end)?, permissions, name })
}

/// The numeric entries of a folder, with their description; a vanished one is described as far as possible.
fn numbered(folder: &std::path::Path, describe: impl Fn(PathBuf) -> String) -> Named {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let entries = entries.flatten().filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    entries.filter(|(_, path)| path.symlink_metadata().is_ok()).map(|(number, path)| (number, describe(path))).collect()
}

fn children_of<'a>(pid: u32, threads: impl Iterator<Item = &'a u32>) -> BTreeSet<u32> {
    let lists =
        threads.map(|thread| fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn hexadecimal(status: &str, name: &str) -> u64 {
    field(status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_read_with_its_name() {
        let line = "7f00-7f10 r-xp 00000000 08:01 42                         /tmp/a b/libremora_agent-1.so (deleted)";
        let mapping = mapping(line).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7f00, 0x7f10));
        assert_eq!(mapping.permissions, "r-xp");
        assert_eq!(mapping.name, "/tmp/a b/libremora_agent-1.so (deleted)");
    }

    #[test]
    fn our_own_process_has_the_facts_that_it_should_have() {
        let facts = Facts::of(std::process::id());
        assert!(facts.maps.iter().any(|mapping| mapping.name == "[stack]"));
        assert!(facts.threads.contains_key(&std::process::id()));
        assert!(facts.resident > 0);
        assert_eq!(facts.remora(), Vec::<String>::new());
    }

    #[test]
    fn a_thread_inside_a_handler_of_the_applications_own_is_no_trace() {
        let mut before = Facts::of(std::process::id());
        before.dispositions.1 |= 1 << 40;
        let mut after = before.clone();
        for mask in after.blocked.values_mut() {
            *mask |= 1 << 40;
        }
        assert_eq!(after.left_since(&before), Vec::<String>::new());
        assert_eq!(before.left_since(&after), Vec::<String>::new(), "nor is one that was inside then");
        for mask in after.blocked.values_mut() {
            *mask |= 1 << 41;
        }
        assert!(!after.left_since(&before).is_empty(), "another signal is one");
    }

    #[test]
    fn each_kind_of_trace_is_seen() {
        let before = Facts::of(std::process::id());
        let mut after = before.clone();
        assert_eq!(after.left_since(&before), Vec::<String>::new());
        after.maps.push(Mapping { start: 0, end: 1, permissions: "r--p".into(), name: "/x/libremora_agent.so".into() });
        after.threads.insert(1, "remora-agent".into());
        after.descriptors.insert(99, "/memfd:remora-ring".into());
        after.children.insert(7);
        after.timers.push("ID: 12".into());
        after.dispositions.1 ^= 1 << 40;
        for mask in after.blocked.values_mut() {
            *mask ^= 1 << 33;
        }
        let left = after.left_since(&before).join("\n");
        for word in [
            "mapping /x/libremora",
            "thread remora-agent",
            "descriptor /memfd",
            "child 7",
            "1 POSIX timers",
            "dispositions",
            "blocks",
        ] {
            assert!(left.contains(word), "`{word}` is missing in\n{left}");
        }
    }
}
