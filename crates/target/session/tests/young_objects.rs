//! Our GCs without a forked copy: another full GC was already running, or the GC monitor skipped ours (`gc_monitor.rs`).

mod support;

use remora_holds::holds;
use remora_session::{Outcome, ResourceRegistry, Shared, Worker};
use remora_wire::{Contents, FromAgent, HeapSnapshot, Moment, Received, Roots, Task, ToAgent};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Clr, Question, Script, ScriptTask, Step, good_session};

/// Runs an agent with this task, which never gets a forked copy. Returns its questions to the runtime and its messages. It receives `hears`
/// after its GCs.
fn course(task: Task, hears: &[Received]) -> (Vec<Question>, Vec<FromAgent>) {
    let shared =
        Shared::new(Script { task: ScriptTask(task), ..Script::default() }, Arc::new(ResourceRegistry::default()));
    shared.attach_complete.store(true, Ordering::SeqCst);
    // Drops the final `Nothing` of a good session: `hears` takes its place.
    let welcomed = good_session().into_iter().filter(|message| !matches!(message, Received::Nothing));
    shared.platform.hears(welcomed.chain(hears.iter().cloned()));
    let runtime = Clr::default();
    assert_eq!(Worker::new(&shared, &runtime).run(), Outcome::Detach);
    let asked = runtime.questions.borrow().clone();
    let asked = asked.into_iter().filter(|asked| matches!(asked, Question::Collect | Question::KeepWatch(_)));
    let said = shared.platform.said().into_iter().filter_map(|step| match step {
        Step::Said(said) => Some(said),
        _ => None,
    });
    (asked.collect(), said.collect())
}

const fn snapshot(roots: Roots) -> Task {
    Task::HeapSnapshot(HeapSnapshot { contents: Contents::None, moment: Moment::Collected, roots })
}

/// The tasks with a forked copy, with the questions before and after their GCs.
const WAYS: [(Task, &[Question], &[Question]); 3] = [
    (snapshot(Roots::Inferred), &[], &[]),
    (snapshot(Roots::Seen), &[], &[]),
    (Task::HeapTracking, &[Question::KeepWatch(true)], &[Question::KeepWatch(false)]),
];

#[test]
fn gch_02_a_collection_without_a_copy_is_followed_by_others_and_not_for_ever() {
    for (task, before, after) in WAYS {
        let (asked, _) = course(task, &vec![Received::Nothing; 16]);
        holds!(GCH_02 rem, asked == [before, &[Question::Collect; 8], after].concat(), "{task:?}");
    }
}

#[test]
fn det_16_who_gives_up_in_the_first_collection_is_spared_the_second() {
    for (task, before, after) in WAYS {
        for hears in [Received::Message(ToAgent::Detach), Received::HungUp] {
            let (asked, said) = course(task, std::slice::from_ref(&hears));
            holds!(DET_16 rem, asked == [before, &[Question::Collect], after].concat(), "{task:?}, {hears:?}");
            assert!(said.iter().any(|said| matches!(said, FromAgent::Failed { .. })), "{said:?}");
        }
    }
}
