//! What to try next, if a recording shows little.

use super::method::{name, short};
use crate::console::percent;
use remora_profile::{ApplicationRule, ApplicationTime, BlockedTime, Event, Profile, Wait};

/// What to try, if the program hardly ran.
pub(super) fn hint(profile: &Profile) -> Option<String> {
    /// One part in 20 of a CPU; or in 4, if most attempts found a thread that had blocked again.
    const IDLE: u64 = 20;
    const SELDOM: u64 = 4;
    let meta = &profile.meta;
    let used = meta.target_cpu.filter(|_| meta.event == Event::Cpu)?;
    let blocks_again = profile.loss.moved_on > profile.samples().len() as u64;
    let part = if blocks_again { SELDOM } else { IDLE };
    (used.saturating_mul(part) < meta.duration).then(|| {
        format!("the process used {} of a CPU; -e wall shows what its threads wait for", percent(used, meta.duration))
    })
}

/// What to try: all hints.
pub(super) fn hints(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule) -> Vec<String> {
    hint(profile).into_iter().chain(hints_of_time(profile, time, rule)).collect()
}

/// What to try, as the times of application methods show it.
pub(super) fn hints_of_time(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule) -> Vec<String> {
    let all =
        [named_like_framework(profile, time, rule), idle(profile, time), inlined(profile, time), lock(profile, time)];
    all.into_iter().flatten().collect()
}

/// A program that is named like .NET's own assemblies, none of whose code is the application's therefore.
fn named_like_framework(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule) -> Option<String> {
    let program = &profile.meta.application;
    let is_empty = time.methods.is_empty() && rule.assemblies.is_empty();
    (is_empty && !profile.samples().is_empty() && !rule.includes_type(program, "")).then(|| {
        format!(
            "no method counts as the application's, because assemblies named System.* and Microsoft.* count as .NET's: \
             --application '{program}*' counts the program's own"
        )
    })
}

/// A wait in the runtime below a method without lines. With them, its IL would say whether the method enters a lock there.
fn lock(profile: &Profile, time: &ApplicationTime) -> Option<String> {
    /// A tenth of the time.
    const NOTABLE: u64 = 10;
    let may_be_lock = |row: &&BlockedTime| {
        let is_without_lines = row.frame.is_some_and(|frame| profile.frame_at(frame).line.is_none());
        row.wait == Wait::Runtime && is_without_lines && row.weight.saturating_mul(NOTABLE) >= time.busy()
    };
    let module = time.blocked.iter().find(may_be_lock).and_then(|row| profile.frame_at(row.frame?).module)?;
    // A dynamic assembly has no file, and no PDB.
    let has_file = |name: &str| [".dll", ".exe"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
    (profile.meta.event == Event::Wall && has_file(profile.text(module))).then(|| {
        format!(
            "waits for `runtime` can be waits for a lock: with the PDB of {} it is known (beside it, or --symbols DIR)",
            profile.text(module)
        )
    })
}

/// A service whose requests only await: nothing runs, and no thread of it waits.
fn idle(profile: &Profile, time: &ApplicationTime) -> Option<String> {
    /// One part in 4 of a CPU, and of a thread that waits on average. A service that is slow by its own code uses more of one of them.
    const LITTLE: u64 = 4;
    let meta = &profile.meta;
    let is_little = |time: u64| time.saturating_mul(LITTLE) < meta.duration;
    let waits = time.blocked.iter().filter(|row| !row.is_idle);
    let waits = waits.fold(0, |sum: u64, row| sum.saturating_add(row.weight));
    (meta.event == Event::Wall && is_little(waits) && is_little(time.running)).then(|| {
        format!(
            "the threads are idle; requests that await have no thread: `remora heap -p {} --values` shows pending async \
             methods",
            meta.process_id
        )
    })
}

/// Time below the framework's code for parallel loops and tasks, without the application's delegate.
fn inlined(profile: &Profile, time: &ApplicationTime) -> Option<String> {
    /// Names of methods that run a delegate of the application, and nothing else that takes time.
    const BODIES: [&str; 3] =
        ["System.Threading.Tasks.Parallel", "System.Threading.Tasks.Task.InnerInvoke", "System.Linq.Parallel."];
    /// Half of the time: then the tables miss more than they show.
    const MOST: u64 = 2;
    let body = time.outside.first()?;
    let called = name(profile, body.frame);
    let is_most = body.weight.saturating_mul(MOST) >= time.busy();
    (is_most && BODIES.iter().any(|start| called.starts_with(start))).then(|| {
        format!(
            "{} is in {} without an application method: its delegate can be inlined there. A program started with \
             DOTNET_TieredPGO=0 shows it (.NET 8 and later)",
            percent(body.weight, time.busy()),
            short(called)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, FrameKind, Meta, Sample, State, Thread};

    #[test]
    fn a_program_that_hardly_runs_gets_a_hint_to_measure_its_waits() {
        let hinted =
            |event, used, duration| hint(&Profile::new(Meta { event, target_cpu: used, duration, ..Meta::default() }));
        let text = "the process used 4.0% of a CPU; -e wall shows what its threads wait for";
        assert_eq!(hinted(Event::Cpu, Some(4), 100).as_deref(), Some(text));
        assert_eq!(hinted(Event::Cpu, Some(5), 100), None);
        assert_eq!(hinted(Event::Wall, Some(0), 100), None);
        assert_eq!(hinted(Event::Cpu, None, 100), None, "unknown");
        assert_eq!(hinted(Event::Cpu, Some(0), 0), None, "no time");
        for (used, expected) in [(24, true), (25, false)] {
            let mut profile = Profile::new(Meta { target_cpu: Some(used), duration: 100, ..Meta::default() });
            profile.loss.moved_on = 1;
            assert_eq!(hint(&profile).is_some(), expected, "its threads blocked again, and it used {used}%");
        }
    }

    /// Hints of a recording of 100 ns in which two threads have these samples.
    fn hints_of(event: Event, samples: &[(u64, State, &[&str])]) -> Vec<String> {
        let mut profile = Profile::new(Meta { event, duration: 100, process_id: 7, ..Meta::default() });
        let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
        for (weight, state, names) in samples {
            let frame = |name: &&str| {
                let module = if name.starts_with("Shop.") { "Shop.dll" } else { "System.Private.CoreLib.dll" };
                let (name, module) = (profile.string(name), Some(profile.string(module)));
                profile.frame(Frame { kind: FrameKind::Managed, name, module, file: None, line: None })
            };
            let frames: Vec<_> = names.iter().map(frame).collect();
            let stack = profile.stack_from_root(frames).expect("there are frames");
            profile.add_sample(Sample { time: 0, thread, stack, weight: *weight, state: *state });
        }
        let rule = ApplicationRule::default();
        hints_of_time(&profile, &ApplicationTime::of(&profile, &rule, None), &rule)
    }

    #[test]
    fn a_service_whose_threads_are_idle_gets_a_hint_at_pending_async_methods() {
        let semaphore: &[&str] = &["System.Threading.LowLevelLifoSemaphore.Wait(int, bool)"];
        let sleep: &[&str] = &["Shop.Poll()", "System.Threading.Thread.Sleep(int)"];
        let shown = |event, running, sleeping| {
            let work: &[&str] = &["Shop.Work()"];
            let samples =
                [(100, State::Blocked, semaphore), (running, State::Running, work), (sleeping, State::Blocked, sleep)];
            hints_of(event, &samples)
        };
        let text = "the threads are idle; requests that await have no thread: `remora heap -p 7 --values` shows pending \
                    async methods";
        assert_eq!(shown(Event::Wall, 24, 24), [text]);
        assert_eq!(shown(Event::Wall, 25, 24), [] as [&str; 0]);
        assert_eq!(shown(Event::Wall, 24, 25), [] as [&str; 0]);
        assert_eq!(shown(Event::Cpu, 24, 24), [] as [&str; 0]);
    }

    #[test]
    fn time_below_a_parallel_loop_without_a_delegate_gets_a_hint_at_inlining() {
        let body: &[&str] = &["System.Threading.Tasks.Parallel.ForWorker<TLocal, int>.lambda#1(ref RangeWorker)"];
        let other: &[&str] = &["System.Net.Sockets.SocketAsyncEngine.EventLoop()"];
        let shown = |frames, weight| {
            let work: &[&str] = &["Shop.Work()"];
            hints_of(Event::Cpu, &[(weight, State::Running, frames), (50, State::Running, work)])
        };
        let text = "50.0% is in Parallel.ForWorker<TLocal, int>.lambda#1 without an application method: its delegate can be \
                    inlined there. A program started with DOTNET_TieredPGO=0 shows it (.NET 8 and later)";
        assert_eq!(shown(body, 50), [text]);
        assert_eq!(shown(body, 49), [] as [&str; 0]);
        assert_eq!(shown(other, 50), [] as [&str; 0]);
    }

    #[test]
    fn a_wait_in_the_runtime_without_a_pdb_is_said_to_be_a_lock_perhaps() {
        let shown = |line: Option<u32>, module: &str| {
            let mut profile = Profile::new(Meta { event: Event::Wall, ..Meta::default() });
            let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
            let mut frame = |name: &str, module: &str, kind, line: Option<u32>| {
                let (name, module) = (profile.string(name), Some(profile.string(module)));
                let file = line.map(|_| profile.string("Shop.cs"));
                profile.frame(Frame { kind, name, module, file, line })
            };
            let method = frame("Shop.Take()", module, FrameKind::Managed, line);
            let futex = frame("futex", "libc.so.6", FrameKind::Native, None);
            let stack = profile.stack_from_root([method, futex]).expect("there are frames");
            profile.add_sample(Sample { time: 0, thread, stack, weight: 9, state: State::Blocked });
            let rule = ApplicationRule::default();
            let time = ApplicationTime::of(&profile, &rule, None);
            hints(&profile, &time, &rule).iter().any(|hint| hint.contains("waits for a lock: with the PDB of Shop.dll"))
        };
        assert_eq!([shown(None, "Shop.dll"), shown(Some(4), "Shop.dll")], [true, false]);
        assert!(!shown(None, "System.Net.dll"), "idle");
    }

    #[test]
    fn a_program_that_is_named_like_the_framework_gets_a_hint_at_the_rule() {
        let shown = |application: &str, assemblies: &[&str], module: &str| {
            let mut profile = Profile::new(Meta { application: application.into(), ..Meta::default() });
            let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
            let (name, module) = (profile.string("Billing.Run()"), Some(profile.string(module)));
            let frame = profile.frame(Frame { kind: FrameKind::Managed, name, module, file: None, line: None });
            let stack = profile.stack_from_root([frame]).expect("there is a frame");
            profile.add_sample(Sample { time: 0, thread, stack, weight: 9, state: State::Running });
            let rule = ApplicationRule { assemblies: assemblies.iter().map(|name| (*name).to_owned()).collect() };
            hints(&profile, &ApplicationTime::of(&profile, &rule, None), &rule)
        };
        let text = "no method counts as the application's, because assemblies named System.* and Microsoft.* count as .NET's: \
                    --application 'Microsoft.Billing*' counts the program's own";
        assert_eq!(shown("Microsoft.Billing", &[], "Microsoft.Billing.dll"), [text]);
        assert_eq!(shown("Microsoft.Billing", &["Microsoft.Billing*"], "Microsoft.Billing.dll"), [] as [&str; 0]);
        assert_eq!(shown("Microsoft.Billing", &[], "Billing.dll"), [] as [&str; 0], "its table is not empty");
        assert_eq!(shown("Billing", &[], "System.Linq.dll"), [] as [&str; 0], "its name is its own");
    }
}
