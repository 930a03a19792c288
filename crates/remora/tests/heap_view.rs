//! `remora heap view` around its page: the address, the place of the index, the end. crates/host/heap-view tests the page itself.

#[allow(dead_code, reason = "this test uses a part")]
mod command;

use command::{Directory, golden, is_root, remora};
use expect_test::expect;
use remora_heap_file::{State, TypeRow, Writer};
use remora_heap_stream::{CLASS, END, FIRST_CLASS, PLAIN_CLASS, RANGE, distance, written};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::process::{Child, Command, Stdio};

const BASE: u64 = 0x7f00_0000_0000;

/// Writes a snapshot of a chain of `objects` objects of 24 bytes.
fn snapshot(directory: &Directory, name: &str, objects: u64, complete: bool) -> String {
    let mut numbers = vec![RANGE, 2, BASE, objects * 24, CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 0];
    for index in 1..objects {
        numbers.extend([FIRST_CLASS, 24, distance(BASE + (index - 1) * 24, BASE + index * 24), 0]);
    }
    numbers.extend([FIRST_CLASS, 24, 0, END, objects]);
    let mut writer = Writer::create(Vec::new()).expect("memory can be written to");
    writer.stream(&written(&numbers)).expect("memory can be written to");
    let row = TypeRow { name: "App.Link".into(), assembly: "App".into(), ..TypeRow::default() };
    writer.types(&[row]).expect("memory can be written to");
    let state = State { application: "Chain".into(), complete, ..State::default() };
    let path = directory.path(name);
    fs::write(&path, writer.finish(&state).expect("memory can be written to")).expect("written");
    path
}

/// A running `remora heap view`.
struct Viewing {
    child: Child,
    address: String,
}

impl Viewing {
    fn of(command: &mut Command) -> Viewing {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it can be read");
        let address = line.strip_prefix("open ").and_then(|rest| rest.strip_suffix(" (Ctrl-C ends)\n"));
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}")).to_owned();
        Viewing { child, address }
    }

    fn file(file: &str) -> Viewing {
        Viewing::of(view(file).stdin(Stdio::null()))
    }

    fn about(&self) -> serde_json::Value {
        let (host, secret) = self.address.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("parts");
        let mut stream = TcpStream::connect(host).expect("it listens");
        write!(stream, "GET /{secret}api/about HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("answered");
        serde_json::from_str(reply.split_once("\r\n\r\n").expect("a body").1).expect("it is JSON")
    }

    /// Ends it by Ctrl-C; returns its status and output.
    fn end(mut self) -> (Option<i32>, String) {
        let process = Pid::from_raw(self.child.id() as i32).expect("it runs");
        kill_process(process, Signal::INT).expect("it can be told");
        let mut shown = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut shown).expect("it is text");
        (self.child.wait().expect("it ends").code(), shown)
    }
}

fn view(file: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remora"));
    command.args(["heap", "view", file]);
    command
}

#[test]
fn the_first_view_keeps_an_index_beside_the_file_and_the_next_one_uses_it() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 1_000, true);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("set");
    let first = Viewing::file(&file);
    let about = first.about();
    assert_eq!(
        (&about["objects"], &about["file"], &about["about"]["application"]),
        (&1_000.into(), &"a.remora-heap".into(), &"Chain".into())
    );
    let (status, shown) = first.end();
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.starts_with(&format!("making the index of {file}, once\nmade in ")), "{shown}");
    assert!(shown.ends_with(&format!(" s, and kept in {file}.index\n")), "{shown}");
    assert_eq!(directory.names(), ["a.remora-heap", "a.remora-heap.index"]);
    let mode = fs::metadata(format!("{file}.index")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "who may read the snapshot may read its index");
    let second = Viewing::file(&file);
    assert_eq!(second.about(), about);
    assert_eq!(second.end(), (Some(0), String::new()));
}

#[test]
fn an_index_that_is_damaged_or_of_another_snapshot_is_made_anew() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 1_000, true);
    Viewing::file(&file).end();
    let index = format!("{file}.index");
    let right = fs::read(&index).expect("it is there");
    let other = snapshot(&directory, "b.remora-heap", 1_001, true);
    Viewing::file(&other).end();
    let mut changed = right.clone();
    changed[40] ^= 1;
    for wrong in [&right[..100], b"", b"PK", &changed, &fs::read(format!("{other}.index")).expect("it is there")] {
        fs::write(&index, wrong).expect("written");
        let viewing = Viewing::file(&file);
        assert_eq!(viewing.about()["objects"], 1_000);
        assert!(viewing.end().1.starts_with("making the index"));
        assert_eq!(fs::read(&index).expect("it is there"), right);
    }
}

#[test]
fn a_pipe_in_the_place_of_the_index_is_not_waited_for() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 10, true);
    let index = format!("{file}.index");
    assert!(Command::new("mkfifo").arg(&index).status().expect("it starts").success());
    let viewing = Viewing::file(&file);
    assert_eq!(viewing.about()["objects"], 10);
    assert!(viewing.end().1.contains("kept in"));
    assert!(fs::metadata(&index).expect("it is there").is_file());
}

#[test]
fn where_no_index_can_stand_beside_the_file_it_is_kept_in_the_cache() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 10, true);
    let open = || {
        let mut command = view("/proc/self/fd/0");
        command.env("XDG_CACHE_HOME", directory.path("cache")).stdin(File::open(&file).expect("it is there"));
        Viewing::of(&mut command)
    };
    let (status, shown) = open().end();
    assert!(status == Some(0) && shown.contains(&format!("kept in {}/remora/", directory.path("cache"))), "{shown}");
    let folder = fs::metadata(directory.path("cache/remora")).expect("it is there");
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    assert_eq!(open().end(), (Some(0), String::new()));
    let nowhere = view("/proc/self/fd/0")
        .env("XDG_CACHE_HOME", "/proc/1")
        .stdin(File::open(&file).expect("it is there"))
        .output();
    let nowhere = nowhere.expect("it starts");
    let shown = String::from_utf8(nowhere.stderr).expect("it is text");
    assert!(nowhere.status.code() == Some(20) && shown.contains("cannot be written"), "{shown}");
}

/// Root made a directory where the link led.
#[test]
fn a_cache_behind_a_link_of_another_user_gets_neither_an_index_nor_a_directory() {
    if !is_root() {
        // Only root can give a link away. CI runs this as root.
        return;
    }
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 10, true);
    fs::create_dir(directory.path("victim")).expect("made");
    symlink("victim", directory.path(".cache")).expect("linked");
    lchown(directory.path(".cache"), Some(64_202), None).expect("given away");
    let mut command = view("/proc/self/fd/0");
    command.env_remove("XDG_CACHE_HOME").env("HOME", directory.path(""));
    let ran = command.stdin(File::open(&file).expect("it is there")).output().expect("it starts");
    assert_eq!(ran.status.code(), Some(20), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(fs::read_dir(directory.path("victim")).expect("it is there").count(), 0);
}

/// This is known only after the whole index was written.
#[test]
fn where_an_index_cannot_have_its_name_beside_the_file_it_is_kept_in_the_cache() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 10, true);
    fs::create_dir(format!("{file}.index")).expect("made");
    let viewing = Viewing::of(view(&file).env("XDG_CACHE_HOME", directory.path("cache")).stdin(Stdio::null()));
    assert_eq!(viewing.about()["objects"], 10);
    let (status, shown) = viewing.end();
    assert!(status == Some(0) && shown.contains(&format!("kept in {}/remora/", directory.path("cache"))), "{shown}");
    assert_eq!(directory.names(), ["a.remora-heap", "a.remora-heap.index", "cache"], "nothing half written is left");
}

#[test]
fn part_of_a_heap_is_shown_and_reported_at_the_end() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 10, false);
    let viewing = Viewing::file(&file);
    assert_eq!(viewing.about()["about"]["complete"], false);
    let (status, shown) = viewing.end();
    assert!(status == Some(42) && shown.contains("does not hold all of the heap"), "{shown}");
}

#[test]
fn a_disk_that_is_full_leaves_nothing_behind() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 1_000, true);
    let ran =
        Command::new("prlimit").args(["--fsize=8192", env!("CARGO_BIN_EXE_remora"), "heap", "view", &file]).output();
    let ran = ran.expect("it starts");
    let shown = String::from_utf8(ran.stderr).expect("it is text");
    assert!(ran.status.code() == Some(21) && shown.contains("a file may not grow further"), "{shown}");
    assert_eq!(directory.names(), ["a.remora-heap"]);
}

/// If it took zeros for chunks, it would read all of them.
#[test]
fn a_snapshot_with_a_hole_behind_it_is_refused_where_the_hole_begins() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 10, true);
    let length = fs::metadata(&file).expect("it is there").len();
    File::options().write(true).open(&file).and_then(|file| file.set_len(100 << 30)).expect("made longer");
    let ran = remora(["heap", "view", &file]);
    let damaged =
        format!("{file} cannot be read: damaged at byte {length}: the checksum of a chunk is wrong (10 objects before");
    assert!(ran.code == 32 && ran.stderr.contains(&damaged), "{}", ran.stderr);
}

#[test]
fn a_port_that_is_taken_and_a_file_that_is_no_snapshot_are_refused() {
    let directory = Directory::new();
    let file = snapshot(&directory, "a.remora-heap", 10, true);
    Viewing::file(&file).end();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it has one").port().to_string();
    let message = remora(["heap", "view", &file, "--port", &port]).fails(20);
    assert_eq!(
        message.replace(&port, "PORT"),
        "remora: port PORT of 127.0.0.1 cannot be served: Address already in use (os error 98); give another port with --port, or none for any that is free"
    );
    let message = remora(["heap", "view", golden()]).fails(30);
    assert!(message.contains("is a recording, and no heap snapshot"), "{message}");
    expect![
        "remora: invalid value '70000' for '--port <PORT>': 70000 is not in 0..=65535; see `remora heap view --help`"
    ]
    .assert_eq(&remora(["heap", "view", &file, "--port", "70000"]).fails(2));
}
