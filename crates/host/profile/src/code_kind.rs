//! The owner of a frame's code, for colours and categories. Only file names decide, since nothing else is known here.

use crate::runtime_names::is_of_runtime;
use crate::{Frame, FrameKind, Profile};
use remora_wire::is_framework;

/// The owner of a frame's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeKind {
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

impl CodeKind {
    /// Every kind, in the order of [`CodeKind::index`].
    pub const ALL: [CodeKind; 5] =
        [CodeKind::Application, CodeKind::Framework, CodeKind::Native, CodeKind::Runtime, CodeKind::Marker];

    /// Its index in [`CodeKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The displayed text.
    pub fn label(self) -> &'static str {
        match self {
            CodeKind::Application => "Application",
            CodeKind::Framework => "Framework",
            CodeKind::Native => "Native",
            CodeKind::Runtime => "Runtime",
            CodeKind::Marker => "Unknown and marks",
        }
    }

    /// The kind of `frame`.
    pub fn of(profile: &Profile, frame: &Frame) -> CodeKind {
        let module = frame.module.map(|module| profile.text(module));
        match frame.kind {
            FrameKind::Managed => managed(module, profile.text(frame.name)),
            FrameKind::Native => native(module),
            FrameKind::Synthetic if is_of_runtime(profile.text(frame.name)) => CodeKind::Runtime,
            FrameKind::Unknown | FrameKind::Synthetic => CodeKind::Marker,
        }
    }
}

/// Without a file (a dynamic method, say) the namespace decides.
fn managed(module: Option<&str>, name: &str) -> CodeKind {
    if is_framework(module.unwrap_or(name)) { CodeKind::Framework } else { CodeKind::Application }
}

fn native(module: Option<&str>) -> CodeKind {
    let of_runtime = |file: &str| {
        file == "dotnet" || RUNTIME_FILES.iter().any(|known| file.starts_with(known) && file.contains(".so"))
    };
    if module.is_some_and(|file| is_file_name(file) && of_runtime(file)) { CodeKind::Runtime } else { CodeKind::Native }
}

/// Whether a file can have this name (`NAME_MAX`). A longer one is not searched: a recording may give it to each of a million frames.
pub(crate) fn is_file_name(name: &str) -> bool {
    name.len() <= 255
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
            assert_eq!(CodeKind::of(&profile, &frame), expected, "{name} in {module:?}");
        };
        check(FrameKind::Managed, "Shop.Orders.Price()", Some("Shop.dll"), CodeKind::Application);
        check(FrameKind::Managed, "System.Linq.Mine()", Some("Shop.dll"), CodeKind::Application);
        check(FrameKind::Managed, "Systematic.Run()", Some("Systematic.dll"), CodeKind::Application);
        check(FrameKind::Managed, "string.Concat()", Some("System.Private.CoreLib.dll"), CodeKind::Framework);
        check(FrameKind::Managed, "System.Text.RegularExpressions.Dynamic()", None, CodeKind::Framework);
        check(FrameKind::Managed, "lambda_method1()", None, CodeKind::Application);
        check(FrameKind::Native, "memcpy", Some("libc.so.6"), CodeKind::Native);
        check(FrameKind::Native, "libcoreclr.so+0x12", Some("libcoreclr.so"), CodeKind::Runtime);
        check(FrameKind::Native, "SystemNative_Read", Some("libSystem.Native.so"), CodeKind::Runtime);
        check(FrameKind::Native, "main", Some("dotnet"), CodeKind::Runtime);
        let long = format!("libcoreclr{}.so", "n".repeat(16 << 10));
        check(FrameKind::Native, "main", Some(&long), CodeKind::Native);
        check(FrameKind::Native, "main", None, CodeKind::Native);
        check(FrameKind::Unknown, "[unknown]", None, CodeKind::Marker);
        check(FrameKind::Synthetic, "[truncated]", None, CodeKind::Marker);
        check(FrameKind::Synthetic, "[GC]", None, CodeKind::Runtime);
        check(FrameKind::Synthetic, "[thread start]", None, CodeKind::Runtime);
    }
}
