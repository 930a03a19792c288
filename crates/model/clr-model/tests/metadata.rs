//! The metadata of the model's modules, and its misuse.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::{Guid, HResult, sys};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::Called;
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{World, application, faults_of, in_one, in_worlds, join};

const CALLED: Called = Called { module: "shop", class: "Shop.Till" };
/// CLDB_E_INDEX_NOTFOUND.
const NO_ROW: HResult = HResult(0x8013_1124_u32 as i32);

fn answered(body: impl Fn(&World) + Clone + 'static) {
    in_worlds(&RuntimeVersion::ALL, body);
}

/// The broken clauses, each once.
fn broken(body: impl Fn(&World) + Clone + 'static) -> Vec<String> {
    let mut clauses: Vec<String> = faults_of(RuntimeVersion::Core8, body).iter().map(ToString::to_string).collect();
    clauses.dedup();
    clauses
}

#[test]
fn classes_and_methods_are_reported_with_their_names_and_found_by_them() {
    answered(|world| {
        world.runtime.load_module(false);
        let module = world.runtime.load_module_called(CALLED);
        let pay = world.runtime.make_function_called(module, true, Some("Pay")).0;
        let other = world.runtime.make_function(module, false).0;
        let parent = world.runtime.define_class(Some(module), None);
        let child = world.runtime.define_class(Some(module), Some(parent));
        let (_, script, _) = world.attached(Script::new());
        let metadata = script.metadata(module.0).unwrap();
        assert_eq!(metadata.scope().unwrap().0, "shop.dll");
        let (class, _, token) = script.first_function_info(pay).unwrap();
        let (_, class_token, ..) = script.class_info(class).unwrap();
        assert_eq!(metadata.method(token), Ok((class_token, "Pay".to_owned())));
        assert_eq!(metadata.type_of(class_token), Ok(("Shop.Till".to_owned(), 0x0100_0001)));
        assert_eq!(metadata.find_method(class_token, "Pay"), Ok(token));
        let of_other = script.first_function_info(other).unwrap().2;
        assert_eq!(metadata.methods(class_token), Ok(vec![token, of_other]));
        let own = [parent, child].map(|class| script.class_info(class.0).unwrap().1);
        assert_eq!(metadata.types(), Ok(vec![class_token, own[0], own[1]]));
        assert_eq!(metadata.type_of(own[1]).unwrap().1, own[0], "the class that it extends");
        assert_eq!(metadata.methods(own[0]), Ok(Vec::new()));
        assert!(own.iter().all(|class| metadata.is_valid(*class)) && !metadata.is_valid(0x0200_0100));
        assert_eq!(metadata.method(0x0600_0000), Err(NO_ROW));
        assert_eq!(script.metadata_of_function(pay).map(|found| found.1), Ok(token));
    });
}

#[test]
fn each_module_has_an_id_and_only_its_own_rows() {
    answered(|world| {
        let modules = [world.runtime.load_module(false), world.runtime.load_module(true)];
        let functions = [0, 1, 1].map(|module| world.runtime.make_function(modules[module], true).0);
        let (_, script, profiler) = world.attached(Script::new());
        let metadata = modules.map(|module| script.metadata(module.0).unwrap());
        assert_ne!(metadata[0].scope().unwrap().1, metadata[1].scope().unwrap().1);
        let tokens = functions.map(|function| script.first_function_info(function).unwrap().2);
        assert_eq!(tokens, [0x0600_0001, 0x0600_0001, 0x0600_0002]);
        assert!(metadata[0].is_valid(tokens[0]) && !metadata[0].is_valid(tokens[2]));
        assert_eq!(metadata[0].method(tokens[2]), Err(NO_ROW));
        assert_eq!(profiler.metadata.count(), 2);
        drop(metadata);
        assert_eq!(profiler.metadata.count(), 0);
    });
}

#[test]
fn det_20_metadata_that_is_open_when_the_detach_is_asked_for_is_a_fault() {
    for keeps in [true, false] {
        let found = broken(move |world| {
            let module = world.runtime.load_module(false);
            let (_, script, _) = world.attached(Script::new());
            let metadata = script.metadata(module.0).unwrap();
            let kept = keeps.then_some(metadata);
            assert_eq!(script.request_detach(1), HResult::S_OK);
            // Not released: that call would be another misuse.
            std::mem::forget(kept);
        });
        holds!(DET_20 sim, found == (if keeps { vec!["DET-20"] } else { vec![] }));
    }
}

#[test]
fn det_20_metadata_that_another_threads_callback_has_open_counts_only_if_it_is_kept() {
    for keeps in [true, false] {
        let found = broken(move |world| {
            let set =
                |script: &Script| assert_eq!(script.set_mask_low(sys::COR_PRF_MONITOR_MODULE_LOADS), HResult::S_OK);
            let [is_open, is_asked] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (opens, asks) = (is_open.clone(), is_asked.clone());
            let module = world.runtime.load_module(false);
            let uses = move |script: &Script| {
                let metadata = script.metadata(module.0).unwrap();
                opens.store(true, Ordering::SeqCst);
                schedule::wait_until(None, || asks.load(Ordering::SeqCst));
                if keeps {
                    std::mem::forget(metadata);
                }
            };
            let (_, script, _) =
                world.attached(Script::new().on("InitializeForAttach", set).on("ModuleLoadFinished", uses));
            let busy = application(world, |runtime| _ = runtime.load_module(false));
            schedule::wait_until(None, || is_open.load(Ordering::SeqCst));
            assert_eq!(script.request_detach(1), HResult::S_OK);
            is_asked.store(true, Ordering::SeqCst);
            join(&[busy]);
        });
        holds!(DET_20 sim, found == (if keeps { vec!["DET-20"] } else { vec![] }));
    }
}

#[test]
fn det_20_metadata_is_not_read_after_the_detach_was_accepted() {
    let found = in_one(RuntimeVersion::Core8, 1, |world| {
        let module = world.runtime.load_module(false);
        let (_, script, _) = world.attached(Script::new());
        let metadata = script.metadata(module.0).unwrap();
        script.request_detach(1);
        assert!(metadata.scope().is_ok(), "it is answered all the same");
    });
    // Leaving it open is a separate fault.
    let is_read = |what: &String| what.starts_with("DET-20") && what.contains("was called after the detach");
    holds!(DET_20 sim, found.iter().any(is_read), "{found:?}");
}

#[test]
fn cat_09_metadata_of_a_module_that_is_gone_is_not_read() {
    let found = broken(|world| {
        let module = world.runtime.load_module(true);
        let (_, script, _) = world.attached(Script::new());
        let metadata = script.metadata(module.0).unwrap();
        world.runtime.unload_module(module);
        assert_eq!(metadata.types(), Err(HResult::E_INVALIDARG));
    });
    holds!(CAT_09 sim, found == ["CAT-09"]);
}

#[test]
fn cat_09_a_list_of_metadata_is_closed_once() {
    for times in [1, 2] {
        let found = broken(move |world| {
            let module = world.runtime.load_module(false);
            let (_, script, _) = world.attached(Script::new());
            let metadata = script.metadata(module.0).unwrap();
            let list = metadata.list();
            (0..times).for_each(|_| metadata.close(list));
        });
        holds!(CAT_09 sim, found == (if times == 2 { vec!["CAT-09"] } else { vec![] }));
    }
}

/// Another interface of open metadata, with a reference that the caller owns.
fn as_interface(object: usize, interface: Guid) -> *mut sys::IUnknown {
    let mut found = std::ptr::null_mut();
    // SAFETY: a live object, an identifier and a place.
    let code = unsafe { sys::IUnknown::QueryInterface(object as *mut sys::IUnknown, &interface, &raw mut found) };
    assert_eq!(HResult(code), HResult::S_OK);
    found.cast()
}

/// Another interface of open metadata, released on drop.
struct Tables(*mut sys::IMetaDataTables);

/// Tables of types and methods.
const TYPES: u32 = 2;
const METHODS: u32 = 6;

impl Tables {
    fn of(script: &Script, module: usize) -> Tables {
        let object = script.open_metadata(module).unwrap();
        let tables = as_interface(object, sys::IID_IMetaDataTables);
        release(object as *mut sys::IUnknown);
        Tables(tables.cast())
    }

    /// Rows and columns of a table.
    fn size(&self, table: u32) -> (u32, u32) {
        let (mut rows, mut columns) = (0, 0);
        let null = null_mut();
        // SAFETY: this reference keeps the object alive; null or local places.
        let code = unsafe {
            let places = (&raw mut rows, &raw mut columns);
            sys::IMetaDataTables::GetTableInfo(self.0, table, null, places.0, places.1, null, null.cast())
        };
        assert_eq!(HResult(code), HResult::S_OK);
        (rows, columns)
    }

    fn cell(&self, table: u32, row: u32, column: u32) -> Result<u32, HResult> {
        let mut value = 0;
        // SAFETY: this reference keeps the object alive; a local place.
        let code = HResult(unsafe { sys::IMetaDataTables::GetColumn(self.0, table, column, row, &raw mut value) });
        if code == HResult::S_OK { Ok(value) } else { Err(code) }
    }

    fn row(&self, table: u32, row: u32) -> Result<*const u8, HResult> {
        let mut place = null_mut();
        // SAFETY: this reference keeps the object alive; a local place.
        let code = HResult(unsafe { sys::IMetaDataTables::GetRow(self.0, table, row, &raw mut place) });
        if code == HResult::S_OK { Ok(place.cast_const().cast()) } else { Err(code) }
    }

    /// Every cell of a table, row after row.
    fn cells(&self, table: u32) -> Vec<Result<u32, HResult>> {
        let (rows, columns) = self.size(table);
        let places = (1..=rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        places.map(|(row, column)| self.cell(table, row, column)).collect()
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        release(self.0.cast());
    }
}

#[test]
fn every_row_of_a_table_exists_whatever_else_the_program_loads() {
    answered(|world| {
        let runtime = &world.runtime;
        let modules = [false, true].map(|collectible| runtime.load_module(collectible));
        for module in [modules[0], modules[1], modules[1], modules[0]] {
            runtime.make_function(module, true);
            runtime.make_dynamic_function();
            runtime.define_array(runtime.define_class(Some(module), None));
        }
        let (_, script, _) = world.attached(Script::new());
        for module in modules {
            let (tables, metadata) = (Tables::of(&script, module.0), script.metadata(module.0).unwrap());
            assert_eq!([TYPES, METHODS].map(|table| tables.size(table).0), [4, 2]);
            for (table, count) in [(TYPES, 4), (METHODS, 2)] {
                assert!(tables.cells(table).iter().all(Result::is_ok), "{:?}", tables.cells(table));
                assert!((1..=count).all(|row| tables.row(table, row).is_ok() && metadata.is_valid(table << 24 | row)));
            }
            assert!((1..=2).all(|row| metadata.method(METHODS << 24 | row).is_ok()));
        }
    });
}

#[test]
fn offsets_in_heaps_are_the_same_for_every_reader_whatever_it_asks_first() {
    answered(|world| {
        let module = world.runtime.load_module_called(CALLED);
        for name in ["Pay", "Count"] {
            world.runtime.make_function_called(module, true, Some(name));
        }
        let (_, script, _) = world.attached(Script::new());
        let mut name = std::ptr::null();
        let object = script.open_metadata(module.0).unwrap();
        // SAFETY: live metadata and a place.
        let code =
            unsafe { sys::IMetaDataImport::GetNameFromToken(object as *mut _, METHODS << 24 | 2, &raw mut name) };
        assert_eq!(HResult(code), HResult::S_OK);
        let first = Tables(as_interface(object, sys::IID_IMetaDataTables).cast());
        release(object as *mut sys::IUnknown);
        let second = Tables::of(&script, module.0);
        let both = || [TYPES, METHODS].map(|table| [&first, &second].map(|tables| tables.cells(table)));
        let before = both();
        assert!(before.iter().all(|[first, second]| first == second), "{before:?}");
        world.runtime.make_function_called(module, true, Some("Add"));
        let after = both();
        assert!(after.iter().all(|[first, second]| first == second), "{after:?}");
        assert_eq!(Tables::of(&script, module.0).cells(METHODS), after[1][0], "also for a new reader");
        assert_eq!(after[1][0][..before[1][0].len()], before[1][0], "what is there stays where it is");
    });
}

#[test]
fn the_bytes_of_a_row_are_those_of_its_columns_also_after_the_module_has_grown() {
    answered(|world| {
        let module = world.runtime.load_module(false);
        world.runtime.define_class(Some(module), None);
        let (_, script, _) = world.attached(Script::new());
        let tables = Tables::of(&script, module.0);
        // The last column of a type: the first of its methods.
        let (row, column, place) = (3, 5, 12);
        let stored = || {
            let bytes = tables.row(TYPES, row).unwrap();
            // SAFETY: a row of a type has 14 bytes, and stays while the metadata is open.
            u32::from(unsafe { bytes.add(place).cast::<u16>().read_unaligned() })
        };
        for methods in 0..3 {
            assert_eq!(tables.cell(TYPES, row, column), Ok(METHODS << 24 | (methods + 1)));
            assert_eq!(stored(), methods + 1);
            world.runtime.make_function(module, true);
        }
    });
}

fn release(object: *mut sys::IUnknown) {
    // SAFETY: the caller owns this reference.
    unsafe { sys::IUnknown::Release(object) };
}

#[test]
fn what_a_profiler_adds_gets_a_token_of_its_kind_and_the_tables_have_their_rows() {
    answered(|world| {
        world.runtime.load_module(false);
        let module = world.runtime.load_module_called(CALLED);
        let (_, script, _) = world.attached(Script::new());
        let object = script.open_metadata(module.0).unwrap();
        let emit = as_interface(object, sys::IID_IMetaDataEmit2);
        let tables = as_interface(object, sys::IID_IMetaDataTables);
        let name: Vec<u16> = "Shop.Goods\0".encode_utf16().collect();
        let mut tokens = [0; 2];
        for token in &mut tokens {
            // SAFETY: live metadata, a name that ends with a zero, and a place.
            let code =
                unsafe { sys::IMetaDataEmit::DefineTypeRefByName(emit.cast(), 0x2300_0001, name.as_ptr(), token) };
            assert_eq!(HResult(code), HResult::S_OK);
        }
        assert!(tokens[0] != tokens[1] && tokens.iter().all(|token| token >> 24 == 1), "{tokens:x?}");
        // SAFETY: live metadata, and a name that ends with a zero.
        let codes = unsafe {
            [
                sys::IMetaDataEmit::SetRVA(emit.cast(), 0x0600_0001, 0),
                sys::IMetaDataEmit::Save(emit.cast(), name.as_ptr(), 0),
            ]
        };
        assert_eq!(codes.map(HResult), [HResult::S_OK, HResult::E_NOTIMPL]);
        let (mut count, mut rows) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: live metadata; null or local places.
        unsafe {
            sys::IMetaDataTables::GetNumTables(tables.cast(), &raw mut count);
            sys::IMetaDataTables::GetTableInfo(tables.cast(), 2, null, &raw mut rows, null, null, null.cast());
        }
        assert_eq!((count, rows), (45, 2), "<Module> and the class of its methods");
        for one in [emit, tables, object as *mut sys::IUnknown] {
            release(one);
        }
    });
}

#[test]
fn a_module_has_an_address_once_its_load_is_announced() {
    answered(|world| {
        let (_, script, _) = world.attached(Script::new());
        let bases: Vec<usize> = (0..2)
            .map(|_| {
                let module = world.runtime.load_module(false);
                let (code, _, base, ..) = script.module_info(module.0, &mut []);
                assert_eq!(code, HResult::S_OK);
                base
            })
            .collect();
        assert!(bases[0] != 0 && bases[1] != 0 && bases[0] != bases[1], "{bases:x?}");
    });
}
