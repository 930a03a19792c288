//! `remora lab --from-start`: profilers that the runtime loads before the program, with the clauses that apply to them.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod laboratory;

use command::{Directory, remora};
use laboratory::{LabResult, SEEDS, broken_profilers, run_fault, run_fault_with, run_lab};

fn from_start(profiler: &str) -> LabResult {
    run_fault_with(profiler, &["--from-start", "--seeds", SEEDS])
}

#[test]
fn honest_profilers_pass_from_startup_on_every_core() {
    let folder = Directory::new();
    for name in ["honest", "honest-thread", "only-from-start"] {
        let library = folder.path(&format!("{name}.so"));
        std::fs::copy(broken_profilers(), &library).expect("copied");
        let result = run_lab(&library, &["--from-start"]);
        result.is_clean();
        let verdicts = ["ATT-17", "DET-04", "DET-10", "DET-14"].map(|clause| result.verdict(clause));
        assert_eq!(verdicts, ["honoured"; 4], "{name}");
        let clauses = result.findings.iter().map(|finding| laboratory::text(finding, "clause"));
        assert_eq!(clauses.filter(|clause| ["ATT-10", "ATT-20", "DET-12"].contains(clause)).count(), 0);
    }
    // The others may have left before the exit.
    let stays = from_start("stays");
    stays.is_clean();
    assert_eq!(stays.verdict("DET-17"), "honoured");
}

#[test]
fn the_faults_of_a_profiler_from_startup_are_found() {
    assert_eq!(from_start("crashes").breaks("MOD-01", "ModuleLoadFinished"), Ok(()));
    assert_eq!(from_start("crashes-on-load").breaks("MOD-01", "dlopen"), Ok(()));
    assert_eq!(from_start("hangs-in-initialize").breaks("DET-07", "Initialize"), Ok(()));
    assert_eq!(from_start("refuses-class").breaks("ATT-17", "DllGetClassObject"), Ok(()));
    assert_eq!(from_start("refuses-instance").breaks("ATT-17", "CreateInstance"), Ok(()));
    assert_eq!(from_start("refuses-with-thread").breaks("DET-04", "dlclose"), Ok(()));
    assert_eq!(from_start("leaves-timer").leaves("a POSIX timer"), Ok(()));
    assert_eq!(from_start("asks-without-reference").breaks("DET-05", "RequestProfilerDetach"), Ok(()));
    // The flag is allowed at startup, and forbids the detach.
    assert_eq!(from_start("sets-rejit").breaks("DET-02", "ModuleUnloadFinished"), Ok(()));
}

#[test]
fn a_refused_start_breaks_nothing() {
    let result = from_start("refuses-attach");
    result.is_clean();
    assert_eq!(result.verdict("ATT-17"), "not_exercised");
}

#[test]
fn a_profiler_that_only_works_from_startup_is_told_the_flag() {
    let attached = run_fault("only-from-start");
    assert_eq!(attached.code, 3);
    assert!(attached.stderr.contains("test it with `--from-start`"), "{}", attached.stderr);
    let started = from_start("does-nothing");
    assert_eq!(started.code, 3);
    assert!(
        started.stderr.starts_with("remora: the profiler was loaded at startup and did nothing"),
        "{}",
        started.stderr
    );
}

#[test]
fn the_output_has_the_mode() {
    let folder = Directory::new();
    let library = folder.path("honest.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let one = ["lab", &library, "--seeds", "1", "--runtime-version", "core8"];
    for (more, mode, callback) in
        [(&[][..], "attach", "(InitializeForAttach)"), (&["--from-start"], "from_start", "(Initialize)")]
    {
        let ran = remora([&one[..], more].concat());
        assert!(ran.stderr.contains(callback), "{ran:?}");
        let ran = remora([&one[..], more, &["--json"]].concat());
        let shown: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(shown["mode"], mode);
    }
}

#[test]
fn from_start_needs_a_library_and_takes_no_client_data() {
    assert!(remora(["lab", "--from-start"]).fails(2).contains("LIBRARY"));
    assert_eq!(remora(["lab", "--from-start", "x.so", "--client-data", "x"]).code, 2);
}
