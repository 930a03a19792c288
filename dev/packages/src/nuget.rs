//! The two NuGet packages that make Remora a .NET tool, without managed code: SDK 10 and later run any program.
//!
//! `dotnet tool install` fetches the first, which names the second, which has the program. Layout, from the SDK's source:
//! dotnet/sdk 053a91bd, src/Cli/dotnet/ToolPackage/ToolPackageDownloaderBase.cs. A package is a zip file with the parts of an OPC
//! package: the types of its files, and a relation to its description.

use crate::contents::{COMMAND, Contents, LICENSES};
use crate::release::Release;
use crate::tree::Tree;
use crate::{DESCRIPTION, Outcome, PACKAGE, Package, third_party};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The platform, as .NET names it.
const RUNTIME: &str = "linux-x64";
/// What nuget.org shows: links of the repository's README lead nowhere there.
const README: &str = include_str!("../nuget.md");
const XML: &str = r#"<?xml version="1.0" encoding="utf-8"?>"#;

/// Packs the tool: for each platform, the name of the package with the program.
pub(crate) fn tool(release: &Release) -> Outcome<Package> {
    let mut tree = Tree::default();
    tree.add(
        "tools/net10.0/any/DotnetToolSettings.xml",
        format!(
            r#"{XML}
<DotNetCliTool Version="2">
  <Commands>
    <Command Name="{COMMAND}" />
  </Commands>
  <RuntimeIdentifierPackages>
    <RuntimeIdentifierPackage RuntimeIdentifier="{RUNTIME}" Id="{PACKAGE}.{RUNTIME}" />
  </RuntimeIdentifierPackages>
</DotNetCliTool>
"#
        ),
    );
    package(release, PACKAGE, "DotnetTool", tree)
}

/// Packs the program.
pub(crate) fn program(release: &Release, contents: &Contents) -> Outcome<Package> {
    let mut tree = Tree::default();
    tree.add_program(format!("tools/any/{RUNTIME}/{COMMAND}"), contents.command.as_slice());
    tree.add(
        format!("tools/any/{RUNTIME}/DotnetToolSettings.xml"),
        format!(
            r#"{XML}
<DotNetCliTool Version="2">
  <Commands>
    <Command Name="{COMMAND}" EntryPoint="{COMMAND}" Runner="executable" />
  </Commands>
</DotNetCliTool>
"#
        ),
    );
    tree.add(third_party::FILE, contents.third_party.as_str());
    package(release, &format!("{PACKAGE}.{RUNTIME}"), "DotnetToolRidPackage", tree)
}

/// A package of `tree` and of what every package has.
fn package(release: &Release, id: &str, kind: &str, mut tree: Tree) -> Outcome<Package> {
    tree.add("README.md", README);
    for (file, text) in LICENSES {
        tree.add(file, text);
    }
    tree.add(format!("{id}.nuspec"), description(release, id, kind));
    tree.add("_rels/.rels", relations(id));
    tree.add("[Content_Types].xml", content_types(&tree));
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    // The crate's time is 1980-01-01 unless it is told one: NuGet keeps none.
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).compression_level(Some(9));
    for (path, file) in tree.files() {
        archive.start_file(path, options.unix_permissions(file.mode))?;
        archive.write_all(&file.bytes)?;
    }
    Ok(Package { name: format!("{id}.{}.nupkg", release.version), bytes: archive.finish()?.into_inner() })
}

fn description(release: &Release, id: &str, kind: &str) -> String {
    let Release { version, commit, .. } = release;
    let license = env!("CARGO_PKG_LICENSE");
    format!(
        r#"{XML}
<package xmlns="http://schemas.microsoft.com/packaging/2012/06/nuspec.xsd">
  <metadata>
    <id>{id}</id>
    <version>{version}</version>
    <authors>The Remora contributors</authors>
    <license type="expression">{license}</license>
    <readme>README.md</readme>
    <description>{DESCRIPTION}</description>
    <tags>profiler profiling flamegraph heap memory performance diagnostics linux</tags>
    <repository type="git" commit="{commit}" />
    <packageTypes>
      <packageType name="{kind}" />
    </packageTypes>
  </metadata>
</package>
"#
    )
}

fn relations(id: &str) -> String {
    format!(
        r#"{XML}
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/{id}.nuspec" Id="manifest" />
</Relationships>
"#
    )
}

/// The types: by ending, and by name for a file without one.
fn content_types(tree: &Tree) -> String {
    let without_ending =
        tree.files().filter(|(path, _)| !path.rsplit('/').next().is_some_and(|name| name.contains('.')));
    let by_name = without_ending
        .map(|(path, _)| format!("  <Override PartName=\"/{path}\" ContentType=\"application/octet-stream\" />\n"));
    format!(
        r#"{XML}
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />
  <Default Extension="nuspec" ContentType="application/octet-stream" />
  <Default Extension="xml" ContentType="application/octet-stream" />
  <Default Extension="md" ContentType="application/octet-stream" />
{}</Types>
"#,
        by_name.collect::<String>()
    )
}
