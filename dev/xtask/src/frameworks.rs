//! Extracts the shared frameworks from a self-contained application, file by file.
//!
//! Such an application contains a whole runtime, and its deps.json lists the framework of each file.
//! It lacks the `dotnet` launcher. Another version's launcher works, since it only finds `host/fxr/*/libhostfxr.so` and calls it.

use crate::folders::listed;
use crate::outcome::{Context, Outcome, bail};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// The framework that all others build on.
const CORE_FRAMEWORK: &str = "Microsoft.NETCore.App";

/// One framework inside an application.
struct Framework {
    name: String,
    version: String,
    managed: Map<String, Value>,
    native: Map<String, Value>,
}

/// Copies the frameworks of `application` to `root`, in the layout of a .NET installation.
pub fn rebuild(application: &Path, root: &Path, launcher: &Path) -> Outcome<()> {
    let frameworks = frameworks_of(&read_dependencies(application)?);
    let Some(core) = frameworks.iter().find(|framework| framework.name == CORE_FRAMEWORK) else {
        bail!("{} carries no {CORE_FRAMEWORK}: it is not a self-contained application", application.display());
    };
    for framework in &frameworks {
        lay_out(framework, core, application, root)?;
    }
    let resolver = root.join("host/fxr").join(&core.version);
    fs::create_dir_all(&resolver).context(|| format!("cannot make {}", resolver.display()))?;
    copy(&application.join("libhostfxr.so"), &resolver.join("libhostfxr.so"))?;
    let core_folder = root.join("shared").join(CORE_FRAMEWORK).join(&core.version);
    copy(&application.join("libhostpolicy.so"), &core_folder.join("libhostpolicy.so"))?;
    copy(launcher, &root.join("dotnet"))
}

fn read_dependencies(application: &Path) -> Outcome<Value> {
    let found = listed(application)?.into_iter().find(|path| path.to_string_lossy().ends_with(".deps.json"));
    let Some(path) = found else { bail!("no deps.json in {}", application.display()) };
    let text = fs::read(&path).context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).context(|| format!("{} is not JSON", path.display()))
}

fn frameworks_of(dependencies: &Value) -> Vec<Framework> {
    let targets = dependencies["targets"].as_object().into_iter().flatten();
    let libraries = targets.filter_map(|(_, target)| target.as_object()).flatten();
    libraries.filter_map(|(identity, library)| framework_of(identity, library)).collect()
}

/// A framework is listed as `runtimepack.<framework>.Runtime.<platform>/<version>`.
fn framework_of(identity: &str, library: &Value) -> Option<Framework> {
    let (pack, version) = identity.strip_prefix("runtimepack.")?.split_once('/')?;
    let (name, _platform) = pack.split_once(".Runtime.")?;
    let files = |kind: &str| library[kind].as_object().cloned().unwrap_or_default();
    Some(Framework { name: name.into(), version: version.into(), managed: files("runtime"), native: files("native") })
}

fn lay_out(framework: &Framework, core: &Framework, application: &Path, root: &Path) -> Outcome<()> {
    let folder = root.join("shared").join(&framework.name).join(&framework.version);
    fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
    let managed = copy_files(&framework.managed, application, &folder)?;
    let native = copy_files(&framework.native, application, &folder)?;
    let platform = format!(".NETCoreApp,Version=v{}", two_parts(&framework.version));
    let identity = format!("{}.Runtime.linux-x64/{}", framework.name, framework.version);
    let dependencies = json!({
        "runtimeTarget": { "name": format!("{platform}/linux-x64"), "signature": "" },
        "compilationOptions": {},
        "targets": {
            platform.as_str(): {},
            format!("{platform}/linux-x64"): { identity.as_str(): { "runtime": managed, "native": native } },
        },
        "libraries": { identity.as_str(): { "type": "package", "serviceable": true, "sha512": "", "path": "" } },
    });
    write_json(&folder.join(format!("{}.deps.json", framework.name)), &dependencies)?;
    if framework.name == core.name {
        return Ok(());
    }
    let configuration = json!({ "runtimeOptions": {
        "tfm": format!("net{}", two_parts(&framework.version)),
        "framework": { "name": core.name, "version": core.version },
    }});
    write_json(&folder.join(format!("{}.runtimeconfig.json", framework.name)), &configuration)
}

/// Copies the `files` that exist (a trimmed application has fewer), and returns their entries.
fn copy_files(files: &Map<String, Value>, application: &Path, folder: &Path) -> Outcome<Map<String, Value>> {
    let mut copied = Map::new();
    for (path, entry) in files {
        let name = path.rsplit('/').next().unwrap_or(path);
        let source = application.join(name);
        if source.is_file() {
            copy(&source, &folder.join(name))?;
            copied.insert(name.to_owned(), entry.clone());
        }
    }
    Ok(copied)
}

fn two_parts(version: &str) -> String {
    version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
}

fn write_json(path: &Path, value: &Value) -> Outcome<()> {
    fs::write(path, format!("{value:#}\n")).context(|| format!("cannot write {}", path.display()))
}

/// Copies a file with its permissions.
pub fn copy(from: &Path, to: &Path) -> Outcome<()> {
    fs::copy(from, to).context(|| format!("cannot copy {} to {}", from.display(), to.display())).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frameworks_are_found_by_their_packs() {
        let dependencies = json!({ "targets": { ".NETCoreApp,Version=v9.0": {}, ".NETCoreApp,Version=v9.0/linux-x64": {
            "app/1.0.0": { "runtime": { "app.dll": {} } },
            "runtimepack.Microsoft.NETCore.App.Runtime.linux-x64/9.0.7": {
                "runtime": { "System.Runtime.dll": {} }, "native": { "libcoreclr.so": {} },
            },
            "runtimepack.Microsoft.AspNetCore.App.Runtime.linux-x64/9.0.8": { "runtime": {} },
        }}});
        let frameworks = frameworks_of(&dependencies);
        let mut found: Vec<_> =
            frameworks.iter().map(|f| (f.name.as_str(), f.version.as_str(), f.managed.len(), f.native.len())).collect();
        found.sort_unstable();
        assert_eq!(found, [("Microsoft.AspNetCore.App", "9.0.8", 0, 0), ("Microsoft.NETCore.App", "9.0.7", 1, 1)]);
    }

    #[test]
    fn a_framework_version_is_named_by_its_first_two_parts() {
        assert_eq!(two_parts("9.0.7"), "9.0");
        assert_eq!(two_parts("10.0.12"), "10.0");
    }
}
