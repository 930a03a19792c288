//! Targets on musl, which never unmaps a library: one inert library for recordings and one for heaps stay, for any number of attaches.
//!
//! The program runs in a root like Alpine's, where musl is mapped as `ld-musl-x86_64.so.1`, and on Debian's musl, which is mapped as
//! `libc.so`. `dev/xtask/src/musl.rs` makes both.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

mod support;

use remora_e2e::{Facts, Remora, Start, Target, remora, until};
use remora_holds::holds;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{ended_when_busy, names, open_folder};

/// The prefix of every library file's name.
const LIBRARY: &str = "libremora_agent-";

/// Mounts everything that the program needs in a separate root, and enters it.
const INTO_ITS_ROOT: &str = "mount -t tmpfs -o mode=1777 tmpfs $NEW_ROOT/tmp; mount --rbind /proc $NEW_ROOT/proc; \
    mount --rbind /dev $NEW_ROOT/dev; export TMPDIR=/tmp; exec chroot $NEW_ROOT \"$@\"";

/// A program on musl.
struct OnMusl {
    target: Target,
    /// Its temporary files, as seen from here.
    temporary: PathBuf,
    _folder: tempfile::TempDir,
}

impl OnMusl {
    fn as_in_alpine() -> OnMusl {
        let mut command = Command::new("/app/busy");
        command.arg("1").env("NEW_ROOT", root());
        let target = Start::of(command, "busy in a root as Alpine's").behind(INTO_ITS_ROOT).ready();
        let temporary = PathBuf::from(format!("/proc/{}/root/tmp", target.pid()));
        OnMusl { target, temporary, _folder: open_folder() }
    }

    fn as_in_debian() -> OnMusl {
        let folder = open_folder();
        let mut command = Command::new(root().join("app/busy"));
        command.arg("1").env("LD_LIBRARY_PATH", root().join("usr/lib")).env("TMPDIR", folder.path());
        let target = Start::of(command, "busy on Debian's musl").ready();
        OnMusl { target, temporary: folder.path().to_owned(), _folder: folder }
    }

    fn asked(&self, words: &[&str]) -> Value {
        let pid = self.target.pid().to_string();
        remora(words.iter().copied().chain(["--json", "-p", &pid])).succeeded().json()
    }

    /// Records it and returns the receipt; stacks must reach from musl to the program's named methods.
    fn is_recorded(&self, event: &str) -> Value {
        let folder = remora_e2e::folder();
        let (stacks, receipt) = (folder.path().join("a.folded"), folder.path().join("receipt.json"));
        let mut command = Remora::command();
        command.args(["record", "--event", event, "-p", &self.target.pid().to_string()]);
        command.arg("-o").arg(&stacks).arg("--receipt").arg(&receipt);
        ended_when_busy(command, self.target.pid()).succeeded();
        let stacks = std::fs::read_to_string(stacks).unwrap();
        let busy = stacks.lines().find(|line| line.contains("Busy.Work(int);Busy.Outer(uint)"));
        assert!(
            busy.is_some_and(|line| line.contains(";ld-musl-x86_64.so.1+") || line.contains(";libc.so+")),
            "{stacks}"
        );
        serde_json::from_slice(&std::fs::read(receipt).unwrap()).unwrap()
    }

    /// The mapped code of our libraries.
    fn libraries(&self) -> Vec<String> {
        let maps = Facts::of(self.target.pid()).maps;
        let code = maps.into_iter().filter(|mapping| mapping.permissions.contains('x'));
        code.map(|mapping| mapping.name).filter(|name| name.contains(LIBRARY)).collect()
    }

    fn files(&self) -> Vec<OsString> {
        names(&self.temporary).into_iter().filter(|name| name.to_string_lossy().starts_with(LIBRARY)).collect()
    }

    fn goes_on(&mut self) {
        let first = self.target.ask_number("count");
        while self.target.ask_number("count") == first {}
    }
}

/// The folder made by `dev/xtask/src/musl.rs`.
fn root() -> PathBuf {
    std::env::var_os("REMORA_TEST_MUSL").expect("REMORA_TEST_MUSL is set by `cargo xtask e2e`").into()
}

/// Panics unless the only leftovers are `count` libraries, the file of the last one, and the runtime's own thread.
#[track_caller]
fn leaves_libraries_only(count: usize, receipt: &Value) {
    assert_eq!(receipt["clean"], true, "{receipt:#}");
    let allowed = receipt["allowed"].as_array().unwrap();
    let why = |kind: &str| -> Vec<&str> {
        let of_kind = allowed.iter().filter(|left| left["kind"] == kind);
        of_kind.map(|left| left["why"].as_str().unwrap()).collect()
    };
    let mapped = why("mapping");
    assert!(mapped.len() == count && mapped.iter().all(|why| why.contains("musl never unmaps")), "{receipt:#}");
    assert!(matches!(why("file")[..], [why] if why.contains("the next attach uses both again")), "{receipt:#}");
    assert_eq!(allowed.len(), count + 1 + why("thread").len(), "{receipt:#}");
}

#[test]
fn det_14_on_musl_as_in_alpine_any_number_of_attaches_leave_one_library_of_a_kind() {
    any_number_of_attaches_leave_one_library_of_a_kind(OnMusl::as_in_alpine());
}

/// musl was not recognised by this name: the detach took 30 s, and the receipt was not clean.
#[test]
fn det_14_on_debians_musl_any_number_of_attaches_leave_one_library_of_a_kind() {
    any_number_of_attaches_leave_one_library_of_a_kind(OnMusl::as_in_debian());
}

fn any_number_of_attaches_leave_one_library_of_a_kind(mut on_musl: OnMusl) {
    let listed = remora(["ps", "--json"]).succeeded().json();
    let row = listed.as_array().unwrap().iter().find(|row| row["process_id"] == on_musl.target.pid()).unwrap();
    assert_eq!((&row["libc"], &row["runtime_version"]), (&"musl".into(), &"9.0.9".into()), "{row:#}");
    let checked = on_musl.asked(&["check"]);
    let libc = checked["checks"].as_array().unwrap().iter().find(|check| check["name"] == "libc").unwrap();
    assert_eq!((&checked["engine"], &libc["passed"]), (&"agent".into(), &true.into()), "{checked:#}");
    assert!(libc["remedy"].as_str().unwrap().contains("never unmaps"), "{libc:#}");

    leaves_libraries_only(1, &on_musl.is_recorded("cpu"));
    let (libraries, files, before) = (on_musl.libraries(), on_musl.files(), Facts::of(on_musl.target.pid()));
    assert_eq!((libraries.len(), files.len()), (1, 1), "{libraries:?} {files:?}");

    leaves_libraries_only(1, &on_musl.is_recorded("wall"));
    assert_eq!((on_musl.libraries(), on_musl.files()), (libraries, files));
    let heap = || {
        let folder = remora_e2e::folder();
        let file = folder.path().join("a.remora-heap");
        let heap = on_musl.asked(&["heap", "-o", file.to_str().unwrap()]);
        leaves_libraries_only(2, &heap["receipt"]);
        assert!(heap["objects"].as_u64().unwrap() > 0, "{heap:#}");
        (on_musl.libraries(), on_musl.files())
    };
    let (libraries, files) = heap();
    assert_eq!((libraries.len(), files.len()), (2, 2), "{libraries:?} {files:?}");
    assert_eq!(heap(), (libraries, files));
    let left = Facts::of(on_musl.target.pid()).left_since(&before);
    let is_library = |left: &String| left.starts_with("mapping ") && left.ends_with("-musl.so");
    holds!(DET_14 rem, left.len() == 2 && left.iter().all(is_library), "{left:?}");

    let shown = on_musl.asked(&["detach"]);
    assert_eq!((&shown["clean"], shown["stays"].as_array().unwrap().len()), (&true.into(), 2), "{shown:#}");
    assert_eq!(on_musl.files(), Vec::<OsString>::new());
    on_musl.goes_on();
}

/// A file in use is locked; the lock ends with the recorder.
#[test]
fn det_16_on_musl_what_a_killed_recording_left_is_used_again() {
    let mut on_musl = OnMusl::as_in_alpine();
    let folder = remora_e2e::folder();
    let file = folder.path().join("a.remora");
    let pid = on_musl.target.pid().to_string();
    let mut killed = Remora::start(["record", "-p", &pid, "-o", file.to_str().unwrap()]);
    killed.wait_until_it_says("recording");
    until("something is recorded", || remora_e2e::spooled(folder.path()) > 0);
    let libraries = on_musl.libraries();
    killed.signal(rustix::process::Signal::KILL);
    killed.finish();
    leaves_libraries_only(1, &on_musl.is_recorded("cpu"));
    holds!(DET_16 rem, on_musl.libraries() == libraries);
    assert!(Path::new(&on_musl.temporary).join(&on_musl.files()[0]).is_file());
    on_musl.goes_on();
}
