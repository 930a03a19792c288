//! The unload barrier: when an unload waits for look-ups, and when it continues.

mod support;

use remora_holds::holds;
use remora_session::{Unload, UnloadBarrier, UnloadNotices};
use std::sync::atomic::Ordering;
use support::Script;

/// A batch without look-ups: the unloads to forget before it, and those to forget again after it.
fn batch(barrier: &UnloadBarrier, platform: &Script, notices: &mut UnloadNotices) -> (Vec<Unload>, Vec<Unload>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    barrier.begin_batch(notices, &mut |unloads| before.extend_from_slice(unloads));
    barrier.end_batch(platform, notices, &mut |unloads| after.extend_from_slice(unloads));
    (before, after)
}

fn raised() -> (UnloadBarrier, Script, UnloadNotices) {
    let barrier = UnloadBarrier::default();
    barrier.raise();
    (barrier, Script::default(), UnloadNotices::default())
}

#[test]
fn an_unload_waits_only_when_something_may_have_to_be_looked_up() {
    let (barrier, platform, mut notices) = raised();
    barrier.before_unload(&platform, Unload::Module { id: 1, collections: 0 });
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 0, "no sample waits: nobody is woken, nobody waits");
    platform.arrive([vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    barrier.before_unload(&platform, Unload::Function(2));
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 1);
    assert_eq!(barrier.timeouts(), 0);
    assert_eq!(
        batch(&barrier, &platform, &mut notices).0,
        [Unload::Module { id: 1, collections: 0 }, Unload::Function(2)]
    );
}

#[test]
fn cat_09_an_unload_goes_on_when_its_samples_have_been_looked_up_and_no_sooner() {
    let (barrier, platform, mut notices) = raised();
    platform.arrive([vec![0], vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    barrier.before_unload(&platform, Unload::Function(1));
    let announced = || platform.announced.lock().expect("no panic").clone();
    platform.samples.lock().expect("no panic").pop_front();
    holds!(CAT_09 rem, batch(&barrier, &platform, &mut notices).1 == [], "a sample still waits");
    assert_eq!(announced(), []);
    barrier.begin_batch(&mut notices, &mut |_| {});
    platform.samples.lock().expect("no panic").pop_front();
    // A notice during a batch, without a waiting sample: the batch may still hold one of its code.
    barrier.before_unload(&platform, Unload::Function(2));
    assert_eq!(platform.callback_waits.lock().expect("no panic").len(), 2);
    let mut again = Vec::new();
    barrier.end_batch(&platform, &mut notices, &mut |unloads| again.extend_from_slice(unloads));
    assert_eq!(again, [Unload::Function(1), Unload::Function(2)], "a look-up may have brought them back");
    holds!(CAT_09 rem, announced() == [2]);
    assert_eq!(batch(&barrier, &platform, &mut notices), (vec![], vec![]));
}

#[test]
fn cat_09_an_unload_that_has_waited_long_enough_is_counted_and_nothing_that_waits_is_looked_up() {
    let (barrier, platform, mut notices) = raised();
    platform.arrive([vec![0], vec![0]]);
    barrier.before_unload(&platform, Unload::Module { id: 1, collections: 0 });
    assert_eq!(barrier.timeouts(), 1);
    let waits = platform.callback_waits.lock().expect("no panic").clone();
    assert_eq!(waits, [100_000_000, 400_000_000], "the second is for the question that has been begun");
    platform.samples.lock().expect("no panic").pop_front();
    holds!(CAT_09 rem, batch(&barrier, &platform, &mut notices).1 == [Unload::Module { id: 1, collections: 0 }, Unload::Anything]);
    assert!(notices.must_drop_pending());
    assert_eq!(*platform.announced.lock().expect("no panic"), [1], "it need not wait any more");
    platform.samples.lock().expect("no panic").pop_front();
    batch(&barrier, &platform, &mut notices);
    assert!(!notices.must_drop_pending(), "what comes now came after the unload");
}

/// Found by the model: the callback checked `busy` first and the samples second, and missed a sample in both places.
#[test]
fn cat_09_a_sample_that_is_taken_while_an_unload_looks_for_it_is_seen() {
    let (barrier, platform, _) = raised();
    let barrier = std::sync::Arc::new(barrier);
    platform.arrive([vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    let agents = barrier.clone();
    platform.on_look.lock().expect("no panic").replace(Box::new(move |platform: &Script| {
        agents.begin_batch(&mut UnloadNotices::default(), &mut |_| {});
        platform.samples.lock().expect("no panic").pop_front();
    }));
    barrier.before_unload(&platform, Unload::Function(1));
    holds!(CAT_09 rem, platform.callback_waits.lock().expect("no panic").len() == 1, "it is being looked up: the unload waits");
}

/// Found by the model: a batch took such a notice from the queue when it could no longer act on it, and no later batch did.
#[test]
fn cat_09_a_notice_that_comes_as_a_batch_ends_is_acted_on_by_the_next() {
    let (barrier, platform, mut notices) = raised();
    let barrier = std::sync::Arc::new(barrier);
    barrier.begin_batch(&mut notices, &mut |_| {});
    let callbacks = barrier.clone();
    platform.on_look.lock().expect("no panic").replace(Box::new(move |platform: &Script| {
        callbacks.before_unload(platform, Unload::Function(1));
    }));
    barrier.end_batch(&platform, &mut notices, &mut |unloads| assert_eq!(unloads, []));
    let mut before = Vec::new();
    barrier.begin_batch(&mut notices, &mut |unloads| before.extend_from_slice(unloads));
    holds!(CAT_09 rem, before == [Unload::Function(1)]);
}

#[test]
fn an_open_gate_blocks_no_thread_and_keeps_no_notices() {
    let (barrier, platform, mut notices) = (UnloadBarrier::default(), Script::default(), UnloadNotices::default());
    platform.arrive([vec![0]]);
    barrier.before_unload(&platform, Unload::Module { id: 1, collections: 0 });
    barrier.raise();
    barrier.lower(&platform);
    barrier.before_unload(&platform, Unload::Module { id: 2, collections: 0 });
    assert_eq!(barrier.timeouts(), 0);
    assert_eq!(batch(&barrier, &platform, &mut notices).0, []);
}

#[test]
fn more_notices_than_fit_mean_that_anything_may_have_gone() {
    let (barrier, platform, mut notices) = raised();
    for id in 0..5_000 {
        barrier.before_unload(&platform, Unload::Module { id, collections: 0 });
    }
    let (before, after) = batch(&barrier, &platform, &mut notices);
    assert_eq!(before.first(), Some(&Unload::Anything));
    assert_eq!(after, before);
    assert_eq!(batch(&barrier, &platform, &mut notices).0, []);
}

#[test]
fn notices_that_pile_up_while_samples_wait_are_bounded() {
    let (barrier, platform, mut notices) = raised();
    platform.arrive([vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    for id in 0..10_000 {
        barrier.before_unload(&platform, Unload::Function(id));
        if id % 1000 == 999 {
            assert_eq!(batch(&barrier, &platform, &mut notices).1, []);
        }
    }
    platform.samples.lock().expect("no panic").clear();
    let (_, after) = batch(&barrier, &platform, &mut notices);
    assert!(after.len() <= 4096 && after.first() == Some(&Unload::Anything), "{}", after.len());
}
