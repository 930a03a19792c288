//! Several runtimes in one process, and several profilers of one library.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::{Guid, HResult, sys};
use remora_clr_model::differences::{Release, RuntimeVersion};
use remora_clr_model::library::Library;
use remora_clr_model::machine::{Account, AttachOptions, File, Machine, Process, Trigger};
use remora_clr_model::runtime::{Entry, ModuleId, Runtime};
use remora_clr_model::schedule;
use remora_clr_model::scripted::{self, Script};
use remora_holds::holds;
use std::sync::Arc;
use support::{SCHEDULES, in_one, on_machines, on_one, schedules_of_each};

const CLASS: Guid = Guid::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);
const CLASS_IN_WORDS: &str = "{11112222-3333-4444-5555-666677778888}";
const OTHER_CLASS: Guid = Guid::from_u128(9);
const PATH: &str = "C:\\profiler\\profiler.dll";
const USER: Account = Account::of_user(500);
const V2: Release = Release(2, 0, 50727);
const V4: Release = Release(4, 0, 30319);
const OPT_IN: (&str, &str) = ("COMPLUS_ProfAPI_ProfilerCompatibilitySetting", "EnableV2Profiler");
/// Only the desktop has several runtimes in a process. Core 6 and later also have several profilers of one library.
const DESKTOP: &[RuntimeVersion] = &[RuntimeVersion::Desktop4];
const WITH_NOTIFIED: &[RuntimeVersion] =
    &[RuntimeVersion::Core6, RuntimeVersion::Core8, RuntimeVersion::Core9, RuntimeVersion::Core10];

fn install(machine: &Arc<Machine>, script: Script) -> (Arc<Library>, Arc<Script>) {
    let (library, script) = scripted::library(script, &machine.faults);
    machine.put(PATH, File::of(&library));
    // The older runtime does not support a path.
    machine.register(CLASS, PATH);
    (library, script)
}

/// A process whose environment names the profiler. Its runtimes start on separate threads, in any order.
fn process(machine: &Arc<Machine>, releases: &[Release], more: &[(&str, &str)]) -> (Arc<Process>, Vec<Arc<Runtime>>) {
    let mut environment =
        vec![("COR_ENABLE_PROFILING", "1"), ("COR_PROFILER", CLASS_IN_WORDS), ("COR_PROFILER_PATH", PATH)];
    environment.extend(more);
    let process = machine.start(USER, &environment);
    let runtimes = releases.iter().map(|release| process.load_release(*release).unwrap()).collect();
    (process, runtimes)
}

/// The profilers of each runtime.
fn profiled(runtimes: &[Arc<Runtime>]) -> Vec<usize> {
    runtimes.iter().map(|runtime| runtime.profilers().len()).collect()
}

/// The major version of the runtime behind an Info; before version 4 the method does not exist.
fn major_version(info: *mut sys::ICorProfilerInfo) -> u16 {
    let mut third = std::ptr::null_mut();
    // SAFETY: Info is live; an identifier and a local place for the answer.
    let code = unsafe { sys::IUnknown::QueryInterface(info.cast(), &sys::IID_ICorProfilerInfo3, &raw mut third) };
    if HResult(code) == HResult::E_NOINTERFACE {
        return 2;
    }
    let (mut number, mut kind, mut major, mut minor, mut build, mut fix, mut length) = (0, 0, 0, 0, 0, 0, 0);
    // SAFETY: the same live Info; the out pointers are locals, and there is no room for the text.
    let code = unsafe {
        sys::ICorProfilerInfo3::GetRuntimeInformation(
            third.cast(),
            &raw mut number,
            &raw mut kind,
            &raw mut major,
            &raw mut minor,
            &raw mut build,
            &raw mut fix,
            0,
            &raw mut length,
            std::ptr::null_mut(),
        )
    };
    assert_eq!((HResult(code), kind, length), (HResult::S_OK, sys::COR_PRF_DESKTOP_CLR, 11));
    major
}

#[test]
fn sbs_01_each_runtime_loads_the_library_and_creates_one_object() {
    on_machines(DESKTOP, |machine| {
        let (library, script) = install(machine, Script::new());
        let (_, runtimes) = process(machine, &[V2, V4], &[]);
        holds!(SBS_01 sim, (library.references(), script.classes()) == (2, vec![CLASS, CLASS]));
        holds!(SBS_01 sim, (script.count("Initialize"), profiled(&runtimes)) == (2, vec![1, 1]));
        // One profiler detaches; the other keeps the library.
        assert_eq!(script.request_detach(1), HResult::S_OK);
        schedule::wait_until(None, || profiled(&runtimes) == [1, 0]);
        assert_eq!((library.references(), library.is_mapped()), (1, true));
        runtimes[0].load_module(false);
    });
}

#[test]
fn sbs_02_pick_first() {
    on_machines(DESKTOP, |machine| {
        for (order, expected) in [([V2, V4], [1, 0]), ([V4, V2], [1, 0])] {
            let (library, script) = install(machine, Script::new().refusing_to_make(|number| number > 0));
            let (process, runtimes) = process(machine, &order, &[]);
            holds!(SBS_02 sim, (profiled(&runtimes), library.references()) == (expected.to_vec(), 1));
            assert_eq!(script.classes().len(), 2, "it was asked twice");
            let refused = Entry::Failed(HResult::CLASS_E_CLASSNOTAVAILABLE.0 as u32);
            assert_eq!(process.event_log(), [(order[0], Entry::Loaded), (order[1], refused)]);
        }
    });
}

#[test]
fn sbs_02_pick_one_by_its_version_many_or_all() {
    on_machines(DESKTOP, |machine| {
        let wishes: [(&'static [u16], [usize; 2]); 4] =
            [(&[2], [1, 0]), (&[4], [0, 1]), (&[2, 4], [1, 1]), (&[], [0, 0])];
        for (wanted, expected) in wishes {
            let script = Script::new().deciding(move |script| {
                let is_wanted = wanted.contains(&major_version(script.raw()));
                if is_wanted { HResult::S_OK } else { HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION }
            });
            let (library, _) = install(machine, script);
            let (_, runtimes) = process(machine, &[V2, V4], &[]);
            holds!(SBS_02 sim, profiled(&runtimes) == expected, "{wanted:?}");
            assert_eq!(library.references(), wanted.len() as u32);
        }
    });
}

/// Calls one Info about a module.
fn asks_about(info: *mut sys::ICorProfilerInfo, module: ModuleId) -> HResult {
    // SAFETY: Info is live; the model accepts null instead of places.
    HResult(unsafe {
        sys::ICorProfilerInfo3::GetModuleInfo2(
            info.cast(),
            module.0,
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    })
}

#[test]
fn sbs_03_each_instance_has_its_own_info_and_hears_of_its_own_runtime() {
    on_machines(DESKTOP, |machine| {
        let script = Script::new().on("Initialize", |script| assert_eq!(script.set_mask_low(0x4), HResult::S_OK));
        let (_, script) = install(machine, script);
        let (_, runtimes) = process(machine, &[V4, V4], &[]);
        holds!(SBS_03 sim, script.raw_of(0) != script.raw_of(1));
        let modules: Vec<ModuleId> = runtimes.iter().map(|runtime| runtime.load_module(false)).collect();
        holds!(SBS_03 sim, script.count("ModuleLoadFinished") == 2, "one each");
        for (number, module) in modules.iter().enumerate() {
            assert_eq!(asks_about(script.raw_of(number), *module), HResult::S_OK);
        }
    });
}

#[test]
fn sbs_03_an_id_of_one_runtime_handed_to_another_is_an_access_violation() {
    for seed in 0..SCHEDULES {
        let findings = on_one(RuntimeVersion::Desktop4, seed, |machine| {
            let (_, script) = install(machine, Script::new());
            let (_, runtimes) = process(machine, &[V4, V4], &[]);
            let modules: Vec<ModuleId> = runtimes.iter().map(|runtime| runtime.load_module(false)).collect();
            assert!(!asks_about(script.raw_of(0), modules[1]).is_success());
        });
        holds!(SBS_03 sim, matches!(&findings[..], [only] if only.starts_with("CAT-09")), "{findings:?}");
    }
}

#[test]
fn sbs_03_a_main_and_a_notified_profiler_of_one_library_are_two_instances() {
    for runtime_version in WITH_NOTIFIED {
        for seed in 0..schedules_of_each(WITH_NOTIFIED.len()) {
            let findings = in_one(*runtime_version, seed, |world| {
                let script = Script::new()
                    .only_notified_where(|number| number == 1)
                    .on("InitializeForAttach", |script| assert_eq!(script.set_mask_low(0x4), HResult::S_OK));
                let (library, script) = world.library(script);
                assert_eq!((world.attach(&library), world.attach(&library)), (HResult::S_OK, HResult::S_OK));
                holds!(SBS_03 sim, script.raw_of(0) != script.raw_of(1));
                let kinds: Vec<bool> = world.runtime.profilers().iter().map(|one| one.notification_only).collect();
                holds!(SBS_03 sim, (kinds, library.references()) == (vec![false, true], 2));
                world.runtime.load_module(false);
                assert_eq!(script.count("ModuleLoadFinished"), 2);
                // The last one detaches; the first one stays.
                assert_eq!(script.request_detach(1), HResult::S_OK);
                schedule::wait_until(None, || world.runtime.profilers().len() == 1);
                world.runtime.load_module(false);
                assert_eq!((script.count("ModuleLoadFinished"), library.references()), (3, 1));
            });
            assert_eq!(findings, Vec::<String>::new(), "{runtime_version:?}, seed {seed}");
        }
    }
}

#[test]
fn sbs_04_a_profiler_for_2_x_is_loaded_into_one_runtime_of_the_process() {
    on_machines(DESKTOP, |machine| {
        for order in [[V2, V4], [V4, V2]] {
            let (library, script) = install(machine, Script::new().of_version(2));
            let (process, runtimes) = process(machine, &order, &[OPT_IN]);
            holds!(SBS_04 sim, (profiled(&runtimes), library.references()) == (vec![1, 0], 1));
            assert_eq!(script.count("Initialize"), 1);
            holds!(SBS_04 sim, process.event_log()[1] == (order[1], Entry::OtherRuntimeHasOne));
            assert!(Entry::OtherRuntimeHasOne.to_string().contains("Upgrade"));
        }
        // Another process has its own slot, and a profiler that supports several runtimes needs none.
        let (_, script) = install(machine, Script::new().of_version(3));
        let (_, runtimes) = process(machine, &[V2, V4], &[OPT_IN]);
        assert_eq!((profiled(&runtimes), script.count("Initialize")), (vec![1, 1], 2));
    });
}

#[test]
fn sbs_04_one_that_declines_leaves_the_place_to_the_next_runtime() {
    on_machines(DESKTOP, |machine| {
        let declines_v2 = Script::new()
            .of_version(2)
            .deciding(|script| if script.count("Initialize") == 1 { HResult::E_FAIL } else { HResult::S_OK });
        install(machine, declines_v2);
        let (_, runtimes) = process(machine, &[V2, V4], &[OPT_IN]);
        holds!(SBS_04 sim, profiled(&runtimes) == [0, 1]);
    });
}

#[test]
fn sbs_04_runtimes_that_start_at_once_take_one_between_them() {
    on_machines(DESKTOP, |machine| {
        let (_, script) = install(machine, Script::new().of_version(2));
        let environment = [("COR_ENABLE_PROFILING", "1"), ("COR_PROFILER", CLASS_IN_WORDS), OPT_IN];
        let process = machine.start(USER, &environment);
        let starts: Vec<_> = [V2, V4]
            .into_iter()
            .map(|release| {
                let process = process.clone();
                schedule::spawn("a thread that needs a runtime", move || {
                    process.load_release(release);
                })
            })
            .collect();
        schedule::wait_until(None, || starts.iter().all(|start| schedule::has_ended(*start)));
        holds!(SBS_04 sim, (profiled(&process.runtimes()).iter().sum::<usize>(), script.count("Initialize")) == (1, 1));
    });
}

#[test]
fn sbs_05_a_runtime_that_a_profiler_refuses_is_free_for_another() {
    on_machines(DESKTOP, |machine| {
        let takes_v2 = Script::new()
            .deciding(|script| if major_version(script.raw()) == 2 { HResult::S_OK } else { HResult::E_FAIL });
        let (_, first) = install(machine, takes_v2);
        let (target, runtimes) = process(machine, &[V2, V4], &[]);
        holds!(SBS_05 sim, profiled(&runtimes) == [1, 0]);
        let (library, second) = scripted::library(Script::new(), &machine.faults);
        machine.put("C:\\other.dll", File::of(&library));
        let trigger = Trigger::new(machine, &machine.start(USER, &[]));
        holds!(SBS_05 sim, trigger.attach(target.id, &AttachOptions::of(OTHER_CLASS, "C:\\other.dll")) == Ok(()));
        holds!(SBS_05 sim, (second.count("InitializeForAttach"), profiled(&runtimes)) == (1, vec![1, 1]));
        assert_eq!(first.count("Initialize"), 2);
    });
}
