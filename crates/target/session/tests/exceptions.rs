//! The worker and thrown exceptions: the switch, and what it says of an exception.

mod support;

use remora_holds::holds;
use remora_session::{Outcome, ResourceRegistry, Shared, Unload, Worker};
use remora_wire::{FromAgent, Message, Received, ToAgent, TypeKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Clr, Question, Script, Step, good_session, raw, thrown};

/// A class, and code of two functions.
const CLASS: u64 = 6;
const STACK: [u64; 2] = [0x1010, 0x2021];

fn shared(more: impl IntoIterator<Item = ToAgent>) -> Shared<Script> {
    let shared = Shared::new(Script::default(), Arc::new(ResourceRegistry::default()));
    shared.attach_complete.store(true, Ordering::SeqCst);
    shared.platform.hears(good_session());
    shared.platform.hears(more.into_iter().map(Received::Message));
    shared
}

#[test]
fn ctl_01_the_switch_of_exceptions_is_answered_with_its_effect() {
    let shared = shared([true, false, true, false].map(ToAgent::WatchExceptions));
    let runtime = Clr::default();
    runtime.errors.borrow_mut().extend([Question::WatchExceptions(true), Question::WatchExceptions(false)]);
    assert_eq!(Worker::new(&shared, &runtime).run(), Outcome::Detach);
    let answer = |step: Step| match step {
        Step::Said(FromAgent::WatchesExceptions { watches, code }) => Some((watches, code)),
        _ => None,
    };
    let answers: Vec<(bool, u32)> = shared.platform.said().into_iter().filter_map(answer).collect();
    // The runtime refuses the first of each: what was before goes on.
    holds!(CTL_01 rem, answers == [(false, 0x8013_1351), (true, 0x8013_1351), (true, 0), (false, 0)]);
}

#[test]
fn cat_08_the_class_and_the_code_of_an_exception_are_described_once_and_before_it() {
    let shared = shared([]);
    shared.platform.arrive([thrown(9, CLASS, &STACK), thrown(8, CLASS, &STACK), thrown(9, 0, &STACK)]);
    let runtime = Clr::default();
    assert_eq!(Worker::new(&shared, &runtime).run(), Outcome::Detach);
    let messages = shared.platform.messages();
    let place = |message: &Message| matches!(message, Message::Thrown { .. });
    let first = messages.iter().position(place).expect("an exception");
    let mut described = messages[..first].iter().filter_map(|message| match message {
        Message::Type { index, kind: TypeKind::Unknown } => Some(*index),
        _ => None,
    });
    let index = described.next_back();
    holds!(CAT_08 rem, index.is_some(), "{messages:#?}");
    assert_eq!(runtime.times(Question::Type(CLASS as usize)), 1);
    let all = messages.iter().filter_map(|message| match message {
        Message::Thrown { thread, class, addresses, .. } => Some((*thread, *class, addresses.as_slice())),
        _ => None,
    });
    let addresses = [0x1010, 0x2020];
    holds!(CAT_08 rem, all.collect::<Vec<_>>() == [(9, index, &addresses[..]), (8, index, &addresses), (9, None, &addresses)]);
}

#[test]
fn cat_09_after_an_unload_that_did_not_wait_the_class_of_an_exception_is_not_asked_for() {
    let shared = Arc::new(shared([]));
    shared.platform.arrive([raw(9, 0, &STACK, &[]), thrown(9, CLASS, &STACK)]);
    let runtime = Clr::default();
    let other = Arc::clone(&shared);
    // Nobody serves the callback while a question is answered, so its wait times out.
    let unload = move || other.unload_barrier.before_unload(&other.platform, Unload::Module { id: 7, collections: 0 });
    runtime.meanwhile.borrow_mut().push((Question::FunctionAt(0x1010), Box::new(unload)));
    assert_eq!(Worker::new(&shared, &runtime).run(), Outcome::Detach);
    holds!(CAT_09 rem, runtime.times(Question::Type(CLASS as usize)) == 0);
    assert!(!shared.platform.messages().iter().any(|message| matches!(message, Message::Thrown { .. })));
}
