//! Compiles the test programs: C# in `tests/targets`, C in `tests/targets/native`.
//!
//! `NAME.cs` becomes `NAME/NAME.dll`; an optional `NAME.plugin.cs` becomes `NAME/plugin.dll` beside it.
//! A program with the line `// also: debug` at the top is compiled a second time, as `NAME/NAME.debug.dll`, without optimization.
//! A line `// needs: FRAMEWORK VERSION` at the top raises the reference version; the default is .NET Core 3.1, which runs everywhere.
//! The cache keeps the output under the hash of all inputs.

use crate::csharp::{Compilation, Compiler, Kind, write_runtime_configuration};
use crate::folders::{file_name, with_extension};
use crate::outcome::{Context, Outcome, bail};
use crate::runtimes::Runtime;
use crate::{cache, process, runtimes};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the sources, relative to the repository.
const SOURCES: &str = "tests/targets";

/// A line at the top of a source file.
const ALSO_DEBUG: &str = "// also: debug";

/// The framework that a program needs, and its lowest version.
#[derive(Debug, PartialEq, Eq)]
pub struct Needs {
    framework: String,
    version: String,
}

impl Needs {
    /// Parses the head of a source file.
    fn of(source: &str) -> Needs {
        let stated = source.lines().take_while(|line| line.starts_with("//")).find_map(|line| {
            let (framework, version) = line.strip_prefix("// needs: ")?.trim().split_once(' ')?;
            Some(Needs { framework: framework.into(), version: version.into() })
        });
        stated.unwrap_or_else(|| Needs { framework: "Microsoft.NETCore.App".into(), version: "3.1".into() })
    }

    /// The folders with reference assemblies.
    fn references(&self) -> Outcome<Vec<PathBuf>> {
        let runtime: Runtime = match self.version.as_str() {
            "3.1" => runtimes::dotnet_3_1()?,
            "8.0" => runtimes::dotnet_8()?,
            "9.0" => runtimes::dotnet_9()?,
            other => bail!("a test program needs {} {other}; there are assemblies of 3.1, 8.0 and 9.0", self.framework),
        };
        let mut folders: Vec<PathBuf> = runtime.framework("Microsoft.NETCore.App").into_iter().collect();
        if self.framework != "Microsoft.NETCore.App" {
            match runtime.framework(&self.framework) {
                Some(folder) => folders.push(folder),
                None => bail!("{} has no {}", runtime.root.display(), self.framework),
            }
        }
        Ok(folders)
    }
}

/// Compiles changed programs and returns a folder with one folder for each program, and `native` for those in C.
pub fn provide(target_folder: &Path) -> Outcome<PathBuf> {
    let together = target_folder.join("test-targets");
    fs::create_dir_all(&together).context(|| format!("cannot make {}", together.display()))?;
    let compiler = Compiler::provide()?;
    println!("test programs: C# by {}", compiler.identity);
    let folder = crate::root().join(SOURCES);
    for source in with_extension(&folder, "cs")? {
        let name = file_name(&source);
        if let Some(name) = name.strip_suffix(".cs").filter(|name| !name.ends_with(".plugin")) {
            let compiled = provide_program(&compiler, SOURCES, name)?;
            link(&compiled, &together.join(name))?;
        }
    }
    let native = provide_native(&folder.join("native"))?;
    link(&native, &together.join("native"))?;
    Ok(together)
}

/// Compiles one C# file into `assembly`, with the references that its head requests, and writes the settings file beside it.
pub fn compile_program(compiler: &Compiler, source: &Path, assembly: &Path) -> Outcome<()> {
    let path = crate::root().join(source);
    let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let needs = Needs::of(&text);
    let references = needs.references()?;
    let sources = [source.to_path_buf()];
    let kind = Kind::Program;
    let mut of = Compilation { sources: &sources, assembly, kind, is_optimized: true, references: &references };
    compiler.compile(&of)?;
    write_runtime_configuration(assembly, &needs.framework, &needs.version)?;
    if text.lines().take_while(|line| line.starts_with("//")).any(|line| line == ALSO_DEBUG) {
        let assembly = assembly.with_extension("debug.dll");
        of.assembly = &assembly;
        of.is_optimized = false;
        compiler.compile(&of)?;
        write_runtime_configuration(&assembly, &needs.framework, &needs.version)?;
    }
    Ok(())
}

/// The folder with the compiled program of this name from `sources`.
pub fn provide_program(compiler: &Compiler, sources: &str, name: &str) -> Outcome<PathBuf> {
    let source = Path::new(sources).join(format!("{name}.cs"));
    let plugin = Path::new(sources).join(format!("{name}.plugin.cs"));
    let mut ingredients = format!("{}\n{name}\n", compiler.identity).into_bytes();
    for file in [&source, &plugin] {
        ingredients.extend(fs::read(crate::root().join(file)).unwrap_or_default());
    }
    let key = process::sha256(&ingredients)?;
    cache::provide(&format!("targets/{name}-{}", &key[..16]), |folder| {
        println!("compiling {}", source.display());
        compile_program(compiler, &source, &folder.join(format!("{name}.dll")))?;
        if crate::root().join(&plugin).is_file() {
            let references = Needs { framework: "Microsoft.NETCore.App".into(), version: "3.1".into() }.references()?;
            let (sources, assembly) = ([plugin], folder.join("plugin.dll"));
            compiler.compile(&Compilation {
                sources: &sources,
                assembly: &assembly,
                kind: Kind::Library,
                is_optimized: true,
                references: &references,
            })?;
        }
        Ok(())
    })
}

/// Compiles every C file: `lib*.c` becomes a shared library, any other a program.
fn provide_native(folder: &Path) -> Outcome<PathBuf> {
    let sources = with_extension(folder, "c")?;
    let mut ingredients = Vec::new();
    for source in &sources {
        ingredients.extend(file_name(source).into_bytes());
        ingredients.extend(fs::read(source).context(|| format!("cannot read {}", source.display()))?);
    }
    let key = process::sha256(&ingredients)?;
    cache::provide(&format!("targets/native-{}", &key[..16]), |place| {
        for source in &sources {
            println!("compiling {}", file_name(source));
            let name = file_name(source).trim_end_matches(".c").to_owned();
            let mut command = Command::new("cc");
            command.args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer"]);
            if name.starts_with("lib") {
                command.args(["-shared", "-fPIC", "-o"]).arg(place.join(format!("{name}.so")));
            } else {
                command.arg("-o").arg(place.join(&name));
            }
            process::output(command.arg(source).args(["-ldl", "-lpthread", "-lrt"]))?;
        }
        Ok(())
    })
}

/// Points `link` at `place` atomically.
fn link(place: &Path, link: &Path) -> Outcome<()> {
    if fs::read_link(link).is_ok_and(|present| present == place) {
        return Ok(());
    }
    let fresh = link.with_extension(format!("{}.new", std::process::id()));
    std::os::unix::fs::symlink(place, &fresh).context(|| format!("cannot make {}", fresh.display()))?;
    fs::rename(&fresh, link).context(|| format!("cannot make {}", link.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_what_it_needs_at_its_head_only() {
        let needs = |framework: &str, version: &str| Needs { framework: framework.into(), version: version.into() };
        assert_eq!(Needs::of("// Burns.\nusing System;\n// needs: X 9.0\n"), needs("Microsoft.NETCore.App", "3.1"));
        assert_eq!(
            Needs::of("// A server.\n// needs: Microsoft.AspNetCore.App 9.0\n"),
            needs("Microsoft.AspNetCore.App", "9.0")
        );
    }
}
