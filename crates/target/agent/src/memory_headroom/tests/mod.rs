//! Invented control groups of both versions.

use super::*;
use std::ffi::CString;
use std::fs::{create_dir_all, remove_dir_all, write};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let root = std::env::temp_dir().join(format!("remora-room-{name}-{}", std::process::id()));
        create_dir_all(&root).expect("a temporary folder can be made");
        Tree(root)
    }

    fn set(&self, directory: &str, files: &[(&str, u64)]) {
        for (file, value) in files {
            self.say(&format!("{directory}/{file}"), &format!("{value}\n"));
        }
    }

    fn say(&self, file: &str, text: &str) {
        let file = self.0.join(file);
        create_dir_all(file.parent().expect("a folder")).expect("a folder can be made");
        write(file, text).expect("a file can be written");
    }

    fn room(&self, cgroup: &str) -> MemoryHeadroom {
        let machine = CString::new(self.0.join("pressure").to_str().expect("UTF-8")).expect("no zero");
        MemoryHeadroom::of(cgroup.as_bytes(), self.0.to_str().expect("UTF-8").as_bytes(), &machine, &[])
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = remove_dir_all(&self.0);
    }
}

/// Checks, without a pause since the last check.
fn look(room: &mut MemoryHeadroom) -> Option<Short> {
    room.next = 0;
    room.look(1)
}

#[test]
fn the_copy_ends_before_the_tightest_group_above_it_is_full_whatever_its_version() {
    let tree = Tree::new("tightest");
    let (first, second) = ("5:cpu,cpuacct:/x\n4:memory:/pod/app\n0::/\n", "0::/pod/app\n");
    for (cgroup, root, [limit, usage, cached]) in [
        (first, "memory", ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"]),
        (second, "unified", ["memory.max", "memory.current", "inactive_file"]),
        (second, ".", ["memory.max", "memory.current", "inactive_file"]),
    ] {
        let (pod, app) = (format!("{root}/pod"), format!("{root}/pod/app"));
        tree.set(&pod, &[(limit, 320 * MIB), (usage, 200 * MIB)]);
        tree.set(&app, &[(limit, 9_223_372_036_854_771_712), (usage, 100 * MIB)]);
        tree.say(&format!("{pod}/memory.stat"), "anon 5\n");
        let mut room = tree.room(cgroup);
        assert_eq!((room.count, look(&mut room)), (1, None), "{root}");
        tree.set(&pod, &[(usage, 201 * MIB)]);
        assert_eq!(look(&mut room), None, "{root}");
        // Less than a sixteenth of the limit is left.
        tree.set(&pod, &[(usage, 301 * MIB)]);
        let left = |left| Some(Short::MemoryHeadroom { left: left * MIB, limit: 320 * MIB });
        assert_eq!(look(&mut room), left(19), "{root}");
        // Cached files that were read once count as free.
        tree.say(&format!("{pod}/memory.stat"), &format!("anon 5\n{cached} {}\n", 40 * MIB));
        assert_eq!(look(&mut room), None, "{root}");
        tree.set(&pod, &[(limit, 9_223_372_036_854_771_712)]);
        tree.set(&pod, &[(usage, 400 * MIB)]);
        assert_eq!(look(&mut room), None, "{root}: the limit was taken away");
        remove_dir_all(tree.0.join(root).join("pod")).expect("it is there");
    }
}

#[test]
fn what_goes_fast_ends_the_copy_before_what_goes_slowly_would() {
    let tree = Tree::new("fast");
    let at = |used| tree.set("pod", &[("memory.max", 320 * MIB), ("memory.current", used * MIB)]);
    at(150);
    let mut room = tree.room("0::/pod\n");
    for used in [150, 190, 220, 260] {
        at(used);
        let short = look(&mut room);
        assert_eq!(short.is_some(), used == 260, "{used}: {short:?}");
    }
    for used in [261, 270, 279, 285] {
        at(used);
        assert_eq!(look(&mut room), None, "{used}");
    }
}

#[test]
fn a_group_that_stands_still_for_memory_ends_the_copy() {
    let tree = Tree::new("stalls");
    let say = |file, total| tree.say(file, &format!("some avg10=9 total=99999999\nfull avg10=0.00 total={total}\n"));
    tree.set("pod", &[("memory.max", 320 * MIB), ("memory.current", 1)]);
    say("pod/memory.pressure", 1_000_000);
    say("pressure", 0);
    for (cgroup, file) in [("0::/pod\n", "pod/memory.pressure"), ("4:memory:/pod\n", "pressure")] {
        say(file, 1_000_000);
        let mut room = tree.room(cgroup);
        let mut at = |seconds: u64| {
            room.next = 0;
            room.look(seconds * 1_000_000_000)
        };
        assert_eq!(at(100), None);
        say(file, 1_900_000);
        assert_eq!((at(102), at(104)), (None, None), "0.9 s of 4");
        say(file, 3_000_000);
        assert_eq!(at(106), None, "it is not looked yet");
        assert_eq!(at(107), Some(Short::Stalls), "1.1 s of 3");
    }
}

#[test]
fn who_sees_no_group_watches_none() {
    let tree = Tree::new("none");
    for cgroup in ["", "nonsense", "0::/../other\n", "4:memory:\n0::/pod\n", "1:cpu:/pod\n"] {
        let mut room = tree.room(cgroup);
        assert_eq!((room.count, look(&mut room)), (0, None), "{cgroup}");
    }
    let deep = format!("0::{}\n", "/deep".repeat(100_000));
    assert_eq!(tree.room(&deep).count, 0);
}

#[test]
fn a_copy_that_waits_ends_itself_once_its_group_has_no_room() {
    static COUNTERS: [AtomicU64; layout::HEADER_WORDS] = [const { AtomicU64::new(0) }; layout::HEADER_WORDS];
    let tree = Tree::new("waits");
    tree.set("pod", &[("memory.max", 320 * MIB), ("memory.current", 200 * MIB)]);
    let full = tree.0.join("pod/memory.current");
    let mut room = tree.room("0::/pod\n");
    room.counters = &COUNTERS;
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: the child neither allocates nor locks, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        begin(&raw mut room);
        // SAFETY: a live byte and an open descriptor.
        unsafe { libc::write(ends[1], b"w".as_ptr().cast(), 1) };
        loop {
            crate::threads::pause(1_000_000_000);
        }
    }
    // SAFETY: an open descriptor, and room for a byte.
    assert_eq!(unsafe { libc::read(ends[0], [0_u8].as_mut_ptr().cast(), 1) }, 1, "it watches");
    write(full, format!("{}\n", 310 * MIB)).expect("a file can be written");
    let mut status = -1;
    // SAFETY: an own child; `status` is live.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, ENDED_BY_ROOM));
}
