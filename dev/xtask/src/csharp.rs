//! Compiles C# without requiring a .NET SDK: with an installed SDK's compiler, otherwise with one assembled here.
//!
//! The assembled one is the compiler as a library (Roslyn, from an npm package) on a runtime (.NET 8.0.4). Debian's `mcs` compiles a
//! command line for it (`dev/xtask/csc/csc.cs`).
//! `mcs` alone is not enough: it mangles names differently and writes no portable PDB.

use crate::folders::with_extension;
use crate::outcome::{Context, Outcome, bail};
use crate::{cache, debian, packages, process, runtimes};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler.
pub struct Compiler {
    launcher: PathBuf,
    /// The assembly to start, and its first arguments.
    pub program: Vec<PathBuf>,
    /// The compiler's identity, part of the cache key of its results.
    pub identity: String,
}

/// One assembly to compile.
pub struct Compilation<'a> {
    /// The source files, relative to the repository.
    pub sources: &'a [PathBuf],
    /// The output; its debug information is put beside it.
    pub assembly: &'a Path,
    /// Program or library.
    pub kind: Kind,
    /// As for a release; otherwise as for debugging.
    pub is_optimized: bool,
    /// Folders with assemblies that it may reference.
    pub references: &'a [PathBuf],
}

/// The kind of assembly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program, with an entry point.
    Program,
    /// A library for a program.
    Library,
}

/// What every compilation has in common.
const FLAGS: &str = "-nologo -noconfig -nostdlib -deterministic -unsafe -debug:portable \
                     -langversion:latest -nullable:disable";

impl Compiler {
    /// The SDK's compiler, otherwise our own.
    pub fn provide() -> Outcome<Compiler> {
        match sdk_compiler() {
            Some(compiler) => Ok(compiler),
            None => own_compiler(),
        }
    }

    /// Compiles one assembly. Prints warnings; errors are the failure.
    pub fn compile(&self, compilation: &Compilation<'_>) -> Outcome<()> {
        let mut command = self.command();
        command.args(FLAGS.split(' '));
        command.arg(format!("-pathmap:{}=.", crate::root().display()));
        command.arg(match compilation.kind {
            Kind::Program => "-target:exe",
            Kind::Library => "-target:library",
        });
        command.arg(if compilation.is_optimized { "-optimize+" } else { "-optimize-" });
        command.arg(option("-out:", compilation.assembly));
        for folder in compilation.references {
            for assembly in with_extension(folder, "dll")? {
                command.arg(option("-r:", &assembly));
            }
        }
        command.args(compilation.sources);
        let said = process::output(&mut command).map_err(|failure| shorten(&failure.to_string()))?;
        print!("{said}");
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(&self.program).env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1").env("DOTNET_TieredPGO", "0");
        command.current_dir(crate::root());
        command
    }
}

/// Writes the settings file that `dotnet` needs to start a program: any runtime from `version` upwards.
pub fn write_runtime_configuration(assembly: &Path, framework: &str, version: &str) -> Outcome<()> {
    let configuration = serde_json::json!({ "runtimeOptions": {
        "rollForward": "LatestMajor",
        "framework": { "name": framework, "version": format!("{version}.0") },
        "configProperties": { "System.Globalization.Invariant": true },
    }});
    let path = assembly.with_extension("runtimeconfig.json");
    fs::write(&path, format!("{configuration:#}\n")).context(|| format!("cannot write {}", path.display()))
}

fn sdk_compiler() -> Option<Compiler> {
    let mut compilers = Vec::new();
    for root in runtimes::installed_roots() {
        for sdk in fs::read_dir(root.join("sdk")).into_iter().flatten().flatten() {
            let program = sdk.path().join("Roslyn/bincore/csc.dll");
            if program.is_file() {
                compilers.push((sdk.file_name(), root.join("dotnet"), program));
            }
        }
    }
    let (version, launcher, program) = compilers.into_iter().max()?;
    let identity = format!("SDK {}", version.to_string_lossy());
    Some(Compiler { launcher, program: vec![program], identity })
}

fn own_compiler() -> Outcome<Compiler> {
    let launcher = runtimes::dotnet_8()?.launcher();
    let driver_source = crate::root().join("dev/xtask/csc/csc.cs");
    let source = fs::read(&driver_source).context(|| format!("cannot read {}", driver_source.display()))?;
    let key = &process::sha256(&source)?[..16];
    let roslyn = packages::provide("roslyn")?;
    let driver = cache::provide(&format!("compiler/driver-{key}"), |folder| compile_driver(&driver_source, folder))?;
    let identity = format!("Roslyn {}, driver {key}", packages::package("roslyn")?.version);
    Ok(Compiler { launcher, program: vec![driver.join("csc.dll"), roslyn], identity })
}

/// Compiles our command line with `mcs`, against .NET Core 3.1, the last version whose assemblies `mcs` can read.
fn compile_driver(source: &Path, folder: &Path) -> Outcome<()> {
    const REFERENCES: [&str; 12] = [
        "Microsoft.CSharp",
        "netstandard",
        "System.Collections",
        "System.Console",
        "System.Core",
        "System.IO.FileSystem",
        "System.Linq",
        "System.Linq.Expressions",
        "System.Private.CoreLib",
        "System.Runtime",
        "System.Runtime.Extensions",
        "System.Runtime.Loader",
    ];
    install_mcs()?;
    let Some(assemblies) = runtimes::dotnet_3_1()?.framework("Microsoft.NETCore.App") else {
        bail!("the fetched .NET Core 3.1 has no Microsoft.NETCore.App");
    };
    let assembly = folder.join("csc.dll");
    let mut command = Command::new("mcs");
    command.args(["-nologo", "-nostdlib", "-noconfig", "-langversion:7.2", "-nowarn:1701,1702"]);
    command.arg(option("-out:", &assembly));
    for reference in REFERENCES {
        command.arg(option("-r:", &assemblies.join(format!("{reference}.dll"))));
    }
    process::output(command.arg(source)).context(|| "mcs cannot compile the compiler's command line")?;
    write_runtime_configuration(&assembly, "Microsoft.NETCore.App", "8.0")
}

fn install_mcs() -> Outcome<()> {
    let purpose = "the C# compiler is started with it; any installed .NET SDK would do as well";
    debian::ensure(&["mcs"], &["mono-mcs"], purpose)
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}{}", path.display())
}

/// The compiler's message without the command line, which names hundreds of reference assemblies.
fn shorten(message: &str) -> crate::outcome::Failure {
    let said: Vec<&str> = message.lines().filter(|line| !line.starts_with('`')).collect();
    crate::outcome::Failure::new(format!("the C# compiler refused:\n{}", said.join("\n")))
}
