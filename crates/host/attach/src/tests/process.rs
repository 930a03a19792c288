//! A made-up process: a directory laid out like `/proc`, with a root directory of its own.

use crate::discovery::find_in;
use crate::error::Error;
use crate::proc::{Proc, Viewer};
use crate::process::Process;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

pub(crate) const PID: u32 = 777;
pub(crate) const INNER_PID: u32 = 7;
pub(crate) const START: u64 = 123_456;

/// A made-up process; the fields are the contents of `/proc` files.
pub(crate) struct MadeUp {
    directory: tempfile::TempDir,
}

impl MadeUp {
    /// A process without .NET.
    pub(crate) fn plain() -> MadeUp {
        let made = MadeUp { directory: tempfile::tempdir().expect("a directory") };
        std::fs::create_dir_all(made.file("net")).expect("made");
        std::fs::create_dir_all(made.file("ns")).expect("made");
        std::fs::create_dir_all(made.in_root("tmp")).expect("made");
        made.state('S', 0);
        made.set("cmdline", b"/opt/app/program\0--flag\0");
        made.set("environ", b"HOME=/nowhere\0");
        made.set("maps", b"7f00-7f10 r-xp 00000000 08:01 42 /usr/lib/libother.so\n");
        made.set("mountinfo", b"");
        made.set("cgroup", b"0::/\n");
        made.listening(&[]);
        symlink("/opt/app/program", made.file("exe")).expect("linked");
        made.link("ns/user", &std::fs::read_link("/proc/self/ns/user").expect("known"));
        made
    }

    /// A process with CoreCLR 8.0.4 and a listening socket, whose TMPDIR is `/scratch`.
    pub(crate) fn core_clr() -> MadeUp {
        MadeUp::core_clr_with_directory("/scratch")
    }

    /// Like [`MadeUp::core_clr`], with another TMPDIR.
    pub(crate) fn core_clr_with_directory(directory: &str) -> MadeUp {
        let made = MadeUp::plain();
        std::fs::create_dir_all(made.in_root(directory)).expect("made");
        made.set("environ", format!("TMPDIR={directory}\0").as_bytes());
        made.set(
            "maps",
            b"7f00-7f10 r-xp 00000000 08:01 42 /usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.4/libcoreclr.so\n",
        );
        made.socket_in("tmp");
        made.listening(&["/tmp"]);
        made
    }

    /// Makes a socket with the right name, without a listener.
    pub(crate) fn socket_in(&self, directory: &str) {
        let directory = self.in_root(directory);
        std::fs::create_dir_all(&directory).expect("made");
        drop(UnixListener::bind(directory.join(socket_name())).expect("bound"));
    }

    /// Sets the directories with a listening socket of the right name.
    pub(crate) fn listening(&self, directories: &[&str]) {
        self.listening_on(&directories.iter().map(|directory| (4711, (*directory).to_owned())).collect::<Vec<_>>());
    }

    /// Sets the inodes and directories of listening sockets of the right name.
    pub(crate) fn listening_on(&self, sockets: &[(u64, String)]) {
        let mut text = "Num       RefCount Protocol Flags    Type St Inode Path\n".to_owned();
        for (inode, directory) in sockets {
            text += &format!("0: 00000002 00000000 00010000 0001 01 {inode} {directory}/{}\n", socket_name());
        }
        self.set("net/unix", text.as_bytes());
    }

    /// Sets its open descriptors: what each link says.
    pub(crate) fn descriptors(&self, links: &[&str]) {
        std::fs::create_dir_all(self.file("fd")).expect("made");
        links.iter().enumerate().for_each(|(number, link)| self.link(&format!("fd/{number}"), Path::new(link)));
    }

    /// Sets state letter and tracer.
    pub(crate) fn state(&self, state: char, tracer: u32) {
        self.identity(state, tracer, 0);
    }

    /// Sets state letter, tracer and user.
    pub(crate) fn identity(&self, state: char, tracer: u32, uid: u32) {
        self.write_identity(state, tracer, uid, (0, 1000));
    }

    /// Sets the number of queued signals and their limit.
    pub(crate) fn identity_with_signals(&self, used: u64, limit: u64) {
        self.write_identity('S', 0, 0, (used, limit));
    }

    /// Sets a user without capabilities.
    pub(crate) fn identity_without_capabilities(&self, uid: u32) {
        self.identity('S', 0, uid);
        let status = String::from_utf8_lossy(&self.read("status")).replace("CapEff:\t000001ffffffffff", "CapEff:\t0");
        self.set("status", status.as_bytes());
    }

    /// Sets a user, with capabilities only if it is root.
    pub(crate) fn user(&self, uid: u32) {
        if uid == 0 { self.identity('S', 0, 0) } else { self.identity_without_capabilities(uid) }
    }

    fn write_identity(&self, state: char, tracer: u32, uid: u32, (used, limit): (u64, u64)) {
        let zeros = "0 ".repeat(18);
        self.set("stat", format!("{PID} (program) {state} {zeros}{START} 0 0\n").as_bytes());
        let ids = format!("{uid}\t{uid}\t{uid}\t{uid}");
        let status = format!(
            "Name:\tprogram\nTgid:\t{PID}\nTracerPid:\t{tracer}\nUid:\t{ids}\nGid:\t{ids}\nNSpid:\t{PID}\t{INNER_PID}\nThreads:\t5\nSigQ:\t{used}/{limit}\nCapEff:\t000001ffffffffff\n"
        );
        self.set("status", status.as_bytes());
    }

    /// Writes a file of the process.
    pub(crate) fn set(&self, name: &str, content: &[u8]) {
        std::fs::write(self.file(name), content).expect("written");
    }

    /// Puts another file in the place of one, at once: at each moment there is one of both.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) {
        let other = self.directory.path().join("other");
        std::fs::write(&other, content).expect("written");
        std::fs::rename(other, self.file(name)).expect("replaced");
    }

    /// Sets the machine's memory.
    pub(crate) fn machine_memory(&self, text: &str) {
        std::fs::write(self.directory.path().join("meminfo"), text).expect("written");
    }

    /// Makes a link of the process.
    pub(crate) fn link(&self, name: &str, target: &Path) {
        let _ = std::fs::remove_file(self.file(name));
        symlink(target, self.file(name)).expect("linked");
    }

    /// Removes a file of the process.
    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).expect("removed");
    }

    /// Makes a file of the process unreadable, for root too: reading a directory fails.
    pub(crate) fn hide(&self, name: &str) {
        self.remove(name);
        std::fs::create_dir(self.file(name)).expect("made");
    }

    /// The content of a file of the process.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).expect("readable")
    }

    /// Replaces a file of the process by a pipe: its reader waits for [`MadeUp::write_when_read`].
    pub(crate) fn becomes_a_pipe(&self, name: &str) {
        self.remove(name);
        let made = std::process::Command::new("mkfifo").arg(self.file(name)).status();
        assert!(made.expect("it starts").success());
    }

    /// Waits for a reader of the pipe, runs `before`, and only then writes.
    pub(crate) fn write_when_read(&self, name: &str, content: &[u8], before: impl FnOnce()) {
        let mut pipe = std::fs::File::options().write(true).open(self.file(name)).expect("it is there");
        before();
        std::io::Write::write_all(&mut pipe, content).expect("written");
    }

    /// Writes a file below its root directory.
    pub(crate) fn write(&self, directory: &str, name: &str, content: &[u8]) {
        std::fs::create_dir_all(self.in_root(directory)).expect("made");
        std::fs::write(self.in_root(directory).join(name), content).expect("written");
    }

    /// Names in a directory below its root.
    pub(crate) fn names_in(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.in_root(directory)).expect("readable");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Removes the process; its root directory stays.
    pub(crate) fn end(&self) {
        self.remove("stat");
        self.remove("status");
    }

    /// A path below its root directory.
    pub(crate) fn in_root(&self, path: &str) -> PathBuf {
        self.file("root").join(path.trim_start_matches('/'))
    }

    /// The made-up `/proc`.
    pub(crate) fn proc(&self) -> Proc {
        Proc::at(self.directory.path()).seen_by(Viewer { uid: 0, capabilities: u64::MAX })
    }

    /// Finds the process.
    pub(crate) fn find(&self) -> Process {
        self.try_find().expect("found")
    }

    /// Finds the process, with this test process as the listener on its socket.
    pub(crate) fn find_served(&self) -> Process {
        let mut process = self.find();
        if let Ok(socket) = &mut process.diagnostics {
            socket.listener = std::process::id();
        }
        process
    }

    /// Finds the process, or returns the error.
    pub(crate) fn try_find(&self) -> Result<Process, Error> {
        find_in(&self.proc(), PID)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(PID.to_string()).join(name)
    }
}

/// Name of its socket.
pub(crate) fn socket_name() -> String {
    format!("dotnet-diagnostic-{INNER_PID}-{START}-socket")
}
