//! Which assemblies come with .NET, and how a pattern names things: the same in the target and in the recorder.

/// Assemblies of .NET not called `System.*` or `Microsoft.*`.
const FRAMEWORK_FILES: [&str; 4] = ["mscorlib", "netstandard", "WindowsBase", "System"];

/// Whether an assembly comes with .NET, by its name or file name.
pub fn is_framework(assembly: &str) -> bool {
    let stem = assembly.strip_suffix(".dll").or_else(|| assembly.strip_suffix(".exe")).unwrap_or(assembly);
    stem.starts_with("System.") || stem.starts_with("Microsoft.") || FRAMEWORK_FILES.contains(&stem)
}

/// Whether `text` is `pattern`, in which `*` stands for any text. Case does not matter.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}
