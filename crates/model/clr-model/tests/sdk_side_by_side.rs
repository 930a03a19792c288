//! A profiler of the SDK in a modelled desktop process with two runtimes. Its threads are threads of the system.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use corprof::{AttachMask, Attached, Guid, HResult, Startup, export_profiler, sdk::*};
use remora_clr_model::differences::{Release, RuntimeVersion};
use remora_clr_model::faults::Faults;
use remora_clr_model::library::{Exports, Library};
use remora_clr_model::machine::{Account, File, Machine, Process};
use remora_clr_model::runtime::{AttachRequest, Runtime as ModelledRuntime, give_the_heap_memory};
use remora_clr_model::schedule::{self, threads};
use remora_holds::holds;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const V4: Release = Release(4, 0, 30319);
const PATH: &str = "C:\\profiler\\profiler.dll";
const SEED: u64 = 1;
/// The process's time passes this much faster than the clock: the runtime sleeps before an unload.
const SPEED: u32 = 200;

/// What the profilers of this process heard: the module of each callback, by the profiler.
static HEARD: Mutex<Vec<(u32, usize)>> = Mutex::new(Vec::new());
/// How many objects have begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);
/// The next callback asks for the detach.
static LEAVES: AtomicBool = AtomicBool::new(false);

/// Takes every runtime.
struct Each(u32);

impl<'rt> Profiler<'rt> for Each {
    const ROLE: Role = Role::Main;
    const SIDE_BY_SIDE: SideBySide = SideBySide::All;

    fn start(_: &Beginning<'rt, Startup>) -> Result<Self, HResult> {
        Ok(Each(BEGUN.fetch_add(1, Ordering::SeqCst)))
    }

    fn events(&self) -> Events {
        AttachMask::MODULE_LOADS.into()
    }

    fn module_load_finished(&self, runtime: &Runtime<'rt>, module: Module<'rt>, _: HResult) {
        HEARD.lock().unwrap().push((self.0, module.plain().0));
        if LEAVES.swap(false, Ordering::SeqCst) {
            runtime.detach();
        }
    }
}

/// Takes the first runtime only.
struct OnlyFirst;

impl<'rt> Profiler<'rt> for OnlyFirst {
    const ROLE: Role = Role::Main;
    const SIDE_BY_SIDE: SideBySide = SideBySide::First;

    fn start(_: &Beginning<'rt, Startup>) -> Result<Self, HResult> {
        Ok(OnlyFirst)
    }

    fn events(&self) -> Events {
        Events::default()
    }
}

/// Attaches to what another one has refused.
struct Other;

impl<'rt> Profiler<'rt> for Other {
    const ROLE: Role = Role::Main;

    fn attach(_: &Beginning<'rt, Attached>, _: &[u8]) -> Result<Self, HResult> {
        Ok(Other)
    }

    fn events(&self) -> Events {
        Events::default()
    }
}

export_profiler!(
    Each, clsid = "{00000001-0000-0000-0000-000000000000}";
    OnlyFirst, clsid = "{00000002-0000-0000-0000-000000000000}";
    Other, clsid = "{00000003-0000-0000-0000-000000000000}"
);

const EACH: &str = "{00000001-0000-0000-0000-000000000000}";
const ONLY_FIRST: &str = "{00000002-0000-0000-0000-000000000000}";
const OTHER: Guid = Guid::from_u128(0x0000_0003 << 96);

unsafe extern "system" {
    fn DllGetClassObject(class: *const Guid, interface: *const Guid, object: *mut *mut c_void) -> i32;
}

/// The exports of this program, as those of a library.
struct Own;

impl Exports for Own {
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult {
        // SAFETY: the caller passes two identifiers and a place, as COM demands.
        HResult(unsafe { DllGetClassObject(class, interface, out) })
    }
}

/// A process whose environment names this class, with two runtimes of version 4.
fn process(class: &str) -> (Arc<Machine>, Arc<Library>, Arc<Process>, Vec<Arc<ModelledRuntime>>) {
    let machine = Machine::new(RuntimeVersion::Desktop4, Arc::new(Faults::default()));
    let library = Library::new(Own, machine.faults.clone());
    machine.put(PATH, File::of(&library));
    let environment = [("COR_ENABLE_PROFILING", "1"), ("COR_PROFILER", class), ("COR_PROFILER_PATH", PATH)];
    let process = machine.start(Account::of_user(500), &environment);
    let runtimes = [V4, V4].map(|release| process.load_release(release).unwrap()).into();
    (machine, library, process, runtimes)
}

fn profiled(runtimes: &[Arc<ModelledRuntime>]) -> Vec<usize> {
    runtimes.iter().map(|runtime| runtime.profilers().len()).collect()
}

/// What profilers heard of a module that loads in this runtime.
fn heard_of(runtime: &ModelledRuntime) -> Vec<u32> {
    runtime.begin_thread();
    let module = runtime.load_module(false);
    runtime.end_thread();
    let heard = HEARD.lock().unwrap();
    heard.iter().filter(|(_, of)| *of == module.0).map(|(profiler, _)| *profiler).collect()
}

/// In one test: it makes this process one whose modelled threads are threads of the system.
#[test]
fn sbs_01_sbs_05_an_sdk_profiler_is_made_once_for_each_runtime_and_what_it_refuses_is_free() {
    threads::use_os_threads_at(SEED, SPEED);
    give_the_heap_memory();
    let (machine, library, _process, runtimes) = process(EACH);
    holds!(SBS_01 rem, (BEGUN.load(Ordering::SeqCst), library.references()) == (2, 2));
    holds!(SBS_01 rem, profiled(&runtimes) == [1, 1]);
    holds!(SBS_01 rem, (heard_of(&runtimes[0]), heard_of(&runtimes[1])) == (vec![0], vec![1]));
    // One leaves; the library and the other one stay.
    LEAVES.store(true, Ordering::SeqCst);
    heard_of(&runtimes[0]);
    schedule::wait_until(None, || profiled(&runtimes) == [0, 1]);
    holds!(SBS_01 rem, (heard_of(&runtimes[0]), heard_of(&runtimes[1]), library.references()) == (vec![], vec![1], 1));
    assert_eq!(machine.faults.findings(), []);

    let (machine, library, _process, runtimes) = process(ONLY_FIRST);
    holds!(SBS_05 rem, (profiled(&runtimes), library.references()) == (vec![1, 0], 1));
    let another = Library::new(Own, machine.faults.clone());
    let request = AttachRequest { class: OTHER, library: Some(another.clone()), client_data: Vec::new() };
    let answer = runtimes[1].ask_for_attach(request);
    schedule::wait_until(None, || answer.get().is_some());
    holds!(SBS_05 rem, (answer.get(), profiled(&runtimes)) == (Some(HResult::S_OK), vec![1, 1]));
    assert_eq!(machine.faults.findings(), []);
}
