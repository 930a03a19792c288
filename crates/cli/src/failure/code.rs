//! The code of each failure: kebab case, and it keeps its meaning.

use super::Failure;
use remora_trigger::Subject;

impl Failure {
    /// The code; that of the cause, where the failure only adds where the result is.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Failure::Attach(error) => error.code(),
            Failure::Collector(error) => error.code(),
            Failure::Precondition { subject, .. } => of_a_check(*subject),
            Failure::OfAHeap(failure) | Failure::Saved { failure, .. } | Failure::Kept { failure, .. } => {
                failure.code()
            }
            Failure::Recording { error, .. } => error.code(),
            Failure::HeapFile { error, .. } => error.code(),
            Failure::Snapshot(error) => error.code(),
            Failure::Index(error) => error.code(),
            other => other.into(),
        }
    }
}

/// The code of a precondition that does not hold. Where attaching fails for the same reason, it has the same code.
fn of_a_check(subject: Subject) -> &'static str {
    match subject {
        Subject::Process => "no-such-process",
        Subject::Runtime => "runtime-not-loaded",
        Subject::Rights => "not-owner",
        Subject::DiagnosticsPort => "no-socket",
        Subject::Running => "process-stopped",
        Subject::Mappings => "mappings-unreadable",
        Subject::Architecture => "other-architecture",
        Subject::Libc => "libc-not-suitable",
        Subject::Libraries => "libraries-missing",
        Subject::Directory => "no-library-place",
        Subject::ProfilerSlot => "profiler-slot-taken",
        Subject::OwnAgent => "recording-in-progress",
        Subject::Signals => "too-few-signals",
        Subject::Descriptors | Subject::AgentDescriptors => "too-few-descriptors",
        Subject::Answer => "timed-out",
        _ => "precondition",
    }
}

/// Every code that a failure can have.
#[cfg(test)]
pub(crate) fn all() -> std::collections::BTreeSet<&'static str> {
    use strum::VariantNames;
    /// Variants that show the code of what they carry.
    const CARRIERS: [&str; 11] = [
        "attach",
        "collector",
        "precondition",
        "of-a-heap",
        "saved",
        "kept",
        "recording",
        "heap-file",
        "snapshot",
        "index",
        "not-attachable",
    ];
    let checks = [
        Subject::Mappings,
        Subject::Architecture,
        Subject::Libc,
        Subject::Libraries,
        Subject::Signals,
        Subject::Descriptors,
    ];
    let lists = [
        Failure::VARIANTS,
        remora_trigger::Error::VARIANTS,
        remora_trigger::Reason::VARIANTS,
        remora_collector::Error::VARIANTS,
        remora_recording::Error::VARIANTS,
        remora_heap_file::Error::VARIANTS,
        remora_heap_view::Error::VARIANTS,
        remora_receipt::Error::VARIANTS,
    ];
    let variants = lists.into_iter().flatten().copied().filter(|code| !CARRIERS.contains(code));
    variants.chain(checks.map(of_a_check)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_its_heading_in_the_troubleshooting_page_in_order() {
        let page = include_str!("../../../../docs/troubleshooting.md");
        let headings: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
        let codes: Vec<&str> = all().into_iter().collect();
        let missing: Vec<&&str> = codes.iter().filter(|code| !headings.contains(code)).collect();
        assert!(missing.is_empty(), "without a heading: {missing:?}");
        let known: BTreeSet<&str> = all();
        let stale: Vec<&&str> = headings.iter().filter(|code| !known.contains(**code)).collect();
        assert!(stale.is_empty(), "headings that are no code: {stale:?}");
        assert!(headings.is_sorted(), "the headings are not in order");
    }
}
