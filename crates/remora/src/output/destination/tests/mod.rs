//! Files, folders, links and pipes as outputs.

use super::*;
use rustix::fs::OFlags;

fn file(directory: &tempfile::TempDir, force: bool) -> Destination {
    Destination::of(&directory.path().join("out.html"), force)
}

#[test]
fn a_command_that_was_ended_while_it_looked_at_its_output_left_a_file() {
    // On tmpfs, which supports files without a name.
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let time = std::time::UNIX_EPOCH;
    let opened = File::open(directory.path()).expect("it can be opened");
    opened.set_times(std::fs::FileTimes::new().set_modified(time)).expect("set");
    file(&directory, false).check().expect("it can be written");
    let changed = directory.path().metadata().and_then(|facts| facts.modified()).expect("it can be asked");
    assert_eq!(changed, time, "a name came and went");
}

fn names(directory: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path()).expect("it can be read");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn what_is_put_in_the_place_of_a_pipe_is_not_written_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out.html");
    let pipe = || rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).expect("made");
    for force in [false, true] {
        pipe();
        let destination = file(&directory, force);
        let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("opened");
        destination.check().expect("it is a pipe, and somebody reads it");
        let entry = destination.entry().expect("opened").expect("a file");
        let found = entry.folder.find(entry.name).expect("it is there");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(directory.path().join("precious"), "precious").expect("written");
        std::fs::hard_link(directory.path().join("precious"), &path).expect("linked");
        // Opens the file that was found.
        found.open_special().expect("the pipe").write_all(b"ours").expect("written");
        assert_eq!(rustix::io::read(&reader, &mut [0; 10]).expect("it came"), 4);
        // And who finds the other one does not open it.
        let other = file(&directory, force);
        let other = other.entry().expect("opened").expect("a file");
        let refused = other.folder.find(other.name).expect("there").open_special().expect_err("a file");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        destination.write(|out| out.write_all(b"ours")).expect("the pipe was opened at the check");
        assert_eq!(rustix::io::read(&reader, &mut [0; 10]).expect("it came"), 4);
        assert_eq!(std::fs::read(directory.path().join("precious")).expect("there"), b"precious");
        std::fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn a_pipe_that_is_exchanged_for_a_file_again_and_again_is_written_to_and_the_file_never() {
    let directory = tempfile::tempdir().expect("a directory");
    let [path, other] = ["out.html", "other"].map(|name| directory.path().join(name));
    std::fs::write(&other, "precious").expect("written");
    std::os::unix::fs::symlink("/dev/null", &path).expect("linked");
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &path, rustix::fs::CWD, &other, swap).expect("swapped");
            }
        });
        for _ in 0..2000 {
            // Fails while the other file has the name.
            let _ = file(&directory, false).write(|out| out.write_all(b"ours"));
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let files = [&path, &other].map(|path| path.symlink_metadata().expect("there").is_file());
    let precious = if files[0] { &path } else { &other };
    assert_eq!((files[0] != files[1], std::fs::read(precious).expect("there")), (true, b"precious".to_vec()));
    assert_eq!(names(&directory).len(), 2, "nothing is left");
}

#[test]
fn a_folder_that_is_put_in_the_place_of_the_checked_one_gets_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [folder, moved, foreign] = ["folder", "moved", "foreign"].map(|name| directory.path().join(name));
    for write in [0, 1, 2] {
        for made in [&folder, &foreign] {
            std::fs::create_dir(made).expect("made");
        }
        let destination = Destination::of(&folder.join("out.html"), false);
        destination.check().expect("it can be written");
        let swap = || {
            std::fs::rename(&folder, &moved).expect("moved");
            std::os::unix::fs::symlink(&foreign, &folder).expect("linked");
        };
        match write {
            0 => {
                swap();
                destination.write(|out| out.write_all(b"ours")).expect("written");
            }
            1 => {
                let written = destination.write(|out| {
                    swap();
                    out.write_all(b"ours")
                });
                written.expect("written");
            }
            _ => {
                let (part, mut out) = destination.begin("remora", Mode::RUSR).expect("begun");
                out.write_all(b"ours").expect("written");
                swap();
                destination.put(&part).expect("renamed");
            }
        }
        assert_eq!(std::fs::read(moved.join("out.html")).expect("it is there"), b"ours");
        assert_eq!(destination.path(), Some(moved.join("out.html")), "whoever looks for it finds it");
        for (folder, count) in [(&foreign, 0), (&moved, 1)] {
            assert_eq!(std::fs::read_dir(folder).expect("there").count(), count, "{}", folder.display());
            std::fs::remove_dir_all(folder).expect("removed");
        }
        std::fs::remove_file(&folder).expect("removed");
    }
}

#[test]
fn regression_the_reader_of_a_pipe_took_the_end_of_the_check_for_the_end_of_the_result() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out.html");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).expect("made");
    let destination = file(&directory, false);
    assert!(matches!(destination.check(), Err(Failure::NoReader(_))), "it is not waited for");
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("opened");
    destination.check().expect("somebody reads it");
    // A command keeps a copy of what it checked.
    let destination = destination.clone();
    assert_eq!(rustix::io::read(&reader, &mut [0; 10]), Err(Errno::AGAIN), "more may come");
    destination.write(|out| out.write_all(b"ours")).expect("written");
    assert_eq!(rustix::io::read(&reader, &mut [0; 10]), Ok(4));
}

#[test]
fn regression_a_long_name_was_refused_since_that_of_the_unfinished_file_was_too_long() {
    let directory = tempfile::tempdir().expect("a directory");
    for stem in ["a".repeat(250), "\u{f6}".repeat(125)] {
        let name = format!("{stem}.html");
        let destination = Destination::of(&directory.path().join(&name), true);
        destination.check().expect("the name is just not too long");
        let (part, _) = destination.begin("remora-heap", Mode::RUSR).expect("begun");
        assert!(part.path().to_string_lossy().ends_with(".unfinished.remora-heap"));
        destination.put(&part).expect("renamed");
        destination.write(|out| out.write_all(b"ours")).expect("written");
        assert!(names(&directory).contains(&name));
        let destination = Destination::of(&directory.path().join(stem + ".folded"), true);
        assert!(
            matches!(destination.check(), Err(Failure::Output { .. })),
            "too long, which is not found at the end only"
        );
    }
}

const NO_TEMPORARY: &str = "/dev/null/none";
const THIS: &str = "output::destination::tests::regression_an_error_of_the_temporary_directory_did_not_name_tmpdir";

/// Runs itself again with a TMPDIR that is none.
#[test]
fn regression_an_error_of_the_temporary_directory_did_not_name_tmpdir() {
    if std::env::temp_dir() == Path::new(NO_TEMPORARY) {
        let failure = Destination::Stdout.begin("remora", Mode::RUSR).expect_err("there is no such directory");
        let expected = "the directory for temporary files, /dev/null/none (TMPDIR), cannot be written: \
                        Not a directory (os error 20); check its permissions, or set TMPDIR to another place";
        return assert_eq!(failure.line(), expected);
    }
    let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
    let ran = command.args(["--exact", THIS]).env("TMPDIR", NO_TEMPORARY).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn what_is_no_regular_file_is_found_through_links_of_ours() {
    let directory = tempfile::tempdir().expect("a directory");
    let link = directory.path().join("out.html");
    std::os::unix::fs::symlink("/dev/null", &link).expect("linked");
    assert!(!file(&directory, false).is_regular());
    file(&directory, false).check().expect("the link is our own");
    let (_reader, writer) = io::pipe().expect("a pipe");
    let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    Destination::of(Path::new(&descriptor), false).check().expect("as `-o >(gzip > file)` gives it");
}

#[test]
fn regression_the_result_took_the_place_of_dev_stdout() {
    let directory = tempfile::tempdir().expect("a directory");
    let redirected = File::create(directory.path().join("redirected")).expect("created");
    let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&redirected));
    std::os::unix::fs::symlink(&descriptor, directory.path().join("stdout")).expect("linked");
    for path in [directory.path().join("stdout"), descriptor.into()] {
        let refused = Destination::of(&path, true).check().expect_err("a file that was opened before");
        assert!(matches!(&refused, Failure::Usage(why) if why.contains("`-o -`")), "{refused}");
    }
    std::os::unix::fs::symlink("redirected", directory.path().join("link")).expect("linked");
    Destination::of(&directory.path().join("link"), true).check().expect("any other link is replaced");
}

/// Otherwise other users could create the name first, and so block a recording.
#[test]
fn a_spool_had_a_name_that_could_be_guessed() {
    let directory = tempfile::tempdir().expect("a directory");
    for destination in [Destination::Stdout, file(&directory, false)] {
        let parts = [(); 2].map(|()| destination.begin("remora", Mode::from_raw_mode(0o666)).expect("begun").0);
        let paths = parts.each_ref().map(Unfinished::path);
        assert_ne!(paths[0], paths[1]);
        for (part, path) in parts.iter().zip(&paths) {
            let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("there").permissions());
            assert!(destination != Destination::Stdout || mode & 0o77 == 0, "{mode:o}");
            part.remove().expect("removed");
        }
    }
}

#[test]
fn what_exists_is_refused_before_anything_is_asked_of_a_target() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(file(&directory, false).check().is_ok());
    assert!(names(&directory).is_empty(), "a check leaves nothing");
    std::fs::write(directory.path().join("out.html"), "precious").expect("written");
    assert!(matches!(file(&directory, false).check(), Err(Failure::Exists(_))));
    assert!(file(&directory, true).check().is_ok());
}

#[test]
fn advice_speaks_of_the_flag_that_named_the_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let there = directory.path().join("there.json");
    std::fs::write(&there, "precious").expect("written");
    let nowhere = directory.path().join("no/receipt.json");
    for path in [there.as_path(), directory.path(), &nowhere, Path::new("/proc/x.json")] {
        for (destination, flag) in
            [(Destination::of(path, false), " -o "), (Destination::of_receipt(path, false), " --receipt ")]
        {
            let text = destination.check().expect_err("it cannot be written").line();
            assert!(text.contains(&format!("give{flag}")), "{text}");
        }
    }
    let written = Destination::of_receipt(&directory.path().join("new.json"), false).write(|out| {
        std::fs::write(directory.path().join("new.json"), "somebody else's")?;
        out.write_all(b"ours")
    });
    assert!(written.expect_err("it is there by now").line().contains("give --receipt another name"));
}

#[test]
fn a_file_system_that_keeps_no_files_is_not_called_full() {
    for place in ["/proc/x.html", "/sys/x.html"] {
        let refused = Destination::of(Path::new(place), false).check().expect_err("nothing can be made there");
        let text = refused.to_string();
        assert!(matches!(refused, Failure::Output { .. }), "{text}");
        assert!(text.contains("no files can be made there") && !text.contains("full"), "{text}");
    }
}

#[test]
fn a_write_that_fails_leaves_nothing_and_takes_nothing_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let broken = |out: &mut dyn Write| {
        out.write_all(b"half")?;
        Err(io::ErrorKind::StorageFull.into())
    };
    assert!(matches!(file(&directory, false).write(broken), Err(Failure::DiskFull { .. })));
    assert!(names(&directory).is_empty());
    std::fs::write(directory.path().join("out.html"), "precious").expect("written");
    assert!(matches!(file(&directory, true).write(broken), Err(Failure::DiskFull { .. })));
    assert_eq!(std::fs::read(directory.path().join("out.html")).expect("it is there"), b"precious");
    assert_eq!(names(&directory), ["out.html"]);
}

#[test]
fn regression_a_second_ctrl_c_left_a_part_of_the_result() {
    let directory = tempfile::tempdir().expect("a directory");
    let folder = Folder::open(directory.path()).expect("opened");
    let has_a_name = folder.unnamed(Mode::RUSR).expect("created").is_none();
    let written = file(&directory, false).write(|out| {
        assert_eq!(names(&directory).is_empty(), !has_a_name, "a process that is killed now leaves it");
        out.write_all(b"ours")
    });
    assert!(written.is_ok());
    assert_eq!(names(&directory), ["out.html"]);
    assert_eq!(std::fs::read(directory.path().join("out.html")).expect("it is there"), b"ours");
}

#[test]
fn a_file_that_appears_meanwhile_is_not_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out.html");
    let written = file(&directory, false).write(|out| {
        std::fs::write(&path, "somebody else's")?;
        out.write_all(b"ours")
    });
    assert!(matches!(written, Err(Failure::Exists(_))));
    assert_eq!(std::fs::read(&path).expect("it is there"), b"somebody else's");
    assert_eq!(names(&directory), ["out.html"]);
}

/// Only standard output was seen as a terminal: `-o /dev/stdout` and `-o /dev/tty` got names with their control characters.
#[test]
fn regression_a_terminal_that_was_given_by_its_name_got_control_characters() {
    use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("made");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("named").into_string().expect("text");
    let destination = Destination::of(Path::new(&name), false);
    destination.check().expect("it can be written to");
    destination.write(|out| out.write_all("X\u{9b}2J\u{202e}\n".as_bytes())).expect("written");
    // What was written at once may come in pieces.
    let mut shown = Vec::new();
    while !shown.ends_with(b"\n") {
        let mut piece = [0; 100];
        let length = rustix::io::read(&terminal, &mut piece).expect("read");
        shown.extend_from_slice(&piece[..length]);
    }
    assert_eq!(String::from_utf8_lossy(&shown), "X\\u{9b}2J\\u{202e}\r\n");
}
