//! The attach from another process: permissions, discovery, interfaces, and error reports.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::sys::IUnknown;
use corprof::{Guid, HResult};
use remora_clr_abi::metahost::{self, Fenced, MetaHost};
use remora_clr_abi::{Live, Slot};
use remora_clr_model::desktop::AppConfig;
use remora_clr_model::differences::{Release, RuntimeVersion};
use remora_clr_model::library::Library;
use remora_clr_model::machine::{
    Account, AttachError, AttachOptions, Build, File, Integrity, LoadError, Machine, Other, Process, ProcessStart,
    ROOT, RuntimeEntry, Trigger, mscoree,
};
use remora_clr_model::runtime::{Entry, Status};
use remora_clr_model::schedule;
use remora_clr_model::scripted::{self, Script};
use remora_holds::holds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{CORES, SECOND, on_machines};

/// COR_PRF_MONITOR_MODULE_LOADS.
const MODULE_LOADS: u32 = 0x4;
/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;
const CLASS: Guid = Guid::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);
const PATH: &str = "/opt/profiler/profiler.so";
const USER: Account = Account::of_user(500);

/// Adds a scripted library that every process can load.
fn install(machine: &Arc<Machine>, script: Script) -> (Arc<Library>, Arc<Script>) {
    let (library, script) = scripted::library(script, &machine.faults);
    machine.put(PATH, File::of(&library));
    (library, script)
}

/// A process with the machine's runtime.
fn program(machine: &Arc<Machine>, account: Account) -> Arc<Process> {
    let process = machine.start(account, &[]);
    process.load_runtime().unwrap();
    process
}

fn trigger(machine: &Arc<Machine>, account: Account) -> Trigger {
    Trigger::new(machine, &machine.start(account, &[]))
}

fn of_modules() -> Script {
    Script::new().on("InitializeForAttach", |script| assert_eq!(script.set_mask_low(MODULE_LOADS), HResult::S_OK))
}

fn hears(target: &Process, script: &Script) -> bool {
    let heard = script.count("ModuleLoadFinished");
    target.runtimes()[0].load_module(false);
    script.count("ModuleLoadFinished") > heard
}

#[test]
fn att_01_the_trigger_is_another_process_and_may_end_after_its_success() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (_, script) = install(machine, of_modules());
        let target = program(machine, USER);
        let (of_trigger, own) = (machine.clone(), machine.start(USER, &[]));
        let (id, process) = (target.id, own.clone());
        let task = schedule::spawn("a trigger process", move || {
            assert_eq!(Trigger::new(&of_trigger, &process).attach(id, &AttachOptions::of(CLASS, PATH)), Ok(()));
            process.end();
        });
        schedule::wait_until(None, || schedule::has_ended(task));
        holds!(ATT_01 sim, machine.process(own.id).is_none(), "the trigger has ended");
        schedule::sleep(SECOND);
        holds!(ATT_01 sim, hears(&target, &script));
        assert_eq!(target.runtimes()[0].profilers()[0].status(), Status::Active);
    });
}

#[test]
fn att_02_the_attach_names_process_time_class_library_and_data() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (_, script) = install(machine, Script::new());
        let (other, wrong) = scripted::library(Script::new(), &machine.faults);
        machine.put("/opt/other.so", File::of(&other));
        let (bystander, target) = (program(machine, USER), program(machine, USER));
        let options =
            AttachOptions { milliseconds: 60_000, client_data: vec![1, 2, 3], ..AttachOptions::of(CLASS, PATH) };
        assert_eq!(trigger(machine, USER).attach(target.id, &options), Ok(()));
        holds!(ATT_02 sim, (script.classes(), script.client_data()) == (vec![CLASS], vec![1, 2, 3]));
        holds!(ATT_02 sim, wrong.steps().is_empty() && bystander.runtimes()[0].profilers().is_empty());
        // Without data, the client data is empty. On the desktop the time-out bounds the wait (ATT-08).
        let target = program(machine, USER);
        assert_eq!(trigger(machine, USER).attach(target.id, &AttachOptions::of(CLASS, PATH)), Ok(()));
        assert!(script.client_data().is_empty());
    });
}

#[test]
fn att_02_the_time_out_bounds_the_wait_on_the_desktop_and_on_core_only_the_triggers_own_does() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        install(machine, Script::new().on("InitializeForAttach", |_| schedule::sleep(60 * SECOND)));
        let target = program(machine, USER);
        let options = AttachOptions { milliseconds: 10, ..AttachOptions::of(CLASS, PATH) };
        let begun = schedule::now();
        let expected = match machine.runtime_version {
            RuntimeVersion::Desktop4 => Err(AttachError::Answered(HResult::ERROR_TIMEOUT)),
            _ => Ok(()),
        };
        assert_eq!(trigger(machine, USER).attach(target.id, &options), expected);
        holds!(ATT_02 sim, (schedule::now() - begun < 50 * SECOND) == expected.is_err());
        let patient = AttachOptions { timeout: Some(SECOND), ..options };
        if machine.runtime_version != RuntimeVersion::Desktop4 {
            let target = program(machine, USER);
            let answer = trigger(machine, USER).attach(target.id, &patient);
            holds!(ATT_02 sim, answer == Err(AttachError::GaveUp));
            assert!(AttachError::GaveUp.to_string().contains("may still succeed"));
        }
    });
}

#[test]
fn att_03_att_21_the_runtimes_of_a_process_are_listed_and_the_one_that_attaches_is_chosen() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        install(machine, Script::new());
        let target = machine.start(USER, &[]);
        let old = target.load_release(Release(2, 0, 50727)).unwrap();
        let new = target.load_runtime().unwrap();
        let trigger = trigger(machine, USER);
        let listed = trigger.list(target.id).unwrap();
        holds!(ATT_03 sim, listed.iter().map(|one| one.what.as_str()).collect::<Vec<_>>() == ["v2.0.50727", "v4.0.30319"]);
        assert!(listed[0].refusal.unwrap().contains("version 4") && listed[1].refusal.is_none());
        let options = AttachOptions::of(CLASS, PATH);
        let of_old = AttachOptions { release: Some(Release(2, 0, 50727)), ..options.clone() };
        let refused = trigger.attach(target.id, &of_old).unwrap_err();
        assert_eq!(refused, AttachError::NotAttachable(listed[0].refusal.unwrap()));
        holds!(ATT_03 sim, refused.to_string().contains("version 4"));
        holds!(ATT_21 sim, trigger.attach(target.id, &options) == Ok(()));
        holds!(ATT_21 sim, (old.profilers().len(), new.profilers().len()) == (0, 1));
        assert_eq!(trigger.objects(), 0, "every object of the hosting interfaces was released");
    });
}

#[test]
fn att_03_what_cannot_be_attached_to_is_named_with_its_reason() {
    on_machines(CORES, |machine| {
        install(machine, Script::new());
        let trigger = trigger(machine, USER);
        let attaches = program(machine, USER);
        let version = machine.runtime_version.differences().release.to_string();
        assert_eq!(trigger.list(attaches.id), Ok(vec![RuntimeEntry { what: version, refusal: None }]));
        for other in [Other::CoreBefore3, Other::Mono, Other::NativeAot] {
            let process = machine.start(USER, &[]);
            process.load_other(other);
            let listed = trigger.list(process.id).unwrap();
            holds!(ATT_03 sim, listed == [RuntimeEntry { what: other.name().to_owned(), refusal: Some(other.reason()) }]);
            let expected = match other {
                Other::CoreBefore3 => AttachError::NotAttachable(other.reason()),
                Other::Mono | Other::NativeAot => AttachError::Answered(HResult::DS_IPC_E_NOTSUPPORTED),
            };
            holds!(ATT_03 sim, trigger.attach(process.id, &AttachOptions::of(CLASS, PATH)) == Err(expected));
        }
        let off = machine.start(USER, &[("DOTNET_EnableDiagnostics", "0")]);
        off.load_runtime().unwrap();
        let refused = trigger.attach(off.id, &AttachOptions::of(CLASS, PATH)).unwrap_err();
        assert!(refused.to_string().contains("DOTNET_EnableDiagnostics"), "{refused}");
    });
}

#[test]
fn att_04_before_the_runtime_is_loaded_the_failure_says_so_and_names_the_way_to_profile_from_the_start() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        install(machine, Script::new());
        let target = machine.start(USER, &[]);
        let trigger = trigger(machine, USER);
        assert_eq!(trigger.list(target.id), Ok(vec![]));
        let refused = trigger.attach(target.id, &AttachOptions::of(CLASS, PATH)).unwrap_err();
        let prefix = machine.runtime_version.differences().startup_prefix;
        holds!(ATT_04 sim, refused == AttachError::NoRuntime { prefix });
        let words = refused.to_string();
        for variable in ["ENABLE_PROFILING=1", "PROFILER", "PROFILER_PATH"] {
            holds!(ATT_04 sim, words.contains("not loaded a runtime") && words.contains(&format!("{prefix}_{variable}")), "{words}");
        }
        if machine.runtime_version == RuntimeVersion::Desktop4 {
            // The attach interface may come from another process: then the attach itself fails.
            let elsewhere = program(machine, USER);
            let answer = trigger.attach_through(elsewhere.id, target.id, &AttachOptions::of(CLASS, PATH));
            assert_eq!(answer, Err(AttachError::NoRuntime { prefix }));
        }
        target.load_runtime().unwrap();
        assert_eq!(trigger.attach(target.id, &AttachOptions::of(CLASS, PATH)), Ok(()));
        assert_eq!(trigger.attach(1, &AttachOptions::of(CLASS, PATH)), Err(AttachError::NoSuchProcess));
    });
}

#[test]
fn att_05_on_the_desktop_user_privilege_and_integrity_decide() {
    let (low, high) = (USER.at(Integrity::Low), USER.at(Integrity::High));
    let administrator = Account::of_administrator(501);
    let service = Account::of_user(18).at(Integrity::System);
    let cases = [
        (USER, USER, true),
        (USER, low, true),
        (low, USER, false),
        (USER, high, false),
        (Account::of_user(501), USER, false),
        (administrator, USER, false),
        (administrator.with_debug_privilege(), USER, true),
        (administrator.with_debug_privilege(), service, false),
        (administrator.with_debug_privilege().at(Integrity::System), service, true),
        // The privilege has no effect without an administrator.
        (Account::of_user(501).with_debug_privilege(), USER, false),
        (administrator, administrator, true),
    ];
    on_machines(&[RuntimeVersion::Desktop4], move |machine| {
        let (_, script) = install(machine, Script::new());
        for (by, of, may) in cases {
            let (target, made) = (program(machine, of), script.classes().len());
            let answer = trigger(machine, by).attach(target.id, &AttachOptions::of(CLASS, PATH));
            holds!(ATT_05 sim, answer == (if may { Ok(()) } else { Err(AttachError::AccessDenied) }), "{by:?} to {of:?}");
            assert_eq!(script.classes().len(), made + usize::from(may));
            if !may {
                assert_eq!(trigger(machine, by).list(target.id), Err(AttachError::AccessDenied));
            }
        }
        // An interface found in the user's own process gives no access to another user's process.
        let (own, foreign) = (program(machine, USER), program(machine, Account::of_user(501)));
        let answer = trigger(machine, USER).attach_through(own.id, foreign.id, &AttachOptions::of(CLASS, PATH));
        holds!(ATT_05 sim, answer == Err(AttachError::AccessDenied));
    });
}

#[test]
fn att_05_on_linux_the_socket_is_its_owners_and_roots() {
    let cases = [
        (USER, USER, true),
        (Account::of_user(ROOT), USER, true),
        (Account::of_user(501), USER, false),
        (USER, Account::of_user(ROOT), false),
        // Windows' rights have no effect here.
        (Account::of_administrator(501).with_debug_privilege(), USER, false),
        (USER.at(Integrity::Low), USER.at(Integrity::System), true),
    ];
    on_machines(CORES, move |machine| {
        install(machine, Script::new());
        for (by, of, may) in cases {
            let target = program(machine, of);
            let answer = trigger(machine, by).attach(target.id, &AttachOptions::of(CLASS, PATH));
            holds!(ATT_05 sim, answer == (if may { Ok(()) } else { Err(AttachError::AccessDenied) }), "{by:?} to {of:?}");
        }
        assert!(AttachError::AccessDenied.to_string().contains("root"));
    });
}

#[test]
fn att_06_a_library_that_the_target_cannot_load_is_refused_and_a_look_says_which_fault_it_has() {
    let elsewhere = Build { namespace: 1, ..Build::default() };
    let foreign = Build { architecture: 1, ..Build::default() };
    let musl = Build { libc: 1, ..Build::default() };
    on_machines(&RuntimeVersion::ALL, move |machine| {
        let (library, script) = scripted::library(Script::new(), &machine.faults);
        let file = || File::of(&library);
        machine.put("forbidden", file().only_for(501));
        machine.put("elsewhere", file().made_for(elsewhere));
        machine.put("noexec", file().on_noexec());
        machine.put("foreign", file().made_for(foreign));
        machine.put("musl", file().made_for(musl));
        let target = program(machine, USER);
        let is_desktop = machine.runtime_version == RuntimeVersion::Desktop4;
        let of_windows = |code, other| if is_desktop { HResult(code as i32) } else { other };
        let missing = HResult::ERROR_MOD_NOT_FOUND;
        let cases = [
            ("missing", LoadError::Missing, missing, "no such file"),
            ("forbidden", LoadError::Forbidden, of_windows(0x8007_0005_u32, missing), "permission"),
            ("elsewhere", LoadError::Elsewhere, missing, "namespace"),
            ("noexec", LoadError::Noexec, missing, "noexec"),
            ("foreign", LoadError::Architecture, of_windows(0x8007_00C1, missing), "architecture"),
            ("musl", LoadError::Libc, missing, "C library"),
        ];
        for (path, fault, code, word) in cases {
            let answer = trigger(machine, USER).attach(target.id, &AttachOptions::of(CLASS, path));
            // The desktop has one code for access denied to a process and to a file. A check of the file distinguishes them.
            let expected =
                if code == HResult::E_ACCESSDENIED { AttachError::AccessDenied } else { AttachError::Answered(code) };
            holds!(ATT_06 sim, answer == Err(expected), "{path}");
            assert_eq!(target.look_at(path), Err(fault));
            holds!(ATT_06 sim, fault.to_string().contains(word), "{fault}");
            assert_eq!(target.runtimes()[0].log().last(), Some(&Entry::Failed(code.0 as u32)));
        }
        assert!(script.steps().is_empty() && !library.is_mapped());
        let owner = program(machine, Account::of_user(501));
        assert_eq!(
            trigger(machine, Account::of_user(501)).attach(owner.id, &AttachOptions::of(CLASS, "forbidden")),
            Ok(())
        );
        let inside = machine.start_as(USER, elsewhere, &[]);
        inside.load_runtime().unwrap();
        assert_eq!(trigger(machine, USER).attach(inside.id, &AttachOptions::of(CLASS, "elsewhere")), Ok(()));
    });
}

#[test]
fn att_11_the_trigger_may_free_its_client_data_as_soon_as_attach_profiler_returns() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        let (_, script) = install(machine, Script::new());
        let target = program(machine, USER);
        target.runtimes()[0].block_finalizer(true);
        let options = AttachOptions { milliseconds: 10, client_data: vec![1, 2, 3], ..AttachOptions::of(CLASS, PATH) };
        // The trigger of the model overwrites its buffer when the call returns, here long before the data arrive.
        let timed_out = Err(AttachError::Answered(HResult::ERROR_TIMEOUT));
        assert_eq!(trigger(machine, USER).attach(target.id, &options), timed_out);
        assert_eq!(script.client_data(), Vec::<u8>::new());
        target.runtimes()[0].block_finalizer(false);
        schedule::wait_until(None, || !target.runtimes()[0].is_attaching());
        holds!(ATT_11 sim, script.client_data() == [1, 2, 3]);
    });
}

#[test]
fn att_21_mscoree_exports_clr_create_instance_and_not_the_name_of_the_documented_sample() {
    struct NoProcesses;
    impl Fenced for NoProcesses {
        fn panicked(&self, _: Slot, _: Box<dyn std::any::Any + Send>) {}
    }
    impl MetaHost for NoProcesses {
        fn loaded_runtimes(&self, _: usize) -> Result<Vec<Arc<dyn metahost::Runtime>>, HResult> {
            Ok(Vec::new())
        }
    }
    let live = Live::default();
    let load = |name| mscoree::load_library(name, Arc::new(NoProcesses), &live);
    assert_eq!(load("mscorlib.dll").map(drop), Err(HResult::ERROR_MOD_NOT_FOUND));
    let library = load("MSCOREE.DLL").unwrap();
    let not_found = HResult(0x8007_007F_u32 as i32);
    for name in ["CLRCreateInterface", "clrcreateinstance", ""] {
        assert_eq!(library.export(name).map(drop), Err(not_found), "{name}");
    }
    let create_instance = library.export("CLRCreateInstance").unwrap();
    let none = create_instance.call(&metahost::CLSID_CLRProfiling, &metahost::sys::IID_ICLRMetaHost);
    assert_eq!(none, Err(HResult::CLASS_E_CLASSNOTAVAILABLE));
    let host = create_instance.call(&metahost::CLSID_CLRMetaHost, &metahost::sys::IID_ICLRMetaHost).unwrap();
    holds!(ATT_21 sim, live.count() == 1);
    // SAFETY: releases the one reference of a live object.
    unsafe { IUnknown::Release(host.cast()) };
    assert_eq!(live.count(), 0);
}

#[test]
fn att_21_without_a_choice_the_first_runtime_from_version_4_on_gets_the_profiler() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        install(machine, Script::new());
        let target = machine.start(USER, &[]);
        target.load_release(Release(2, 0, 50727)).unwrap();
        let of_2 = trigger(machine, USER).attach(target.id, &AttachOptions::of(CLASS, PATH)).unwrap_err();
        assert!(of_2.to_string().contains("version 4"), "{of_2}");
        let (first, second) = (target.load_runtime().unwrap(), target.load_release(Release(4, 8, 0)).unwrap());
        assert_eq!(trigger(machine, USER).attach(target.id, &AttachOptions::of(CLASS, PATH)), Ok(()));
        holds!(ATT_21 sim, (first.profilers().len(), second.profilers().len()) == (1, 0));
    });
}

#[test]
fn gch_05_the_configuration_of_an_application_lets_an_attached_profiler_watch_its_collections() {
    let cases = [
        ("<configuration/>", false),
        ("<a><runtime><gcConcurrent enabled=\"true\"/></runtime></a>", false),
        ("<a><runtime><gcConcurrent enabled=\"false\"/></runtime></a>", true),
        ("<a><runtime><gcServer enabled=\"true\"/></runtime></a>", true),
    ];
    on_machines(&[RuntimeVersion::Desktop4], move |machine| {
        let script = Script::new().deciding(|script| script.set_mask_low(MONITOR_GC));
        let (_, _) = install(machine, script);
        for (id, (text, may)) in (8000..).zip(cases) {
            let gc_mode = AppConfig::parse(text).unwrap().gc_mode();
            let start = ProcessStart { id, account: USER, build: Build::default(), environment: &[], gc_mode };
            let target = machine.start_with(&start);
            target.load_runtime().unwrap();
            let answer = trigger(machine, USER).attach(id, &AttachOptions::of(CLASS, PATH));
            let refused = Err(AttachError::Answered(HResult::CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE));
            holds!(GCH_05 sim, answer == if may { Ok(()) } else { refused }, "{text}");
        }
    });
}

#[test]
fn att_11_client_data_from_none_to_the_largest_arrives_and_one_byte_more_is_not_sent() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (_, script) = install(machine, Script::new());
        let trigger = trigger(machine, USER);
        // Header 20, time-out 4, class 16, two lengths 8, the path with its zero.
        let overhead = 20 + 4 + 16 + 8 + 2 * (PATH.len() + 1);
        let largest = match machine.runtime_version {
            RuntimeVersion::Desktop4 => 100_000,
            _ => 65_535 - overhead,
        };
        for size in [0, 1, 4096, largest] {
            let data: Vec<u8> = (0..size).map(|index| (index % 253) as u8).collect();
            let target = program(machine, USER);
            let options = AttachOptions { client_data: data.clone(), ..AttachOptions::of(CLASS, PATH) };
            assert_eq!(trigger.attach(target.id, &options), Ok(()), "{size} bytes");
            holds!(ATT_11 sim, script.client_data() == data);
        }
        if machine.runtime_version != RuntimeVersion::Desktop4 {
            let (target, made) = (program(machine, USER), script.classes().len());
            let options = AttachOptions { client_data: vec![7; largest + 1], ..AttachOptions::of(CLASS, PATH) };
            holds!(ATT_11 sim, trigger.attach(target.id, &options) == Err(AttachError::TooLarge { size: 65_536 }));
            schedule::sleep(SECOND);
            holds!(ATT_11 sim, (script.classes().len(), target.event_log()) == (made, vec![]), "nothing was sent");
        }
    });
}

#[test]
fn att_15_every_process_has_its_own_log() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        install(machine, Script::new());
        let (first, second) = (program(machine, USER), program(machine, USER));
        let trigger = trigger(machine, USER);
        assert_eq!(trigger.attach(first.id, &AttachOptions::of(CLASS, PATH)), Ok(()));
        let missing = HResult::ERROR_MOD_NOT_FOUND;
        assert_eq!(
            trigger.attach(second.id, &AttachOptions::of(CLASS, "missing")),
            Err(AttachError::Answered(missing))
        );
        let release = machine.runtime_version.differences().release;
        let is_written = machine.runtime_version != RuntimeVersion::Core3;
        let log = |entry| if is_written { vec![(release, entry)] } else { vec![] };
        holds!(ATT_15 sim, first.event_log() == log(Entry::Attached));
        holds!(ATT_15 sim, second.event_log() == log(Entry::Failed(missing.0 as u32)));
    });
}

#[test]
fn att_16_a_stopped_target_does_not_answer_and_does_when_it_goes_on() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (_, script) = install(machine, Script::new());
        let target = program(machine, USER);
        let (of_trigger, id) = (trigger(machine, USER), target.id);
        let answered = Arc::new(AtomicBool::new(false));
        let is_answered = answered.clone();
        let options = AttachOptions { milliseconds: 7_200_000, ..AttachOptions::of(CLASS, PATH) };
        schedule::spawn("a trigger process", move || {
            assert_eq!(of_trigger.attach(id, &options), Ok(()));
            is_answered.store(true, Ordering::SeqCst);
        });
        // At any stage of the attach.
        schedule::point();
        target.halt();
        let steps = script.steps();
        schedule::sleep(3600 * SECOND);
        holds!(ATT_16 sim, script.steps() == steps, "nothing happens in a stopped process");
        target.resume();
        schedule::wait_until(None, || answered.load(Ordering::SeqCst));
        holds!(ATT_16 sim, script.count("InitializeForAttach") == 1);
    });
}

#[test]
fn att_16_on_the_desktop_an_attach_to_a_stopped_target_times_out() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        let (_, script) = install(machine, Script::new());
        let target = program(machine, USER);
        target.halt();
        let options = AttachOptions::of(CLASS, PATH);
        let answer = trigger(machine, USER).attach(target.id, &options);
        holds!(ATT_16 sim, (answer, script.steps()) == (Err(AttachError::Answered(HResult::ERROR_TIMEOUT)), vec![]));
    });
}

#[test]
fn att_16_a_debugger_comes_and_goes_around_profiling_in_either_order() {
    on_machines(&RuntimeVersion::ALL, |machine| {
        let (library, script) = install(machine, of_modules());
        let target = program(machine, USER);
        let stop_for = |seconds| {
            target.halt();
            schedule::sleep(seconds * SECOND);
            target.resume();
        };
        stop_for(10);
        assert_eq!(trigger(machine, USER).attach(target.id, &AttachOptions::of(CLASS, PATH)), Ok(()));
        stop_for(10);
        holds!(ATT_16 sim, hears(&target, &script));
        target.halt();
        let runtime = target.runtimes()[0].clone();
        let heard = script.count("ModuleLoadFinished");
        let loads = schedule::spawn("a thread of the application", move || {
            runtime.load_module(false);
        });
        schedule::sleep(10 * SECOND);
        holds!(ATT_16 sim, (script.count("ModuleLoadFinished"), schedule::has_ended(loads)) == (heard, false));
        target.resume();
        schedule::wait_until(None, || schedule::has_ended(loads));
        assert_eq!(script.request_detach(1), HResult::S_OK);
        target.halt();
        let state = || (library.is_mapped(), script.count("ProfilerDetachSucceeded"));
        let before = state();
        schedule::sleep(3600 * SECOND);
        holds!(ATT_16 sim, state() == before, "a detach waits for a stopped target");
        target.resume();
        schedule::wait_until(None, || target.runtimes()[0].profilers().is_empty());
        stop_for(10);
        assert_eq!(trigger(machine, USER).attach(target.id, &AttachOptions::of(CLASS, PATH)), Ok(()));
    });
}

#[test]
fn att_22_with_a_path_the_registry_is_not_consulted_and_without_one_it_is() {
    on_machines(&[RuntimeVersion::Desktop4], |machine| {
        let (_, script) = install(machine, Script::new());
        let trigger = trigger(machine, USER);
        // A wrong registration is harmless if a path is given.
        machine.register(CLASS, "/nowhere.dll");
        assert_eq!(trigger.attach(program(machine, USER).id, &AttachOptions::of(CLASS, PATH)), Ok(()));
        holds!(ATT_22 sim, (machine.look_ups(), script.classes().len()) == (0, 1));
        for (look_ups, path) in [(1, None), (2, Some(String::new()))] {
            machine.register(CLASS, PATH);
            let options = AttachOptions { path, ..AttachOptions::of(CLASS, "") };
            assert_eq!(trigger.attach(program(machine, USER).id, &options), Ok(()));
            holds!(ATT_22 sim, machine.look_ups() == look_ups);
        }
        let unknown = AttachOptions { path: None, ..AttachOptions::of(Guid::from_u128(7), "") };
        let not_registered = HResult(0x8004_0154_u32 as i32);
        let answer = trigger.attach(program(machine, USER).id, &unknown);
        assert_eq!((answer, machine.look_ups()), (Err(AttachError::Answered(not_registered)), 3));
    });
}

#[test]
fn att_22_core_has_no_registry() {
    on_machines(CORES, |machine| {
        install(machine, Script::new());
        machine.register(CLASS, PATH);
        let options = AttachOptions { path: None, ..AttachOptions::of(CLASS, "") };
        let answer = trigger(machine, USER).attach(program(machine, USER).id, &options);
        holds!(ATT_22 sim, (answer, machine.look_ups()) == (Err(AttachError::Answered(HResult::E_FAIL)), 0));
    });
}
