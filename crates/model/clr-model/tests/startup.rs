//! Profilers that the environment names, loaded with the runtime; every variable that affects this.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "../../clr-abi/tests/support/mod.rs"]
mod slots;
mod support;

use corprof::{Guid, HResult};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::library::Library;
use remora_clr_model::machine::{Account, AttachOptions, File, Machine, Process, Trigger};
use remora_clr_model::runtime::{Entry, Runtime, Status};
use remora_clr_model::schedule;
use remora_clr_model::scripted::{self, Script};
use remora_holds::holds;
use std::sync::{Arc, Mutex};
use support::{CORES, on_machines, on_one};

const CLASS: Guid = Guid::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);
const CLASS_IN_WORDS: &str = "{11112222-3333-4444-5555-666677778888}";
const PATH: &str = "/opt/profiler/profiler.so";
const USER: Account = Account::of_user(500);

fn install(machine: &Arc<Machine>, script: Script) -> (Arc<Library>, Arc<Script>) {
    let (library, script) = scripted::library(script, &machine.faults);
    machine.put(PATH, File::of(&library));
    (library, script)
}

/// A process whose environment names the profiler, with more variables.
fn profiled(machine: &Arc<Machine>, more: &[(&str, &str)]) -> (Arc<Process>, Arc<Runtime>) {
    let prefix = machine.runtime_version.differences().startup_prefix;
    let names = ["ENABLE_PROFILING", "PROFILER", "PROFILER_PATH"].map(|name| format!("{prefix}_{name}"));
    let values = ["1", CLASS_IN_WORDS, PATH];
    // The first variable of a name counts, so that `more` can override.
    let usual = names.iter().map(String::as_str).zip(values);
    let environment: Vec<(&str, &str)> = more.iter().copied().chain(usual).collect();
    let process = machine.start(USER, &environment);
    let runtime = process.load_runtime().unwrap();
    (process, runtime)
}

#[test]
fn att_17_a_profiler_that_the_environment_names_gets_initialize_before_anything_runs() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (library, script) = install(machine, Script::new());
        let (_, runtime) = profiled(machine, &[]);
        holds!(ATT_17 sim, (script.count("Initialize"), script.count("InitializeForAttach")) == (1, 0));
        assert_eq!(script.classes(), [CLASS]);
        let profiler = runtime.profilers()[0].clone();
        holds!(ATT_17 sim, !profiler.attached && profiler.status() == Status::Active && library.is_mapped());
        assert_eq!(runtime.log(), [Entry::Loaded]);
        schedule::sleep(support::SECOND);
        assert_eq!(script.count("ProfilerAttachComplete"), 0);
        // It occupies the slot of the main profiler.
        let trigger = Trigger::new(machine, &machine.start(USER, &[]));
        assert!(trigger.attach(1000, &AttachOptions::of(Guid::from_u128(5), PATH)).is_err());
    });
}

#[test]
fn att_17_without_the_word_to_enable_it_nothing_is_loaded() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (_, script) = install(machine, Script::new());
        let prefix = machine.runtime_version.differences().startup_prefix;
        let other = if prefix == "COR" { "CORECLR" } else { "COR" };
        let enable = format!("{prefix}_ENABLE_PROFILING");
        let (_, runtime) = profiled(machine, &[(&enable, "0")]);
        holds!(ATT_17 sim, (runtime.log(), script.steps()) == (vec![], vec![]));
        // This runtime ignores the variables of the other kind of runtime.
        let names = ["ENABLE_PROFILING", "PROFILER", "PROFILER_PATH"].map(|name| format!("{other}_{name}"));
        let wrong: Vec<_> = names.iter().map(String::as_str).zip(["1", CLASS_IN_WORDS, PATH]).collect();
        let runtime = machine.start(USER, &wrong).load_runtime().unwrap();
        holds!(ATT_17 sim, (runtime.log(), script.steps()) == (vec![], vec![]));
    });
}

#[test]
fn att_17_in_initialize_the_whole_mask_is_open_and_afterwards_only_what_can_be_changed() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let differences = machine.runtime_version.differences();
        // COR_PRF_MONITOR_ENTERLEAVE, FUNCTION_UNLOADS, OBJECT_ALLOCATED, and all immutable bits.
        let wished = differences.immutable | 0x1000 | 0x1 | 0x100;
        let (_, script) = install(
            machine,
            Script::new().on("Initialize", move |script| assert_eq!(script.set_mask_low(wished), HResult::S_OK)),
        );
        let (_, runtime) = profiled(machine, &[]);
        holds!(ATT_17 sim, runtime.profilers()[0].mask().0 == wished);
        // Bits that an attached profiler never gets are allowed here.
        assert_eq!(script.set_mask_low(wished & !0x1000), HResult::S_OK);
        assert_eq!(script.set_mask_low(0), HResult::E_FAIL, "immutable bits stay as they are");
        assert_eq!(runtime.profilers()[0].mask().0, wished & !0x1000);
    });
}

#[test]
fn att_19_what_a_profiler_has_no_callback_for_is_refused_when_asked() {
    const ADD_ASSEMBLY_REFERENCES: u32 = 0x1;
    const IN_MEMORY_SYMBOLS_UPDATED: u32 = 0x2;
    on_machines(CORES, |machine| {
        for (version, references, symbols) in [
            (5, HResult::CORPROF_E_CALLBACK6_REQUIRED, HResult::CORPROF_E_CALLBACK7_REQUIRED),
            (6, HResult::S_OK, HResult::CORPROF_E_CALLBACK7_REQUIRED),
            (7, HResult::S_OK, HResult::S_OK),
        ] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let of_script = seen.clone();
            let asks = move |script: &Script| {
                let answers = [ADD_ASSEMBLY_REFERENCES, IN_MEMORY_SYMBOLS_UPDATED].map(|bit| script.set_mask(0, bit));
                of_script.lock().unwrap().push(answers);
            };
            install(machine, Script::new().of_version(version).on("Initialize", asks));
            profiled(machine, &[]);
            holds!(ATT_19 sim, *seen.lock().unwrap() == [[references, symbols]], "version {version}");
        }
    });
}

#[test]
fn gch_02_in_initialize_there_is_no_collector_yet() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let of_script = seen.clone();
        let asks = move |script: &Script| of_script.lock().unwrap().push(script.force_gc());
        let (_, script) = install(machine, Script::new().on("Initialize", asks));
        profiled(machine, &[]);
        holds!(GCH_02 sim, *seen.lock().unwrap() == [HResult::CORPROF_E_NOT_YET_AVAILABLE]);
        assert_eq!(script.force_gc(), HResult::S_OK);
    });
}

#[test]
fn att_17_no_method_of_info_is_refused_for_being_attached() {
    for runtime_version in RuntimeVersion::ALL {
        let refused = Arc::new(Mutex::new(Vec::new()));
        let noted = refused.clone();
        // Other clauses check what else the model reports about these calls.
        on_one(runtime_version, 1, move |machine| {
            let noted = noted.clone();
            let script = Script::new().on("Initialize", move |script| {
                // SAFETY: Info is live, and the model accepts any argument.
                unsafe {
                    slots::generated::call_every_info_slot(script.raw().cast(), |name, answer| {
                        if answer == HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER {
                            noted.lock().unwrap().push(name);
                        }
                    });
                }
            });
            install(machine, script);
            profiled(machine, &[]);
        });
        holds!(ATT_17 sim, *refused.lock().unwrap() == Vec::<&str>::new(), "{runtime_version:?}");
    }
}

#[test]
fn att_17_one_that_cannot_be_loaded_leaves_an_entry_and_the_program_runs() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (library, script) = install(machine, Script::new().answering(HResult::E_OUTOFMEMORY));
        let prefix = machine.runtime_version.differences().startup_prefix;
        let (path, class) = (format!("{prefix}_PROFILER_PATH"), format!("{prefix}_PROFILER"));
        let cases = [
            (path.as_str(), "/missing.so", HResult::ERROR_MOD_NOT_FOUND),
            (class.as_str(), "no class", HResult(0x8004_01F3_u32 as i32)),
            ("UNRELATED", "", HResult::E_OUTOFMEMORY),
        ];
        for (name, value, code) in cases {
            let (_, runtime) = profiled(machine, &[(name, value)]);
            holds!(ATT_17 sim, runtime.log() == [Entry::Failed(code.0 as u32)], "{name}");
            assert!(runtime.profilers().is_empty() && !library.is_mapped());
            runtime.load_module(false);
        }
        assert_eq!(script.journal(), ["LoadAsNotificationOnly", "Initialize"][usize::from(!asks(machine))..]);
    });
}

/// Whether the runtime asks a profiler if it is notification-only.
fn asks(machine: &Machine) -> bool {
    machine.runtime_version.differences().notification_profilers
}

#[test]
fn att_17_the_desktop_finds_a_class_without_a_path_in_the_registry_and_core_does_not() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        install(machine, Script::new());
        machine.register(CLASS, PATH);
        let prefix = machine.runtime_version.differences().startup_prefix;
        let (_, runtime) = profiled(machine, &[(&format!("{prefix}_PROFILER_PATH"), "")]);
        let is_desktop = machine.runtime_version == RuntimeVersion::Desktop4;
        let failed = Entry::Failed(HResult::E_FAIL.0 as u32);
        holds!(ATT_17 sim, runtime.log() == [if is_desktop { Entry::Loaded } else { failed }]);
        assert_eq!(machine.look_ups(), usize::from(is_desktop));
    });
}

#[test]
fn det_03_a_profiler_from_the_start_detaches_on_the_same_terms() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let differences = machine.runtime_version.differences();
        let too_early = HResult(differences.detach_in_initialize as i32);
        let script = Script::new().on("Initialize", move |script| {
            holds!(DET_03 sim, script.request_detach(1) == too_early);
            assert_eq!(script.set_mask_low(0x4), HResult::S_OK);
        });
        let (library, script) = install(machine, script);
        let (_, runtime) = profiled(machine, &[]);
        runtime.load_module(false);
        assert_eq!(script.count("ModuleLoadFinished"), 1);
        holds!(DET_03 sim, script.request_detach(1) == HResult::S_OK);
        assert_eq!(runtime.remembered()[0].status(), Status::Detaching);
        schedule::wait_until(None, || runtime.profilers().is_empty());
        holds!(DET_03 sim, (script.count("ProfilerDetachSucceeded"), library.is_mapped()) == (1, false));
        assert_eq!(runtime.remembered()[0].record().last_release, Some(0));
        assert_eq!(runtime.log(), [Entry::Loaded, Entry::Detached]);
        // Its slot is free for an attached one.
        let answer = runtime.wait_for(&attach(&runtime, &library), 10_000);
        assert_eq!(answer, HResult::S_OK);
    });
}

fn attach(runtime: &Runtime, library: &Arc<Library>) -> remora_clr_model::runtime::Answer {
    let request =
        remora_clr_model::runtime::AttachRequest { class: CLASS, library: Some(library.clone()), client_data: vec![] };
    runtime.ask_for_attach(request)
}

#[test]
fn det_03_with_flags_that_cannot_be_taken_back_it_stays_and_lives() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let differences = machine.runtime_version.differences();
        let bits: Vec<u32> = (0..32).map(|shift| 1 << shift).filter(|bit| differences.immutable & bit != 0).collect();
        for bit in bits {
            let script =
                Script::new().on("Initialize", move |script| assert_eq!(script.set_mask_low(bit | 0x4), HResult::S_OK));
            let (_, script) = install(machine, script);
            let (_, runtime) = profiled(machine, &[]);
            holds!(DET_03 sim, script.request_detach(1) == HResult::CORPROF_E_IMMUTABLE_FLAGS_SET, "bit {bit:#x}");
            holds!(DET_03 sim, runtime.profilers()[0].status() == Status::Active);
            runtime.load_module(false);
            assert_eq!(script.count("ModuleLoadFinished"), 1);
        }
    });
}

#[test]
fn cmp_01_a_profiler_for_2_x_is_refused_with_both_remedies_and_loads_with_the_users_word() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        let (library, script) = install(machine, Script::new().of_version(2));
        let variable = machine.runtime_version.differences().opt_in_variable;
        for setting in [None, Some("DisableV2Profiler"), Some("1")] {
            let more: Vec<(&str, &str)> = setting.map(|value| (variable, value)).into_iter().collect();
            let (_, runtime) = profiled(machine, &more);
            holds!(CMP_01 sim, runtime.log() == [Entry::TooOld(variable)], "{setting:?}");
            let words = runtime.log()[0].to_string();
            holds!(CMP_01 sim, words.contains("Upgrade") && words.contains(variable) && words.contains("EnableV2Profiler"), "{words}");
            assert_eq!((script.journal(), runtime.profilers().len(), library.is_mapped()), (vec![], 0, false));
        }
        let (_, runtime) = profiled(machine, &[(variable, "EnableV2Profiler")]);
        holds!(CMP_01 sim, (runtime.log(), script.journal()) == (vec![Entry::Loaded], vec!["Initialize"]));
        // It does not get what came with the third callback.
        assert_eq!(script.request_detach(1), HResult::CORPROF_E_CALLBACK3_REQUIRED);
        assert_eq!(runtime.profilers()[0].status(), Status::Active);
    });
}

#[test]
fn cmp_01_core_loads_a_profiler_for_2_x_whatever_the_user_says_of_it() {
    on_machines(CORES, |machine| {
        let (_, script) = install(machine, Script::new().of_version(2));
        let variable = machine.runtime_version.differences().opt_in_variable;
        for (times, setting) in [None, Some("DisableV2Profiler"), Some("EnableV2Profiler")].into_iter().enumerate() {
            let more: Vec<(&str, &str)> = setting.map(|value| (variable, value)).into_iter().collect();
            let (_, runtime) = profiled(machine, &more);
            holds!(CMP_01 sim, (runtime.log(), script.count("Initialize")) == (vec![Entry::Loaded], times + 1), "{setting:?}");
            assert_eq!(script.request_detach(1), HResult::CORPROF_E_CALLBACK3_REQUIRED);
        }
    });
}

#[test]
fn cmp_01_newer_profilers_need_no_word_and_all_can_be_kept_out() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (_, script) = install(machine, Script::new().of_version(3));
        let variable = machine.runtime_version.differences().opt_in_variable;
        let (_, runtime) = profiled(machine, &[(variable, "DisableV2Profiler")]);
        holds!(CMP_01 sim, runtime.log() == [Entry::Loaded]);
        let steps = script.steps().len();
        let (_, runtime) = profiled(machine, &[(variable, "PreventLoad")]);
        holds!(CMP_01 sim, (runtime.log(), script.steps().len()) == (vec![], steps));
    });
}

#[test]
fn cmp_01_windows_does_not_tell_capitals_apart_in_the_variables_name() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        install(machine, Script::new().of_version(2));
        let (_, runtime) = profiled(machine, &[("COMPlus_ProfAPI_ProfilerCompatibilitySetting", "EnableV2Profiler")]);
        holds!(CMP_01 sim, runtime.log() == [Entry::Loaded]);
    });
}

#[test]
fn cmp_02_a_profiler_for_1_1_is_refused_whatever_is_set() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (library, script) = install(machine, Script::new().of_version(1));
        let variable = machine.runtime_version.differences().opt_in_variable;
        let failed = Entry::Failed(HResult::E_NOINTERFACE.0 as u32);
        for setting in ["EnableV2Profiler", "DisableV2Profiler"] {
            let (_, runtime) = profiled(machine, &[(variable, setting)]);
            holds!(CMP_02 sim, runtime.log() == std::slice::from_ref(&failed));
            assert_eq!((script.journal(), library.is_mapped()), (vec![], false));
        }
        let bare = machine.start(USER, &[]).load_runtime().unwrap();
        holds!(CMP_02 sim, bare.wait_for(&attach(&bare, &library), 10_000) == HResult::E_NOINTERFACE);
        assert!(script.steps().contains(&"ICorProfilerCallback2"));
    });
}

#[test]
fn cmp_02_the_runtime_before_version_4_refuses_it_too_and_takes_one_for_2_x_without_a_word() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        let v2 = remora_clr_model::differences::Release(2, 0, 50727);
        machine.register(CLASS, PATH);
        for (version, entry) in [(1, Entry::Failed(HResult::E_NOINTERFACE.0 as u32)), (2, Entry::Loaded)] {
            let (_, script) = install(machine, Script::new().of_version(version));
            let environment = [("COR_ENABLE_PROFILING", "1"), ("COR_PROFILER", CLASS_IN_WORDS)];
            let process = machine.start(USER, &environment);
            holds!(CMP_02 sim, process.load_release(v2).unwrap().log() == [entry]);
            assert_eq!(script.count("Initialize"), usize::from(version == 2));
        }
    });
    assert!(CORES.iter().all(|core| core.differences().release.0 >= 3));
}

#[test]
fn att_17_since_11_the_variables_have_a_newer_prefix_and_the_older_one_still_works() {
    on_machines(&[RuntimeVersion::Core10, RuntimeVersion::Core11], |machine| {
        let is_newer = machine.runtime_version == RuntimeVersion::Core11;
        for (prefix, is_read) in [("CORECLR", true), ("DOTNET", is_newer), ("COR", false)] {
            let (_, script) = install(machine, Script::new());
            let names = ["ENABLE_PROFILING", "PROFILER", "PROFILER_PATH"].map(|name| format!("{prefix}_{name}"));
            let set: Vec<_> = names.iter().map(String::as_str).zip(["1", CLASS_IN_WORDS, PATH]).collect();
            machine.start(USER, &set).load_runtime().unwrap();
            holds!(ATT_17 sim, script.count("Initialize") == usize::from(is_read), "{prefix}");
        }
    });
}
