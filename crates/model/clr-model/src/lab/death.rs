//! Why a run's process has died, or did not come to its end: a finding for it.

use super::backtrace;
use super::hang;
use super::limits;
use super::monitor::ON_OWN_THREAD;
use super::page::{Crash, Line, Page, SHUTDOWN};
use super::process_wide;
use super::run::COMPLETE;
use super::unload;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The clause of a thread that asks for the detach without a reference of its own.
const CLAUSE_OF_ASKER: &str = "DET-05";

/// For a crash that comes only then.
pub const AFTER_SHUTDOWN: &str = ", after Shutdown had begun: the program's threads call the profiler until the process is gone, so keep what callbacks use";

/// For a crash of a profiler's own thread that has asked for the detach.
const AFTER_REQUEST: &str = "on the thread that had asked for the detach, after that was accepted; a likely cause: the thread used the profiler's object or Info, which may be gone when RequestProfilerDetach returns (DET-20), so copy what it needs to its stack before";

/// Signals that end a process, and that others send.
const OF_OTHERS: [i32; 4] = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
/// A destructor of the library, or a function that the exit calls, may do that.
const FIRST_ENDED: &str =
    "the first thread of the process was ended (pthread_exit, or exit as a system call), and the process cannot end";
/// Many callbacks may take long, without one that hangs.
const TOO_SLOW: &str = "a run was not over in its time, and no callback had run longer than it may";
/// For a crash outside the library's code.
const ELSEWHERE: &str = "in what the profiler called or had changed";
/// Where its code lies is known only when it is loaded.
const WHILE_LOADED: &str = "while its library was being loaded: in a constructor, or in what that called";
/// The system sends SIGBUS for a page behind the end of a file.
const CUT_OFF: &str = "while its library was being loaded: the file is cut off, or a constructor uses a file that is";

/// The last words of a process that a C++ exception has unwound up to the start of a thread (Rust's standard library, panicking.rs).
const FOREIGN_EXCEPTION: &str = "Rust cannot catch foreign exceptions";
/// Those of the C++ library, if no frame above the callback can be unwound.
const TERMINATED: &str = "terminate called after throwing";

/// Those of the model without memory (alloc.rs of Rust's standard library). Other errors are panics: see [`limits::is_want`].
const NO_MEMORY: &str = "memory allocation of ";
/// A filter of system calls can end the process.
const FORBIDDEN_CALL: &str = "the profiler restricted the system calls of the process (seccomp), and the system ended the process at a forbidden one with SIGSYS";
/// The exit status of the dynamic linker.
const OF_THE_LINKER: i32 = 127;
/// Its explanation.
const NO_SYMBOL: &str =
    ": so ends the dynamic linker a process that calls a function which no library has; `ldd -r` names it";

/// What a run was doing that did not end in time.
pub fn of_hang(page: &Page, stopped: bool) -> Vec<Line> {
    if stopped {
        let message =
            "the profiler stopped the process (SIGSTOP, or as a debugger does), and nothing let it go on".into();
        return vec![Line::Broken { clause: "MOD-01".into(), callback: None, message }];
    }
    let (hung, slow): (Vec<_>, Vec<_>) =
        page.callbacks().into_iter().partition(|running| running.age >= hang::longest(&running.name));
    let hung = hung.into_iter().map(|running| Line::Hangs {
        clause: hang::clause(&running.name).to_owned(),
        message: hang::message(&running.name),
        callback: Some(running.name),
    });
    // The run may have reported it.
    let known = page.lines();
    let hung: Vec<Line> = hung.filter(|hang| !known.contains(hang)).collect();
    let is_known = known.iter().any(|line| matches!(line, Line::Hangs { .. }));
    match (hung.is_empty() && !is_known, slow.is_empty()) {
        (false, _) => hung,
        (true, false) => vec![Line::Unjudged { clause: "MOD-01".into(), message: TOO_SLOW.into() }],
        (true, true) => vec![Line::Failed("a run did not come to its end".into())],
    }
}

/// A crash, or an unexpected exit.
pub fn of_death(page: &Page, status: ExitStatus, is_done: bool, stderr: &str, is_filtered: bool) -> Vec<Line> {
    let lines = page.lines();
    if is_of_limit(page, stderr) {
        return limits::of_early_end().into();
    }
    if is_filtered && is_of_models_abort(page) && process_wide::is_of_failed_call(stderr) {
        return process_wide::of_early_end(&[process_wide::FILTERS]);
    }
    let known = exception(page, stderr).or_else(|| cause(page, status, is_done, is_filtered));
    let Some(Line::Broken { clause, .. }) = &known else { return known.into_iter().collect() };
    let is_on_own_thread = crash(page).is_some_and(|crash| crash.own == 1);
    match pending_unload(&lines) {
        Some((threads, unmaps)) if clause != CLAUSE_OF_ASKER && (unmaps || !is_on_own_thread) => {
            threads.iter().map(|thread| of_thread(thread)).collect()
        }
        // Whatever was open has its finding.
        _ if clause == unload::CLAUSE && has_broken(&lines, unload::CLAUSE) => Vec::new(),
        _ => known.into_iter().collect(),
    }
}

/// Whether the model has died without memory, in a process with less of it than before. Every other crash there has another cause. On any
/// thread: one that begins is not known as the model's yet, and the profiler's own may call the model.
fn is_of_limit(page: &Page, stderr: &str) -> bool {
    crash(page).is_some_and(|crash| crash.limited == 1) && stderr.contains(NO_MEMORY) && is_of_models_abort(page)
}

/// Whether the model itself has aborted.
fn is_of_models_abort(page: &Page) -> bool {
    let is_abort = |crash: &Crash| crash.signal == libc::SIGABRT as u64 && crash.place == Crash::ELSEWHERE;
    crash(page).is_some_and(|crash| is_abort(&crash)) && backtrace::is_of_model(page)
}

/// The first thread has ended, and the process has not.
pub fn of_lost_first() -> Line {
    Line::Broken { clause: "MOD-01".into(), callback: None, message: FIRST_ENDED.into() }
}

/// The process has reached a limit of CPU time that the profiler has set.
pub fn of_time_limit(signal: i32, seconds: u64) -> Line {
    let signal = signal_name(signal);
    let message = format!(
        "the profiler set the limit RLIMIT_CPU of the process to {seconds} seconds, and the system ended the process there with {signal}"
    );
    Line::Broken { clause: "MOD-01".into(), callback: None, message }
}

/// The profiler has replaced the process with another program.
pub fn of_exec(program: &str) -> Line {
    let message = format!(
        "the profiler replaced the process with another program (exec, {program}): start programs with fork and exec, or posix_spawn"
    );
    Line::Broken { clause: "MOD-01".into(), callback: None, message }
}

/// The callback of the thread whose stack shows where it hangs.
pub fn hung_in(page: &Page) -> Option<String> {
    page.callback_of(page.crash().is_none().then(|| page.hang()).flatten()?)
}

/// Whether it crashed in a callback of another thread after Shutdown had begun.
pub fn is_after_shutdown(page: &Page) -> bool {
    let Some(crash) = page.crash() else { return false };
    page.callback_of(crash).is_some_and(|callback| callback != SHUTDOWN) && page.lines().contains(&Line::ShutsDown)
}

/// An exception that has left a callback.
fn exception(page: &Page, stderr: &str) -> Option<Line> {
    let crash = crash(page).filter(|crash| crash.signal == libc::SIGABRT as u64)?;
    let left = stderr.contains(FOREIGN_EXCEPTION) || stderr.contains(TERMINATED);
    let callback = page.callback_of(crash).filter(|_| left)?;
    let (thrown, and_then) = match callback.as_str() {
        "dlopen" => ("a constructor of the library threw an exception".to_owned(), ""),
        "dlclose" => ("a destructor of the library threw an exception".to_owned(), ""),
        _ => (format!("an exception left {callback}"), ", and return an HRESULT"),
    };
    let message = format!("{thrown}, which ends the process; catch all exceptions in it{and_then}");
    Some(Line::Broken { clause: "MOD-01".into(), callback: Some(callback), message })
}

/// The threads that still run after an unload, or during it, and that no finding has named yet.
/// And whether the library itself is being unloaded, or its object released.
fn pending_unload(lines: &[Line]) -> Option<(&Vec<String>, bool)> {
    lines.iter().fold(None, |pending, line| match line {
        Line::UnloadBegins { threads, unmaps } => Some((threads, *unmaps)),
        Line::UnloadIsOver => None,
        _ => pending,
    })
}

fn of_thread(thread: &str) -> Line {
    let (clause, callback) = (unload::CLAUSE.to_owned(), Some(unload::CALL.to_owned()));
    Line::Broken { clause, callback, message: unload::message(thread) }
}

fn has_broken(lines: &[Line], wanted: &str) -> bool {
    lines.iter().any(|line| matches!(line, Line::Broken { clause, .. } if clause == wanted))
}

fn cause(page: &Page, status: ExitStatus, is_done: bool, is_filtered: bool) -> Option<Line> {
    // A run with a hanging callback kills itself.
    if status.signal() == Some(Signal::KILL.as_raw()) && page.lines().contains(&Line::EndsItself) {
        return None;
    }
    let crash = crash(page);
    // A thread may crash while the process exits: then the status is that of the exit.
    let signal = status.signal().or_else(|| i32::try_from(crash?.signal).ok());
    // Any thread may have made the call.
    if is_filtered && signal == Some(libc::SIGSYS) {
        return Some(Line::Broken { clause: "MOD-01".into(), callback: None, message: FORBIDDEN_CALL.into() });
    }
    if let Some(signal) = signal.filter(|signal| crash.is_none() && OF_OTHERS.contains(signal)) {
        let message = format!(
            "a run was ended by {}: by the profiler, by somebody else, or by the system for want of memory",
            signal_name(signal)
        );
        return Some(Line::Unjudged { clause: "MOD-01".into(), message });
    }
    if let Some(signal) = signal {
        let (clause, whence) = place(crash, is_done);
        // An alarm may have ended the search for its cause.
        let signal = crash.map_or(signal, |crash| crash.signal as i32);
        // Which thread uses the open way is up to chance, and the cause is the same.
        let is_foreign = crash.is_some_and(|crash| crash.own == 0 && crash.place != Crash::IN_UNMAPPED_LIBRARY)
            && whence != AFTER_REQUEST;
        let callback = crash.and_then(|crash| page.callback_of(crash));
        let is_loading = whence == ELSEWHERE && callback.as_deref() == Some("dlopen");
        let whence = match signal {
            libc::SIGBUS if is_loading => CUT_OFF,
            _ if is_loading => WHILE_LOADED,
            _ => whence,
        };
        let whose = if is_foreign { ON_OWN_THREAD } else { "" };
        let message = format!("the process crashed with {} {whence}{whose}", signal_name(signal));
        return Some(Line::Broken { clause: clause.into(), callback, message });
    }
    if is_done && status.code() == Some(COMPLETE) {
        return None;
    }
    let code = status.code().unwrap_or_default();
    let has_failed = page.lines().iter().any(|line| matches!(line, Line::Failed(_)));
    if has_failed {
        // The run itself has written the reason.
        return None;
    }
    if page.callbacks().is_empty() && !is_done && page.lines().is_empty() {
        return Some(Line::Failed(format!("a run ended with status {code} before it began")));
    }
    let hint = if code == OF_THE_LINKER { NO_SYMBOL } else { "" };
    let exit = page.exit();
    let whose = if exit.is_some_and(|exit| exit.own == 0) { ON_OWN_THREAD } else { "" };
    let when = if is_done { " while it exited" } else { "" };
    let message = format!("the process was ended by the profiler{when}, with status {code}{whose}{hint}");
    let callback = exit.and_then(|exit| page.callback_of(exit));
    let clause = if is_done { "DET-17" } else { "MOD-01" };
    Some(Line::Broken { clause: clause.into(), callback, message })
}

/// The crash. A profiler with a reference of its own unmaps its library itself, and only the mappings at the crash show that.
fn crash(page: &Page) -> Option<Crash> {
    let mut crash = page.crash()?;
    if crash.place == Crash::IN_LIBRARY && !backtrace::is_mapped(page, crash.instruction) {
        crash.place = Crash::IN_UNMAPPED_LIBRARY;
    }
    Some(crash)
}

fn place(crash: Option<Crash>, is_done: bool) -> (&'static str, &'static str) {
    match crash {
        Some(Crash { freed: 1, .. }) => (
            "MOD-01",
            "at its client data: the runtime frees them when InitializeForAttach has returned, so copy what you need later",
        ),
        // A thread of the runtime's side may have asked in a callback: the runtime waits for that. Something else has brought it there.
        Some(Crash { place: Crash::IN_UNMAPPED_LIBRARY, asker: 1, own: 0, .. }) => {
            (CLAUSE_OF_ASKER, "in the thread that had asked for the detach: its library was unmapped under it")
        }
        Some(Crash { place: Crash::IN_UNMAPPED_LIBRARY, .. }) => (
            "DET-04",
            "at an address of the library after it was unmapped: a way into it was still open (a thread, a timer, a handler, or a destructor of thread-specific values)",
        ),
        Some(Crash { own: 0, asker: 1, .. }) => ("MOD-01", AFTER_REQUEST),
        _ if is_done => ("DET-17", "while it exited"),
        Some(Crash { place: Crash::IN_LIBRARY, .. }) => ("MOD-01", "in the profiler's own code"),
        _ => ("MOD-01", ELSEWHERE),
    }
}

pub(crate) fn signal_name(signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal);
    name.map_or_else(|| format!("signal {signal}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run under a lowered limit that has aborted, with these words and this stack: C library, then model or library.
    fn of_abort(words: &str, stack: &[u64]) -> Vec<Line> {
        of_abort_under(1, words, stack)
    }

    /// Without a lowered limit, the system calls are filtered.
    fn of_abort_under(limited: u8, words: &str, stack: &[u64]) -> Vec<Line> {
        let page = Page::new().expect("a page");
        let own = std::env::current_exe().expect("this program");
        let mappings = format!(
            "1000-2000 r-xp 00000000 00:01 7 /a/libc.so.6\n2000-3000 r-xp 00000000 00:01 8 {}\n3000-4000 r-xp 00000000 00:01 9 /a/x.so\n",
            own.display()
        );
        let signal = libc::SIGABRT as u64;
        page.note_crash(&Crash { signal, instruction: stack[0], limited: limited.into(), ..Crash::default() });
        page.note_stack(stack, &mappings);
        of_death(&page, ExitStatus::from_raw(libc::SIGABRT), false, words, limited == 0)
    }

    fn is_broken(lines: &[Line]) -> bool {
        matches!(lines, [Line::Broken { clause, .. }] if clause == "MOD-01")
    }

    #[test]
    fn only_a_failed_call_of_the_models_own_is_excused_by_a_filter() {
        let words = "called `Result::unwrap()` on an `Err` value: Os { code: 1, kind: PermissionDenied }";
        let excused = process_wide::of_early_end(&[process_wide::FILTERS]);
        assert_eq!(of_abort_under(0, words, &[0x1010, 0x2010]), excused);
        let thrown = "fatal runtime error: Rust cannot catch foreign exceptions, aborting";
        assert!(is_broken(&of_abort_under(0, thrown, &[0x1010, 0x2010])), "an exception of the profiler's");
        assert!(is_broken(&of_abort_under(0, words, &[0x1010, 0x3010, 0x2010])), "called by the library");
    }

    #[test]
    fn a_forbidden_call_is_the_cause_only_if_calls_are_filtered() {
        let page = Page::new().expect("a page");
        let message = |is_filtered| match &of_death(&page, ExitStatus::from_raw(libc::SIGSYS), false, "", is_filtered)[..]
        {
            [Line::Broken { message, .. }] => message.clone(),
            lines => panic!("{lines:?}"),
        };
        assert_eq!(message(true), FORBIDDEN_CALL);
        assert!(message(false).starts_with("the process crashed with SIGSYS"));
    }

    #[test]
    fn only_the_models_own_want_of_memory_is_excused_by_a_lowered_limit() {
        let words = "memory allocation of 4096 bytes failed";
        assert_eq!(of_abort(words, &[0x1010, 0x1020, 0x2010, 0x3010, 0x2020]), limits::of_early_end());
        assert!(is_broken(&of_abort("", &[0x1010, 0x2010])), "no words");
        assert!(is_broken(&of_abort(words, &[0x1010, 0x3010, 0x2010])), "called by the library");
        assert!(is_broken(&of_abort(words, &[0x1010, 0x9010, 0x2010])), "called by nobody knows what");
        assert!(is_broken(&of_abort(words, &[0x1010])), "no stack");
    }

    #[test]
    fn a_signal_that_somebody_else_may_have_sent_is_no_fault_of_the_profiler() {
        let page = Page::new().expect("a page");
        let of = |signal| of_death(&page, ExitStatus::from_raw(signal), false, "", false);
        assert!(matches!(&of(libc::SIGKILL)[..], [Line::Unjudged { clause, .. }] if clause == "MOD-01"));
        assert!(is_broken(&of(libc::SIGALRM)), "a timer of the profiler's");
        page.note_crash(&Crash { signal: libc::SIGSEGV as u64, ..Crash::default() });
        assert!(is_broken(&of(libc::SIGKILL)), "it had crashed");
    }

    #[test]
    fn a_crash_while_the_process_exits_is_no_exit_of_the_profiler() {
        let page = Page::new().expect("a page");
        let exited = ExitStatus::from_raw(0);
        let message = |page: &Page| match &of_death(page, exited, false, "", false)[..] {
            [Line::Broken { message, .. } | Line::Failed(message)] => message.clone(),
            lines => panic!("{lines:?}"),
        };
        assert_eq!(message(&page), "a run ended with status 0 before it began");
        page.note_crash(&Crash { signal: 11, place: Crash::IN_LIBRARY, own: 1, ..Crash::default() });
        assert_eq!(message(&page), "the process crashed with SIGSEGV in the profiler's own code");
    }
}
