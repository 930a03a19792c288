//! How a run loads the library: by an attach, or with the start of the runtime. And what is wrong if nothing is loaded.

use super::clauses::LoadMode;
use super::codes::named_code;
use super::elf::ElfFacts;
use super::hang::LONGEST;
use super::monitor;
use super::page::Line;
use super::run::{ANY_CLASS, LAST_INSTRUCTIONS, Run, check_unload, number, until, until_returned};
use super::unload;
use crate::runtime::AttachRequest;
use crate::schedule;
use corprof::{Guid, HResult};
use remora_wire::{CLSID_MAIN, CLSID_NOTIFICATION};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

impl Run {
    /// Attaches, and returns the class that the library accepted. `None` if nothing is attached.
    pub(super) fn attach(&self, class: Option<u128>) -> Option<u128> {
        let is_notified = self.runtime.differences().notification_profilers;
        let own = if is_notified { CLSID_NOTIFICATION } else { CLSID_MAIN };
        let classes = class.map_or_else(|| vec![ANY_CLASS, number(own)], |class| vec![class]);
        let mut code = HResult::E_FAIL;
        for class in classes {
            code = self.ask(class)?;
            if code.is_success() {
                monitor::exercised("ATT-09");
                monitor::exercised(self.order.mode.clause_of_load());
                return Some(class);
            }
            if code != HResult::CLASS_E_CLASSNOTAVAILABLE {
                break;
            }
        }
        self.check_refusal(code);
        None
    }

    /// Requests an attach and waits. `None` without an answer, which is reported.
    pub(super) fn ask(&self, class: u128) -> Option<HResult> {
        let client_data = self.client_data.clone().unwrap_or_else(|| self.own_client_data(class));
        let request = AttachRequest { class: Guid::from_u128(class), library: Some(self.library.clone()), client_data };
        let answer = self.runtime.ask_for_attach(request);
        self.wait_for("the attach", || answer.get().is_some());
        self.recorder.confirmed.store(answer.get().is_some_and(HResult::is_success), Ordering::SeqCst);
        answer.get()
    }

    /// Remora's own agent needs the recorder's address. Others get nothing.
    fn own_client_data(&self, class: u128) -> Vec<u8> {
        let is_own = [number(CLSID_MAIN), number(CLSID_NOTIFICATION)].contains(&class);
        self.recorder.confirmed.store(false, Ordering::SeqCst);
        if is_own { self.recorder.client_data() } else { Vec::new() }
    }

    /// Loads the profiler as the runtime does before the program starts. False if none is loaded.
    pub(super) fn load_at_start(&self, class: Option<u128>) -> bool {
        let Some(code) = self.ask_at_start(class.unwrap_or(ANY_CLASS)) else { return false };
        if code.is_success() {
            monitor::exercised(self.order.mode.clause_of_load());
        } else {
            self.check_refusal(code);
        }
        code.is_success()
    }

    /// `None` without an answer, which is reported.
    fn ask_at_start(&self, class: u128) -> Option<HResult> {
        let (runtime, library) = (self.runtime.clone(), self.library.clone());
        let answer: Arc<OnceLock<HResult>> = Arc::default();
        let place = answer.clone();
        schedule::spawn("the thread that starts the runtime", move || {
            // The only writer.
            let _ = place.set(runtime.load_at_start(&library, &Guid::from_u128(class)));
        });
        self.wait_for("the start", || answer.get().is_some());
        answer.get().copied()
    }

    /// Waits for an answer. Reports what it waits for in vain.
    fn wait_for(&self, what: &str, is_answered: impl Fn() -> bool) {
        if until_returned(LONGEST, is_answered) {
            return;
        }
        if monitor::callbacks(LONGEST / 2).is_empty() {
            let seconds = LONGEST.as_secs();
            let message = format!("{what} had no answer within {seconds} seconds, and no callback is known to run");
            monitor::broken_in("MOD-01", None, &message);
        }
        self.report_hangs();
    }

    /// The library was not loaded, or the profiler wants nothing.
    fn check_refusal(&self, code: HResult) {
        check_unload();
        let words = named_code(code);
        let clause = self.order.mode.clause_of_load();
        if let Some(refused) = self.runtime.remembered().get(self.others..).and_then(<[_]>::last) {
            let message = self.why_refused(&words);
            monitor::write(&Line::Note { clause: clause.into(), message });
            if self.order.mode == LoadMode::Attach {
                self.check_release_after_refusal(refused.record().last_release);
            }
        } else if code == HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE {
            let message =
                "the object does not answer for ICorProfilerCallback3, without which no profiler can be attached";
            monitor::broken_in("ATT-09", Some("QueryInterface"), message);
        } else if self.refuses_class.load(Ordering::SeqCst) {
            let message = format!("DllGetClassObject answered {words}; give the profiler's class with --clsid");
            monitor::broken_in(clause, Some("DllGetClassObject"), &message);
        } else if !monitor::has_failed() && !monitor::has_broken("ATT-06") && !monitor::has_broken(clause) {
            let hint = if code == HResult::CLASS_E_CLASSNOTAVAILABLE {
                "; give the profiler's class with --clsid"
            } else {
                ""
            };
            let message = format!("the class factory made no object (answered {words}){hint}");
            monitor::broken_in(clause, Some("CreateInstance"), &message);
        }
    }

    fn why_refused(&self, words: &str) -> String {
        let (callback, wants) = match self.order.mode {
            LoadMode::Attach => (
                "InitializeForAttach",
                "this class (--clsid), what it was handed (--client-data), or an attach at all (--from-start loads it at startup)",
            ),
            LoadMode::FromStart => ("Initialize", "this class (--clsid), or this environment"),
        };
        format!(
            "{callback} refused with {words}: it does not want this runtime, {wants}, and nothing more could be exercised"
        )
    }

    /// An object that stays is a matter of DET-10: a static one goes with its library.
    fn check_release_after_refusal(&self, last_release: Option<u32>) {
        monitor::exercised("ATT-10");
        // A thread that still runs is the cause of a library that stays.
        let has_threads = monitor::has_broken(unload::CLAUSE);
        if !has_threads && (last_release.is_none() || !until(LAST_INSTRUCTIONS, || !self.is_mapped())) {
            let answered = last_release.map_or("did not return".to_owned(), |left| format!("was answered {left}"));
            let why = ElfFacts::of(&self.order.library).why_it_stays().filter(|_| last_release.is_some());
            let why = why.map_or_else(String::new, |why| format!("; {why}"));
            let message = format!(
                "the profiler refused its attach, and its library is still in the process (the last Release {answered}){why}"
            );
            monitor::broken_in("ATT-10", Some("InitializeForAttach"), &message);
        }
    }
}
