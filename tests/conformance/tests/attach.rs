//! Attach, and attached profilers, on live runtimes and their models.
//!
//! The profiler is `tests/probe`, which follows the test's orders on the thread of each callback. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::probe::{CLASS, Seat, Stage, digest, library, longest_data};
use remora_conformance::{in_every_world, in_live_worlds};
use remora_e2e::{Facts, Mapping, Runtime, RuntimeMessages, diagnostics, message_ids, until};
use remora_holds::holds;
use std::collections::BTreeSet;

const CLASS_NOT_AVAILABLE: u32 = 0x8004_0111;
const MODULE_NOT_FOUND: u32 = 0x8007_007E;
const NOT_ATTACHABLE: u32 = 0x8013_1368;
const UNSUPPORTED_FOR_ATTACHING: u32 = 0x8013_136F;
const CANCEL_ACTIVATION: u32 = 0x8013_1375;
const CONCURRENT_NOT_PROFILABLE: u32 = 0x8013_1376;
const NOT_IMPLEMENTED: u32 = 0x8000_4001;
const FAIL: u32 = 0x8000_4005;
/// An HRESULT that nothing else returns.
const OF_OUR_OWN: u32 = 0x8004_BEEF;

const MODULE_LOADS: u32 = 0x4;
const JIT: u32 = 0x20;
const MONITOR_GC: u32 = 0x80;
const STACK_SNAPSHOT: u32 = 0x1000_0000;
const LARGE_OBJECTS: u32 = 0x40;
const EVENT_PIPE: u32 = 0x80;

/// The flags that an attached profiler may set, in the low half.
const ALLOWABLE: u32 = 0x1005_02FE;
/// DISABLE_INLINING and DISABLE_OPTIMIZATIONS, which .NET 10 allows, too.
const ALLOWABLE_SINCE_10: u32 = 0x60_0000;
const IMMUTABLE: u32 = 0xEEF8_CC00;
const HIGH_IMMUTABLE: u32 = 0x8;

#[test]
fn att_01_the_trigger_ends_after_its_success_and_the_profiler_goes_on() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        let mut trigger = stage.attach_from_another_process();
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("thread");
        init.leave(0);
        let status = trigger.wait();
        holds!(ATT_01 sim clr, status.success(), "{status}");
        // It cannot see that nobody waits for the attach any more.
        let mut own = stage.seat("Thread");
        stage.is_alive(&mut own);
        stage.leave(own);
    });
}

#[test]
fn att_02_the_attach_names_process_time_class_library_and_data() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let attach = |pid, class: &[u8; 16], path: &str| diagnostics::attach_profiler(pid, class, path, b"data");
        let path = library().to_string_lossy().into_owned();
        let pid = stage.pid();
        let mut other = CLASS;
        other[15] = 9;
        holds!(ATT_02 sim clr, attach(pid, &other, &path) == Err(CLASS_NOT_AVAILABLE));
        holds!(ATT_02 sim clr, attach(pid, &CLASS, "/nowhere/libremora_probe.so") == Err(MODULE_NOT_FOUND));
        let attaching = stage.attach(b"data");
        let init = stage.seat("InitializeForAttach");
        holds!(ATT_02 sim clr, init.data() == digest(b"data"));
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
    });
}

#[test]
fn att_10_an_attached_profiler_gets_initialize_for_attach_and_never_initialize() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS, 0);
        let counts = (own.count("InitializeForAttach"), own.count("Initialize"), own.count("ProfilerAttachComplete"));
        holds!(ATT_10 sim clr, counts == (1, 0, 1));
    });
}

#[test]
fn att_10_an_error_of_initialize_for_attach_reaches_the_trigger_and_the_library_goes() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let codes = [
            (FAIL, FAIL),
            (OF_OUR_OWN, OF_OUR_OWN),
            (NOT_IMPLEMENTED, NOT_ATTACHABLE),
            (NOT_ATTACHABLE, NOT_ATTACHABLE),
            (CANCEL_ACTIVATION, CANCEL_ACTIVATION),
        ];
        for (code, answer) in codes {
            let attaching = stage.attach(&[]);
            stage.seat("InitializeForAttach").leave(code);
            holds!(ATT_10 sim clr, attaching.answer() == Err(answer), "for {code:#x}");
            stage.seat("Released");
            until("the library is unmapped", || !stage.is_mapped());
        }
        holds!(ATT_10 sim clr, !stage.has_come("ProfilerDetachSucceeded"));
        // And nothing remains that would block the next one.
        stage.attached(0, 0);
    });
}

#[test]
fn att_11_client_data_of_any_size_arrives_intact_and_lasts_for_the_call() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        for length in [0, 1, 2, 4096, longest_data() - 1, longest_data()] {
            let data: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
            let attaching = stage.attach_at_once(&data);
            let mut init = stage.seat("InitializeForAttach");
            holds!(ATT_11 sim clr, init.data() == digest(&data), "{length} bytes");
            holds!(ATT_11 sim clr, init.done("data") == [digest(&data)], "{length} bytes, later in the call");
            init.leave(FAIL);
            assert_eq!(attaching.answer(), Err(FAIL));
        }
    });
}

#[test]
fn att_12_a_mask_after_attach_takes_what_is_allowable_and_nothing_else() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let attaching = stage.attach(&[]);
        let mut init = stage.seat("InitializeForAttach");
        init.done("thread");
        let mut wrong = each_bit(runtime, &mut init, 0);
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
        let mut own = stage.seat("Thread");
        // GCH-05 covers MONITOR_GC of an active profiler; ReJIT would be permanent, and DET-02 covers it.
        wrong.extend(each_bit(runtime, &mut own, MONITOR_GC));
        holds!(ATT_12 sim clr, wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Tries every bit of the mask except `but`; returns unexpected answers.
fn each_bit(runtime: &Runtime, seat: &mut Seat, but: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    let allowable = if runtime.major() < 10 { ALLOWABLE } else { ALLOWABLE | ALLOWABLE_SINCE_10 };
    let high_allowable = if runtime.major() < 5 { 0x76 } else { 0xF6 };
    for bit in (0..32).map(|shift| 1_u32 << shift) {
        let low = (bit & (but | 0x4_0000) == 0).then_some((bit, 0, expected(bit, allowable, IMMUTABLE)));
        let high = Some((0, bit, expected(bit, high_allowable, HIGH_IMMUTABLE)));
        for (low, high, right) in low.into_iter().chain(high) {
            let code = seat.ask(&format!("mask {low:#x} {high:#x}")).err().unwrap_or(0);
            let is_set = seat.done("getmask");
            let should = if right == 0 { [low, high] } else { [0, 0] }.map(|half| format!("{half:#x}"));
            if code != right || is_set != should {
                let place = seat.place();
                wrong.push(format!("{low:#x} {high:#x} in {place}: {code:#x}, not {right:#x}; the mask is {is_set:?}"));
            }
            seat.ask("mask 0 0").unwrap_or_default();
        }
    }
    wrong
}

fn expected(bit: u32, allowable: u32, immutable: u32) -> u32 {
    match (bit & allowable != 0, bit & immutable != 0) {
        (true, _) => 0,
        (false, true) => FAIL,
        (false, false) => UNSUPPORTED_FOR_ATTACHING,
    }
}

#[test]
fn att_19_what_is_not_allowed_is_refused_when_it_is_asked_with_the_clause_that_forbids_it() {
    // Flags that the safe layer refuses and the runtime accepts: ReJIT, which would be permanent, and those that only .NET 10 allows.
    const STRICTER: u32 = 0x4_0000 | ALLOWABLE_SINCE_10;
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS, 0);
        let in_force = own.done("getmask");
        let mut wrong = Vec::new();
        for bit in (0..32).map(|shift| 1_u32 << shift) {
            for (low, high) in [(bit, 0), (0, bit)] {
                let clauses = own.done(&format!("clauses {low:#x} {high:#x}"));
                let named = clauses.iter().all(|clause| ["ATT-12", "ATT-14", "DET-02", "ELT-02"].contains(&&**clause));
                if low & (STRICTER | MONITOR_GC) != 0 {
                    assert_eq!(clauses.is_empty(), low == MONITOR_GC, "{low:#x}: {clauses:?}");
                    continue;
                }
                let taken = own.ask(&format!("mask {:#x} {high:#x}", MODULE_LOADS | low)).is_ok();
                // The oldest runtime does not know the newest bit.
                let unknown = high == EVENT_PIPE && runtime.major() < 5;
                if !named || clauses.is_empty() != (taken || unknown) {
                    wrong.push(format!("{low:#x} {high:#x}: taken: {taken}, clauses: {clauses:?}"));
                }
                if taken {
                    own.done(&format!("mask {MODULE_LOADS:#x} 0"));
                }
                assert_eq!(own.done("getmask"), in_force, "{low:#x} {high:#x} was refused and has changed the mask");
            }
        }
        holds!(ATT_19 sim clr, wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn att_13_elt_02_an_attached_profiler_is_refused_hooks_of_functions() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let attaching = stage.attach(&[]);
        let mut init = stage.seat("InitializeForAttach");
        init.done("thread");
        holds!([ATT_13 ELT_02] sim clr, init.refused("call SetEnterLeaveFunctionHooks3") == UNSUPPORTED_FOR_ATTACHING);
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
        holds!([ATT_13 ELT_02] sim clr, stage.seat("Thread").refused("call SetEnterLeaveFunctionHooks3") == UNSUPPORTED_FOR_ATTACHING);
    });
}

#[test]
fn att_14_only_large_objects_are_reported_when_they_are_allocated() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        // ENABLE_OBJECT_ALLOCATED is immutable, OBJECT_ALLOCATED is forbidden.
        assert_eq!(own.refused("mask 0x800000 0"), FAIL);
        holds!(ATT_14 sim clr, own.refused("mask 0x100 0") == UNSUPPORTED_FOR_ATTACHING);
        own.done(&format!("mask 0 {LARGE_OBJECTS:#x}"));
        // The first time, the runtime itself may allocate space for statics.
        stage.act("a small");
        let before = own.count("ObjectAllocated");
        stage.act("b small");
        holds!(ATT_14 sim clr, own.count("ObjectAllocated") == before);
        stage.act("a large");
        holds!(ATT_14 sim clr, own.count("ObjectAllocated") == before + 1);
        stage.act("b small");
        assert_eq!(own.count("ObjectAllocated"), before + 1);
    });
}

#[test]
fn att_15_since_dotnet_8_the_runtime_logs_every_attach_detach_and_failure() {
    // Live only: the model has entries, but not the texts of the runtime's resources.
    in_live_worlds(|runtime| {
        let stage = Stage::start(runtime);
        let pid = stage.pid();
        let messages = RuntimeMessages::of(pid);
        let attaching = stage.attach(&[]);
        stage.seat("InitializeForAttach").leave(OF_OUR_OWN);
        assert_eq!(attaching.answer(), Err(OF_OUR_OWN));
        let gone = diagnostics::attach_profiler(pid, &CLASS, "/nowhere/libremora_probe.so", &[]);
        assert_eq!(gone, Err(MODULE_NOT_FOUND));
        let mut own = stage.attached(0, 0);
        own.done("detach 300");
        own.leave(0);
        stage.gone();
        // The next attach is served after the detach is over, so its entry is written by then.
        let attaching = stage.attach(&[]);
        stage.seat("InitializeForAttach").leave(0);
        assert_eq!(attaching.answer(), Ok(()));
        let texts = messages.texts();
        let entries = message_ids(&texts);
        let (asked, failed, broken, loaded, leaving, left) =
            ("[0x2512].", "[0x2505].", "[0x2504].", "[0x2507].", "[0x2513].", "[0x2514].");
        if runtime.major() < 8 {
            // Observed on 3.1: it writes no such event, whatever keywords the provider gets.
            assert!(entries.is_empty(), "{texts:#?}");
            return;
        }
        let right = [asked, failed, asked, broken, asked, loaded, leaving, left, asked, loaded];
        holds!(ATT_15 clr, entries == right, "{texts:#?}");
        for reason in ["HRESULT: 0x8004beef.", "HRESULT: 0x8007007e."] {
            holds!(ATT_15 clr, texts.iter().any(|text| text.contains(reason)), "{reason} is missing in {texts:#?}");
        }
    });
}

#[test]
fn cat_01_att_20_attach_complete_comes_after_initialize_for_attach_with_callbacks_on_and_before_the_answer() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        let attaching = stage.attach(&[]);
        let mut init = stage.seat("InitializeForAttach");
        init.done(&format!("mask {MODULE_LOADS:#x} 0"));
        init.done("hold ProfilerAttachComplete");
        stage.act("a load");
        holds!(CAT_01 sim clr, init.count("ModuleLoadFinished") == 0, "callbacks are on before InitializeForAttach has returned");
        assert_eq!(init.count("ProfilerAttachComplete"), 0);
        init.leave(0);
        let mut complete = stage.seat("ProfilerAttachComplete");
        stage.act("a load");
        holds!([CAT_01 ATT_20] sim clr, complete.count("ModuleLoadFinished") == 1, "callbacks are not on in ProfilerAttachComplete");
        holds!(ATT_20 sim clr, attaching.is_pending(), "the trigger has its answer before ProfilerAttachComplete has returned");
        let order: Vec<String> =
            complete.done("log").iter().map(|entry| entry.split(':').next().unwrap().into()).collect();
        holds!([CAT_01 ATT_20] sim clr, order == ["InitializeForAttach", "ProfilerAttachComplete", "ModuleLoadFinished"]);
        complete.leave(0);
        assert_eq!(attaching.answer(), Ok(()));
    });
}

#[test]
fn cat_03_enumerations_are_snapshots() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a jit");
        stage.act("a load");
        let mut own = stage.attached(MODULE_LOADS | JIT, 0);
        own.done("snapshot modules");
        stage.act("a load");
        let before = own.done("rest");
        let module = own.ids("ModuleLoadFinished").pop().unwrap();
        holds!(CAT_03 sim clr, !before.contains(&module), "the snapshot of modules knows what came after it");
        assert!(own.done("modules").contains(&module));

        own.done("snapshot functions");
        let known = own.ids("JITCompilationFinished").len();
        stage.act("a jit");
        let before = own.done("rest");
        let fresh: Vec<String> = own.ids("JITCompilationFinished").split_off(known);
        assert!(!fresh.is_empty());
        let after = own.done("functions");
        for function in fresh {
            holds!(CAT_03 sim clr, !before.contains(&function), "the snapshot of functions knows what came after it");
            assert!(after.contains(&function));
        }
    });
}

#[test]
fn cat_03_no_precompiled_function_is_enumerated() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS | STACK_SNAPSHOT, 0);
        let precompiled = precompiled_on_stack(&mut stage, &mut own);
        let functions = own.done("functions");
        assert!(!functions.is_empty());
        for (function, _) in &precompiled {
            holds!(CAT_03 sim clr, !functions.contains(function), "{function} is precompiled and enumerated");
        }
        let images = images(&stage);
        for function in &functions {
            for start in own.ask(&format!("start {function}")).unwrap_or_default() {
                assert!(!images.iter().any(|(from, to)| (*from..*to).contains(&hexadecimal(&start))), "{function}");
            }
        }
    });
}

#[test]
fn cat_04_a_module_is_enumerated_before_its_load_is_reported_and_not_when_its_unload_is() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        assert_eq!(stage.act("a unload"), "unloaded");
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("hold ModuleLoadFinished");
        own.done("hold ModuleUnloadStarted");
        stage.act("start a load");
        let mut loading = stage.seat("ModuleLoadFinished");
        let module = loading.id().to_owned();
        holds!(CAT_04 sim clr, loading.done("modules").contains(&module));
        loading.leave(0);
        assert_eq!(stage.act("finish a"), "obedient");
        stage.act("start b unload");
        let mut unloading = stage.seat("ModuleUnloadStarted");
        assert_eq!(unloading.id(), module);
        holds!(CAT_04 sim clr, !unloading.done("modules").contains(&module));
        unloading.leave(0);
        assert_eq!(stage.act("finish b"), "unloaded");
    });
}

#[test]
fn cat_06_a_module_met_twice_and_an_unload_of_one_never_met_are_harmless() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("hold ModuleLoadFinished");
        stage.act("start b load");
        let mut loading = stage.seat("ModuleLoadFinished");
        let module = loading.id().to_owned();
        assert!(own.done("modules").contains(&module), "enumerated before its event is over: the same is met twice");
        assert!(loading.done("modules").contains(&module));
        loading.leave(0);
        assert_eq!(stage.act("finish b"), "obedient");
        holds!(CAT_06 sim clr, own.ids("ModuleLoadFinished") == [module.as_str()]);

        // The second unload is of a module loaded before the probe, which never queried it.
        assert_eq!(stage.act("a unload"), "unloaded");
        assert_eq!(stage.act("a unload"), "unloaded");
        let unloaded = own.ids("ModuleUnloadFinished");
        holds!(CAT_06 sim clr, unloaded.len() == 2, "{unloaded:?}");
        assert_eq!(unloaded[0], module);
        holds!(CAT_06 sim clr, unloaded[1] != module);
        assert_eq!(own.ids("ModuleUnloadStarted"), unloaded);
        assert_eq!(stage.act("a load"), "obedient");
    });
}

#[test]
fn cat_08_a_function_first_met_under_an_address_is_looked_up_with_its_class_and_module() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(MODULE_LOADS | STACK_SNAPSHOT, 0);
        stage.act("a load");
        let modules = own.done("modules");
        for (function, address) in precompiled_on_stack(&mut stage, &mut own) {
            holds!([CAT_08 GCH_06] sim clr, own.done(&format!("address {address}")) == [function.as_str()]);
            let found = own.done(&format!("function {function}"));
            let [class, module, token, name] = &found[..] else { panic!("{found:?}") };
            holds!(GCH_06 sim clr, token.starts_with("0x6") && !name.is_empty(), "{found:?}");
            holds!(CAT_08 sim clr, modules.contains(module), "{name} is of a module that is not enumerated");
            let path = own.done(&format!("module {module}"));
            assert!(path[1].ends_with(".dll"), "{path:?}");
            // Zero is a class shared among type arguments, which cannot be named without a frame.
            if class != "0x0" {
                assert_eq!(own.done(&format!("class {class}"))[0], *module);
            }
        }
    });
}

#[test]
fn cat_08_a_dynamic_function_is_looked_up_when_it_is_met() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(JIT, 0);
        own.done("hold DynamicMethodJITCompilationFinished");
        stage.act("start a dynamic");
        let mut compiled = stage.seat("DynamicMethodJITCompilationFinished");
        let order = format!("dynamic {}", compiled.id());
        let found = compiled.done(&order);
        assert!(!found[1].is_empty());
        compiled.leave(0);
        assert_eq!(stage.act("finish a"), "7");
        let names: Vec<String> = own.ids("DynamicMethodJITCompilationFinished");
        let names: BTreeSet<String> = names.iter().map(|id| own.done(&format!("dynamic {id}"))[1].clone()).collect();
        holds!(CAT_08 sim clr, names.contains("Emitted"), "{names:?}");
        holds!(CAT_08 sim clr, !own.done("functions").iter().any(|function| own.ask(&format!("dynamic {function}")).is_ok()));
    });
}

#[test]
fn cat_09_an_id_that_is_unloading_is_still_answered_and_then_no_longer_enumerated() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        stage.act("a load");
        let mut own = stage.attached(MODULE_LOADS, 0);
        own.done("hold ModuleUnloadStarted");
        stage.act("start a unload");
        let mut unloading = stage.seat("ModuleUnloadStarted");
        let module = unloading.id().to_owned();
        holds!(CAT_09 sim clr, unloading.done(&format!("module {module}")).len() == 2, "a name is given until the callback returns");
        holds!(CAT_09 sim clr, !own.done("modules").contains(&module), "an id goes from the enumeration before its event");
        unloading.leave(0);
        assert_eq!(stage.act("finish a"), "unloaded");
        assert!(!own.done("modules").contains(&module));
    });
}

#[test]
fn cat_09_an_address_that_is_of_no_function_is_refused_and_harmless() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        let facts = Facts::of(stage.pid());
        let native = facts.maps.iter().find(|mapping| mapping.name.contains(runtime.own_file())).unwrap().start;
        let heap = facts.maps.iter().find(|mapping| mapping.name == "[stack]").unwrap().start;
        for address in [0, 1, native, native + 1, heap, 0x7FFF_FFFF_FFFF, u64::MAX] {
            holds!(CAT_09 sim clr, own.refused(&format!("address {address:#x}")) == FAIL, "{address:#x}");
        }
        assert_eq!(stage.act("a jit"), "7");
    });
}

#[test]
fn gch_05_the_walk_of_the_heap_is_asked_for_inside_initialize_for_attach_or_refused() {
    in_every_world(|runtime| {
        let stage = Stage::start(runtime);
        let mut own = stage.attached(0, 0);
        holds!(GCH_05 sim clr, own.refused(&format!("mask {MONITOR_GC:#x} 0")) == CONCURRENT_NOT_PROFILABLE);
        own.done("detach 300");
        own.leave(0);
        stage.gone();

        // Once granted in time, it may be dropped and requested again, until the detach.
        let mut own = stage.attached(MONITOR_GC, 0);
        own.done("mask 0 0");
        own.done(&format!("mask {MONITOR_GC:#x} 0"));
        own.done("mask 0 0");
        own.done("detach 300");
        own.leave(0);
        stage.gone();
        holds!(GCH_05 sim clr, stage.attached(0, 0).refused(&format!("mask {MONITOR_GC:#x} 0")) == CONCURRENT_NOT_PROFILABLE);

        let stage = Stage::start_without_concurrent_collector(runtime);
        stage.attached(0, 0).done(&format!("mask {MONITOR_GC:#x} 0"));
    });
}

/// Functions and addresses on the stack of a thread that loads a module, if they are in images: precompiled ones.
fn precompiled_on_stack(stage: &mut Stage, own: &mut Seat) -> Vec<(String, String)> {
    // The first load also loads its own dependencies.
    stage.act("a load");
    own.done("hold ModuleLoadFinished");
    stage.act("start a load");
    let mut loading = stage.seat("ModuleLoadFinished");
    let stack = loading.done("stack");
    loading.leave(0);
    assert_eq!(stage.act("finish a"), "obedient");
    let images = images(stage);
    let frames = stack.iter().filter_map(|frame| frame.split_once('@'));
    let found: Vec<(String, String)> = frames
        .filter(|(_, address)| images.iter().any(|(from, to)| (*from..*to).contains(&hexadecimal(address))))
        .map(|(function, address)| (function.to_owned(), address.to_owned()))
        .collect();
    assert!(!found.is_empty(), "no frame is precompiled: {stack:?}");
    found
}

/// The mapped ranges of managed images.
fn images(stage: &Stage) -> Vec<(u64, u64)> {
    let maps = Facts::of(stage.pid()).maps;
    // The model's image is a file that was never on a disk.
    let is_managed = |mapping: &&Mapping| mapping.name.trim_end_matches(" (deleted)").ends_with(".dll");
    maps.iter().filter(is_managed).map(|mapping| (mapping.start, mapping.end)).collect()
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{text} is no address"))
}
