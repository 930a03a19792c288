//! The memory limit of a forked copy: the user's limit, bounded by the free memory.

use crate::console::note;
use crate::failure::Failure;
use remora_attach::{Bound, Process, Room};
use remora_collector::HeapProgress;
use remora_terminal::size::shown;

/// Page tables of the copy: eight bytes for each page of 4 KiB.
const PAGE_TABLES: u64 = 512;
/// Plus the agent's shared memory, the copy's tables of classes and ranges, and its stack.
const OWN: u64 = 24 << 20;

/// The memory limit, and the reason for it.
#[derive(Debug)]
pub(crate) struct Allowance {
    bytes: u64,
    why: String,
}

impl Allowance {
    /// The limit for a copy of the process. Fails where the minimum exceeds it.
    pub(crate) fn of(process: &Process, asked: Option<u64>) -> Result<Allowance, Failure> {
        let room = process.memory_room();
        let free = room.as_ref().map_or(u64::MAX, |room| room.bytes);
        let allowance = Allowance::within(room.as_ref().map(|room| (room.bytes, room.bound.to_string())), asked);
        let resident = process.resident_memory().unwrap_or(0);
        let needed = resident / PAGE_TABLES + OWN;
        // At worst the process writes to all its pages while the copy exists.
        let most = resident.saturating_add(needed);
        if let Some(group) = process.ends_with_group().filter(|_| is_a_danger(free, most, asked)) {
            return Err(Failure::EndsWithTheCopy { group, most: shown(most), free: shown(free) });
        }
        if allowance.bytes < needed {
            let (needed, bytes, why) = (shown(needed), shown(allowance.bytes), allowance.why);
            let remedy = remedy(asked, allowance.bytes);
            return Err(Failure::NoRoomForACopy { needed, allowed: format!("{bytes} ({why})"), remedy });
        }
        if let Some(words) = room.and_then(|room| may_not_fit(&room, most)) {
            note(&words);
        }
        Ok(allowance)
    }

    /// By default half of the free memory: the application keeps running and needs some, too.
    fn within(room: Option<(u64, String)>, asked: Option<u64>) -> Allowance {
        match (room, asked) {
            (None, asked) => Allowance { bytes: asked.unwrap_or(u64::MAX), why: "--max-extra-memory".to_owned() },
            (Some((free, _)), Some(asked)) if asked <= free => {
                Allowance { bytes: asked, why: "--max-extra-memory".to_owned() }
            }
            (Some((free, bound)), Some(_)) => Allowance { bytes: free, why: format!("all that is free {bound}") },
            (Some((free, bound)), None) => Allowance { bytes: free / 2, why: format!("half of what is free {bound}") },
        }
    }

    /// The message for a copy that exceeded its limit.
    pub(crate) fn exceeded(&self, progress: &HeapProgress) -> Option<String> {
        let used = progress.extra_memory.filter(|used| *used > self.bytes)?;
        Some(format!(
            "the copy was ended since it cost {} of memory, more than {} ({})",
            shown(used),
            shown(self.bytes),
            self.why
        ))
    }
}

/// The warning where a control group may lack room for the worst case. On a machine the kernel kills the copy first; in a group the copy
/// ends itself first.
fn may_not_fit(room: &Room, most: u64) -> Option<String> {
    let is_group = matches!(room.bound, Bound::ControlGroup(_));
    (is_group && room.bytes < most).then(|| {
        format!(
            "the copy of the process may not fit: {} is free {}, and it costs up to {} if the program writes to all of its memory meanwhile. \
             It ends itself before the group is full; the rest of the heap is missing then",
            shown(room.bytes),
            room.bound,
            shown(most)
        )
    })
}

/// Whether a copy could make the kernel kill the whole group: its worst case exceeds the free memory, and the user set no limit.
fn is_a_danger(free: u64, most: u64, asked: Option<u64>) -> bool {
    asked.is_none() && free < most
}

/// The fix where the limit is too low. Raising it helps only if it was below the free memory.
fn remedy(asked: Option<u64>, allowed: u64) -> &'static str {
    match asked {
        None => "free some, or give --max-extra-memory",
        Some(asked) if asked <= allowed => "give --max-extra-memory more",
        Some(_) => "free some",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_attach::find_in;
    use remora_attach::proc::Proc;

    #[test]
    fn advice_is_not_what_was_done_already() {
        assert_eq!(remedy(None, 7), "free some, or give --max-extra-memory");
        assert_eq!(remedy(Some(7), 7), "give --max-extra-memory more");
        assert_eq!(remedy(Some(8), 7), "free some");
    }

    const PROCESS: u32 = 777;

    /// A process with 100 MiB in a control group limited to 150 MiB, in directories laid out like `/proc` and `/sys/fs/cgroup`.
    fn made_up(directory: &std::path::Path) -> Process {
        let [proc, groups] = ["proc", "cgroup"].map(|name| directory.join(name));
        let library = "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so";
        for (file, text) in [
            (proc.join("meminfo"), "MemAvailable: 8000000 kB\n".to_owned()),
            (proc.join("777/stat"), format!("{PROCESS} (app) S {}123 0 0\n", "0 ".repeat(18))),
            (proc.join("777/status"), "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmRSS:\t102400 kB\n".to_owned()),
            (proc.join("777/cmdline"), "/app\0".to_owned()),
            (proc.join("777/maps"), format!("7f00-7f10 r-xp 00000000 08:01 42 {library}\n")),
            (proc.join("777/cgroup"), "0::/pod/app\n".to_owned()),
            (groups.join("pod/memory.max"), "157286400\n".to_owned()),
            (groups.join("pod/memory.current"), "104857600\n".to_owned()),
            (groups.join("pod/memory.oom.group"), "1\n".to_owned()),
            (groups.join("pod/app/memory.oom.group"), "0\n".to_owned()),
        ] {
            std::fs::create_dir_all(file.parent().expect("it has one")).expect("made");
            std::fs::write(file, text).expect("written");
        }
        find_in(&Proc::at(proc).with_groups(groups), PROCESS).expect("it has a runtime")
    }

    #[test]
    fn a_snapshot_of_a_group_that_ends_as_a_whole_is_refused_unless_somebody_says_what_it_may_cost() {
        let directory = tempfile::tempdir().expect("a directory");
        let process = made_up(directory.path());
        let pod = directory.path().join("cgroup/pod");
        let Err(Failure::EndsWithTheCopy { group, most, free }) = Allowance::of(&process, None) else {
            panic!("the copy may cost more than is free, and the pod ends as a whole");
        };
        assert_eq!((group, most.as_str(), free.as_str()), (pod.clone(), "124 MiB", "50.0 MiB"));
        let said = Allowance::of(&process, Some(30 << 20)).expect("somebody said so");
        assert_eq!((said.bytes, said.why.as_str()), (30 << 20, "--max-extra-memory"));
        let set = |file: &str, text: &str| std::fs::write(pod.join(file), text).expect("written");
        set("memory.oom.group", "0\n");
        let half = Allowance::of(&process, None).expect("the copy goes first, or ends itself before");
        assert_eq!((half.bytes, half.why.contains("half of what is free in the control group")), (25 << 20, true));
        set("memory.oom.group", "1\n");
        set("memory.max", "262144000\n");
        assert_eq!(Allowance::of(&process, None).expect("all of the copy fits").bytes, 75 << 20);
    }

    #[test]
    fn who_may_not_fit_into_a_control_group_is_warned_beforehand() {
        let room = |bytes, bound| Room { bytes, bound };
        let group = || Bound::ControlGroup("/sys/fs/cgroup/app".into());
        let reported = may_not_fit(&room(70 << 20, group()), 260 << 20).expect("it may not");
        assert!(
            reported.contains("may not fit: 70.0 MiB is free in the control group /sys/fs/cgroup/app"),
            "{reported}"
        );
        assert_eq!(may_not_fit(&room(260 << 20, group()), 260 << 20), None);
        assert_eq!(may_not_fit(&room(70 << 20, Bound::Machine), 260 << 20), None, "there it goes first");
    }

    #[test]
    fn half_of_what_is_free_may_be_used_unless_somebody_says_otherwise_and_never_more_than_there_is() {
        let room = || Some((1000, "on the machine".to_owned()));
        let within = |room, asked| {
            let Allowance { bytes, why } = Allowance::within(room, asked);
            (bytes, why)
        };
        assert_eq!(within(room(), None), (500, "half of what is free on the machine".to_owned()));
        assert_eq!(within(room(), Some(800)), (800, "--max-extra-memory".to_owned()));
        assert_eq!(within(room(), Some(2000)), (1000, "all that is free on the machine".to_owned()));
        assert_eq!(within(None, Some(7)).0, 7);
        assert_eq!(within(None, None).0, u64::MAX);
    }

    #[test]
    fn what_costs_more_than_it_may_is_reported_with_both_numbers() {
        let allowance = Allowance { bytes: 1 << 20, why: "--max-extra-memory".to_owned() };
        let costs = |bytes| allowance.exceeded(&HeapProgress { extra_memory: bytes, ..HeapProgress::default() });
        assert_eq!((costs(None), costs(Some(1 << 20))), (None, None));
        let reported = costs(Some(3 << 20)).expect("that is more");
        assert!(reported.contains("cost 3.00 MiB of memory, more than 1.00 MiB (--max-extra-memory)"), "{reported}");
    }
}
