//! The tarball: for any distribution, and for images of containers. One folder, named after the version.

use crate::contents::{CHANGELOG, COMMAND, COMPLETIONS, Contents, LICENSES, README};
use crate::release::Release;
use crate::tree::Tree;
use crate::{Outcome, Package, third_party};

/// Packs the tarball.
pub(crate) fn package(release: &Release, contents: &Contents) -> Outcome<Package> {
    let name = format!("{COMMAND}-{}-linux-x64", release.version);
    let mut tree = Tree::default();
    tree.add_program(format!("{name}/{COMMAND}"), contents.command.as_slice());
    for (file, text) in LICENSES.into_iter().chain([("README.md", README), ("CHANGELOG.md", CHANGELOG)]) {
        tree.add(format!("{name}/{file}"), text);
    }
    tree.add(format!("{name}/{}", third_party::FILE), contents.third_party.as_str());
    for (page, text) in &contents.manual {
        tree.add(format!("{name}/man/man1/{page}"), text.as_slice());
    }
    for (of, script) in COMPLETIONS.iter().zip(&contents.completions) {
        tree.add(format!("{name}/completions/{}", of.file), script.as_slice());
    }
    Ok(Package { name: format!("{name}.tar.gz"), bytes: tree.tarball(release.seconds)? })
}
