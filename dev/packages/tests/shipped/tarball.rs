//! The tarball, unpacked by tar.

use crate::{VERSION, manual_pages, names, output, packages, runs};
use std::process::Command;

fn name() -> String {
    format!("remora-{VERSION}-linux-x64")
}

#[test]
fn the_tarball_has_one_folder_with_the_command_and_what_belongs_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    output(
        Command::new("tar").arg("-xzf").arg(packages().join(format!("{}.tar.gz", name()))).arg("-C").arg(folder.path()),
    );
    assert_eq!(names(folder.path()), [name()]);
    let folder = folder.path().join(name());
    let expected = [
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "LICENSES-THIRD-PARTY",
        "README.md",
        "completions",
        "man",
        "remora",
    ];
    assert_eq!(names(&folder), expected);
    assert_eq!(names(&folder.join("man/man1")), manual_pages());
    assert_eq!(names(&folder.join("completions")), ["_remora", "remora", "remora.fish"]);
    for (file, beginning) in [("_remora", "#compdef remora\n"), ("remora", "_remora()"), ("remora.fish", "#")] {
        let script = std::fs::read_to_string(folder.join("completions").join(file)).expect("text");
        assert!(script.starts_with(beginning), "{file} begins with {}", script.lines().next().unwrap_or_default());
    }
    runs(&folder.join("remora"));
}

#[test]
fn everything_in_the_tarball_belongs_to_root_and_has_one_time() {
    let archive = packages().join(format!("{}.tar.gz", name()));
    let listed = output(Command::new("tar").args(["--numeric-owner", "--utc", "--full-time", "-tvzf"]).arg(archive));
    let mut times = std::collections::BTreeSet::new();
    let mut paths = Vec::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, _, date, time, path] = words[..] else { panic!("{line}") };
        let expected = match path.strip_prefix(&name()).expect("below the folder") {
            "/remora" => "-rwxr-xr-x",
            folder if folder.ends_with('/') => "drwxr-xr-x",
            _ => "-rw-r--r--",
        };
        assert_eq!((mode, owner), (expected, "0/0"), "{line}");
        times.insert(format!("{date} {time}"));
        paths.push(path);
    }
    assert_eq!(times.len(), 1, "{times:?}");
    assert!(paths.is_sorted(), "{listed}");
}
