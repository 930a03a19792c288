//! What reports and pages compute from a forged recording: folded runtime frames, attributions, waits, findings, and every format.

use remora_export::{Format, write};
use remora_profile::{
    ApplicationRule, ApplicationTime, Attribution, Event, Finding, Frame, FrameKind, GC, LOCK_WAIT, Meta, Profile,
    Sample, State, Summary, Thread, ThreadIx, WAITING_FOR_CPU, fold_runtime_frames_and_keep_them,
};

/// Threads that are looked at one by one.
const ASKED: u32 = 4;
/// Samples of a seed.
const SAMPLES: u32 = 200;

pub(crate) fn recording_views(bytes: &[u8]) -> bool {
    let Ok(recording) = crate::chunked::read_recording(bytes) else { return false };
    let rules = [vec![], vec!["*".to_owned()], vec!["App*".to_owned(), String::new()]];
    let rules = rules.map(|assemblies| ApplicationRule { assemblies });
    rules.iter().for_each(|rule| view(&recording.profile, rule));
    let (samples, threads) = (recording.profile.samples().len(), recording.profile.threads().to_vec());
    let folded = fold_runtime_frames_and_keep_them(recording.profile);
    assert_eq!((folded.samples().len(), folded.threads()), (samples, &threads[..]));
    rules.iter().for_each(|rule| view(&folded, rule));
    recording.complete
}

fn view(profile: &Profile, rule: &ApplicationRule) {
    let attributions = Attribution::of_stacks(profile, rule);
    assert_eq!(attributions.len(), profile.stacks().len());
    for attribution in attributions {
        let _ = (attribution.wait().code(), attribution.entry.code());
    }
    let threads = (profile.threads().len() as u32).min(ASKED);
    for thread in [None].into_iter().chain((0..threads).map(|thread| Some(ThreadIx(thread)))) {
        let time = ApplicationTime::of(profile, rule, thread);
        let _ = (time.busy(), Summary::of(profile, thread));
        for finding in Finding::all(profile, &time) {
            assert!(!finding.extent.is_nan(), "{finding:?}");
        }
    }
    for format in Format::ALL {
        let written = write(profile, format, rule, &mut std::io::sink());
        assert!(written.is_ok(), "{}: {written:?}", format.name());
    }
}

/// Recordings in pieces: that of a past version, and one with all that the views know by its name.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let written = remora_recording::Writer::create(Vec::new()).and_then(|writer| writer.finish(&known()));
    let written = written.expect("memory can be written to");
    crate::chunked::recordings().into_iter().chain([crate::chunked::pieces_of_recording(&written)]).collect()
}

/// Each of these names means something to a view, in a stack below the others.
fn known() -> Profile {
    let names: [(FrameKind, &str, Option<&str>); 18] = [
        (
            FrameKind::Managed,
            "System.Threading.PortableThreadPool.WorkerThread.Start()",
            Some("System.Private.CoreLib.dll"),
        ),
        (FrameKind::Managed, "Microsoft.AspNetCore.Hosting.Run()", Some("Microsoft.AspNetCore.dll")),
        (FrameKind::Managed, "App.Program.Main()", Some("App.dll")),
        (FrameKind::Managed, "System.Threading.Tasks.Task.Wait()", Some("System.Private.CoreLib.dll")),
        (FrameKind::Managed, "System.Threading.Monitor.Enter(object)", Some("System.Private.CoreLib.dll")),
        (FrameKind::Native, "libcoreclr.so+0x3a120", Some("libcoreclr.so")),
        (FrameKind::Native, "libclrjit.so+0x20", Some("libclrjit.so")),
        (FrameKind::Native, "libgcc_s.so.1+0x20", Some("libgcc_s.so.1")),
        (FrameKind::Synthetic, GC, None),
        (FrameKind::Synthetic, LOCK_WAIT, None),
        (FrameKind::Managed, "App.Worker.Spin()", Some("App.dll")),
        (FrameKind::Managed, "System.Threading.SpinWait.SpinOnce()", Some("System.Private.CoreLib.dll")),
        (FrameKind::Managed, "string.FastAllocateString(int)", Some("System.Private.CoreLib.dll")),
        (FrameKind::Native, "libcoreclr.so+0x3a220", Some("libcoreclr.so")),
        (FrameKind::Native, "pthread_cond_wait", Some("libc.so.6")),
        (FrameKind::Unknown, "[unknown]", None),
        (FrameKind::Synthetic, WAITING_FOR_CPU, None),
        (FrameKind::Managed, "System.Threading.LowLevelLifoSemaphore.Wait()", Some("System.Private.CoreLib.dll")),
    ];
    let meta = Meta { event: Event::Wall, duration: 1_000_000_000, application: "App".to_owned(), ..Meta::default() };
    let mut profile = Profile::new(meta);
    let mut stacks = Vec::new();
    for (number, (kind, name, module)) in names.into_iter().enumerate() {
        let (name, module) = (profile.string(name), module.map(|module| profile.string(module)));
        let file = (number % 5 == 2).then(|| profile.string("/src/App.cs"));
        let frame = profile.frame(Frame { kind, name, module, file, line: file.map(|_| 7) });
        // Two stacks: of a worker, and of an application's own thread.
        let parent = stacks.last().copied().filter(|_| number % 9 != 0);
        stacks.push(profile.stack(parent, frame));
    }
    let threads = [".NET TP Worker", ".NET Server GC", "", ".NET TP Worker"];
    for (number, name) in threads.into_iter().enumerate() {
        profile.add_thread(Thread { id: number as u32 + 1, name: name.to_owned() });
    }
    for number in 0..SAMPLES {
        let state = if number % 3 == 0 { State::Running } else { State::Blocked };
        let (thread, stack) = (ThreadIx(number % 4), stacks[number as usize * 7 % stacks.len()]);
        profile.add_sample(Sample { time: u64::from(number) * 10_000_000, thread, stack, weight: 10_000_000, state });
    }
    (profile.loss.taken, profile.loss.delivered) = (SAMPLES.into(), SAMPLES.into());
    profile
}
