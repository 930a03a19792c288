//! The SDK on a runtime made in Rust: the only road to the detach, and each place where it goes back.

#[path = "support/sdk_runtime.rs"]
mod sdk_runtime;
#[path = "support/sdk_script.rs"]
mod sdk_script;
mod support;

use core::ffi::c_void;
use corprof::{sdk::*, *};
use remora_holds::holds;
use sdk_runtime::*;
use sdk_script::{LEAVES, Script};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::FakeInfo;

/// Obeys its script. It keeps ids, so it has the lifetime.
struct Scripted<'rt> {
    script: &'static Script,
    modules: LiveSet<'rt, ModuleId>,
}

impl<'rt> Profiler<'rt> for Scripted<'rt> {
    const TIMEOUT: Duration = Duration::from_millis(100);

    fn attach(beginning: &Beginning<'rt, Attached>, client_data: &[u8]) -> Result<Self, HResult> {
        let address: [u8; 8] = client_data.try_into().map_err(|_| HResult::E_INVALIDARG)?;
        // SAFETY: the test hands over the address of a leaked script.
        let script = unsafe { &*(u64::from_le_bytes(address) as usize as *const Script) };
        Ok(Scripted { script, modules: LiveSet::new(beginning) })
    }

    fn events(&self) -> Events {
        AttachMask::MODULE_LOADS.into()
    }

    fn attach_complete(&self, _: &Session<'rt>) {
        self.script.say("complete");
    }

    fn module_load_finished(&self, runtime: &Runtime<'rt>, module: Module<'rt>, _: HResult) {
        if module.plain() == LEAVES {
            runtime.detach();
        }
        self.modules.added(module, || self.script.say(format!("loaded {}", module.plain().0)));
        self.script.wait_while_held();
    }

    fn module_unload_started(&self, _: &Runtime<'rt>, _: Module<'rt>) {
        panic!("as asked");
    }

    fn run(&self, session: &Session<'rt>) {
        if self.script.catches_up.load(Ordering::SeqCst) {
            let mut found = 0;
            self.modules.catch_up(|| session.modules(), |_| found += 1).expect("the fake enumerates");
            self.script.say(format!("found {found}, knows {}", self.modules.count()));
        }
        (self.script.run)(self.script, session);
    }

    fn detach_failed(&self, session: &Session<'rt>, refusal: &DetachError) -> OnDetachError {
        self.script
            .say(format!("detach_failed: {refusal:?}, asks: {:?}", session.information().map(|facts| facts.major)));
        if refusal.has_missed_callbacks() {
            self.script.say(format!(
                "missed some, knows {}, whole: {}",
                self.modules.count(),
                self.modules.is_complete()
            ));
        }
        self.script.release();
        if self.script.round() == 0 { OnDetachError::RunAgain } else { OnDetachError::Inert }
    }

    fn detached(self, summary: &DetachSummary) {
        self.script.say(format!("detached, {} turned away", summary.rejected_callbacks));
    }
}

/// Takes one runtime only, the first one, which must be of version 9 for [`OnlyNine`].
struct First;

impl<'rt> Profiler<'rt> for First {
    const SIDE_BY_SIDE: SideBySide = SideBySide::First;

    fn attach(_: &Beginning<'rt, Attached>, _: &[u8]) -> Result<Self, HResult> {
        Ok(First)
    }

    fn events(&self) -> Events {
        Events::default()
    }
}

struct OnlyNine;

impl<'rt> Profiler<'rt> for OnlyNine {
    const SIDE_BY_SIDE: SideBySide = SideBySide::One(|runtime| runtime.major == 9);

    fn attach(_: &Beginning<'rt, Attached>, _: &[u8]) -> Result<Self, HResult> {
        Ok(OnlyNine)
    }

    fn start(_: &Beginning<'rt, Startup>) -> Result<Self, HResult> {
        panic!("as asked")
    }

    fn events(&self) -> Events {
        panic!("as asked")
    }
}

/// Loaded with the process, as a main profiler.
struct Started;

static STARTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

impl<'rt> Profiler<'rt> for Started {
    const ROLE: Role = Role::Main;

    fn start(beginning: &Beginning<'rt, Startup>) -> Result<Self, HResult> {
        assert!(beginning.information().is_ok());
        STARTED.lock().expect("no panic while locked").push("started");
        Ok(Started)
    }

    fn events(&self) -> Events {
        Events { low: AttachMask::GC, high: HighAttachMask::BASIC_GC }
    }

    fn run(&self, session: &Session<'rt>) {
        STARTED.lock().expect("no panic while locked").push("runs");
        session.wait_for_detach_request();
        STARTED.lock().expect("no panic while locked").push("left");
    }
}

const SCRIPTED: Guid = Guid::from_u128(1);
const FIRST: Guid = Guid::from_u128(2);
const ONLY_NINE: Guid = Guid::from_u128(3);
const STARTED_CLASS: Guid = Guid::from_u128(4);

export_profiler!(
    Scripted<'rt>, clsid = "{00000000-0000-0000-0000-000000000001}";
    First, clsid = "00000000-0000-0000-0000-000000000002";
    OnlyNine, clsid = "00000000-0000-0000-0000-000000000003";
    Started, clsid = "00000000-0000-0000-0000-000000000004"
);

unsafe extern "system" {
    fn DllGetClassObject(class: *const Guid, interface: *const Guid, object: *mut *mut c_void) -> i32;
}

/// What the runtime does first: the factory, and an object.
fn create(class: &Guid) -> Result<*mut sys::IUnknown, HResult> {
    let mut factory = core::ptr::null_mut();
    // SAFETY: identifiers, and a place for the answer.
    HResult(unsafe { DllGetClassObject(class, &sys::IID_IClassFactory, &mut factory) }).ok()?;
    let mut object = core::ptr::null_mut();
    let iid = &sys::IID_ICorProfilerCallback3;
    // SAFETY: a live factory.
    let made = unsafe { sys::IClassFactory::CreateInstance(factory.cast(), core::ptr::null_mut(), iid, &mut object) };
    // SAFETY: gives up the one reference.
    unsafe { sys::IUnknown::Release(factory.cast()) };
    HResult(made).ok()?;
    Ok(object.cast())
}

fn attach(object: *mut sys::IUnknown, runtime: &FakeInfo, data: &[u8]) -> HResult {
    runtime.set("object", object as usize);
    // SAFETY: two live objects, and data that lives as long as the call.
    HResult(unsafe {
        sys::ICorProfilerCallback3::InitializeForAttach(
            object.cast(),
            runtime.unknown(),
            data.as_ptr().cast_mut().cast(),
            data.len() as u32,
        )
    })
}

fn complete(object: *mut sys::IUnknown) {
    // SAFETY: a live object.
    unsafe { sys::ICorProfilerCallback3::ProfilerAttachComplete(object.cast()) };
}

fn release(object: *mut sys::IUnknown) -> u32 {
    // SAFETY: gives up the reference of `create`.
    unsafe { sys::IUnknown::Release(object) }
}

/// Attached to the end, with this script.
fn attached(runtime: &FakeInfo, script: &'static Script) -> *mut sys::IUnknown {
    let object = create(&SCRIPTED).expect("a place");
    assert_eq!(attach(object, runtime, &script.data()), HResult::S_OK);
    complete(object);
    object
}

#[test]
fn cat_01_callbacks_may_come_before_the_attach_is_complete_and_the_profiler_runs_after_it() {
    let runtime = runtime();
    let script = Script::new(|script, session| {
        script.say("runs");
        session.wait_for_detach_request();
    });
    let object = create(&SCRIPTED).expect("a place");
    assert_eq!(attach(object, &runtime, &script.data()), HResult::S_OK);
    assert_eq!(module_loaded(object, 4), HResult::S_OK);
    complete(object);
    script.until("runs");
    holds!(CAT_01 rem, script.said() == ["loaded 4", "complete", "runs"]);
    // SAFETY: a live object; its callback panics, which asks the profiler to leave.
    unsafe { sys::ICorProfilerCallback::ModuleUnloadStarted(object.cast(), 4) };
    script.until("detached");
    release(object);
}

#[test]
fn det_04_det_20_everything_is_closed_before_the_detach_is_asked_for_and_nothing_is_asked_after() {
    let runtime = runtime();
    let script = Script::new(|script, session| {
        session.start_event_pipe("events", &[]).unwrap();
        session
            .register_hook(
                "hook",
                Box::new(move || {
                    script.say("hook closed");
                    Ok(())
                }),
            )
            .unwrap();
        let until_signalled = move |session: &Session<'_>| {
            session.wait_for_detach_request();
            // What is taken until the register closes is closed with the rest; then nothing is taken.
            while session.register_hook("late", Box::new(|| Ok(()))).is_ok() {
                std::thread::yield_now();
            }
            script.say("thread ends");
        };
        session.start_thread("own", until_signalled).unwrap();
        let open: Vec<ResourceKind> = session.open_resources().iter().map(|one| one.kind).collect();
        assert_eq!(open, [ResourceKind::EventPipeSession, ResourceKind::Hook, ResourceKind::Thread]);
    });
    let object = attached(&runtime, script);
    script.until("detached");
    assert_eq!(script.said(), ["complete", "thread ends", "hook closed", "detached, 0 turned away"]);
    let steps = ["wants", "EventPipeStartSession", "EventPipeStopSession", "wants", "SuspendRuntime", "ResumeRuntime"];
    let rest = ["wants", "wants nothing", "RequestProfilerDetach"];
    // The last call is the request: sealed, it asks nothing more.
    holds!([DET_04 DET_06 DET_20] rem, runtime.calls() == [&steps[..], &rest[..]].concat());
    assert_eq!(module_loaded(object, 5), HResult::S_OK, "answered, and the author is not told");
    assert_eq!(script.said().len(), 4);
    assert_eq!(release(object), 0);
    assert_eq!(runtime.calls().len(), 9);
}

#[test]
fn det_04_what_does_not_close_keeps_the_session_alive_and_the_detach_unasked() {
    let runtime = runtime();
    let script = Script::new(|script, session| {
        if script.rounds.load(Ordering::SeqCst) == 0 {
            let close = move || if script.is_held.load(Ordering::SeqCst) { Err("not yet".into()) } else { Ok(()) };
            session.register_hook("hook", Box::new(close)).unwrap();
            session.start_thread("stuck", |_| script.wait_while_held()).unwrap();
        }
    });
    script.hold();
    let object = attached(&runtime, script);
    script.until("detach_failed");
    script.until("detached");
    let stays = &script.said()[1];
    for word in ["CloseError", "\"hook\"", "not yet", "\"stuck\"", "Thread", "asks: Ok(8)"] {
        assert!(stays.contains(word), "{word} is missing in {stays}");
    }
    holds!(DET_04 rem, requests(&runtime) == 1, "asked only when all was closed");
    release(object);
}

#[test]
fn det_04_a_callback_that_does_not_return_keeps_the_session_alive() {
    let runtime = runtime();
    let script = Script::new(|_, session| {
        if session.information().is_ok() {
            session.wait_for_detach_request();
        }
    });
    let object = attached(&runtime, script) as usize;
    script.hold();
    std::thread::scope(|scope| {
        scope.spawn(|| module_loaded(object as *mut sys::IUnknown, 3));
        script.until("loaded");
        // Another callback panics, which asks to leave.
        // SAFETY: a live object.
        unsafe { sys::ICorProfilerCallback::ModuleUnloadStarted((object as *mut c_void).cast(), 3) };
        // It is let go by `detach_failed`.
        script.until("detach_failed: CallbacksRunning(");
    });
    holds!(DET_04 rem, requests(&runtime) == 0);
    assert_eq!(module_loaded(object as *mut sys::IUnknown, 4), HResult::S_OK);
    script.until("loaded 4");
    assert_eq!(runtime.number("low"), Some(AttachMask::MODULE_LOADS.bits() as usize), "wanted again");
    // SAFETY: a live object.
    unsafe { sys::ICorProfilerCallback::ModuleUnloadStarted((object as *mut c_void).cast(), 3) };
    script.until("detached");
    release(object as *mut sys::IUnknown);
}

#[test]
fn a_runtime_that_refuses_gives_the_session_back() {
    let runtime = runtime();
    runtime.set("refuse detach", HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT.0 as usize);
    let script = Script::new(|_, session| {
        session.register_hook("hook", Box::new(|| Ok(()))).unwrap();
    });
    let object = attached(&runtime, script);
    script.until("detached");
    assert!(script.said()[1].contains("Runtime(CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT"), "{:?}", script.said());
    assert!(script.said()[1].ends_with("asks: Ok(8)"));
    assert_eq!(requests(&runtime), 2);
    release(object);
}

/// Refused by the runtime, with what `later` says between the refusal and the next wish.
fn refused(later: (&'static str, usize)) -> (&'static FakeInfo, &'static Script) {
    // It is asked for as long as the profiler stays.
    let runtime: &FakeInfo = Box::leak(runtime());
    runtime.set("refuse detach", HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT.0 as usize);
    runtime.set(later.0, later.1);
    let script = Script::new(|_, _| {});
    script.catches_up.store(true, Ordering::SeqCst);
    let object = create(&SCRIPTED).expect("a place");
    assert_eq!(attach(object, runtime, &script.data()), HResult::S_OK);
    module_loaded(object, 500);
    complete(object);
    (runtime, script)
}

#[test]
fn cat_05_cat_09_what_is_known_is_forgotten_when_callbacks_were_missed_and_met_again() {
    // While the profiler waits for the answer, 500 goes, which nobody tells it.
    let (runtime, script) = refused(("loads later", 600));
    script.until("detached");
    let said = script.said();
    assert_eq!(said[..3], ["loaded 500", "complete", "found 150, knows 151"]);
    assert_eq!(said[3], "loaded 600", "what comes as soon as it is wanted is not turned away");
    assert!(said[4].starts_with("detach_failed: Runtime("), "{said:?}");
    assert_eq!(said[5], "missed some, knows 0, whole: false");
    holds!([CAT_05 CAT_09] rem, said[6] == "found 150, knows 150", "500 is gone");
    let calls = runtime.calls();
    let asked = calls.iter().position(|call| *call == "RequestProfilerDetach").expect("it was asked for");
    assert_eq!(calls[asked + 1..asked + 3], ["wants", "EnumModules"], "only then are holes told from what is there");
}

#[test]
fn cat_05_a_profiler_whose_wishes_are_not_taken_back_gets_an_error() {
    let (_runtime, script) = refused(("refuse mask later", HResult::E_INVALIDARG.0 as usize));
    script.until("detach_failed");
    script.until("missed");
    let said = script.said();
    assert!(
        said[3].starts_with("detach_failed: EventsNotRestored { refusal: Runtime(CORPROF_E_IRREVERSIBLE"),
        "{said:?}"
    );
    assert!(said[3].contains("code: E_INVALIDARG"), "{said:?}");
    holds!(CAT_05 rem, said[4] == "missed some, knows 0, whole: false");
    // The next time, it is not even shown that callbacks arrive.
    script.until("detach_failed: CallbacksUnproven(E_INVALIDARG");
}

#[test]
fn det_18_a_notification_profiler_that_hears_nothing_never_asks_for_the_detach() {
    let runtime = runtime();
    runtime.set("deaf", 1);
    let script = Script::new(|_, _| {});
    let object = attached(&runtime, script);
    script.until("detach_failed");
    while script.rounds.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    // Inert: nothing is wanted, and the author is not called any more.
    while runtime.number("low") != Some(0) || module_loaded(object, 9) != HResult::S_OK || knows_of_nine(script) {
        std::thread::yield_now();
    }
    assert!(script.said()[1].starts_with("detach_failed: NoCallbacks"), "{:?}", script.said());
    holds!(DET_18 rem, requests(&runtime) == 0);
}

#[test]
fn det_18_only_what_the_runtime_tells_of_ones_own_stop_shows_that_it_still_calls() {
    for meanwhile in [COLLECTS, ANOTHER_STOPS, CALLBACK_ENDS] {
        // It is asked for as long as the profiler stays.
        let runtime: &FakeInfo = Box::leak(runtime());
        runtime.set("deaf", 1);
        runtime.set("meanwhile", meanwhile);
        let script = Script::new(|script, _| {
            if script.is_held.load(Ordering::SeqCst) {
                script.until("loaded");
            }
        });
        std::thread::scope(|scope| {
            if meanwhile == CALLBACK_ENDS {
                script.hold();
            }
            let object = attached(runtime, script) as usize;
            if meanwhile == CALLBACK_ENDS {
                scope.spawn(move || {
                    module_loaded(object as *mut sys::IUnknown, 3);
                    CALLBACK_HAS_ENDED.store(true, Ordering::SeqCst);
                });
                while !IS_STOPPED.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                script.release();
            }
            script.until("detach_failed");
        });
        let said = script.said();
        assert!(said.iter().any(|one| one.starts_with("detach_failed: NoCallbacks")), "{meanwhile}: {said:?}");
        holds!(DET_18 rem, requests(runtime) == 0, "{meanwhile}");
    }
}

fn knows_of_nine(script: &Script) -> bool {
    let mut said = script.said.lock().expect("no panic while locked");
    let before = said.len();
    said.retain(|one| one != "loaded 9");
    said.len() < before
}

#[test]
fn a_panic_in_the_authors_work_ends_it_and_the_profiler_leaves() {
    let runtime = runtime();
    let script = Script::new(|_, _| panic!("as asked"));
    let object = attached(&runtime, script);
    script.until("detached");
    assert_eq!(requests(&runtime), 1);
    release(object);
}

#[test]
fn det_17_a_process_that_ends_is_not_asked_for_a_detach() {
    let runtime = runtime();
    let script = Script::new(|script, session| {
        script.say("runs");
        session.wait_for_detach_request();
        script.say("told");
    });
    let object = attached(&runtime, script);
    script.until("runs");
    // SAFETY: a live object.
    unsafe { sys::ICorProfilerCallback::Shutdown(object.cast()) };
    script.until("told");
    assert_eq!(module_loaded(object, 1), HResult::S_OK);
    holds!(DET_17 rem, requests(&runtime) == 0);
}

#[test]
fn a_refused_attach_has_asked_for_nothing_and_leaves_nothing() {
    let runtime = runtime();
    let object = create(&SCRIPTED).expect("a place");
    assert!(runtime.calls().is_empty());
    assert_eq!(attach(object, &runtime, b"no address"), HResult::E_INVALIDARG);
    assert!(runtime.calls().is_empty(), "{:?}", runtime.calls());
    assert_eq!(release(object), 0);
    // The runtime refuses what is wanted: its code is passed on, and the author's profiler is gone.
    runtime.set("refuse mask", HResult::E_INVALIDARG.0 as usize);
    let object = create(&SCRIPTED).expect("a place");
    let script = Script::new(|_, _| {});
    assert_eq!(attach(object, &runtime, &script.data()), HResult::E_INVALIDARG);
    assert_eq!(release(object), 0);
    assert!(script.said().is_empty());
}

#[test]
fn sbs_02_the_first_runtime_is_taken_and_a_second_one_is_refused_by_the_factory() {
    let runtime = runtime();
    // Objects of refused attaches are never released: they must not keep the place.
    let forgotten = create(&FIRST).unwrap();
    let object = create(&FIRST).unwrap();
    assert_eq!(attach(object, &runtime, &[]), HResult::S_OK);
    holds!(SBS_02 rem, create(&FIRST) == Err(HResult::CLASS_E_CLASSNOTAVAILABLE));
    holds!(SBS_02 rem, attach(forgotten, &runtime, &[]) == HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
    release(object);
    assert!(create(&FIRST).is_ok(), "the place is free again");
}

#[test]
fn sbs_02_a_runtime_that_does_not_fit_is_refused_untouched() {
    let runtime = runtime();
    let object = create(&ONLY_NINE).unwrap();
    holds!(SBS_02 rem, attach(object, &runtime, &[]) == HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
    assert!(runtime.calls().is_empty(), "{:?}", runtime.calls());
    // One that fits gets as far as the author, who panics: refused, and the place is free again.
    runtime.set("major", 9);
    assert_eq!(attach(object, &runtime, &[]), HResult::E_FAIL);
    assert!(create(&ONLY_NINE).is_ok());
    // SAFETY: two live objects.
    let started = unsafe { sys::ICorProfilerCallback::Initialize(object.cast(), runtime.unknown()) };
    assert_eq!(HResult(started), HResult::E_FAIL);
}

#[test]
fn det_19_a_detach_that_is_asked_for_in_a_callback_waits_for_that_callback() {
    let runtime = runtime();
    let script = Script::new(|_, session| session.wait_for_detach_request());
    let object = attached(&runtime, script);
    script.hold();
    let address = object as usize;
    let callback = std::thread::spawn(move || module_loaded(address as *mut sys::IUnknown, LEAVES.0));
    // The callback does not return in time, so the profiler goes on.
    let has_waited = script.says("detach_failed: CallbacksRunning", Duration::from_secs(20));
    let requests_meanwhile = requests(&runtime);
    script.release();
    assert_eq!(callback.join().expect("no panic"), HResult::S_OK);
    holds!(DET_19 rem, (has_waited, requests_meanwhile) == (true, 0), "{:?}", script.said());
    // SAFETY: a live object; its callback panics, which asks the profiler to leave.
    unsafe { sys::ICorProfilerCallback::ModuleUnloadStarted(object.cast(), 4) };
    script.until("detached");
    holds!(DET_19 rem, requests(&runtime) == 1);
    assert_eq!(release(object), 0);
}

#[test]
fn sbs_03_two_runtimes_have_two_profilers_that_know_nothing_of_each_other() {
    let runtimes = [runtime(), runtime()];
    let scripts = [(); 2].map(|()| Script::new(|_, session| session.wait_for_detach_request()));
    let objects = [0, 1].map(|at| attached(&runtimes[at], scripts[at]));
    let wanted = AttachMask::MODULE_LOADS.bits() as usize;
    let asked = [0, 1].map(|at| runtimes[at].number("low"));
    holds!(SBS_03 rem, asked == [Some(wanted); 2], "each asks its own runtime");
    module_loaded(objects[1], 7);
    holds!(SBS_03 rem, scripts[0].said() == ["complete"]);
    holds!(SBS_03 rem, scripts[1].said() == ["complete", "loaded 7"]);
    // SAFETY: a live object; its callback panics, which asks the profiler of that runtime to leave.
    unsafe { sys::ICorProfilerCallback::ModuleUnloadStarted(objects[1].cast(), 7) };
    scripts[1].until("detached");
    module_loaded(objects[0], 8);
    holds!(SBS_03 rem, (scripts[0].said().len(), requests(&runtimes[0]), requests(&runtimes[1])) == (2, 0, 1));
}

#[test]
fn a_profiler_that_is_loaded_with_the_process_has_the_same_road() {
    let runtime = runtime();
    let object = create(&STARTED_CLASS).unwrap();
    assert_eq!(attach(object, &runtime, &[]), HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE);
    // SAFETY: two live objects.
    let started = unsafe { sys::ICorProfilerCallback::Initialize(object.cast(), runtime.unknown()) };
    assert_eq!(HResult(started), HResult::S_OK);
    assert_eq!((runtime.number("low"), runtime.number("high")), (Some(0x80), Some(0x10)));
    let until = |said: &[&str]| {
        while *STARTED.lock().expect("no panic while locked") != said {
            std::thread::yield_now();
        }
    };
    until(&["started", "runs"]);
    // SAFETY: a live object.
    unsafe { sys::ICorProfilerCallback::Shutdown(object.cast()) };
    until(&["started", "runs", "left"]);
}
