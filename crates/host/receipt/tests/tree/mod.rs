//! Made-up `/proc` trees: one process of three threads that has nothing of Remora, to which a test adds what it wants found.

#![allow(dead_code, reason = "each test program uses its part of it")]

use remora_receipt::Snapshot;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The made-up process.
pub const PROCESS: u32 = 100;
/// Its start time.
pub const STARTED: u64 = 5000;

/// A directory that looks like `/proc`, removed at the end.
pub struct Tree {
    pub root: PathBuf,
}

impl Tree {
    /// A process as an idle .NET 8 one looks.
    pub fn new() -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("receipt-tree-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let tree = Tree { root: std::env::temp_dir().join(name) };
        tree.write("100/stat", &stat(PROCESS, 1, STARTED, 'S'));
        tree.write("100/status", &Status::named("dotnet").text());
        tree.write("100/maps", "1000-2000 r-xp 00000000 08:01 42                 /usr/lib/libcoreclr.so\n");
        tree.write("100/timers", "");
        tree.thread(100, STARTED, Status::named("dotnet"));
        tree.thread(101, STARTED + 1, Status::named(".NET EventPipe"));
        tree.thread(102, STARTED + 2, Status::named(".NET Finalizer"));
        tree.descriptor(0, "/dev/null");
        tree.descriptor(7, "socket:[111]");
        tree
    }

    /// Writes a file, with the directories above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory can be made");
        fs::write(path, text).expect("a file can be written");
    }

    /// Appends to a file.
    pub fn append(&self, path: &str, text: &str) {
        let known = fs::read_to_string(self.root.join(path)).expect("it is there");
        self.write(path, &(known + text));
    }

    /// Puts a directory where a file belongs, which can then not be read, even by root.
    pub fn spoil(&self, path: &str) {
        let path = self.root.join(path);
        fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).expect("it is there");
        fs::create_dir_all(path).expect("a directory can be made");
    }

    /// Adds or replaces a thread.
    pub fn thread(&self, id: u32, started: u64, status: Status) {
        self.write(&format!("100/task/{id}/stat"), &stat(id, 1, started, 'S'));
        self.write(&format!("100/task/{id}/status"), &status.text());
        self.write(&format!("100/task/{id}/children"), "");
    }

    /// Adds a child of the first thread.
    pub fn child(&self, id: u32, name: &str, state: char, maps: &str) {
        self.append("100/task/100/children", &format!("{id} "));
        self.child_of(PROCESS, id, name, maps);
        self.write(&format!("{id}/stat"), &stat(id, PROCESS, 7000, state));
    }

    /// Adds a process with this parent, in whose list it is not.
    pub fn child_of(&self, parent: u32, id: u32, name: &str, maps: &str) {
        self.write(&format!("{id}/stat"), &stat(id, parent, 7000, 'S'));
        self.write(&format!("{id}/status"), &Status::named(name).text());
        self.write(&format!("{id}/maps"), maps);
    }

    /// Adds a descriptor.
    pub fn descriptor(&self, number: u32, target: &str) {
        let directory = self.root.join("100/fd");
        fs::create_dir_all(&directory).expect("a directory can be made");
        symlink(target, directory.join(number.to_string())).expect("a link can be made");
    }

    /// What the tree tells.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.root, PROCESS).expect("the process is there")
    }

    /// The root.
    pub fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // What cannot be removed from the temporary directory is the system's to sweep.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// What stands in a `status`.
#[derive(Clone)]
pub struct Status {
    pub name: String,
    pub namespace_id: Option<u32>,
    pub pending: u64,
    pub shared_pending: u64,
    pub blocked: u64,
    pub ignored: u64,
    pub caught: u64,
}

impl Status {
    pub fn named(name: &str) -> Status {
        Status {
            name: name.into(),
            namespace_id: None,
            pending: 0,
            shared_pending: 0,
            blocked: 0,
            ignored: 0x1000,
            caught: 0x3_0002_44fe,
        }
    }

    fn text(&self) -> String {
        let ids = self.namespace_id.map_or(String::new(), |id| format!("NSpid:\t999\t{id}\n"));
        format!(
            "Name:\t{}\n{ids}VmSize:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t3\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n",
            self.name, self.pending, self.shared_pending, self.blocked, self.ignored, self.caught
        )
    }
}

/// A `stat` line.
pub fn stat(id: u32, parent: u32, started: u64, state: char) -> String {
    format!("{id} (x) {state} {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0\n")
}
