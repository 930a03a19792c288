//! Samples on their way out: through the unload barrier, into a transport that may be full, with each loss counted once.

mod support;

use remora_holds::holds;
use remora_session::{Outcome, REPEATED, ResourceRegistry, Shared, Unload, Worker};
use remora_wire::{Message, MethodKind, Place, Received, ToAgent, TypeKind, layout};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Clr, Question, Script, good_session, raw};

/// A session of some rounds that ends with `last`.
fn session(rounds: usize, last: Received) -> Arc<Shared<Script>> {
    let shared = Shared::new(Script::default(), Arc::new(ResourceRegistry::default()));
    shared.attach_complete.store(true, Ordering::SeqCst);
    shared.platform.hears(good_session());
    shared.platform.hears(std::iter::repeat_n(Received::Nothing, rounds));
    shared.platform.hears([last]);
    Arc::new(shared)
}

fn detach() -> Received {
    Received::Message(ToAgent::Detach)
}

fn run(shared: &Shared<Script>, runtime: &Clr) {
    assert_eq!(Worker::new(shared, runtime).run(), Outcome::Detach);
}

fn samples(messages: &[Message]) -> Vec<Vec<u64>> {
    let addresses = |message: &Message| match message {
        Message::Sample { addresses, .. } => Some(addresses.clone()),
        _ => None,
    };
    messages.iter().filter_map(addresses).collect()
}

/// Asserts that a sample follows its descriptions, and that each description refers only to earlier ones.
fn assert_described(messages: &[Message]) {
    let (mut modules, mut types, mut methods, mut places) =
        (HashSet::new(), HashSet::new(), HashSet::new(), HashSet::new());
    for message in messages {
        match message {
            Message::Module { index, .. } => drop(modules.insert(*index)),
            Message::Type { index, kind } => {
                let (used, of) = match kind {
                    TypeKind::Class { module, arguments, .. } => (arguments.clone(), Some(*module)),
                    TypeKind::Array { element, .. } => (element.iter().copied().collect(), None),
                    TypeKind::Unknown => (Vec::new(), None),
                };
                assert!(used.iter().all(|index| types.contains(index)), "{message:?}");
                assert!(of.iter().all(|index| modules.contains(index)), "{message:?}");
                types.insert(*index);
            }
            Message::Method { index, kind } => {
                if let MethodKind::Token { module, arguments, class_arguments, .. } = kind {
                    assert!(modules.contains(module), "{message:?}");
                    assert!(arguments.iter().chain(class_arguments).all(|index| types.contains(index)), "{message:?}");
                }
                methods.insert(*index);
            }
            Message::Address { address, place } => {
                if let Place::Managed { method, .. } = place {
                    assert!(methods.contains(method), "{message:?}");
                }
                places.insert(*address);
            }
            Message::Sample { addresses, .. } | Message::Thrown { addresses, .. } => {
                assert!(addresses.iter().all(|address| places.contains(address)), "{message:?}");
            }
            Message::Thread { .. }
            | Message::ThreadName { .. }
            | Message::ThreadTime { .. }
            | Message::ProcessTime { .. }
            | Message::Repeat { .. }
            | Message::ModuleId { .. }
            | Message::FunctionId { .. } => {}
        }
    }
}

#[test]
fn det_16_a_full_transport_never_keeps_the_agent_from_hearing_that_it_is_to_leave() {
    for (last, waits_at_the_end) in [(detach(), 1..=200), (Received::HungUp, 0..=0)] {
        let shared = session(3, last);
        let platform = &shared.platform;
        platform.full_until_wait.store(u64::MAX, Ordering::SeqCst);
        platform.arrive((0..5_000).map(|_| raw(9, 0, &[0x1010], &[])));
        run(&shared, &Clr::default());
        holds!(DET_16 rem, waits_at_the_end.contains(&platform.pauses_at_once.last()), "{}", platform.pauses_at_once.last());
        assert_eq!(platform.counter(layout::LOST_TRANSPORT_FULL), 5_000, "each is lost once");
        assert_eq!(platform.counter(layout::SENT), 0);
    }
}

#[test]
fn det_16_what_is_done_between_two_looks_at_the_control_channel_is_bounded() {
    let shared = session(10, Received::HungUp);
    let platform = &shared.platform;
    platform.full_until_wait.store(u64::MAX, Ordering::SeqCst);
    platform.arrive_later((0..5_000).map(|_| raw(9, 0, &[0x1010], &[])));
    run(&shared, &Clr::default());
    let (pauses, popped) = (&platform.pauses_at_once.most, &platform.samples_at_once.most);
    assert!((1..=20).contains(&pauses.load(Ordering::SeqCst)), "{pauses:?}");
    holds!(DET_16 rem, (1..=1024).contains(&popped.load(Ordering::SeqCst)), "{popped:?}");
}

#[test]
fn many_samples_are_handed_over_without_a_rest_in_between() {
    let shared = session(10, detach());
    shared.platform.arrive_later((0..3_000).map(|_| raw(9, 0, &[0x1010], &[])));
    run(&shared, &Clr::default());
    let waits = shared.platform.waits.load(Ordering::SeqCst);
    assert_eq!(waits - shared.platform.rests.load(Ordering::SeqCst), 2, "behind the first and the second thousand");
    assert_eq!(shared.platform.counter(layout::SENT), 3_000);
    assert!(shared.platform.samples_at_once.most.load(Ordering::SeqCst) <= 1024);
}

#[test]
fn a_full_transport_is_counted_by_sample_and_by_description() {
    let shared = session(0, detach());
    shared.platform.full_until_wait.store(u64::MAX, Ordering::SeqCst);
    shared.platform.arrive([raw(9, 0, &[0x1010], &[])]);
    run(&shared, &Clr::default());
    assert_eq!(shared.platform.counter(layout::LOST_TRANSPORT_FULL), 1);
    assert_eq!(shared.platform.counter(layout::SENT), 0);
    assert!(shared.platform.counter(layout::LOST_DESCRIPTIONS) > 0);
}

#[test]
fn what_could_not_be_described_is_described_anew_once_there_is_room() {
    let shared = session(6, detach());
    let platform = &shared.platform;
    platform.full_until_wait.store(3, Ordering::SeqCst);
    for _ in 0..5 {
        platform.arrive_later([raw(9, 0, &[0x1010, 0x2021], &[]), raw(9, 0, &[0x1010, 0x3021], &[])]);
    }
    run(&shared, &Clr::default());
    let messages = platform.messages();
    assert_described(&messages);
    let delivered = samples(&messages).len() as u64;
    assert!(delivered >= 4, "{delivered}");
    assert_eq!(platform.counter(layout::SENT), delivered);
    assert_eq!(platform.counter(layout::SENT) + platform.counter(layout::LOST_TRANSPORT_FULL), 10);
}

#[test]
fn threads_that_could_not_be_introduced_are_introduced_once_there_is_room() {
    let shared = session(6, detach());
    let platform = &shared.platform;
    platform.full_until_wait.store(3, Ordering::SeqCst);
    platform.new_threads.lock().expect("no panic").push((10, "late".into()));
    shared.threads_changed.store(true, Ordering::SeqCst);
    run(&shared, &Clr::default());
    let thread = |thread, name: &str| Message::Thread { thread, name: name.into() };
    let renamed = Message::ThreadName { thread: 9, name: "renamed".into() };
    let used = Message::ThreadTime { thread: 9, used: 70 };
    let messages = platform.messages();
    let (last, others) = messages.split_last().unwrap();
    assert!(
        matches!(last, Message::ProcessTime { is_last: true, process: 90, agent: 10, unfollowed: 5, .. }),
        "{last:?}"
    );
    assert_eq!(others, [thread(9, "main"), thread(10, "late"), renamed, used]);
}

#[test]
fn an_unload_does_not_wait_for_room_in_the_transport() {
    let shared = session(2, Received::HungUp);
    let platform = &shared.platform;
    platform.full_until_wait.store(u64::MAX, Ordering::SeqCst);
    platform.arrive_later([raw(9, 0, &[0x1010], &[])]);
    let unloads = Arc::clone(&shared);
    platform.on_pause.lock().expect("no panic").replace(Box::new(move || {
        unloads.unload_barrier.before_unload(&unloads.platform, Unload::Module { id: 7, collections: 0 });
    }));
    run(&shared, &Clr::default());
    assert!(platform.pauses.load(Ordering::SeqCst) > 0);
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 0, "every look-up was done: it goes on at once");
    platform.on_pause.lock().expect("no panic").take();
}

#[test]
fn cat_09_an_unload_that_has_lost_its_patience_ends_every_look_up_at_once() {
    let questions = [Question::FunctionAt(0x1010), Question::Function(1), Question::Module(7), Question::Type(4)];
    for during in questions {
        let shared = session(4, detach());
        let platform = &shared.platform;
        platform.arrive_later([raw(9, 0, &[0x1010, 0x2021], &[]), raw(9, 0, &[0x1020, 0x1031], &[])]);
        platform.arrive_later([raw(9, 0, &[0x3010, 0x2021], &[])]);
        let runtime = Clr::default();
        let (unloads, gone) = (Arc::clone(&shared), Arc::clone(&runtime.unloaded));
        let unload = move || {
            unloads.unload_barrier.before_unload(&unloads.platform, Unload::Function(1));
            gone.lock().expect("no panic").push(1);
        };
        runtime.meanwhile.borrow_mut().push((during, Box::new(unload)));
        run(&shared, &runtime);
        let messages = platform.messages();
        let stacks = [vec![0x1010, 0x2020], vec![0x1020, 0x1030], vec![0x3010, 0x2020]];
        assert_eq!(samples(&messages), stacks, "{during:?}: what cannot be named still counts");
        assert_eq!(shared.unload_barrier.timeouts(), 1, "{during:?}");
        let reported = |wanted: u64, named: bool| {
            messages.iter().any(|message| match message {
                Message::Address { address, place } => {
                    *address == wanted && matches!(place, Place::Managed { .. }) == named
                }
                _ => false,
            })
        };
        holds!(CAT_09 rem, !reported(0x1010, true) && !reported(0x1020, true), "{during:?}: nothing half asked for is told");
        assert!(reported(0x1010, false) && reported(0x1020, false), "{during:?}: nor what was told of them before");
        assert!(
            reported(0x3010, true) && reported(0x2020, true),
            "{during:?}: what comes after the unload is looked up again"
        );
        runtime.unloaded.lock().expect("no panic").clear();
    }
}

#[test]
fn cat_09_what_a_sample_brings_back_while_it_unloads_is_forgotten_before_the_unload_goes_on() {
    let shared = session(4, detach());
    let platform = &shared.platform;
    platform.callback_is_served.store(true, Ordering::SeqCst);
    platform.arrive_later([raw(9, 0, &[0x3010], &[]), raw(9, 0, &[0x1010], &[])]);
    platform.arrive_later([raw(9, 0, &[0x1010], &[])]);
    let runtime = Clr::default();
    let unloads = Arc::clone(&shared);
    // The second sample still waits, or is being resolved: until then the code stays.
    let unload = move || unloads.unload_barrier.before_unload(&unloads.platform, Unload::Function(1));
    runtime.meanwhile.borrow_mut().push((Question::FunctionAt(0x3010), Box::new(unload)));
    run(&shared, &runtime);
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 1, "the unload waited");
    holds!(CAT_09 rem, runtime.times(Question::FunctionAt(0x1010)) == 2, "the same address may be other code now");
    assert_eq!(runtime.times(Question::FunctionAt(0x3010)), 1);
}

#[test]
fn cat_09_an_unload_announced_before_the_pass_that_meets_its_code_is_forgotten_behind_it() {
    let shared = session(4, detach());
    let platform = &shared.platform;
    platform.callback_is_served.store(true, Ordering::SeqCst);
    // The notice already exists when the sample of the unloading code is resolved.
    platform.arrive_later([raw(9, 0, &[0x1010], &[])]);
    platform.arrive_later([raw(9, 0, &[0x1010], &[])]);
    let unloads = Arc::clone(&shared);
    platform.on_wait.lock().expect("no panic").replace(Box::new(move |wait| {
        if wait == 2 {
            unloads.unload_barrier.before_unload(&unloads.platform, Unload::Function(1));
        }
    }));
    let runtime = Clr::default();
    run(&shared, &runtime);
    platform.on_wait.lock().expect("no panic").take();
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 1, "the unload waited");
    holds!(CAT_09 rem, runtime.times(Question::FunctionAt(0x1010)) == 2, "the same address may be other code now");
}

#[test]
fn a_transport_that_refuses_costs_no_look_ups() {
    let shared = session(3, detach());
    let platform = &shared.platform;
    platform.full_until_wait.store(u64::MAX, Ordering::SeqCst);
    platform.arrive_later((0..500).map(|index| raw(9, 0, &[0x10_0000 + index], &[])));
    let runtime = Clr::default();
    run(&shared, &runtime);
    assert_eq!(platform.counter(layout::LOST_TRANSPORT_FULL), 500);
    assert!(runtime.questions.borrow().len() < 40, "one batch is looked up before the refusal is known");
}

#[test]
fn a_thread_is_introduced_before_its_samples() {
    let shared = session(3, detach());
    let platform = &shared.platform;
    platform.arrive_later([]);
    platform.arrive_later([raw(10, 0, &[0x1010], &[])]);
    platform.new_threads.lock().expect("no panic").push((10, "late".into()));
    shared.threads_changed.store(true, Ordering::SeqCst);
    run(&shared, &Clr::default());
    let at = |wanted: &dyn Fn(&Message) -> bool| platform.messages().iter().position(wanted).expect("it is told");
    let introduced = at(&|message| matches!(message, Message::Thread { thread: 10, .. }));
    assert!(introduced < at(&|message| matches!(message, Message::Sample { thread: 10, .. })));
}

#[test]
fn a_repeat_of_a_sample_that_was_lost_never_stands_for_an_older_one() {
    let shared = session(7, detach());
    let platform = &shared.platform;
    platform.full_from_wait.store(2, Ordering::SeqCst);
    platform.full_until_wait.store(3, Ordering::SeqCst);
    platform.arrive_later([raw(9, 0, &[0x1010], &[])]);
    platform.arrive_later([raw(9, 0, &[0x2010], &[])]);
    platform.arrive_later([raw(9, REPEATED, &[], &[])]);
    run(&shared, &Clr::default());
    let messages = platform.messages();
    assert_eq!(samples(&messages), [[0x1010]]);
    assert!(!messages.iter().any(|message| matches!(message, Message::Repeat { .. })));
    assert_eq!(platform.counter(layout::LOST_TRANSPORT_FULL), 2);
}

#[test]
fn a_repeat_stands_for_its_threads_last_sample_or_is_lost_with_it() {
    let shared = session(7, detach());
    let platform = &shared.platform;
    platform.full_until_wait.store(3, Ordering::SeqCst);
    let repeat = |thread| raw(thread, REPEATED, &[], &[]);
    // The first wait is for the start; at the second, nothing fits yet.
    platform.arrive_later([]);
    platform.arrive_later([raw(9, 0, &[0x1010], &[])]);
    platform.arrive_later([repeat(9), raw(8, 0, &[0x2010], &[])]);
    platform.arrive_later([repeat(9), repeat(8), raw(9, 0, &[0x3010], &[])]);
    platform.arrive_later([repeat(9)]);
    run(&shared, &Clr::default());
    let seen: Vec<(u32, bool)> = platform
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::Sample { thread, .. } => Some((*thread, false)),
            Message::Repeat { thread, .. } => Some((*thread, true)),
            _ => None,
        })
        .collect();
    assert_eq!(seen, [(8, false), (8, true), (9, false), (9, true)]);
    assert_eq!(platform.counter(layout::SENT), 4);
    assert_eq!(platform.counter(layout::LOST_TRANSPORT_FULL), 3);
}
