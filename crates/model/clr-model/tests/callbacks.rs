//! Callbacks about assemblies, classes, exceptions, suspended threads and names, under the masks that ask for them.
//!
//! `tests/conformance/tests/callbacks.rs` compares the model with live runtimes.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::scripted::Script;
use std::sync::{Arc, Mutex};
use support::{CORES, application, how_often, in_worlds, join};

const CLASS_LOADS: u32 = 0x2;
const MODULE_LOADS: u32 = 0x4;
const ASSEMBLY_LOADS: u32 = 0x8;
const EXCEPTIONS: u32 = 0x40;
const THREADS: u32 = 0x200;
const SUSPENDS: u32 = 0x1_0000;

/// A script that asks for these callbacks.
fn wanting(mask: u32) -> Script {
    Script::new().on("InitializeForAttach", move |script| assert_eq!(script.set_mask_low(mask), HResult::S_OK))
}

/// The runtime's answers to [`asks`], in order.
type Answers = Arc<Mutex<Vec<HResult>>>;

/// A callback that enumerates modules and keeps the answer.
fn asks(answers: &Answers) -> impl Fn(&Script) + use<> {
    let answers = answers.clone();
    move |script: &Script| answers.lock().unwrap().push(script.modules().err().unwrap_or(HResult::S_OK))
}

/// What came after the attach.
fn after_attach(script: &Script) -> Vec<&'static str> {
    script.journal().iter().skip_while(|one| **one != "ProfilerAttachComplete").skip(1).copied().collect()
}

#[test]
fn an_assembly_is_reported_around_its_module_and_a_class_with_its_first_use() {
    const LOADS: [(u32, &str); 15] = [
        (ASSEMBLY_LOADS, "AssemblyLoadStarted"),
        (MODULE_LOADS, "ModuleLoadStarted"),
        (MODULE_LOADS, "ModuleLoadFinished"),
        (MODULE_LOADS, "ModuleAttachedToAssembly"),
        (ASSEMBLY_LOADS, "AssemblyLoadFinished"),
        (CLASS_LOADS, "ClassLoadStarted"),
        (CLASS_LOADS, "ClassLoadFinished"),
        (CLASS_LOADS, "ClassLoadStarted"),
        (CLASS_LOADS, "ClassLoadFinished"),
        (ASSEMBLY_LOADS, "AssemblyUnloadStarted"),
        (MODULE_LOADS, "ModuleUnloadStarted"),
        (CLASS_LOADS, "ClassUnloadStarted"),
        (CLASS_LOADS, "ClassUnloadFinished"),
        (CLASS_LOADS, "ClassUnloadStarted"),
        (CLASS_LOADS, "ClassUnloadFinished"),
    ];
    const LAST: [(u32, &str); 2] = [(MODULE_LOADS, "ModuleUnloadFinished"), (ASSEMBLY_LOADS, "AssemblyUnloadFinished")];
    for mask in [CLASS_LOADS, MODULE_LOADS, ASSEMBLY_LOADS, CLASS_LOADS | MODULE_LOADS | ASSEMBLY_LOADS] {
        in_worlds(&[RuntimeVersion::Core3, RuntimeVersion::Core10], move |world| {
            let (_, script, _) = world.attached(wanting(mask));
            let module = world.runtime.load_module(true);
            world.runtime.make_function(module, true);
            world.runtime.make_function(module, true);
            world.runtime.define_class(Some(module), None);
            world.runtime.unload_module(module);
            let is_late = !world.runtime.differences().assembly_unload_begins;
            let wanted = LOADS.iter().chain(&LAST).filter(|(of, _)| mask & of != 0);
            let wanted = wanted.filter(|(_, name)| !is_late || *name != "AssemblyUnloadStarted");
            assert_eq!(after_attach(&script), wanted.map(|(_, name)| *name).collect::<Vec<_>>());
        });
    }
}

#[test]
fn an_exception_is_reported_in_both_passes_and_no_module_is_asked_about_in_the_second() {
    in_worlds(CORES, |world| {
        let answers = Answers::default();
        let script = wanting(EXCEPTIONS)
            .on("ExceptionSearchFunctionEnter", asks(&answers))
            .on("ExceptionUnwindFunctionEnter", asks(&answers))
            .on("ExceptionCatcherEnter", asks(&answers))
            .on("ExceptionCatcherLeave", asks(&answers));
        let (_, script, _) = world.attached(script);
        join(&[application(world, |runtime| {
            let module = runtime.load_module(false);
            let function = runtime.make_function(module, true);
            runtime.enter_function(function);
            runtime.throw_and_catch();
            runtime.leave_function(function);
        })]);
        let expected = [
            "ExceptionThrown",
            "ExceptionSearchFunctionEnter",
            "ExceptionSearchCatcherFound",
            "ExceptionSearchFunctionLeave",
            "ExceptionUnwindFunctionEnter",
            "ExceptionCatcherEnter",
            "ExceptionCatcherLeave",
        ];
        assert_eq!(after_attach(&script), expected);
        let refused = HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
        assert_eq!(*answers.lock().unwrap(), [HResult::S_OK, refused, refused, HResult::S_OK]);
    });
}

#[test]
fn a_filter_is_reported_in_the_first_pass_and_a_finally_in_the_second() {
    in_worlds(CORES, |world| {
        let answers = Answers::default();
        let script = wanting(EXCEPTIONS)
            .on("ExceptionSearchFilterEnter", asks(&answers))
            .on("ExceptionUnwindFinallyEnter", asks(&answers));
        let (_, script, _) = world.attached(script);
        join(&[application(world, |runtime| {
            let module = runtime.load_module(false);
            let function = runtime.make_function(module, true);
            runtime.enter_function(function);
            runtime.throw_and_filter();
            runtime.leave_function(function);
        })]);
        let expected = [
            "ExceptionThrown",
            "ExceptionSearchFunctionEnter",
            "ExceptionSearchFilterEnter",
            "ExceptionSearchFilterLeave",
            "ExceptionSearchCatcherFound",
            "ExceptionSearchFunctionLeave",
            "ExceptionUnwindFunctionEnter",
            "ExceptionUnwindFinallyEnter",
            "ExceptionUnwindFinallyLeave",
            "ExceptionCatcherEnter",
            "ExceptionCatcherLeave",
        ];
        assert_eq!(after_attach(&script), expected);
        assert_eq!(*answers.lock().unwrap(), [HResult::S_OK, HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE]);
    });
}

#[test]
fn a_thread_that_names_itself_is_reported() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (_, script, _) = world.attached(wanting(THREADS));
        join(&[application(world, |runtime| runtime.name_thread("named"))]);
        let expected = ["ThreadCreated", "ThreadAssignedToOSThread", "ThreadNameChanged", "ThreadDestroyed"];
        assert_eq!(after_attach(&script), expected);
    });
}

#[test]
fn the_thread_that_suspends_and_each_that_waits_meanwhile_report_themselves() {
    let waits = how_often(&[RuntimeVersion::Core8], |world| {
        let (_, script, _) = world.attached(wanting(SUSPENDS));
        let waits = application(world, |runtime| (0..3).for_each(|_| runtime.safepoint()));
        let collects = application(world, |runtime| runtime.collect_all());
        join(&[waits, collects]);
        let steps = after_attach(&script);
        let at = |name: &str| steps.iter().position(|step| *step == name).unwrap();
        assert!(at("RuntimeThreadSuspended") < at("RuntimeSuspendFinished"));
        assert!(at("RuntimeResumeStarted") < at("RuntimeThreadResumed"));
        let times = script.count("RuntimeThreadSuspended");
        assert_eq!(script.count("RuntimeThreadResumed"), times);
        times > 1
    });
    assert!(waits[0] > 0, "no thread ever waited");
}
