//! The model broken on purpose, one behaviour at a time: a test of a clause that does not notice its behaviour broken holds nothing.
//!
//! `cargo xtask contract --mutate` breaks each in turn and runs the tests that carry the clause's number.
//! Without the feature `mutations` every switch is a constant and nothing of this is left: what people run must not carry it.
//!
//! tidy: catalogue

/// Each switch, and what the model does wrong when it is on. A clause that promises several things has several: `DET-06/2`.
pub const ALL: &[(&str, &str)] = &[
    ("ATT-01", "the end of the trigger ends the runtimes of every process"),
    ("ATT-02", "the library is asked for another class than the trigger named"),
    ("ATT-02/2", "the client data does not arrive"),
    ("ATT-02/3", "the desktop's time-out does not end the wait"),
    ("ATT-03", "what cannot be attached to is left out of the list"),
    ("ATT-03/2", "a runtime that has no profiling API is answered for as if there were none"),
    ("ATT-04", "a process without a runtime is said not to exist"),
    ("ATT-04/2", "the failure does not name the way to profile from the start"),
    ("ATT-05", "anybody may attach"),
    ("ATT-05/2", "the integrity level counts for nothing"),
    ("ATT-05/3", "an administrator needs no SE_DEBUG_NAME"),
    ("ATT-06", "a library that the target's user may not read is loaded"),
    ("ATT-06/2", "a library of another architecture is answered for as a missing one"),
    ("ATT-07", "a second main profiler is let in"),
    ("ATT-07/2", "desktop and 3.1 load the second profiler's library before they refuse it"),
    ("ATT-08", "a blocked finalizer does not hold an attach up"),
    ("ATT-08/2", "Core ends the trigger's wait at the time-out of the request"),
    ("ATT-08/3", "a failed attach keeps the place"),
    ("ATT-08/4", "an attach that takes half a minute comes to nothing"),
    ("ATT-09", "a profiler without ICorProfilerCallback3 is initialised"),
    ("ATT-10", "a profiler that fails to initialise is kept"),
    ("ATT-10/2", "E_NOTIMPL reaches the trigger of Core as it is"),
    ("ATT-11", "the client data is not freed when InitializeForAttach has returned"),
    ("ATT-11/2", "a message that is too large is sent"),
    ("ATT-12", "an attached profiler may set every bit that is not immutable"),
    ("ATT-12/2", "an immutable bit is refused with the code for what is not for attaching profilers"),
    ("ATT-13", "no method of Info is refused for being attached"),
    ("ATT-14", "who asks for large objects is told of small ones"),
    ("ATT-15", "a failed attach leaves no entry"),
    ("ATT-15/2", "the log of 3.1 can be read"),
    ("ATT-16", "a stopped process begins an attach"),
    ("ATT-16/2", "a stopped process goes on in the middle of what it does"),
    ("ATT-17", "a profiler is loaded without the variable that enables it"),
    ("ATT-17/2", "a profiler from the start is given the mask of an attached one"),
    ("ATT-17/3", "a profiler from the start is taken for an attached one"),
    ("ATT-17/4", "a profiler that cannot be loaded at the start leaves no entry"),
    ("ATT-17/5", "Core looks a class without a path up in a registry"),
    ("ATT-19", "what an attached profiler may not ask for is left out and not refused"),
    ("ATT-20", "callbacks are on before InitializeForAttach"),
    ("ATT-20/2", "Core answers the trigger before ProfilerAttachComplete"),
    ("ATT-21", "GetInterface gives what attaches for a runtime before version 4"),
    ("ATT-21/2", "an enumerated runtime tells no version"),
    ("ATT-22", "the registry is consulted although there is a path"),
    ("ATT-22/2", "Core has a registry"),
    ("CAT-01", "ProfilerAttachComplete comes before InitializeForAttach"),
    ("CAT-01/2", "no callback comes before ProfilerAttachComplete has returned"),
    ("CAT-02", "nothing is found in an enumeration before callbacks are on"),
    ("CAT-02/2", "a profiler that is being initialised is told of unloads"),
    ("CAT-03", "EnumJITedFunctions lists precompiled functions"),
    ("CAT-03/2", "EnumJITedFunctions lists a method once however often it was compiled"),
    ("CAT-04", "a module that unloads is still in the list when its unload is told"),
    ("CAT-04/2", "a compiled function is not in the list when its compilation is told"),
    ("CAT-04/3", "a module is not in the list when its load is told"),
    ("CAT-05", "callbacks that come before ProfilerAttachComplete has returned are lost"),
    ("CAT-06", "loads and unloads are not told to who came when the lists had changed already"),
    ("CAT-07", "no event is fired while an enumeration is being read"),
    ("CAT-08", "the address of a precompiled function belongs to nobody"),
    ("CAT-08/2", "the runtime does not know the module of a function"),
    ("CAT-08/3", "the body from before is nobody's when a better one has been made"),
    ("CAT-09", "a stale id is answered for like an ordinary mistake"),
    ("CAT-09/2", "a list of metadata that is closed twice is not found"),
    ("CMP-01", "a profiler for 2.x needs nobody's word"),
    ("CMP-01/2", "the entry of the log names no variable"),
    ("CMP-01/3", "PreventLoad keeps nobody out"),
    ("CMP-01/4", "Windows tells capitals apart in the variable's name"),
    ("CMP-01/5", "Core asks for the user's word, too"),
    ("CMP-02", "a profiler for 1.1 is loaded"),
    ("DET-01", "a detach is refused on a thread of the profiler's own"),
    ("DET-02", "immutable flags do not forbid the detach"),
    ("DET-02/2", "what cannot be undone does not forbid the detach"),
    ("DET-03", "a profiler from the start may not detach"),
    ("DET-04", "who executes the library when it is unmapped is not found"),
    ("DET-04/2", "a way in that is open when the library is unmapped is not found"),
    ("DET-04/3", "a thread of the runtime may be tampered with"),
    ("DET-04/4", "a profiler may leave with the runtime suspended"),
    ("DET-04/5", "EventPipeStopSession does not wait for who writes"),
    ("DET-04/6", "the laboratory takes a new thread for no way in"),
    ("DET-05", "the runtime unmaps the library whoever holds it"),
    ("DET-06", "callbacks begin although the profiler is sealed"),
    ("DET-06/2", "Info answers a sealed profiler"),
    ("DET-06/3", "the seal keeps EventPipe's events out as well"),
    ("DET-07", "callbacks that run are not waited for"),
    ("DET-07/2", "a callback is waited for a few times only"),
    ("DET-08", "the runtime waits until nobody else holds the library"),
    ("DET-09", "the second sleep, to twice the expected time, is left out"),
    ("DET-09/2", "Core sleeps for as long as the profiler says"),
    ("DET-09/3", "an expected time of 0 is no time"),
    ("DET-10", "ProfilerDetachSucceeded comes twice"),
    ("DET-10/2", "the profiler is not released"),
    ("DET-11", "an attach does not wait for a detach"),
    ("DET-12", "a profiler that has left keeps its place"),
    ("DET-13", "a detach is accepted before initialisation is over"),
    ("DET-13/2", "a second request begins the detach again"),
    ("DET-14", "concurrent collections stay off"),
    ("DET-14/2", "an enumeration leaves something behind"),
    ("DET-14/3", "the library stays mapped"),
    ("DET-16", "the channel does not tell that its other end is gone"),
    ("DET-17", "a question after Shutdown is not found"),
    ("DET-18", "the departure of a main profiler is counted right"),
    ("DET-18/2", "the detach of a profiler that the runtime has lost is not found"),
    ("DET-18/3", "callbacks go to the first profiler that ever came only"),
    ("DET-19", "a callback that may not begin a collection may ask for the detach on every version"),
    ("DET-19/2", "the callback that asks is not waited for"),
    ("DET-19/3", "a thread of the runtime may ask outside of callbacks what may begin a collection"),
    ("DET-20", "a question after the seal is not found"),
    ("DET-20/2", "a question to an Info that is freed is not found"),
    ("DET-20/3", "metadata that is open when the detach is asked for is not found"),
    ("DET-20/4", "metadata that is read after the detach was accepted is not found"),
    ("DET-21", "RequestProfilerDetach returns only when the end has come"),
    ("DET-22", "what a profiler leaves behind is not found"),
    ("DET-23", "the detach is written down before the library is freed"),
    ("DET-23/2", "attaches are served again before the detach is written down"),
    ("ELT-01", "functions that the mapper leaves out are hooked"),
    ("ELT-01/2", "the path with info is taken for the fast one"),
    ("ELT-01/3", "the mapper is not handed its data"),
    ("ELT-01/4", "tail calls are not told"),
    ("ELT-02", "hooks may be set when Initialize is over"),
    ("ELT-02/2", "hooks do not forbid the detach"),
    ("ELT-02/3", "hooks are refused to an attached profiler as to any other"),
    ("GCH-01", "callbacks are not switched on in the middle of a collection"),
    ("GCH-02", "ForceGC collects the youngest generation only"),
    ("GCH-02/2", "ForceGC is allowed in callbacks"),
    ("GCH-02/3", "handles are left out of the roots"),
    ("GCH-03", "what moves is told at its old place"),
    ("GCH-03/2", "what is dead is never freed"),
    ("GCH-03/3", "what waits for the finalizer is not told"),
    ("GCH-03/4", "who asks for basics only is told of moves"),
    ("GCH-04", "an object that was born since the last collection cannot be asked about"),
    ("GCH-04/2", "an object can be asked for at its old place"),
    ("GCH-05", "MONITOR_GC is granted where collections are concurrent"),
    ("GCH-05/2", "concurrent collections are not switched off inside InitializeForAttach"),
    ("GCH-05/3", "MONITOR_GC of a profiler from the start leaves concurrent collections on"),
    ("GCH-05/4", "concurrent collections come back when a profiler from the start leaves"),
    ("GCH-05/5", "a background collection that runs is not waited for"),
    ("GCH-05/6", "what was switched off inside InitializeForAttach stays off"),
    ("GCH-05/7", "MONITOR_GC is refused after attach in every mode"),
    ("GCH-06", "frames on a stack have no functions"),
    ("GCH-06/2", "a static field holds the place from before the collection"),
    ("GCH-06/3", "Core walks threads that run"),
    ("GCH-06/4", "threads begin and end although the runtime is suspended"),
    ("MOD-01", "the court finds nothing"),
    ("RJT-01", "rejit does not forbid the detach"),
    ("RJT-01/2", "what can be unloaded is compiled again"),
    ("RJT-01/3", "the desktop has ICorProfilerInfo4"),
    ("SBS-01", "a runtime that finds the library mapped does not load it again"),
    ("SBS-02", "a profiler that declines in Initialize is kept"),
    ("SBS-02/2", "a runtime does not tell its version"),
    ("SBS-02/3", "the code with which a factory declines is lost"),
    ("SBS-03", "two runtimes use the same ids"),
    ("SBS-03/2", "one library cannot have two profilers in a runtime"),
    ("SBS-03/3", "only the first runtime of a process calls its profiler"),
    ("SBS-04", "a profiler for 2.x is loaded into every runtime of the process"),
    ("SBS-04/2", "one that declines keeps the process's place for a profiler for 2.x"),
    ("SBS-05", "a profiler that refuses a runtime keeps its place there"),
];

/// Names the switch that is on, of a run of the tests.
#[cfg(feature = "mutations")]
const VARIABLE: &str = "CLR_SIM_MUTATION";

/// Whether the model is broken in this way.
#[cfg(feature = "mutations")]
pub(crate) fn is(name: &'static str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(chosen).as_deref() == Some(name)
}

/// A name that is not in the list would break nothing, and every test would pass.
#[cfg(feature = "mutations")]
fn chosen() -> Option<String> {
    let chosen = std::env::var(VARIABLE).ok();
    let is_known = chosen.as_ref().is_none_or(|name| ALL.iter().any(|(known, _)| known == name));
    assert!(is_known, "{VARIABLE} says {chosen:?}, which is in no row of the list");
    chosen
}

/// Whether the model is broken in this way: never.
#[cfg(not(feature = "mutations"))]
pub(crate) const fn is(_name: &'static str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn read(path: impl AsRef<Path>) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("it is there")
    }

    /// Ids of clauses that the model is to show: the third cell of their row is `x`.
    fn shown(page: &str) -> BTreeSet<&str> {
        let upper = page.split("<!-- tests: begin -->").next().unwrap_or_default();
        let rows = upper.lines().filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let (id, _, sim) = (cells.next()?, cells.next()?, cells.next()?);
            let is_clause = id.split_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
            (is_clause && sim == "x").then_some(id)
        });
        rows.collect()
    }

    #[test]
    fn every_clause_that_the_model_shows_can_be_broken_and_no_other() {
        let page = read("../../docs/authors/contract.md");
        let clauses: BTreeSet<&str> = ALL.iter().filter_map(|(name, _)| name.split('/').next()).collect();
        assert_eq!(clauses, shown(&page));
    }

    /// All Rust files below a folder, as one text.
    fn source(folder: &Path) -> String {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let text = |path: std::path::PathBuf| if path.is_dir() { source(&path) } else { read(path) };
        entries.map(text).collect()
    }

    #[test]
    fn every_row_has_its_switch_in_the_model_and_every_switch_its_row() {
        let source = source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        let switches = source.split("mutation::is(\"").skip(1).filter_map(|rest| rest.split('"').next());
        let rows: BTreeSet<&str> = ALL.iter().map(|(name, _)| *name).collect();
        assert_eq!(rows.len(), ALL.len(), "a name is there twice");
        assert_eq!(switches.collect::<BTreeSet<_>>(), rows);
    }
}
