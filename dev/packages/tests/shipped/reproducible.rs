//! Packages are the same when they are made again, and their checksums are right.

use crate::{VERSION, expected, names, output, packages};
use std::path::Path;
use std::process::Command;

/// The packages and the list of checksums.
fn files() -> Vec<String> {
    let mut files = vec![
        "SHA256SUMS".to_owned(),
        format!("remora-{VERSION}-linux-x64.tar.gz"),
        format!("remora-profiler.{VERSION}.nupkg"),
        format!("remora-profiler.linux-x64.{VERSION}.nupkg"),
        format!("remora-profiler_{VERSION}_amd64.deb"),
    ];
    files.sort();
    files
}

#[test]
fn each_package_has_its_checksum() {
    assert_eq!(names(&packages()), files());
    let checked = output(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(packages()));
    let mut named: Vec<String> = checked.lines().map(|line| line.trim_end_matches(": OK").to_owned()).collect();
    named.push("SHA256SUMS".to_owned());
    named.sort();
    assert_eq!(named, files());
}

#[test]
fn the_same_command_and_commit_give_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    pack(folder.path(), "umask 077; cd /; export TZ=Asia/Tokyo LC_ALL=C", None);
    for file in files() {
        let read = |folder: &Path| std::fs::read(folder.join(&file)).expect("made");
        assert!(read(folder.path()) == read(&packages()), "{file} differs; was there a commit in between?");
    }
}

#[test]
fn source_date_epoch_is_the_time_of_the_files() {
    let folder = tempfile::tempdir().expect("a folder");
    pack(folder.path(), "true", Some("86400"));
    let archive = folder.path().join(format!("remora-{VERSION}-linux-x64.tar.gz"));
    let listed = output(Command::new("tar").args(["--utc", "--full-time", "-tvzf"]).arg(archive));
    assert!(listed.lines().all(|line| line.contains(" 1970-01-02 00:00:00 ")), "{listed}");
}

/// Packs the command again, after `before` in the shell.
fn pack(folder: &Path, before: &str, epoch: Option<&str>) {
    let mut shell = Command::new("sh");
    shell.args(["-euc", &format!("{before}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_remora-packages")]);
    shell.arg(expected("REMORA_BIN")).arg(folder).env_remove("SOURCE_DATE_EPOCH");
    output(shell.envs(epoch.map(|epoch| ("SOURCE_DATE_EPOCH", epoch))));
}
