//! The .NET tool, installed in the steps of `dotnet tool install` (dotnet/sdk 053a91bd, `ToolPackageDownloaderBase.DownloadTool`): find
//! the tool's package in a folder, read its settings, take the package for this platform, extract it, run its entry point.

use crate::{VERSION, output, packages, runs};
use roxmltree::{Document, Node};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use zip::ZipArchive;

const RUNTIME: &str = "linux-x64";

/// An open package.
struct Package {
    id: String,
    archive: ZipArchive<File>,
}

impl Package {
    /// The package in a folder that serves as a source.
    fn open(id: &str) -> Package {
        let path = packages().join(format!("{id}.{VERSION}.nupkg"));
        // Another reader than the crate that wrote it: names, sizes and checksums.
        output(Command::new("python3").args(["-m", "zipfile", "--test"]).arg(&path));
        let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Package { id: id.to_owned(), archive: ZipArchive::new(file).expect("a zip file") }
    }

    fn names(&self) -> Vec<String> {
        self.archive.file_names().map(|name| name.expect("a name").into_owned()).collect()
    }

    fn text(&mut self, name: &str) -> String {
        let mut text = String::new();
        let mut entry = self.archive.by_name(name).unwrap_or_else(|error| panic!("{name} in {}: {error}", self.id));
        entry.read_to_string(&mut text).expect("text");
        text
    }

    /// The description, found by the relation to it.
    fn nuspec(&mut self) -> String {
        let relations = self.text("_rels/.rels");
        let relations = Document::parse(&relations).expect("XML");
        let manifest = elements(&relations, "Relationship")
            .find(|relation| relation.attribute("Type").is_some_and(|kind| kind.ends_with("/2010/07/manifest")));
        let target = manifest.and_then(|relation| relation.attribute("Target")).expect("a relation").to_owned();
        let in_root: Vec<String> =
            self.names().into_iter().filter(|name| name.ends_with(".nuspec") && !name.contains('/')).collect();
        assert_eq!(in_root, [target.trim_start_matches('/')]);
        self.text(&in_root[0])
    }

    /// The settings of a tool, in the one folder that fits this platform.
    fn settings(&mut self) -> (String, String) {
        let mut names = self.names();
        names.retain(|name| name.ends_with("/DotnetToolSettings.xml"));
        let [name] = names.as_slice() else { panic!("{names:?}") };
        let ["tools", framework, runtime, _] = name.split('/').collect::<Vec<_>>()[..] else { panic!("{name}") };
        assert!(["any", "net10.0"].contains(&framework) && ["any", RUNTIME].contains(&runtime), "{name}");
        let folder = name.trim_end_matches("DotnetToolSettings.xml").to_owned();
        (folder, self.text(name))
    }

    /// Writes a file with its permissions; returns its path. NuGet makes every file executable for its owner, other programs keep these.
    fn extract(&mut self, name: &str, folder: &Path) -> std::path::PathBuf {
        let mut entry = self.archive.by_name(name).unwrap_or_else(|error| panic!("{name} in {}: {error}", self.id));
        let mode = entry.unix_mode().expect("a mode");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("whole");
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o777)).expect("set");
        path
    }
}

fn elements<'a>(document: &'a Document<'_>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.tag_name().name() == name)
}

fn both() -> [(Package, &'static str); 2] {
    let program = format!("remora-profiler.{RUNTIME}");
    [(Package::open("remora-profiler"), "DotnetTool"), (Package::open(&program), "DotnetToolRidPackage")]
}

#[test]
fn the_tool_is_found_by_its_name_and_runs() {
    let mut tool = Package::open("remora-profiler");
    let (_, settings) = tool.settings();
    let settings = Document::parse(&settings).expect("XML");
    assert_eq!(settings.root_element().attribute("Version"), Some("2"));
    let for_platform = elements(&settings, "RuntimeIdentifierPackage")
        .find(|package| package.attribute("RuntimeIdentifier") == Some(RUNTIME))
        .and_then(|package| package.attribute("Id"));
    let mut program = Package::open(for_platform.expect("a package for this platform"));
    let (folder, settings) = program.settings();
    let settings = Document::parse(&settings).expect("XML");
    let commands: Vec<Node<'_, '_>> = elements(&settings, "Command").collect();
    let [command] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!((command.attribute("Name"), command.attribute("Runner")), (Some("remora"), Some("executable")));
    let entry_point = command.attribute("EntryPoint").expect("an entry point");
    let installed = tempfile::tempdir().expect("a folder");
    let installed = program.extract(&format!("{folder}{entry_point}"), installed.path());
    assert_eq!(fs::metadata(&installed).expect("there").permissions().mode() & 0o777, 0o755);
    runs(&installed);
}

#[test]
fn a_package_says_what_it_is() {
    for (mut package, kind) in both() {
        let nuspec = package.nuspec();
        let document = Document::parse(&nuspec).expect("XML");
        let text = |name| elements(&document, name).next().and_then(|node| node.text()).unwrap_or_default();
        assert_eq!((text("id"), text("version")), (package.id.as_str(), VERSION));
        let kinds: Vec<_> = elements(&document, "packageType").map(|node| node.attribute("name")).collect();
        assert_eq!(kinds, [Some(kind)]);
        assert_eq!(text("license"), "MIT OR Apache-2.0");
        assert!(nuspec.contains("<license type=\"expression\">"), "{nuspec}");
        assert!(text("description").len() > 100 && !text("authors").is_empty(), "{nuspec}");
        let repository = elements(&document, "repository").next().and_then(|node| node.attribute("commit"));
        assert!(repository.is_some_and(|commit| commit.len() == 40), "{nuspec}");
        let readme = package.text(text("readme"));
        assert!(readme.contains("dotnet tool install -g remora-profiler"), "{readme}");
        assert!(!readme.contains("]("), "nuget.org shows no link of the repository");
    }
}

#[test]
fn every_file_of_a_package_has_a_type() {
    for (mut package, _) in both() {
        let types = package.text("[Content_Types].xml");
        let types = Document::parse(&types).expect("XML");
        let has = |element, attribute: &str, value: &str| {
            elements(&types, element).any(|node| node.attribute(attribute) == Some(value))
        };
        for name in package.names().iter().filter(|name| *name != "[Content_Types].xml") {
            let file = name.rsplit('/').next().unwrap_or(name);
            let by_ending = file.rsplit_once('.').is_some_and(|(_, ending)| has("Default", "Extension", ending));
            assert!(by_ending || has("Override", "PartName", &format!("/{name}")), "{name} in {}", package.id);
        }
    }
}
