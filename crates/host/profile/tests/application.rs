//! Time by application method, on stacks like those of real programs.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_profile::{
    ApplicationRule, ApplicationTime, Entry, Finding, Frame, FrameIx, FrameKind, Meta, Profile, Sample, State, Thread,
    ThreadIx, Wait,
};

const CORE: &str = "System.Private.CoreLib.dll";
const KESTREL: &str = "Microsoft.AspNetCore.Server.Kestrel.Core.dll";

struct Made {
    profile: Profile,
    thread: ThreadIx,
}

impl Made {
    fn new() -> Made {
        let mut profile = Profile::new(Meta::default());
        let thread = profile.add_thread(Thread { id: 7, name: ".NET TP Worker".into() });
        Made { profile, thread }
    }

    /// A frame: `name|module`, `name|module|line`, `[mark]`, or the name of a dynamic method. A module without `.dll` is native.
    fn frame(&mut self, text: &str) -> FrameIx {
        let mut parts = text.split('|');
        let name = self.profile.string(parts.next().unwrap());
        let module = parts.next();
        let kind = match module {
            None if text.starts_with("lambda_method") => FrameKind::Managed,
            None => FrameKind::Synthetic,
            Some(module) if module.ends_with(".dll") => FrameKind::Managed,
            Some(_) => FrameKind::Native,
        };
        let module = module.map(|module| self.profile.string(module));
        let line = parts.next().map(|line| line.parse().unwrap());
        let file = line.map(|_| self.profile.string("Orders.cs"));
        self.profile.frame(Frame { kind, name, module, file, line })
    }

    /// Adds a sample: frames from the root to the leaf.
    fn sample(&mut self, weight: u64, state: State, frames: &[&str]) {
        self.sample_at(0, weight, state, frames);
    }

    fn sample_at(&mut self, time: u64, weight: u64, state: State, frames: &[&str]) {
        let frames: Vec<FrameIx> = frames.iter().map(|frame| self.frame(frame)).collect();
        let stack = self.profile.stack_from_root(frames).unwrap();
        self.profile.add_sample(Sample { time, thread: self.thread, stack, weight, state });
    }

    fn times(&self) -> ApplicationTime {
        ApplicationTime::of(&self.profile, &ApplicationRule::default(), None)
    }

    fn name(&self, frame: FrameIx) -> &str {
        self.profile.text(self.profile.frame_at(frame).name)
    }
}

#[test]
fn a_method_has_its_own_time_and_what_it_causes_up_to_the_next_application_method() {
    let mut made = Made::new();
    let sort = format!("System.Array.Sort()|{CORE}");
    made.sample(10, State::Running, &["Shop.Main()|Shop.dll|3", "Shop.Price()|Shop.dll|7"]);
    made.sample(20, State::Running, &["Shop.Main()|Shop.dll|3", "Shop.Price()|Shop.dll|8", &sort, "memcpy|libc.so.6"]);
    // A comparison of the application's, called by the framework: not the caller's.
    let compare = ["Shop.Main()|Shop.dll|3", "Shop.Price()|Shop.dll|8", &sort, "Shop.Compare()|Shop.dll|20"];
    made.sample(5, State::Running, &compare);
    made.sample(3, State::Running, &["clone3|libc.so.6", "libcoreclr.so+0x1|libcoreclr.so"]);
    let times = made.times();
    let rows: Vec<(&str, u64, u64)> = times
        .methods
        .iter()
        .map(|method| (made.name(method.frame), method.self_weight, method.caused_weight))
        .collect();
    assert_eq!(rows, [("Shop.Price()", 10, 20), ("Shop.Compare()", 5, 0)]);
    assert_eq!(times.elsewhere, 3);
    let price = &times.methods[0];
    let lines: Vec<(Option<u32>, u64)> =
        price.lines.iter().map(|line| (made.profile.frame_at(line.frame).line, line.weight)).collect();
    assert_eq!(lines, [(Some(8), 20), (Some(7), 10)]);
    let callees: Vec<(&str, u64)> =
        price.callees.iter().map(|callee| (made.name(callee.frame), callee.weight)).collect();
    assert_eq!(callees, [("System.Array.Sort()", 20)]);
}

#[test]
fn every_nanosecond_is_in_one_method_or_elsewhere_and_in_one_entry_point_at_most() {
    let mut made = Made::new();
    for weight in 1..50 {
        let depth = weight as usize % 5;
        let frames: Vec<String> = (0..=depth)
            .map(|at| {
                if (weight >> at) & 1 == 1 {
                    format!("Shop.M{at}()|Shop.dll")
                } else {
                    format!("System.M{at}()|{CORE}")
                }
            })
            .collect();
        let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        made.sample(weight, State::Running, &frames);
    }
    let times = made.times();
    let methods: u64 = times.methods.iter().map(|method| method.weight()).sum();
    let entries: u64 = times.entry_points.iter().map(|point| point.weight).sum();
    assert_eq!((methods + times.elsewhere, entries), (made.profile.total_weight(), methods));
}

#[test]
fn entry_points_are_known_by_what_calls_the_outermost_application_method() {
    let mut made = Made::new();
    let pool = format!("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()|{CORE}");
    let dispatch = format!("System.Threading.ThreadPoolWorkQueue.Dispatch()|{CORE}");
    let kestrel = format!("Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol.Start()|{KESTREL}");
    made.sample(9, State::Running, &[&pool, &dispatch, &kestrel, "Shop.Get()|Shop.dll", "Shop.Price()|Shop.dll"]);
    made.sample(8, State::Running, &[&pool, &dispatch, "Shop.Load()|Shop.dll"]);
    let timer = format!("System.Threading.TimerQueueTimer.Fire(bool)|{CORE}");
    made.sample(7, State::Running, &[&pool, &timer, "Shop.Tick()|Shop.dll"]);
    let host = "Microsoft.Extensions.Hosting.BackgroundService.StartAsync()|Microsoft.Extensions.Hosting.dll";
    made.sample(6, State::Running, &[host, "Shop.Work()|Shop.dll"]);
    made.sample(5, State::Running, &["main|dotnet", "Shop.Main()|Shop.dll"]);
    // Below `Main`, the host starts a service; a timer completes a task, whose continuation is of the pool; a service starts nothing else.
    made.sample(3, State::Running, &["Shop.Main()|Shop.dll", host, "Shop.Clean()|Shop.dll", "Shop.Sweep()|Shop.dll"]);
    let machine =
        format!("System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1.AsyncStateMachineBox`1.MoveNext()|{CORE}");
    made.sample(2, State::Running, &[&pool, &timer, &machine, "Shop.Retry()|Shop.dll"]);
    made.sample(1, State::Running, &[host, "Shop.Work()|Shop.dll", &machine, "Shop.Inner()|Shop.dll"]);
    // What a method calls says nothing about its own start.
    made.sample(4, State::Running, &["Shop.Run()|Shop.dll", &kestrel, "Shop.Last()|Shop.dll"]);
    let points: Vec<(Entry, String, u64)> = made
        .times()
        .entry_points
        .iter()
        .map(|point| (point.entry, made.name(point.frame).to_owned(), point.weight))
        .collect();
    let expected = [
        (Entry::Request, "Shop.Get()", 9),
        (Entry::Pool, "Shop.Load()", 8),
        (Entry::Timer, "Shop.Tick()", 7),
        (Entry::HostedService, "Shop.Work()", 7),
        (Entry::Thread, "Shop.Main()", 5),
        (Entry::Thread, "Shop.Run()", 4),
        (Entry::HostedService, "Shop.Clean()", 3),
        (Entry::Pool, "Shop.Retry()", 2),
    ];
    assert_eq!(points, expected.map(|(entry, name, weight)| (entry, name.to_owned(), weight)));
}

#[test]
fn a_wait_is_what_the_application_asked_for_not_how_the_framework_waits() {
    let mut made = Made::new();
    let core = |name: &str| format!("{name}|{CORE}");
    let (monitor, slim) =
        (core("System.Threading.Monitor.Wait()"), core("System.Threading.ManualResetEventSlim.Wait()"));
    let futex = "__futex_abstimed_wait_common|libc.so.6";
    let result = core("System.Threading.Tasks.Task.InternalWait()");
    made.sample(9, State::Blocked, &["Shop.Get()|Shop.dll|4", &result, &slim, &monitor, futex]);
    let enter = core("System.Threading.Monitor.Enter(object)");
    made.sample(8, State::Blocked, &["Shop.Get()|Shop.dll|5", &enter, futex]);
    made.sample(7, State::Blocked, &["Shop.Get()|Shop.dll|6", &core("System.Threading.Thread.Sleep(int)"), futex]);
    let read = "System.Net.Sockets.Socket.Receive()|System.Net.Sockets.dll";
    made.sample(6, State::Blocked, &["Shop.Get()|Shop.dll|7", read, "SystemNative_Read|libSystem.Native.so"]);
    made.sample(5, State::Blocked, &["Shop.Get()|Shop.dll|8", read, "[waiting for a CPU]"]);
    made.sample(4, State::Blocked, &["Shop.Get()|Shop.dll|9", "libcoreclr.so+0x1|libcoreclr.so", futex]);
    // A thread that spins and gives up its CPU waits for what the loop waits for.
    let ready = ["sched_yield|libc.so.6", "[waiting for a CPU]"];
    made.sample(1, State::Blocked, &["Shop.Get()|Shop.dll|4", &result, ready[0], ready[1]]);
    let worker = core("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()");
    let lifo = core("System.Threading.LowLevelLifoSemaphore.Wait(int, bool)");
    made.sample(3, State::Blocked, &[&worker, &lifo, futex]);
    made.sample(2, State::Blocked, &["libcoreclr.so+0x2|libcoreclr.so", futex]);
    made.sample(1, State::Blocked, &[&worker, &lifo, ready[0], ready[1]]);
    // A thread that is ready to run is not idle.
    made.sample(1, State::Blocked, &["libcoreclr.so+0x2|libcoreclr.so", "[waiting for a CPU]"]);
    made.sample(100, State::Running, &["Shop.Get()|Shop.dll|5", &enter]);
    let rows: Vec<(Option<u32>, Wait, u64)> = made
        .times()
        .blocked
        .iter()
        .map(|row| (row.frame.and_then(|frame| made.profile.frame_at(frame).line), row.wait, row.weight))
        .collect();
    let expected = [
        (Some(4), Wait::Task, 10),
        (Some(5), Wait::Lock, 8),
        (Some(6), Wait::Sleep, 7),
        (Some(7), Wait::Io, 6),
        (Some(8), Wait::Cpu, 5),
        (None, Wait::IdlePool, 4),
        (Some(9), Wait::Runtime, 4),
        (None, Wait::IdleRuntime, 2),
        (None, Wait::Cpu, 1),
    ];
    assert_eq!(rows, expected);
    let times = made.times();
    assert_eq!((times.idle, times.idle_threads, times.busy()), (6, 1, 141));
}

#[test]
fn patterns_of_assemblies_replace_the_rule_and_dynamic_methods_belong_to_none() {
    let mut made = Made::new();
    let frames = [
        "Shop.Main()|Shop.Web.dll",
        "Npgsql.Read()|Npgsql.dll",
        "System.Linq.Run()|System.Linq.dll",
        "lambda_method3(Closure)",
    ];
    let frames = frames.map(|frame| made.frame(frame));
    let includes = |patterns: &[&str]| {
        let rule = ApplicationRule { assemblies: patterns.iter().map(|&pattern| pattern.to_owned()).collect() };
        frames.map(|frame| rule.includes(&made.profile, made.profile.frame_at(frame)))
    };
    assert_eq!(includes(&[]), [true, true, false, false]);
    assert_eq!(includes(&["Shop.*"]), [true, false, false, false]);
    assert_eq!(includes(&["shop.web"]), [true, false, false, false]);
    assert_eq!(includes(&["shop"]), [false; 4]);
    assert_eq!(includes(&["*sql", "System.L*q"]), [false, true, true, false]);
    assert_eq!(includes(&["*"]), [true, true, true, false]);
    assert_eq!(includes(&["Shop*Web*Web"]), [false; 4], "no part counts twice");
    let frame = made.frame(&format!("Shop.Main()|Shop.{}.dll", "n".repeat(300)));
    let rule = ApplicationRule { assemblies: vec!["Shop.*".to_owned()] };
    assert!(!rule.includes(&made.profile, made.profile.frame_at(frame)), "no file has such a name");
}

const DISPATCH: &str = "System.Threading.ThreadPoolWorkQueue.Dispatch()|System.Private.CoreLib.dll";

impl Made {
    /// Another thread of the pool: all following samples are its.
    fn another(&mut self, id: u32) {
        self.thread = self.profile.add_thread(Thread { id, name: ".NET TP Worker".into() });
    }

    /// The problems: code, method, threads, extent in percent.
    fn problems(&self) -> Vec<(&'static str, &str, usize, u64)> {
        let found = Finding::all(&self.profile, &self.times());
        let row = |finding: Finding| {
            let method = finding.frame.map(|frame| self.name(frame)).unwrap_or_default();
            (finding.problem.code(), method, finding.threads, (finding.extent * 100.0).round() as u64)
        };
        found.into_iter().map(row).collect()
    }
}

#[test]
fn tasks_and_locks_that_pool_threads_wait_for_are_known_problems_from_a_part_of_their_time_on() {
    let task = format!("System.Threading.Tasks.Task.InternalWaitCore()|{CORE}");
    let idle = ["libcoreclr.so+0x1|libcoreclr.so", "pthread_cond_wait|libc.so.6"];
    let made = |waiting: u64, idling: u64| {
        let mut made = Made::new();
        made.profile.meta.duration = 100;
        for id in [1, 2] {
            made.another(id);
            made.sample(waiting, State::Blocked, &[DISPATCH, "Shop.Price()|Shop.dll|7", &task]);
            made.sample(idling, State::Blocked, &idle);
        }
        made.problems().iter().map(|(code, ..)| *code).collect::<Vec<_>>()
    };
    assert_eq!(made(95, 5), ["pool-starvation", "sync-over-async"]);
    assert_eq!(made(80, 20), ["sync-over-async"]);
    assert_eq!(made(10, 90), ["sync-over-async"]);
    assert_eq!(made(9, 91), [] as [&str; 0]);

    // Threads of their own may wait for tasks: they are no part of the pool's time.
    let mut beside = Made::new();
    for id in [1, 2] {
        beside.another(id);
        beside.sample(50, State::Blocked, &[DISPATCH, "Shop.Price()|Shop.dll|7", &task]);
        beside.sample(50, State::Blocked, &idle);
    }
    beside.another(3);
    beside.sample(900, State::Blocked, &["Shop.Price()|Shop.dll|7", &task]);
    assert_eq!(beside.problems(), [("sync-over-async", "Shop.Price()", 2, 50)]);

    // Consumers of a queue that wait for work are no starvation, unless the pool grows.
    let queue = format!("System.Collections.Concurrent.BlockingCollection`1.Take()|{CORE}");
    let mut consumers = Made::new();
    consumers.profile.meta.duration = 100;
    for id in [1, 2] {
        consumers.another(id);
        consumers.sample(100, State::Blocked, &[DISPATCH, "Shop.Consume()|Shop.dll|7", &queue]);
    }
    assert_eq!(consumers.problems(), []);
    consumers.another(3);
    consumers.sample_at(50, 50, State::Blocked, &[DISPATCH, "Shop.Consume()|Shop.dll|7", &queue]);
    assert_eq!(consumers.problems(), [("pool-starvation", "Shop.Consume()", 3, 100)]);

    // The threads of a parallel loop wait for each other, and not for a task that could be awaited.
    let mut parallel = Made::new();
    let each = format!("System.Threading.Tasks.Parallel.ForEach()|{CORE}");
    for id in [1, 2] {
        parallel.another(id);
        parallel.sample(50, State::Blocked, &[DISPATCH, "Shop.All()|Shop.dll|7", &each, &task]);
        parallel.sample(50, State::Running, &[DISPATCH, "Shop.All()|Shop.dll|7"]);
    }
    assert_eq!(parallel.problems(), []);

    let mut convoy = Made::new();
    convoy.profile.meta.duration = 100;
    convoy.sample(90, State::Running, &[DISPATCH, "Shop.Reserve()|Shop.dll|9"]);
    for id in [1, 2, 3] {
        convoy.another(id);
        convoy.sample(60, State::Blocked, &[DISPATCH, "Shop.Reserve()|Shop.dll|8", "[lock wait]"]);
        convoy.sample(40, State::Running, &[DISPATCH, "Shop.Other()|Shop.dll|30"]);
    }
    assert_eq!(convoy.problems(), [("lock-convoy", "Shop.Reserve()", 3, 180)]);
    convoy.profile.meta.duration = 400;
    assert_eq!(convoy.problems(), []);
}

#[test]
fn threads_that_spin_are_a_known_problem_in_the_application_and_in_the_idle_pool() {
    let wait = format!("System.Threading.SpinWait.SpinOnce(int)|{CORE}");
    let worker = format!("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()|{CORE}");
    let of_the_runtime = ["libcoreclr.so+0x1|libcoreclr.so", "sched_yield|libc.so.6"];
    let stacks: [(&[&str], Option<&str>); 3] = [
        (&["Shop.Poll()|Shop.dll|3", &wait], Some("Shop.Poll()")),
        (&[&worker, "sched_yield|libc.so.6"], Some("")),
        // A GC thread, for one: nobody knows why it spins.
        (&of_the_runtime, None),
    ];
    for (stack, method) in stacks {
        let mut made = Made::new();
        made.profile.meta.duration = 100;
        made.sample(30, State::Running, stack);
        made.sample(70, State::Running, &["Shop.Work()|Shop.dll|4"]);
        let expected: Vec<_> = method.map(|method| ("spinning", method, 0, 30)).into_iter().collect();
        assert_eq!(made.problems(), expected);
        // Hardly any CPU.
        made.profile.meta.duration = 1000;
        assert_eq!(made.problems(), []);
    }
}

#[test]
fn cpu_time_that_goes_to_exceptions_or_collections_is_a_known_problem() {
    let throws = format!("System.Runtime.EH.RhThrowEx(object, ref EH.ExInfo)|{CORE}");
    let allocates = format!("System.GC.AllocateUninitializedArray<T>(int, bool)|{CORE}");
    let stacks: [(&[&str], &str, &str); 5] = [
        (&["Shop.Parse()|Shop.dll|3", "[exception: unwind]"], "exceptions", "Shop.Parse()"),
        (&["Shop.Parse()|Shop.dll|3", &throws, "libcoreclr.so+0x1|libcoreclr.so"], "exceptions", "Shop.Parse()"),
        (&["Shop.Parse()|Shop.dll|3", "_Unwind_RaiseException|libgcc_s.so.1"], "exceptions", "Shop.Parse()"),
        (&["Shop.Add()|Shop.dll|5", &allocates, "[GC]"], "garbage-collection", "Shop.Add()"),
        (&["clone3|libc.so.6", "[GC]"], "garbage-collection", ""),
    ];
    for (stack, problem, method) in stacks {
        let mut made = Made::new();
        made.profile.meta.duration = 100;
        made.sample(6, State::Running, stack);
        made.sample(4, State::Running, &[&["Shop.Other()|Shop.dll|9"], &stack[1..]].concat());
        made.sample(90, State::Running, &["Shop.Work()|Shop.dll|4"]);
        assert_eq!(made.problems(), [(problem, method, 0, 10)], "{stack:?}");
        made.sample(1, State::Running, &["Shop.Work()|Shop.dll|4"]);
        assert_eq!(made.problems(), [], "{stack:?}");
    }
}

#[test]
fn threads_that_are_ready_to_run_and_get_no_cpu_are_a_known_problem() {
    let mut made = Made::new();
    made.profile.meta.duration = 100;
    made.sample(70, State::Running, &["Shop.Work()|Shop.dll|4"]);
    made.sample(30, State::Blocked, &["Shop.Work()|Shop.dll|4", "[waiting for a CPU]"]);
    assert_eq!(made.problems(), [("cpu-shortage", "", 1, 30)]);
    // Threads that hardly run lose little.
    made.sample(200, State::Blocked, &["Shop.Ask()|Shop.dll|6", &format!("System.IO.Stream.Read()|{CORE}")]);
    assert_eq!(made.problems(), [("cpu-shortage", "", 1, 30)]);
    made.sample(1, State::Blocked, &["Shop.Ask()|Shop.dll|6", &format!("System.IO.Stream.Read()|{CORE}")]);
    assert_eq!(made.problems(), []);
}
