//! The Debian package, for Debian, Ubuntu and images built on them: an `ar` archive of a version and two tarballs.

use crate::contents::{CHANGELOG, COMMAND, COMPLETIONS, Contents, LICENSES, README};
use crate::release::Release;
use crate::tree::{Tree, compressed};
use crate::{DESCRIPTION, Outcome, PACKAGE, Package, SUMMARY, glibc, hexadecimal, third_party};
use md5::{Digest, Md5};
use std::io;

/// The version of the format, in the first member.
const FORMAT: &str = "2.0\n";
/// Columns of a line of text in `control` files.
const COLUMNS: usize = 78;

/// Packs the Debian package.
pub(crate) fn package(release: &Release, contents: &Contents) -> Outcome<Package> {
    let version = version(release.version);
    let data = data(contents)?;
    let mut control = Tree::default();
    control.add("control", control_file(&version, &glibc::needed(&contents.command)?, &data));
    control.add("md5sums", checksums(&data));
    let members = [
        ("debian-binary", FORMAT.as_bytes().to_vec()),
        ("control.tar.gz", control.tarball(release.seconds)?),
        ("data.tar.gz", data.tarball(release.seconds)?),
    ];
    let mut archive = ar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = ar::Header::new(name.into(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(release.seconds);
        archive.append(&header, bytes.as_slice())?;
    }
    Ok(Package { name: format!("{PACKAGE}_{version}_amd64.deb"), bytes: archive.into_inner()? })
}

/// A version as Debian sorts it: `1.0~rc.1` is before `1.0`.
fn version(semantic: &str) -> String {
    semantic.replacen('-', "~", 1)
}

/// The files that are installed.
fn data(contents: &Contents) -> io::Result<Tree> {
    let mut tree = Tree::default();
    tree.add_program(format!("usr/bin/{COMMAND}"), contents.command.as_slice());
    for (page, text) in &contents.manual {
        tree.add(format!("usr/share/man/man1/{page}.gz"), compressed(text)?);
    }
    for (of, script) in COMPLETIONS.iter().zip(&contents.completions) {
        tree.add(format!("usr/share/{}/{}", of.debian_folder, of.file), script.as_slice());
    }
    let documents = format!("usr/share/doc/{PACKAGE}");
    tree.add(format!("{documents}/changelog.gz"), compressed(CHANGELOG.as_bytes())?);
    tree.add(format!("{documents}/README.md"), README);
    tree.add(format!("{documents}/copyright"), copyright());
    tree.add(format!("{documents}/{}.gz", third_party::FILE), compressed(contents.third_party.as_bytes())?);
    Ok(tree)
}

fn control_file(version: &str, glibc: &str, data: &Tree) -> String {
    let kibibytes: usize = data.files().map(|(_, file)| file.bytes.len().div_ceil(1024)).sum();
    format!(
        "Package: {PACKAGE}\nVersion: {version}\nArchitecture: amd64\nMaintainer: {}\nInstalled-Size: {kibibytes}\n\
         Depends: libc6 (>= {glibc})\nSection: devel\nPriority: optional\nDescription: {SUMMARY}\n{}",
        holder(),
        indented(&wrapped(DESCRIPTION)),
    )
}

/// `md5sums`: dpkg compares installed files with it (`dpkg --verify`).
fn checksums(data: &Tree) -> String {
    data.files().map(|(path, file)| format!("{}  {path}\n", hexadecimal(&Md5::digest(&file.bytes)))).collect()
}

/// The copyright in Debian's format.
fn copyright() -> String {
    let [_, (_, mit)] = LICENSES;
    let terms = mit.split_once("\n\n").and_then(|(_, rest)| rest.split_once("\n\n")).map_or(mit, |(_, terms)| terms);
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Remora\n\n\
         Files: *\nCopyright: 2026 {}\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{}\n\
         License: Apache-2.0\n On Debian systems, its text is in /usr/share/common-licenses/Apache-2.0.\n",
        holder(),
        indented(terms),
    )
}

/// Who holds the copyright, as the licence names them.
fn holder() -> &'static str {
    let [_, (_, mit)] = LICENSES;
    let line = mit.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    line.and_then(|line| line.split_once(' ')).map_or("", |(_, holder)| holder)
}

/// Text as the continuation of a field: each line begins with a space, an empty one is a dot.
fn indented(text: &str) -> String {
    let line = |line: &str| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {}\n", line.trim_end()) };
    text.trim_end().lines().map(line).collect()
}

/// A paragraph in lines.
fn wrapped(paragraph: &str) -> String {
    let mut lines = vec![String::new()];
    for word in paragraph.split_whitespace() {
        let line = lines.last_mut();
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_candidate_is_before_its_release() {
        assert_eq!(version("1.2.0-rc.1"), "1.2.0~rc.1");
        assert_eq!(version("1.2.0"), "1.2.0");
    }

    #[test]
    fn a_licence_is_the_continuation_of_a_field() {
        assert_eq!(indented("one\n\ntwo\n"), " one\n .\n two\n");
        assert!(copyright().contains("\n THE SOFTWARE IS PROVIDED"), "{}", copyright());
        assert!(copyright().contains("\nCopyright: 2026 The Remora contributors\n"), "{}", copyright());
    }
}
