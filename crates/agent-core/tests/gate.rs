//! The gate between unloading code and looking it up.

mod support;

use remora_agent_core::{Catalogue, Describe, Gate, Unload};
use remora_wire::Message;
use std::sync::atomic::Ordering;
use support::{Clr, Script};

struct Described(Vec<Message>);

impl Describe for Described {
    fn describe(&mut self, message: &Message) {
        self.0.push(message.clone());
    }
}

fn notices(gate: &Gate, platform: &Script) -> Vec<Unload> {
    let mut seen = Vec::new();
    gate.pass(platform, |what| seen.push(what), || {});
    seen
}

#[test]
fn an_unload_waits_only_when_something_may_have_to_be_looked_up() {
    let (gate, platform) = (Gate::default(), Script::default());
    gate.shut();
    gate.unloading(&platform, Unload::Module(1));
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 0, "no sample waits: nobody is woken, nobody waits");
    platform.samples.lock().expect("no panic").push_back(vec![0]);
    platform.callback_is_served.store(true, Ordering::SeqCst);
    gate.unloading(&platform, Unload::Function(2));
    assert_eq!(platform.wakes.load(Ordering::SeqCst), 1);
    assert_eq!(gate.impatient(), 0);
    assert_eq!(notices(&gate, &platform), [Unload::Module(1), Unload::Function(2)]);
}

#[test]
fn an_unload_that_has_waited_long_enough_goes_and_is_counted() {
    let (gate, platform) = (Gate::default(), Script::default());
    gate.shut();
    platform.samples.lock().expect("no panic").push_back(vec![0]);
    gate.unloading(&platform, Unload::Module(1));
    assert_eq!(gate.impatient(), 1);
}

#[test]
fn an_open_gate_holds_nobody_and_keeps_no_notices() {
    let (gate, platform) = (Gate::default(), Script::default());
    platform.samples.lock().expect("no panic").push_back(vec![0]);
    gate.unloading(&platform, Unload::Module(1));
    gate.shut();
    gate.open(&platform);
    gate.unloading(&platform, Unload::Module(2));
    assert_eq!(gate.impatient(), 0);
    assert_eq!(notices(&gate, &platform), []);
}

#[test]
fn more_notices_than_fit_mean_that_anything_may_have_gone() {
    let (gate, platform) = (Gate::default(), Script::default());
    gate.shut();
    for id in 0..5_000 {
        gate.unloading(&platform, Unload::Module(id));
    }
    assert_eq!(notices(&gate, &platform).first(), Some(&Unload::Anything));
    assert_eq!(notices(&gate, &platform), []);
}

#[test]
fn cat_09_what_has_unloaded_is_forgotten_and_its_address_asked_for_anew() {
    for what in [Unload::Function(1), Unload::Module(7), Unload::Anything] {
        let (runtime, mut catalogue, mut out) = (Clr::default(), Catalogue::default(), Described(Vec::new()));
        assert!(catalogue.meet(&runtime, 0x1010, &mut out));
        assert!(catalogue.meet(&runtime, 0x1010, &mut out));
        assert_eq!(runtime.look_ups.get(), 1);
        catalogue.forget(what);
        assert!(catalogue.meet(&runtime, 0x1010, &mut out));
        assert_eq!(runtime.look_ups.get(), 2, "{what:?}");
        let addresses = out.0.iter().filter(|message| matches!(message, Message::Address { .. })).count();
        assert_eq!(addresses, 2, "{what:?}: described anew, since it may mean something else now");
    }
}

#[test]
fn a_type_that_contains_itself_is_described_to_a_bounded_depth() {
    let (runtime, mut catalogue, mut out) = (Clr::default(), Catalogue::default(), Described(Vec::new()));
    assert!(catalogue.meet(&runtime, 0x1010, &mut out));
    let types = out.0.iter().filter(|message| matches!(message, Message::Type { .. })).count();
    assert!((2..20).contains(&types), "{types}");
}
