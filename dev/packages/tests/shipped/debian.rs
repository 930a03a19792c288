//! The Debian package, installed by dpkg in an empty root that has only a C library.

use crate::{VERSION, manual_pages, names, output, packages, runs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The oldest C library that must be enough.
const GLIBC: &str = "2.17";

/// A root with a database of dpkg.
struct Root(tempfile::TempDir);

impl Root {
    fn with_glibc(version: &str) -> Root {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("var/lib/dpkg");
        fs::create_dir_all(database.join("info")).expect("made");
        fs::create_dir_all(database.join("updates")).expect("made");
        let libc = format!(
            "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\nMaintainer: nobody\nDescription: C library\n"
        );
        fs::write(database.join("status"), libc).expect("written");
        Root(folder)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    /// dpkg on this root. The packages have no scripts, so it needs neither root nor the programs that scripts call.
    fn dpkg(&self, words: &[&str]) -> Output {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.0.path().display())).args(["--force-not-root", "--force-bad-path"]);
        command.arg("--log=/dev/null").args(words).env("LC_ALL", "C").output().expect("dpkg starts")
    }

    fn dpkg_succeeds(&self, words: &[&str]) -> String {
        let output = self.dpkg(words);
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{words:?}: {said}");
        said
    }

    /// Every file that is not dpkg's.
    fn files(&self) -> Vec<String> {
        let listed = output(
            Command::new("find")
                .arg(self.0.path())
                .args(["-path", "*/var", "-prune", "-o", "-type", "f", "-printf", "%P\n"]),
        );
        listed.lines().map(str::to_owned).collect()
    }
}

fn package() -> String {
    packages().join(format!("remora-profiler_{VERSION}_amd64.deb")).display().to_string()
}

fn field(name: &str) -> String {
    output(Command::new("dpkg-deb").args(["--field", &package(), name])).trim().to_owned()
}

#[test]
fn dpkg_installs_the_command_and_removes_all_of_it() {
    let root = Root::with_glibc(GLIBC);
    root.dpkg_succeeds(&["--install", &package()]);
    runs(&root.path("usr/bin/remora"));
    assert_eq!(names(&root.path("usr/bin")), ["remora"]);
    assert_eq!(names(&root.path("usr/share/bash-completion/completions")), ["remora"]);
    assert_eq!(names(&root.path("usr/share/fish/vendor_completions.d")), ["remora.fish"]);
    assert_eq!(names(&root.path("usr/share/zsh/vendor-completions")), ["_remora"]);
    assert_eq!(
        names(&root.path("usr/share/doc/remora-profiler")),
        ["LICENSES-THIRD-PARTY.gz", "README.md", "changelog.gz", "copyright"]
    );
    manual_pages_open(&root.path("usr/share/man/man1"));
    root.dpkg_succeeds(&["--remove", "remora-profiler"]);
    assert_eq!(root.files(), Vec::<String>::new());
    assert_eq!(names(&root.path("")), ["var"]);
}

fn manual_pages_open(folder: &Path) {
    let packed: Vec<String> = manual_pages().iter().map(|page| format!("{page}.gz")).collect();
    assert_eq!(names(folder), packed);
    let page = output(Command::new("gzip").arg("-dc").arg(folder.join("remora-record.1.gz")));
    assert!(page.contains(".TH remora-record 1"), "{page}");
}

#[test]
fn dpkg_refuses_it_where_the_c_library_is_too_old() {
    let root = Root::with_glibc("2.16");
    let refused = root.dpkg(&["--install", &package()]);
    assert!(!refused.status.success());
    let reason = String::from_utf8_lossy(&refused.stderr);
    assert!(reason.contains(&format!("remora-profiler depends on libc6 (>= {GLIBC})")), "{reason}");
}

#[test]
fn dpkg_notices_a_changed_file() {
    let root = Root::with_glibc(GLIBC);
    root.dpkg_succeeds(&["--install", &package()]);
    let installed = root.files();
    // dpkg would make the list itself if the package had none.
    let listed = output(Command::new("dpkg-deb").args(["--ctrl-tarfile", &package()]));
    assert!(listed.contains("md5sums"), "the package has no list of checksums");
    let sums = fs::read_to_string(root.path("var/lib/dpkg/info/remora-profiler.md5sums")).expect("the list");
    assert_eq!(sums.lines().count(), installed.len());
    assert_eq!(root.dpkg_succeeds(&["--verify", "remora-profiler"]), "");
    fs::write(root.path("usr/share/doc/remora-profiler/copyright"), "changed").expect("written");
    let verified = root.dpkg(&["--verify", "remora-profiler"]);
    assert!(String::from_utf8_lossy(&verified.stdout).contains("copyright"), "{verified:?}");
}

#[test]
fn the_package_says_what_it_is_and_how_large() {
    assert_eq!(
        (field("Package"), field("Version"), field("Architecture")),
        ("remora-profiler".into(), VERSION.into(), "amd64".into())
    );
    let summary = field("Description");
    assert!(summary.lines().count() > 2 && summary.lines().all(|line| line.len() <= 80), "{summary}");
    let listed = output(Command::new("dpkg-deb").args(["--contents", &package()]));
    let mut bytes = 0;
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, size, .., path] = words[..] else { panic!("{line}") };
        let expected = if path.ends_with('/') || path.ends_with("/bin/remora") { "rwxr-xr-x" } else { "rw-r--r--" };
        assert_eq!((&mode[1..], owner), (expected, "root/root"), "{line}");
        bytes += size.parse::<u64>().expect("a size");
    }
    let kibibytes: u64 = field("Installed-Size").parse().expect("a number");
    // Each file takes up to a block more.
    let at_least = bytes / 1024;
    assert!((at_least..at_least + listed.lines().count() as u64).contains(&kibibytes), "{kibibytes} of {at_least}");
}
