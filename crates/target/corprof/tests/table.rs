//! The raw API against the table that it was made from, and the table against the rules of COM.

#[path = "../../../../dev/xtask/src/codegen.rs"]
mod codegen;

use corprof::{CALLBACK_IIDS, SLOT_NAMES, sys};
use std::collections::{HashMap, HashSet};

/// Interface, base, iid, first and last slot, and the slots that are listed.
struct Declared {
    base: Option<String>,
    iid: String,
    slots: (usize, usize),
    listed: Vec<(usize, String)>,
}

fn declared() -> HashMap<String, Declared> {
    let mut all = HashMap::new();
    for file in ["objects", "callback", "info", "metadata"] {
        let path = format!("{}/abi/{file}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the table is in the repository");
        for block in text.split("\n\n").filter(|block| block.trim_start().starts_with("interface ")) {
            let (name, declared) = interface(block.trim());
            assert!(all.insert(name.clone(), declared).is_none(), "{name} twice");
        }
    }
    all
}

fn interface(block: &str) -> (String, Declared) {
    let mut lines = block.lines();
    let words: Vec<&str> = lines.next().expect("a first line").split(' ').collect();
    let mut declared =
        Declared { base: words.get(3).map(ToString::to_string), iid: String::new(), slots: (0, 0), listed: Vec::new() };
    for line in lines {
        let (word, rest) = line.split_once(' ').expect("two words");
        match word {
            "iid" => declared.iid = rest.to_owned(),
            "since" => {}
            "slots" => {
                let (first, last) = rest.split_once("..").expect("a range");
                declared.slots = (first.parse().expect("a number"), last.parse().expect("a number"));
            }
            slot => {
                let name = rest.split('(').next().expect("a name").to_owned();
                declared.listed.push((slot.parse().expect("a slot"), name));
            }
        }
    }
    (words[1].to_owned(), declared)
}

#[test]
fn the_committed_code_is_what_the_table_says() {
    assert_eq!(codegen::run(true), Ok(()));
}

#[test]
fn every_vtable_has_exactly_the_slots_of_the_table() {
    let declared = declared();
    assert_eq!(declared.len(), sys::INTERFACES.len());
    for facts in sys::INTERFACES {
        let line = &declared[facts.name];
        assert_eq!(line.slots, (facts.first, facts.last), "{}", facts.name);
        assert_eq!(facts.vtable_size, (facts.last + 1) * size_of::<usize>(), "{}", facts.name);
        assert_eq!(line.base.as_deref(), facts.base, "{}", facts.name);
        assert_eq!(line.iid, facts.iid.to_string(), "{}", facts.name);
        let listed: Vec<usize> = line.listed.iter().map(|(slot, _)| *slot).collect();
        assert_eq!(listed, (facts.first..=facts.last).collect::<Vec<_>>(), "{}", facts.name);
    }
}

#[test]
fn inheritance_is_linear_and_gapless() {
    let by_name: HashMap<&str, &sys::InterfaceFacts> = sys::INTERFACES.iter().map(|one| (one.name, one)).collect();
    let mut heirs = HashSet::new();
    for facts in sys::INTERFACES {
        match facts.base {
            None => assert_eq!((facts.name, facts.first, facts.last), ("IUnknown", 0, 2)),
            Some(base) => {
                assert_eq!(facts.first, by_name[base].last + 1, "{}", facts.name);
                assert!(base == "IUnknown" || heirs.insert(base), "{base} has two heirs");
            }
        }
    }
    assert_eq!(by_name["ICorProfilerInfo15"].last, 114);
    assert_eq!(by_name["ICorProfilerCallback11"].last, 97);
    let ids: HashSet<_> = sys::INTERFACES.iter().map(|one| one.iid).collect();
    assert_eq!(ids.len(), sys::INTERFACES.len());
}

#[test]
fn the_safe_layer_has_every_callback_slot() {
    let declared = declared();
    let mut slots: Vec<(usize, String)> = CALLBACK_IIDS
        .iter()
        .map(|(iid, _)| sys::INTERFACES.iter().find(|one| one.iid == *iid).expect("an interface of the table").name)
        .flat_map(|name| declared[name].listed.clone())
        .collect();
    slots.sort();
    let names: Vec<&str> = slots.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, SLOT_NAMES);
    assert_eq!(slots.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), (3..=97).collect::<Vec<_>>());
    assert_eq!(CALLBACK_IIDS.len(), 11);
}

#[test]
fn structs_have_the_size_that_c_gives_them() {
    let sizes = [
        (size_of::<sys::GUID>(), 16),
        (align_of::<sys::GUID>(), 4),
        (size_of::<sys::COR_IL_MAP>(), 12),
        (size_of::<sys::COR_DEBUG_IL_TO_NATIVE_MAP>(), 12),
        (size_of::<sys::COR_PRF_CODE_INFO>(), 16),
        (size_of::<sys::COR_PRF_FUNCTION>(), 16),
        (size_of::<sys::COR_PRF_METHOD>(), 16),
        (size_of::<sys::COR_PRF_GC_GENERATION_RANGE>(), 32),
        (size_of::<sys::COR_PRF_EX_CLAUSE_INFO>(), 32),
        (size_of::<sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG>(), 32),
        (size_of::<sys::COR_PRF_EVENTPIPE_PARAM_DESC>(), 16),
        (size_of::<sys::COR_PRF_EVENT_DATA>(), 16),
        (size_of::<sys::COR_PRF_ASSEMBLY_REFERENCE_INFO>(), 48),
        (size_of::<Option<sys::FunctionEnter3>>(), 8),
    ];
    for (index, (found, expected)) in sizes.into_iter().enumerate() {
        assert_eq!(found, expected, "line {index}");
    }
}
