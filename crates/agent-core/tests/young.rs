//! What comes before a collection of which more is told than that it was: one that is told to nobody, after which hardly anything is young.

mod support;

use remora_agent_core::{Entrances, Outcome, Received, Shared, Worker};
use remora_wire::{FromAgent, ToAgent};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Clr, Question, Script, Step, Wanted, good_session};

/// What is asked of the runtime by an agent of which this is wanted, up to its first collection that it has told of; and what the agent
/// says. It hears this behind the collection that comes before, if one does.
fn course(wanted: Wanted, hears: Received) -> (Vec<Question>, Vec<FromAgent>) {
    let shared = Shared::new(Script { wanted, ..Script::default() }, Arc::new(Entrances::default()));
    shared.attach_complete.store(true, Ordering::SeqCst);
    // The last of a good session is that there is nothing more: here something else comes in its place.
    let welcomed = good_session().into_iter().filter(|message| !matches!(message, Received::Nothing));
    shared.platform.hears(welcomed.chain([hears]));
    let runtime = Clr::default();
    assert_eq!(Worker::new(&shared, &runtime).run(), Outcome::Detach);
    let asked = runtime.questions.borrow().clone();
    let of_heap = |asked: &Question| matches!(asked, Question::MakeOld | Question::Collect | Question::KeepWatch(_));
    let mut asked: Vec<Question> = asked.into_iter().filter(of_heap).collect();
    asked.dedup();
    let said = shared.platform.said().into_iter().filter_map(|step| match step {
        Step::Said(said) => Some(said),
        _ => None,
    });
    (asked, said.collect())
}

#[test]
fn gch_02_what_is_young_is_made_old_before_more_is_told_of_a_collection_and_only_then() {
    let cases: [(Wanted, &[Question]); 3] = [
        (Wanted::Snapshot, &[Question::Collect]),
        (Wanted::Roots, &[Question::MakeOld, Question::Collect]),
        (Wanted::Watch, &[Question::MakeOld, Question::KeepWatch(true), Question::Collect, Question::KeepWatch(false)]),
    ];
    for (wanted, expected) in cases {
        assert_eq!(course(wanted, Received::Nothing).0, expected, "{wanted:?}");
    }
}

#[test]
fn det_16_who_gives_up_in_the_first_collection_is_spared_the_second() {
    for hears in [Received::Message(ToAgent::Detach), Received::HungUp] {
        let (asked, said) = course(Wanted::Roots, hears.clone());
        assert_eq!(asked, [Question::MakeOld], "{hears:?}");
        assert!(said.iter().any(|said| matches!(said, FromAgent::Failed { .. })), "{said:?}");
        let (asked, _) = course(Wanted::Watch, hears.clone());
        assert_eq!(asked, [Question::MakeOld, Question::KeepWatch(false)], "{hears:?}");
    }
}
