//! The code of each failure, in kebab case. A code keeps its meaning.

use super::Failure;
use crate::exit::Exit;
use remora_attach::Subject;

impl Failure {
    /// The code. Where the failure only adds the result's location, the code of its cause.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Failure::Attach(error) => error.code(),
            Failure::Collector(error) => error.code(),
            Failure::Precondition { subject, .. } => of_a_check(*subject).0,
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

/// The code of a failed precondition, and its exit status. An attach that fails for the same reason has the same code.
pub(super) fn of_a_check(subject: Subject) -> (&'static str, Exit) {
    match subject {
        Subject::Process => ("no-such-process", Exit::NoProcess),
        Subject::Runtime => ("runtime-not-loaded", Exit::Unsupported),
        Subject::Rights => ("not-owner", Exit::NoPermission),
        Subject::DiagnosticsPort => ("no-socket", Exit::DiagnosticsOff),
        Subject::Running => ("process-stopped", Exit::NoAnswer),
        Subject::Mappings => ("mappings-unreadable", Exit::NoPermission),
        Subject::Architecture => ("other-architecture", Exit::CannotLoad),
        Subject::Libc => ("libc-not-suitable", Exit::CannotLoad),
        Subject::Libraries => ("libraries-missing", Exit::CannotLoad),
        Subject::Directory => ("no-library-place", Exit::CannotLoad),
        Subject::ProfilerSlot => ("profiler-slot-taken", Exit::SlotTaken),
        Subject::OwnAgent => ("recording-in-progress", Exit::Held),
        Subject::Signals => ("too-few-signals", Exit::Refused),
        Subject::Descriptors | Subject::AgentDescriptors => ("too-few-descriptors", Exit::Refused),
        Subject::AddressSpace => ("no-memory", Exit::Refused),
        Subject::Answer => ("timed-out", Exit::NoAnswer),
        // Only a note: the agent finds out what is refused.
        Subject::Confinement => ("agent-refused", Exit::Refused),
    }
}

/// Every code that a failure can have.
#[cfg(test)]
pub(crate) fn all() -> std::collections::BTreeSet<&'static str> {
    use strum::VariantNames;
    /// Variants that show the code of their cause.
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
        remora_attach::Error::VARIANTS,
        remora_attach::Reason::VARIANTS,
        remora_collector::Error::VARIANTS,
        remora_recording::Error::VARIANTS,
        remora_heap_file::Error::VARIANTS,
        remora_heap_view::Error::VARIANTS,
        remora_receipt::Error::VARIANTS,
    ];
    let variants = lists.into_iter().flatten().copied().filter(|code| !CARRIERS.contains(code));
    variants.chain(checks.map(|check| of_a_check(check).0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::Path;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

    /// The pages of docs/troubleshooting, by file name.
    fn pages() -> BTreeMap<String, String> {
        let folder = fs::read_dir(Path::new(DOCS).join("troubleshooting")).expect("the folder is there");
        let paths = folder.map(|entry| entry.expect("it can be read").path());
        let name = |path: &Path| path.file_name().expect("it has a name").to_string_lossy().into_owned();
        paths.map(|path| (name(&path), fs::read_to_string(&path).expect("it is text"))).collect()
    }

    fn headings(page: &str) -> Vec<&str> {
        page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect()
    }

    #[test]
    fn every_code_has_one_heading_in_the_troubleshooting_pages_in_order() {
        let pages = pages();
        let mut found = BTreeSet::new();
        for (name, page) in &pages {
            let headings = headings(page);
            assert!(headings.is_sorted(), "{name}: the headings are not in order");
            for heading in headings {
                assert!(found.insert(heading), "{name}: {heading} has a heading already");
            }
        }
        let known = all();
        let missing: Vec<_> = known.difference(&found).collect();
        assert!(missing.is_empty(), "without a heading: {missing:?}");
        let stale: Vec<_> = found.difference(&known).collect();
        assert!(stale.is_empty(), "headings without a code: {stale:?}");
    }

    #[test]
    fn the_reference_lists_every_code_with_a_link_to_its_heading() {
        let reference = fs::read_to_string(Path::new(DOCS).join("reference/errors.md")).expect("the page is there");
        let pages = pages();
        let mut listed = Vec::new();
        for row in reference.lines().filter_map(|line| line.strip_prefix("| [`")) {
            let (code, rest) = row.split_once("`](../troubleshooting/").expect("a code and a link");
            let (link, _) = rest.split_once(')').expect("the link ends");
            let (page, anchor) = link.split_once('#').expect("it leads to a heading");
            assert_eq!(anchor, code);
            assert!(pages.get(page).is_some_and(|page| headings(page).contains(&code)), "{code} is not on {page}");
            listed.push(code);
        }
        assert_eq!(listed, all().into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn every_code_of_the_runtime_is_in_the_table() {
        let page = &pages()["runtime-codes.md"];
        let names = remora_attach::hresult::table().iter().map(|row| row.name);
        let missing: Vec<&str> = names.filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
