//! Codes in findings.

use corprof::HResult;

/// A code in the spelling of the report, and its name: `0x80004005 (E_FAIL)`.
pub(super) fn named_code(code: HResult) -> String {
    let name = code.name().map_or_else(String::new, |name| format!(" ({name})"));
    format!("{:#010x}{name}", code.0)
}
