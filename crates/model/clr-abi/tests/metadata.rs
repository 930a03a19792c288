//! Metadata as a profiler sees it: five vtables, slot by slot, and one reference count.

mod support;

use core::ffi::c_void;
use core::ptr::null_mut;
use corprof::{Guid, HResult, sys};
use remora_clr_abi::metadata::{ASSEMBLY_EMIT_SLOTS, ASSEMBLY_IMPORT_SLOTS, EMIT_SLOTS, IMPORT_SLOTS, TABLES_SLOTS};
use remora_clr_abi::{Live, MetadataObject, Slot};
use support::Noted;
use support::generated::call_every_metadata_slot;

/// The vtables with the first interface of each.
const VTABLES: [(&str, &[Slot]); 5] = [
    ("IMetaDataImport", IMPORT_SLOTS),
    ("IMetaDataAssemblyImport", ASSEMBLY_IMPORT_SLOTS),
    ("IMetaDataEmit", EMIT_SLOTS),
    ("IMetaDataAssemblyEmit", ASSEMBLY_EMIT_SLOTS),
    ("IMetaDataTables", TABLES_SLOTS),
];
/// An interface of each vtable but the first.
const BESIDE: [Guid; 4] = [
    sys::IID_IMetaDataAssemblyImport,
    sys::IID_IMetaDataEmit2,
    sys::IID_IMetaDataAssemblyEmit,
    sys::IID_IMetaDataTables2,
];

fn other(object: *mut sys::IUnknown, interface: Guid) -> Result<*mut sys::IUnknown, HResult> {
    let mut found: *mut c_void = core::ptr::dangling_mut();
    // SAFETY: a live object, an identifier and a place.
    let code = HResult(unsafe { sys::IUnknown::QueryInterface(object, &interface, &mut found) });
    if code == HResult::S_OK { Ok(found.cast()) } else { Err(code).inspect_err(|_| assert!(found.is_null())) }
}

fn release(object: *mut sys::IUnknown) -> u32 {
    // SAFETY: the test holds this reference.
    unsafe { sys::IUnknown::Release(object) }
}

#[test]
fn each_interface_leads_to_each_other_one_and_all_are_one_object() {
    let live = Live::default();
    let object = MetadataObject::create(Noted::default(), &live);
    let assembly = other(object, sys::IID_IMetaDataAssemblyImport).expect("it has that");
    assert_ne!(assembly, object, "a vtable of its own");
    for from in [object, assembly] {
        for interface in [sys::IID_IUnknown, sys::IID_IMetaDataImport, sys::IID_IMetaDataImport2] {
            assert_eq!(other(from, interface), Ok(object));
            release(object);
        }
        assert_eq!(other(from, sys::IID_IMetaDataAssemblyImport), Ok(assembly));
        release(assembly);
        let pairs =
            [(sys::IID_IMetaDataEmit, sys::IID_IMetaDataEmit2), (sys::IID_IMetaDataTables, sys::IID_IMetaDataTables2)];
        for (older, newer) in pairs {
            let own = other(from, newer).expect("it has that");
            assert_eq!(other(own, older), Ok(own));
            assert_eq!(other(own, sys::IID_IMetaDataImport), Ok(object));
            for one in [own, own, object] {
                release(one);
            }
        }
        assert_eq!(other(from, sys::IID_ICorProfilerInfo), Err(HResult::E_NOINTERFACE));
    }
    // SAFETY: a live object.
    assert_eq!(unsafe { sys::IUnknown::AddRef(assembly) }, 3);
    assert_eq!([release(assembly), release(object), live.count() as u32], [2, 1, 1]);
    assert_eq!((release(assembly), live.count()), (0, 0));
}

#[test]
fn every_slot_of_metadata_reaches_the_method_of_its_name() {
    let object = MetadataObject::create(Noted::default(), &Live::default());
    let objects = BESIDE.map(|interface| other(object, interface).expect("it has that"));
    let [assembly, emit, assembly_emit, tables] = objects;
    let mut called = Vec::new();
    // SAFETY: all vtables belong to one live object.
    unsafe {
        call_every_metadata_slot([object, assembly, emit, assembly_emit, tables], |slot, answer| {
            let nothing = slot == "CloseEnum";
            assert_eq!(answer, (!nothing).then_some(HResult::S_FALSE.0), "{slot}");
            called.push(slot);
        });
    }
    let slots: Vec<_> = VTABLES.iter().flat_map(|(_, slots)| *slots).map(|slot| slot.name).collect();
    assert_eq!(called, slots);
    for one in objects {
        release(one);
    }
    release(object);
}

#[test]
fn the_slots_of_metadata_are_numbered_as_the_interfaces_are() {
    for (name, slots) in VTABLES {
        let last = |one: &&sys::InterfaceFacts| one.name.strip_suffix('2').unwrap_or(one.name) == name;
        let last = sys::INTERFACES.iter().filter(last).map(|one| one.last).max().expect("it is in the table");
        assert!(slots.iter().map(|slot| slot.index).eq(3..=last), "{name}");
    }
}

#[test]
fn a_refusal_and_a_panic_are_answered_where_a_slot_answers_at_all() {
    let refused = Noted { refused: Some(("CountEnum", HResult::E_ABORT)), ..Noted::default() };
    let panicking = Noted { panics: Some("CountEnum"), ..Noted::default() };
    for (server, code) in [(refused, HResult::E_ABORT), (panicking, HResult::E_UNEXPECTED)] {
        let object = MetadataObject::create(server, &Live::default());
        // SAFETY: a live object; the call writes nothing.
        let answer = unsafe { sys::IMetaDataImport::CountEnum(object.cast(), null_mut(), null_mut()) };
        assert_eq!(HResult(answer), code);
        release(object);
    }
    let object = MetadataObject::create(Noted { panics: Some("IsValidToken"), ..Noted::default() }, &Live::default());
    // SAFETY: a live object.
    assert_eq!(unsafe { sys::IMetaDataImport::IsValidToken(object.cast(), 1) }, 0);
    release(object);
}
