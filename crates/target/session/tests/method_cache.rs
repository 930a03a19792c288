//! From addresses to methods: what the cache remembers, what it asks again, and how much of either.

mod support;

use remora_holds::holds;
use remora_sampler::{Link, Links};
use remora_session::{MAXIMUM_ADDRESSES, MethodCache, SampledAddress, Unload};
use remora_wire::{Message, MethodKind, Place, TypeKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use support::{Clr, Question};

fn leaf(address: u64) -> SampledAddress {
    SampledAddress::Leaf(address)
}

#[test]
fn cat_09_what_has_unloaded_is_forgotten_and_its_address_asked_for_anew() {
    for what in [Unload::Function(1), Unload::Module { id: 7, collections: 0 }, Unload::Anything] {
        let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
        assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
        assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
        assert_eq!(runtime.times(Question::FunctionAt(0x1010)), 1);
        method_cache.forget(&[what]);
        assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
        holds!(CAT_09 rem, runtime.times(Question::FunctionAt(0x1010)) == 2, "{what:?}");
        let addresses = out.iter().filter(|message| matches!(message, Message::Address { .. })).count();
        assert_eq!(addresses, 2, "{what:?}: described anew, since it may mean something else now");
    }
}

#[test]
fn cat_09_where_code_has_unloaded_callers_are_not_asked_for_until_something_is_known_to_run_there() {
    for what in [Unload::Function(1), Unload::Module { id: 7, collections: 0 }] {
        let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
        assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
        method_cache.forget(&[what]);
        assert!(!method_cache.resolve(&runtime, SampledAddress::Caller(0x1020), &mut out));
        holds!(CAT_09 rem, runtime.times(Question::FunctionAt(0x1020)) == 0, "{what:?}");
        assert!(method_cache.resolve(&runtime, SampledAddress::Caller(0x2020), &mut out), "other code is not meant");
        assert!(method_cache.resolve(&runtime, leaf(0x1030), &mut out));
        assert!(
            method_cache.resolve(&runtime, SampledAddress::Caller(0x1020), &mut out),
            "{what:?}: code lies there again"
        );
    }
}

/// Found by the model: a function was compiled where another had unloaded, and first seen as a caller. It got the old name.
#[test]
fn cat_09_a_caller_where_code_has_unloaded_is_not_called_by_the_name_of_what_lay_there_before() {
    let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    method_cache.forget(&[Unload::Function(1)]);
    out.clear();
    assert!(!method_cache.resolve(&runtime, SampledAddress::Caller(0x1010), &mut out));
    assert!(!method_cache.resolve(&runtime, SampledAddress::Caller(0x1010), &mut out));
    holds!(CAT_09 rem, out == [Message::Address { address: 0x1010, place: Place::Native }], "told once");
    out.clear();
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out), "it runs again, and has a name again");
    assert!(out.iter().any(|message| matches!(message, Message::Address { place: Place::Managed { .. }, .. })));
}

#[test]
fn where_code_has_unloaded_is_of_no_interest_after_some_seconds() {
    let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
    method_cache.set_time(1_000_000_000);
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    method_cache.forget(&[Unload::Function(1)]);
    method_cache.set_time(5_900_000_000);
    assert!(!method_cache.resolve(&runtime, SampledAddress::Caller(0x1020), &mut out));
    method_cache.set_time(6_100_000_000);
    assert!(method_cache.resolve(&runtime, SampledAddress::Caller(0x1020), &mut out));
}

#[test]
fn an_unload_of_a_function_that_was_never_met_costs_nothing() {
    let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
    for address in 0x1000..0x1010 {
        method_cache.resolve(&runtime, leaf(address), &mut out);
    }
    assert_eq!(method_cache.forget(&[Unload::Function(77)]), 0);
    assert_eq!(method_cache.forget(&[Unload::Function(1), Unload::Function(77)]), 16);
}

#[test]
fn what_is_remembered_is_bounded() {
    let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
    const { assert!(MAXIMUM_ADDRESSES <= 50_000) };
    for address in 0..=MAXIMUM_ADDRESSES as u64 {
        method_cache.resolve(&runtime, leaf(0x10_0000 + address), &mut out);
    }
    assert!(method_cache.forget(&[Unload::Anything]) <= MAXIMUM_ADDRESSES);
}

#[test]
fn an_error_is_shown_as_native_code_and_asked_for_again() {
    let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
    runtime.errors.borrow_mut().push(Question::FunctionAt(0x1010));
    assert!(!method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    assert_eq!(out, [Message::Address { address: 0x1010, place: Place::Native }]);
    assert_eq!(method_cache.failed, 1);
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    assert_eq!(runtime.times(Question::FunctionAt(0x1010)), 2, "an answer that is a fact is remembered");
}

#[test]
fn an_error_that_stays_is_asked_for_ever_more_rarely() {
    let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
    runtime.errors.borrow_mut().extend(std::iter::repeat_n(Question::FunctionAt(0x1010), 5_000));
    for _ in 0..5_000 {
        assert!(!method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    }
    let asked = runtime.times(Question::FunctionAt(0x1010));
    assert!((5..30).contains(&asked), "{asked}");
}

#[test]
fn an_error_about_a_method_a_type_or_a_module_is_not_remembered_as_a_fact() {
    for error in [Question::Function(1), Question::Type(3), Question::Type(4), Question::Module(7)] {
        let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
        runtime.errors.borrow_mut().push(error);
        assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
        assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
        let sound = Clr::default();
        let mut expected = Vec::new();
        MethodCache::default().resolve(&sound, leaf(0x1010), &mut expected);
        assert_eq!(name_at(&out, 0x1010), name_at(&expected, 0x1010), "{error:?}");
    }
}

#[test]
fn a_type_that_contains_itself_is_described_to_a_bounded_depth() {
    let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::default(), Vec::new());
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    let types = out.iter().filter(|message| matches!(message, Message::Type { .. })).count();
    assert!((2..40).contains(&types), "{types}");
    // Four arguments of the same type would be described 4^8 times.
    let mut runtime = Clr::default();
    runtime.arguments.insert(1, vec![200]);
    let (mut method_cache, mut out) = (MethodCache::default(), Vec::new());
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    assert!(runtime.times(Question::Type(200)) <= 256);
}

#[test]
fn a_type_first_met_at_the_depth_limit_is_described_in_full_when_it_is_met_on_its_own() {
    let mut runtime = Clr::default();
    runtime.arguments.insert(1, vec![100]);
    runtime.arguments.insert(2, vec![108]);
    let (mut method_cache, mut out) = (MethodCache::default(), Vec::new());
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    assert_eq!(arguments_at(&out, 0x1010), "100<101<102<103<104<105<106<107<?>>>>>>>>");
    assert!(method_cache.resolve(&runtime, leaf(0x2010), &mut out));
    assert_eq!(arguments_at(&out, 0x2010), "108<109<110<111<112<113<114<115<?>>>>>>>>");
}

#[test]
fn names_that_could_never_be_handed_over_are_shortened() {
    let mut runtime = Clr::default();
    runtime.dynamic.insert(1, "é".repeat(40_000));
    let (mut method_cache, mut out) = (MethodCache::default(), Vec::new());
    assert!(method_cache.resolve(&runtime, leaf(0x1010), &mut out));
    assert!(out.iter().all(|message| message.encode().len() < 4096));
}

/// The method at an address, formatted as the collector would: tokens of its class's arguments, its own token, its own arguments.
fn name_at(messages: &[Message], at: u64) -> String {
    let (mut types, mut methods, mut places) = (HashMap::new(), HashMap::new(), HashMap::new());
    for message in messages {
        match message {
            Message::Type { index, kind } => drop(types.insert(*index, kind.clone())),
            Message::Method { index, kind } => drop(methods.insert(*index, kind.clone())),
            Message::Address { address, place } => drop(places.insert(*address, *place)),
            _ => {}
        }
    }
    let Some(Place::Managed { method, .. }) = places.get(&at) else { return "native".into() };
    match &methods[method] {
        MethodKind::Token { token, arguments, class_arguments, .. } => {
            let names =
                |indexes: &[u32]| -> Vec<String> { indexes.iter().map(|index| type_name(&types, *index)).collect() };
            format!("{}.{}({})", names(class_arguments).join(","), token & 0xff_ffff, names(arguments).join(","))
        }
        MethodKind::Named { name, .. } => name.clone(),
    }
}

fn arguments_at(messages: &[Message], at: u64) -> String {
    let name = name_at(messages, at);
    let arguments = name.split_once('(').map(|(_, arguments)| arguments.trim_end_matches(')').to_owned());
    arguments.unwrap_or(name)
}

fn type_name(types: &HashMap<u32, TypeKind>, index: u32) -> String {
    match &types[&index] {
        TypeKind::Class { token, arguments, .. } => {
            let inner: Vec<String> = arguments.iter().map(|index| type_name(types, *index)).collect();
            format!("{}<{}>", token & 0xff_ffff, inner.join(","))
        }
        TypeKind::Array { element, .. } => format!("{}[]", element.map_or("?".into(), |index| type_name(types, index))),
        TypeKind::Unknown => "?".into(),
    }
}

#[test]
fn cat_09_what_the_walk_knows_of_code_is_gone_before_the_code_is() {
    let module = Unload::Module { id: 7, collections: 0 };
    for (what, stay) in
        [(Unload::Function(1), [false, true, true]), (module, [false; 3]), (Unload::Anything, [false; 3])]
    {
        let table: Arc<[AtomicU64]> = (0..256).map(|_| AtomicU64::new(0)).collect();
        let (runtime, mut method_cache, mut out) = (Clr::default(), MethodCache::over(table.clone()), Vec::new());
        for (call, link) in [(0x1010, Link::Framed), (0x2010, Link::Framed), (0xf_0000, Link::Native)] {
            method_cache.resolve(&runtime, SampledAddress::Caller(call), &mut out);
            assert_eq!(method_cache.link_of(&runtime, call + 1), Some(link));
        }
        method_cache.forget(&[what]);
        let links = Links::new(&table);
        holds!(CAT_09 rem, [0x1011, 0x2011, 0xf_0001].map(|address| links.find(address).is_some()) == stay, "{what:?}");
    }
}
