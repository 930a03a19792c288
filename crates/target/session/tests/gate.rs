//! The gate between unloading code and looking it up.

mod support;

use remora_session::{Gate, Passage, Unload};
use std::sync::atomic::Ordering;
use support::Script;

/// A batch without look-ups: what is forgotten before them, and what again after them.
fn batch(gate: &Gate, platform: &Script, passage: &mut Passage) -> (Vec<Unload>, Vec<Unload>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    gate.enter(passage, &mut |told| before.extend_from_slice(told));
    gate.leave(platform, passage, &mut |told| after.extend_from_slice(told));
    (before, after)
}

fn shut() -> (Gate, Script, Passage) {
    let gate = Gate::default();
    gate.shut();
    (gate, Script::default(), Passage::default())
}

#[test]
fn an_unload_waits_only_when_something_may_have_to_be_looked_up() {
    let (gate, platform, mut passage) = shut();
    gate.unloading(&platform, Unload::Module { id: 1, collections: 0 });
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 0, "no sample waits: nobody is woken, nobody waits");
    platform.arrive([vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    gate.unloading(&platform, Unload::Function(2));
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 1);
    assert_eq!(gate.impatient(), 0);
    assert_eq!(
        batch(&gate, &platform, &mut passage).0,
        [Unload::Module { id: 1, collections: 0 }, Unload::Function(2)]
    );
}

#[test]
fn cat_09_an_unload_goes_on_when_its_samples_have_been_looked_up_and_no_sooner() {
    let (gate, platform, mut passage) = shut();
    platform.arrive([vec![0], vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    gate.unloading(&platform, Unload::Function(1));
    let announced = || platform.announced.lock().expect("no panic").clone();
    platform.samples.lock().expect("no panic").pop_front();
    assert_eq!(batch(&gate, &platform, &mut passage).1, [], "a sample still waits");
    assert_eq!(announced(), []);
    gate.enter(&mut passage, &mut |_| {});
    platform.samples.lock().expect("no panic").pop_front();
    // One that comes in the midst of a batch, with no sample left: what is being looked up may still hold it.
    gate.unloading(&platform, Unload::Function(2));
    assert_eq!(platform.callback_waits.lock().expect("no panic").len(), 2);
    let mut again = Vec::new();
    gate.leave(&platform, &mut passage, &mut |told| again.extend_from_slice(told));
    assert_eq!(again, [Unload::Function(1), Unload::Function(2)], "a look-up may have brought them back");
    assert_eq!(announced(), [2]);
    assert_eq!(batch(&gate, &platform, &mut passage), (vec![], vec![]));
}

#[test]
fn cat_09_an_unload_that_has_waited_long_enough_is_counted_and_nothing_that_waits_is_looked_up() {
    let (gate, platform, mut passage) = shut();
    platform.arrive([vec![0], vec![0]]);
    gate.unloading(&platform, Unload::Module { id: 1, collections: 0 });
    assert_eq!(gate.impatient(), 1);
    let waits = platform.callback_waits.lock().expect("no panic").clone();
    assert_eq!(waits, [100_000_000, 400_000_000], "the second is for the question that has been begun");
    platform.samples.lock().expect("no panic").pop_front();
    assert_eq!(batch(&gate, &platform, &mut passage).1, [Unload::Module { id: 1, collections: 0 }, Unload::Anything]);
    assert!(passage.is_blind());
    assert_eq!(*platform.announced.lock().expect("no panic"), [1], "it need not wait any more");
    platform.samples.lock().expect("no panic").pop_front();
    batch(&gate, &platform, &mut passage);
    assert!(!passage.is_blind(), "what comes now came after the unload");
}

/// Found by the model: the unload looked first whether the agent's thread was busy, and then for samples, and saw one in neither place.
#[test]
fn cat_09_a_sample_that_is_taken_while_an_unload_looks_for_it_is_seen() {
    let (gate, platform, _) = shut();
    let gate = std::sync::Arc::new(gate);
    platform.arrive([vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    let agents = gate.clone();
    platform.on_look.lock().expect("no panic").replace(Box::new(move |platform: &Script| {
        agents.enter(&mut Passage::default(), &mut |_| {});
        platform.samples.lock().expect("no panic").pop_front();
    }));
    gate.unloading(&platform, Unload::Function(1));
    assert_eq!(platform.callback_waits.lock().expect("no panic").len(), 1, "it is being looked up: the unload waits");
}

/// Found by the model: such a notice was taken out of the queue by a batch that could not act on it any more, and by none after it.
#[test]
fn cat_09_a_notice_that_comes_as_a_batch_ends_is_acted_on_by_the_next() {
    let (gate, platform, mut passage) = shut();
    let gate = std::sync::Arc::new(gate);
    gate.enter(&mut passage, &mut |_| {});
    let callbacks = gate.clone();
    platform.on_look.lock().expect("no panic").replace(Box::new(move |platform: &Script| {
        callbacks.unloading(platform, Unload::Function(1));
    }));
    gate.leave(&platform, &mut passage, &mut |told| assert_eq!(told, []));
    let mut before = Vec::new();
    gate.enter(&mut passage, &mut |told| before.extend_from_slice(told));
    assert_eq!(before, [Unload::Function(1)]);
}

#[test]
fn an_open_gate_holds_nobody_and_keeps_no_notices() {
    let (gate, platform, mut passage) = (Gate::default(), Script::default(), Passage::default());
    platform.arrive([vec![0]]);
    gate.unloading(&platform, Unload::Module { id: 1, collections: 0 });
    gate.shut();
    gate.open(&platform);
    gate.unloading(&platform, Unload::Module { id: 2, collections: 0 });
    assert_eq!(gate.impatient(), 0);
    assert_eq!(batch(&gate, &platform, &mut passage).0, []);
}

#[test]
fn more_notices_than_fit_mean_that_anything_may_have_gone() {
    let (gate, platform, mut passage) = shut();
    for id in 0..5_000 {
        gate.unloading(&platform, Unload::Module { id, collections: 0 });
    }
    let (before, after) = batch(&gate, &platform, &mut passage);
    assert_eq!(before.first(), Some(&Unload::Anything));
    assert_eq!(after, before);
    assert_eq!(batch(&gate, &platform, &mut passage).0, []);
}

#[test]
fn notices_that_pile_up_while_samples_wait_are_bounded() {
    let (gate, platform, mut passage) = shut();
    platform.arrive([vec![0]]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    for id in 0..10_000 {
        gate.unloading(&platform, Unload::Function(id));
        if id % 1000 == 999 {
            assert_eq!(batch(&gate, &platform, &mut passage).1, []);
        }
    }
    platform.samples.lock().expect("no panic").clear();
    let (_, after) = batch(&gate, &platform, &mut passage);
    assert!(after.len() <= 4096 && after.first() == Some(&Unload::Anything), "{}", after.len());
}
