//! A process gets one of two libraries, depending on the task; a library refuses tasks it was not built for
//! (docs/design/0018-two-libraries.md).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_e2e::{Facts, Recording, Remora, Runtime, Target, diagnostics, on_every_runtime};
use remora_wire::{CLSID_MAIN, CLSID_NOTIFICATION, Config, HeapSnapshot, Sampling, Task};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use support::open_folder;

/// The first file that the heap-walking copy writes to; only its library has that name.
const OF_THE_WALK: &[u8] = b"/proc/self/oom_score_adj";
/// An import of a library that uses a signal.
const OF_THE_SAMPLER: &[u8] = b"__libc_current_sigrtmin";
/// CORPROF_E_PROFILER_CANCEL_ACTIVATION.
const DECLINED: u32 = 0x8013_1375;

fn holds(library: &[u8], words: &[u8]) -> bool {
    memchr::memmem::find(library, words).is_some()
}

fn of_a_recording(target: &Target) -> Vec<u8> {
    let recording = Recording::begun(target, &[]);
    let library = Facts::library_in(target.pid());
    recording.stop().is_clean();
    library
}

fn of_a_watch(target: &Target) -> Vec<u8> {
    let mut command = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", "1h", "--json"]);
    command.wait_until_it_says("watching busy");
    let library = Facts::library_in(target.pid());
    command.signal(Signal::INT);
    command.finish().succeeded();
    library
}

/// Asks the runtime to attach this library for this task.
fn ordered(target: &Target, runtime: &Runtime, library: &[u8], task: Task) -> Result<(), u32> {
    let folder = open_folder();
    let path = folder.path().join("library.so");
    fs::write(&path, library).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let (first, second, third, rest) = if runtime.major() >= 6 { CLSID_NOTIFICATION } else { CLSID_MAIN };
    let mut class = [0; 16];
    class[..4].copy_from_slice(&first.to_le_bytes());
    class[4..6].copy_from_slice(&second.to_le_bytes());
    class[6..8].copy_from_slice(&third.to_le_bytes());
    class[8..].copy_from_slice(&rest);
    let order = Config { nonce: [0; 16], socket_path: "/nobody/listens/here".into(), task };
    diagnostics::attach_profiler(target.pid(), &class, path.to_str().unwrap(), &order.encode())
}

#[test]
fn one_library_comes_and_refuses_what_it_was_not_built_for() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "busy", &["1"]);
        let (recordings, heaps) = (of_a_recording(&target), of_a_watch(&target));
        assert!(holds(&recordings, OF_THE_SAMPLER) && !holds(&recordings, OF_THE_WALK));
        assert!(holds(&heaps, OF_THE_WALK) && !holds(&heaps, OF_THE_SAMPLER));
        if runtime.major() >= 6 {
            assert!(Facts::library_in(target.pid()) == recordings, "what stays behind a watch cannot copy the process");
        }
        let before = Facts::of(target.pid());
        let sampling = Sampling { frequency: 99, signal_budget: 2000 };
        for (library, task) in [
            (&recordings, Task::HeapSnapshot(HeapSnapshot::default())),
            (&recordings, Task::HeapTracking),
            (&heaps, Task::CpuSampling(sampling)),
            (&heaps, Task::WallSampling(sampling)),
            (&heaps, Task::Placeholder),
            (&heaps, Task::CallbackCheck),
        ] {
            assert_eq!(ordered(&target, runtime, library, task), Err(DECLINED), "{task:?}");
        }
        assert_eq!(Facts::of(target.pid()).remora(), before.remora(), "a library that refused stays in no process");
        assert!(target.is_alive());
        of_a_recording(&target);
        assert!(target.quit().success());
    });
}
