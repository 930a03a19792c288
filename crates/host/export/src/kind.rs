//! The owner of a frame's code, for colours and categories. Only file names decide, since nothing else is known here.

use remora_profile::{Frame, FrameKind, Profile};

/// The owner of a frame's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Managed code of the application and its libraries.
    Application,
    /// Managed code that comes with .NET: `System.*`, `Microsoft.*`.
    Framework,
    /// Machine code that is not the runtime's: libc, the kernel's entry points, native libraries.
    Native,
    /// The runtime itself: execution engine, JIT, GC, host, its native shims.
    Runtime,
    /// Not code: `[unknown]`, `[truncated]` and other marks.
    Marker,
}

/// ELF files of the runtime.
const RUNTIME_FILES: [&str; 10] = [
    "libcoreclr",
    "libclrjit",
    "libclrgc",
    "libclretwrc",
    "libclrinterpreter",
    "libhostfxr",
    "libhostpolicy",
    "libnethost",
    "libmscordaccore",
    "libSystem.",
];

/// Assemblies of .NET not called `System.*` or `Microsoft.*`.
const FRAMEWORK_FILES: [&str; 4] = ["mscorlib", "netstandard", "WindowsBase", "System"];

impl Kind {
    /// Every kind, in the order of [`Kind::index`].
    pub const ALL: [Kind; 5] = [Kind::Application, Kind::Framework, Kind::Native, Kind::Runtime, Kind::Marker];

    /// Its index in [`Kind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The displayed text.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Application => "Application",
            Kind::Framework => "Framework",
            Kind::Native => "Native",
            Kind::Runtime => "Runtime",
            Kind::Marker => "Unknown and marks",
        }
    }

    /// The kind of `frame`.
    pub fn of(profile: &Profile, frame: &Frame) -> Kind {
        let module = frame.module.map(|module| profile.text(module));
        match frame.kind {
            FrameKind::Managed => managed(module, profile.text(frame.name)),
            FrameKind::Native => native(module),
            FrameKind::Unknown | FrameKind::Synthetic => Kind::Marker,
        }
    }
}

/// Without a file (a dynamic method, say) the namespace decides.
fn managed(module: Option<&str>, name: &str) -> Kind {
    let decisive = module.unwrap_or(name);
    let stem = decisive.strip_suffix(".dll").or_else(|| decisive.strip_suffix(".exe")).unwrap_or(decisive);
    if stem.starts_with("System.") || stem.starts_with("Microsoft.") || FRAMEWORK_FILES.contains(&stem) {
        Kind::Framework
    } else {
        Kind::Application
    }
}

fn native(module: Option<&str>) -> Kind {
    let of_runtime = |file: &str| {
        file == "dotnet" || RUNTIME_FILES.iter().any(|known| file.starts_with(known) && file.contains(".so"))
    };
    if module.is_some_and(of_runtime) { Kind::Runtime } else { Kind::Native }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_tell_whose_code_it_is() {
        let check = |kind, name: &str, module: Option<&str>, expected| {
            let mut profile = Profile::default();
            let frame = Frame {
                kind,
                name: profile.string(name),
                module: module.map(|module| profile.string(module)),
                file: None,
                line: None,
            };
            assert_eq!(Kind::of(&profile, &frame), expected, "{name} in {module:?}");
        };
        check(FrameKind::Managed, "Shop.Orders.Price()", Some("Shop.dll"), Kind::Application);
        check(FrameKind::Managed, "System.Linq.Mine()", Some("Shop.dll"), Kind::Application);
        check(FrameKind::Managed, "Systematic.Run()", Some("Systematic.dll"), Kind::Application);
        check(FrameKind::Managed, "string.Concat()", Some("System.Private.CoreLib.dll"), Kind::Framework);
        check(FrameKind::Managed, "System.Text.RegularExpressions.Dynamic()", None, Kind::Framework);
        check(FrameKind::Managed, "lambda_method1()", None, Kind::Application);
        check(FrameKind::Native, "memcpy", Some("libc.so.6"), Kind::Native);
        check(FrameKind::Native, "libcoreclr.so+0x12", Some("libcoreclr.so"), Kind::Runtime);
        check(FrameKind::Native, "SystemNative_Read", Some("libSystem.Native.so"), Kind::Runtime);
        check(FrameKind::Native, "main", Some("dotnet"), Kind::Runtime);
        check(FrameKind::Native, "main", None, Kind::Native);
        check(FrameKind::Unknown, "[unknown]", None, Kind::Marker);
        check(FrameKind::Synthetic, "[truncated]", None, Kind::Marker);
    }
}
