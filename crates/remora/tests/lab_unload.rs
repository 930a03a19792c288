//! `remora lab` and threads of a profiler that still run when the runtime unloads its library: one finding, in every run.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod laboratory;

use command::Directory;
use laboratory::{LabResult, broken_profilers, run_fault, run_fault_with, run_lab, text};
use object::{Object, ObjectSection, ObjectSymbol};
use remora_holds::holds;
use serde_json::Value;

/// Enough that the scheduler has every order.
const RUNS: u64 = 16;

fn refused(profiler: &str) -> LabResult {
    let result = run_fault_with(profiler, &["--seeds", &RUNS.to_string()]);
    result.made_all(RUNS);
    result
}

/// Nothing is broken besides the clause of ways into the library, with one finding that every run has.
fn has_one_finding_in_every_run(result: &LabResult) -> bool {
    let broken: Vec<_> = result.findings.iter().filter(|finding| finding["verdict"] == "broken").collect();
    let [only] = broken[..] else { return false };
    (text(only, "clause"), text(only, "callback")) == ("DET-04", "dlclose")
        && only["runs"] == RUNS
        && text(only, "message").contains("a thread of the profiler was still running")
}

#[test]
fn det_04_a_thread_that_runs_on_after_a_refused_attach_is_one_finding_in_every_run() {
    for profiler in
        ["refuses-with-thread", "refuses-with-sleeper", "refuses-with-holder", "refuses-and-frees", "frees-at-release"]
    {
        let result = refused(profiler);
        holds!(DET_04 sim, has_one_finding_in_every_run(&result), "{profiler}: {:#?}", result.findings);
        assert_eq!(result.code, 1, "{profiler}: {}", result.stderr);
    }
}

#[test]
fn a_thread_that_ends_before_the_refusal_or_in_a_destructor_is_no_finding() {
    for profiler in ["joins-before-refusal", "joins-at-unload"] {
        let result = refused(profiler);
        result.is_clean();
        assert_eq!(result.verdict("ATT-10"), "honoured", "{profiler}");
    }
}

#[test]
fn a_destructor_that_never_returns_is_one_finding_with_its_stack() {
    let result = run_fault("hangs-at-unload");
    assert_eq!(result.broken(), [("DET-07", "dlclose")], "{:#?}", result.findings);
    assert_eq!(result.code, 1, "{}", result.stderr);
    let finding = result.findings.iter().find(|one| one["verdict"] == "broken").expect("one");
    assert_eq!(text(finding, "message"), "dlclose has not returned within 4 seconds");
    hangs_in(&result, "hangs-at-unload");
    assert_eq!(result.verdict("DET-17"), "not_exercised");
}

#[test]
fn mod_01_a_thread_of_the_profilers_own_that_never_leaves_a_destructor_is_one_finding_with_its_stack() {
    // In other runs, the runtime may have the last reference.
    let result = run_fault_with("hangs-at-own-unload", &["--seeds", "1"]);
    holds!(MOD_01 sim, result.breaks("MOD-01", "") == Ok(()));
    hangs_in(&result, "hangs-at-own-unload");
    hangs_in(&run_fault("hangs-at-own-unload"), "hangs-at-own-unload");
}

#[test]
fn det_17_a_destructor_that_never_lets_the_process_exit_is_one_finding_with_its_stack() {
    let result = run_fault("hangs-at-exit");
    holds!(DET_17 sim, result.breaks("DET-17", "") == Ok(()));
    hangs_in(&result, "hangs-at-exit");
}

/// There is one finding, and its stack has a frame of this profiler.
#[track_caller]
fn hangs_in(result: &LabResult, profiler: &str) {
    assert_eq!(result.broken().len(), 1, "{:#?}", result.findings);
    let finding = result.findings.iter().find(|one| one["verdict"] == "broken").expect("one");
    let frames = finding["crash"]["backtrace"].as_array().expect("a list").iter().filter_map(Value::as_str);
    assert!(frames.into_iter().any(|frame| frame.starts_with(&format!("{profiler}.so+0x"))), "{finding:#}");
}

/// The profiler holds a reference of its own, so the last one to unmap the library is not the runtime.
#[test]
fn det_04_a_way_into_a_library_that_its_profiler_has_unmapped_is_one_finding() {
    let result = run_fault("leaves-exit-handler");
    holds!(DET_04 sim, result.breaks("DET-04", "") == Ok(()));
    assert_eq!(result.broken().len(), 1, "{:#?}", result.findings);
    let finding = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert!(text(finding, "message").contains("at an address of the library after it was unmapped"), "{finding:#}");
}

/// The only finding on a changed copy of a correct profiler.
#[track_caller]
fn finding_on_changed(name: &str, change: impl Fn(&mut [u8])) -> String {
    let mut bytes = std::fs::read(broken_profilers()).expect("read");
    change(&mut bytes);
    let folder = Directory::new();
    let library = folder.path(name);
    std::fs::write(&library, bytes).expect("written");
    let result = run_lab(&library, &["--runtime-version", "core8"]);
    assert_eq!(result.broken().len(), 1, "{:#?}", result.findings);
    let finding = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    format!("{} {}", text(finding, "clause"), text(finding, "message"))
}

/// As `-z nodelete` does. In place of the count of relative relocations, which is only a hint.
fn set_nodelete(bytes: &mut [u8]) {
    let (relacount, flags_1, nodelete) = (0x6fff_fff9_u64, 0x6fff_fffb_u64, 8_u64);
    let place = |tag: u64| bytes.windows(8).position(|word| word == tag.to_le_bytes());
    let place = place(flags_1).or_else(|| place(relacount)).expect("an entry");
    bytes[place..place + 8].copy_from_slice(&flags_1.to_le_bytes());
    bytes[place + 8..place + 16].copy_from_slice(&nodelete.to_le_bytes());
}

/// As g++ does with static variables of inline functions.
fn make_unique(bytes: &mut [u8]) {
    let file = object::File::parse(&*bytes).expect("a library");
    let (table, _) = file.section_by_name(".dynsym").and_then(|section| section.file_range()).expect("symbols");
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("DllGetClassObject")).expect("exported");
    let info = table as usize + symbol.index().0 * 24 + 4;
    bytes[info] = (10 << 4) | (bytes[info] & 0xf);
}

#[test]
fn det_14_a_library_that_the_linker_never_unmaps_is_named_with_the_remedy() {
    let unique = finding_on_changed("unique.so", make_unique);
    holds!(DET_14 sim, unique.starts_with("DET-14 the library is still mapped"), "{unique}");
    assert!(unique.contains("such as DllGetClassObject): compile it with -fno-gnu-unique"), "{unique}");
    let flagged = finding_on_changed("flagged.so", set_nodelete);
    assert!(flagged.starts_with("DET-14 ") && flagged.contains("link it without `-z nodelete`"), "{flagged}");
}
