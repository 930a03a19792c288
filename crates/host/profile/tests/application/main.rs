//! Time by application method, on stacks like those of real programs.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_profile::{ApplicationRule, Cost, Entry, Finding, Frame, FrameKind, State, Wait};

mod idle;
mod made;
mod waits;

use made::{CORE, DISPATCH, Made};

const KESTREL: &str = "Microsoft.AspNetCore.Server.Kestrel.Core.dll";

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
fn a_stack_without_its_outer_frames_has_no_entry_point_unless_it_shows_where_the_thread_begins() {
    let core = |name: &str| format!("{name}|{CORE}");
    let kestrel = format!("Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol.Start()|{KESTREL}");
    let start = core("System.Threading.Thread.StartCallback()");
    let worker = core("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()");
    let service = "Microsoft.Extensions.Hosting.BackgroundService.StartAsync()|Microsoft.Extensions.Hosting.dll";
    let (outer, inner) = ("Shop.Work()|Shop.dll|3", "Shop.Price()|Shop.dll|5");
    let main = "Shop.Main(string[])|Shop.dll|1";
    for mark in ["[truncated]", "[incomplete stack]"] {
        let cases: [(&[&str], Entry, &str); 7] = [
            (&[mark, outer, inner], Entry::Unknown, mark),
            (&[mark, "poll|libc.so.6", &core("System.Array.Sort()"), outer, inner], Entry::Unknown, mark),
            // An application method between the requests of the framework may be missing.
            (&[mark, &kestrel, outer, inner], Entry::Unknown, mark),
            (&[mark, &worker, &kestrel, outer, inner], Entry::Request, "Shop.Work()"),
            (&[mark, &start, outer, inner], Entry::Thread, "Shop.Work()"),
            (&[mark, main, outer, inner], Entry::Thread, "Shop.Main(string[])"),
            (&[mark, service, outer, inner], Entry::HostedService, "Shop.Work()"),
        ];
        for (stack, entry, outermost) in cases {
            let mut made = Made::new();
            made.sample(1, State::Running, stack);
            let times = made.times();
            let point = &times.entry_points[0];
            assert_eq!((point.entry, made.name(point.frame)), (entry, outermost), "{stack:?}");
            assert_eq!(made.name(times.methods[0].frame), "Shop.Price()", "the nearest method is known");
        }
    }
    // Without an application method, the mark is not the work.
    let mut made = Made::new();
    made.sample(1, State::Running, &["[incomplete stack]", "libssl.so+0x1|libssl.so"]);
    let times = made.times();
    assert_eq!((times.entry_points.len(), made.name(times.outside[0].frame)), (0, "libssl.so+0x1"));
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
    // The semaphore is inlined.
    made.sample(1, State::Blocked, &[&worker, "[runtime]", ready[0], ready[1]]);
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
        (None, Wait::IdlePool, 5),
        (Some(8), Wait::Cpu, 5),
        (Some(9), Wait::Runtime, 4),
        (None, Wait::IdleRuntime, 2),
        (None, Wait::Cpu, 1),
    ];
    assert_eq!(rows, expected);
    let times = made.times();
    assert_eq!((times.idle, times.idle_threads, times.busy()), (7, 1, 141));
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
    let generated =
        ["lambda_method1|RefEmit_InMemoryManifestModule", "Proxies.Cart.Add()|RefEmit_InMemoryManifestModule"];
    let generated = generated.map(|name| {
        let (name, module) = name.split_once('|').unwrap();
        let (name, module) = (made.profile.string(name), Some(made.profile.string(module)));
        Frame { kind: FrameKind::Managed, name, module, file: None, line: None }
    });
    let rule = ApplicationRule::default();
    assert_eq!(generated.map(|frame| rule.includes(&made.profile, &frame)), [false, true]);
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
    let yields = format!("System.Threading.Thread.Yield()|{CORE}");
    let sleeps = format!("System.Threading.Thread.Sleep(int)|{CORE}");
    let awaits = format!(
        "System.Runtime.CompilerServices.YieldAwaitable.YieldAwaiter.IStateMachineBoxAwareAwaiter.AwaitUnsafeOnCompleted(IAsyncStateMachineBox)|{CORE}"
    );
    let worker = format!("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()|{CORE}");
    let of_the_runtime = ["libcoreclr.so+0x1|libcoreclr.so", "sched_yield|libc.so.6"];
    let stacks: [(&[&str], Option<&str>); 6] = [
        (&["Shop.Poll()|Shop.dll|3", &wait], Some("Shop.Poll()")),
        (&["Shop.Poll()|Shop.dll|3", &yields, "[runtime]"], Some("Shop.Poll()")),
        (&["Shop.Poll()|Shop.dll|3", &sleeps, "[runtime]", "sched_yield|libc.so.6"], Some("Shop.Poll()")),
        (&["Shop.Poll()|Shop.dll|3", &awaits], Some("Shop.Poll()")),
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
        // Threads of the GC collect, and the stacks of others show who allocates.
        (&["clone3|libc.so.6", "[GC]"], "garbage-collection", "Shop.Other()"),
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
fn threads_that_are_ready_to_run_and_get_no_cpu_are_a_known_problem_if_half_a_thread_lacks_one() {
    let mut made = Made::new();
    made.profile.meta.duration = 60;
    made.sample(70, State::Running, &["Shop.Work()|Shop.dll|4"]);
    made.sample(30, State::Blocked, &["Shop.Work()|Shop.dll|4", "[waiting for a CPU]"]);
    assert_eq!(made.problems(), [("cpu-shortage", "Shop.Work()", 1, 30)]);
    // A service that is nearly idle loses little.
    made.profile.meta.duration = 61;
    assert_eq!(made.problems(), []);
    made.profile.meta.duration = 60;
    // Threads that hardly run lose little.
    made.sample(200, State::Blocked, &["Shop.Ask()|Shop.dll|6", &format!("System.IO.Stream.Read()|{CORE}")]);
    assert_eq!(made.problems(), [("cpu-shortage", "Shop.Work()", 1, 30)]);
    made.sample(1, State::Blocked, &["Shop.Ask()|Shop.dll|6", &format!("System.IO.Stream.Read()|{CORE}")]);
    assert_eq!(made.problems(), []);
}

/// The frames of a parallel loop whose body the JIT inlined into the framework.
fn parallel(made: &mut Made, weight: u64, state: State, below: &[&str]) {
    let core = |name: &str| format!("{name}|{CORE}");
    let frames = [
        "clone3|libc.so.6".to_owned(),
        "[thread start]".to_owned(),
        core("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart()"),
        DISPATCH.to_owned(),
        core("System.Threading.Tasks.Task.ExecuteWithThreadLocal(ref Task, Thread)"),
        core("System.Threading.ExecutionContext.RunFromThreadPoolDispatchLoop(Thread, ExecutionContext)"),
        core("System.Threading.Tasks.TaskReplicator.Replica.Execute()"),
        core("System.Threading.Tasks.Parallel.ForWorker<TLocal, int>.lambda#1(ref RangeWorker, long, out bool)"),
    ];
    let frames: Vec<&str> = frames.iter().map(String::as_str).chain(below.iter().copied()).collect();
    made.sample(weight, state, &frames);
}

#[test]
fn a_wait_for_a_lock_is_never_idle_and_a_convoy_needs_no_application_method() {
    const BODY: &str =
        "System.Threading.Tasks.Parallel.ForWorker<TLocal, int>.lambda#1(ref RangeWorker, long, out bool)";
    let core = |name: &str| format!("{name}|{CORE}");
    let enter = core("System.Threading.Monitor.Enter_Slowpath(object)");
    let dictionary =
        core("System.Collections.Concurrent.ConcurrentDictionary<TKey, decimal>.AddOrUpdate(TKey, decimal)");
    let futex = "__futex_abstimed_wait_common|libc.so.6";
    let mut made = Made::new();
    made.profile.meta.duration = 100;
    for id in [1, 2] {
        made.another(id);
        parallel(&mut made, 60, State::Blocked, &[&enter, "[lock wait]", futex]);
        parallel(&mut made, 5, State::Blocked, &[&dictionary, &enter, "[lock wait]", futex]);
        parallel(&mut made, 10, State::Blocked, &["[waiting for a CPU]"]);
        parallel(
            &mut made,
            20,
            State::Running,
            &[&core("System.SpanHelpers.SequenceEqual(ref byte, ref byte, nuint)")],
        );
        parallel(&mut made, 5, State::Blocked, &[futex]);
    }
    // The same lock, on the thread that started the loop: neither its wait for the others nor that for the task counts.
    made.another(3);
    let begin =
        ["Shop.Main()|Shop.dll|2".to_owned(), core("System.Threading.Tasks.Parallel.ForWorker<TLocal, int>(int)")];
    let inner = [
        core("System.Threading.Tasks.Task.InternalRunSynchronously(TaskScheduler, bool)"),
        core("System.Threading.Tasks.Task.ExecuteWithThreadLocal(ref Task, Thread)"),
        core("System.Threading.Tasks.TaskReplicator.Replica.Execute()"),
        core(BODY),
    ];
    let frames: Vec<&str> =
        begin.iter().chain(&inner).map(String::as_str).chain([&enter[..], "[lock wait]", futex]).collect();
    made.sample(40, State::Blocked, &frames);
    let times = made.times();
    let rows: Vec<_> = times
        .blocked
        .iter()
        .map(|row| {
            (row.frame.map(|at| made.name(at)), row.via.map(|at| made.name(at)), row.wait, row.is_idle, row.weight)
        })
        .collect();
    let expected = [
        (None, Some(BODY), Wait::Lock, false, 130),
        (Some("Shop.Main()"), None, Wait::Lock, false, 40),
        (None, Some(BODY), Wait::Cpu, false, 20),
        (None, None, Wait::IdleRuntime, true, 10),
    ];
    assert_eq!(rows, expected);
    assert_eq!((times.idle, times.busy()), (10, 230));
    let outside: Vec<_> = times.outside.iter().map(|callee| (made.name(callee.frame), callee.weight)).collect();
    assert_eq!(outside, [(BODY, 190)], "the same work, whatever it calls");
    let blocked: u64 = times.blocked.iter().map(|row| row.weight).sum();
    assert_eq!(blocked + times.running, made.profile.total_weight());
    assert_eq!(made.problems(), [("lock-convoy", "", 3, 170)]);
    let finding = &Finding::all(&made.profile, &times)[0];
    assert_eq!(finding.callee.map(|frame| made.name(frame)), Some(BODY));
}

#[test]
fn the_main_thread_that_waits_for_the_end_of_the_program_is_idle() {
    let core = |name: &str| format!("{name}|{CORE}");
    let run = "Microsoft.Extensions.Hosting.HostingAbstractionsHostExtensions.Run(IHost)|Microsoft.Extensions.Hosting.Abstractions.dll";
    let awaiter = core("System.Runtime.CompilerServices.TaskAwaiter.HandleNonSuccessAndDebuggerNotification(Task)");
    let task = core("System.Threading.Tasks.Task.InternalWaitCore(int, CancellationToken)");
    let start = "Microsoft.Extensions.Hosting.Internal.Host.StartAsync()|Microsoft.Extensions.Hosting.dll";
    let main = "Program.Main(string[])|Shop.dll|7";
    // The compiler makes this one for an async `Main`: it has no line, and other methods of the assembly have some.
    let made_by_compiler = "Program.Main(string[])|Shop.dll";
    let other = "Shop.Load()|Shop.dll|9";
    let cases: [(&[&str], bool); 8] = [
        (&[main, run, &awaiter, &task, "futex|libc.so.6"], true),
        (&[made_by_compiler, &awaiter, &task, "futex|libc.so.6"], true),
        (&["Program.Main()|Shop.dll", &task], true),
        // What the host starts waits, too.
        (&[main, run, start, &task], false),
        (&[main, run, start, other, &task], false),
        (&[main, &awaiter, &task], false),
        (&["Shop.Load()|Shop.dll", &task], false),
        // An idle program has no other method on any stack, and a program without a PDB no lines.
        (&["Program.Main(string[])|Bare.dll", &task], true),
    ];
    for (stack, is_idle) in cases {
        let mut made = Made::new();
        made.sample(1, State::Running, &[other]);
        made.sample(8, State::Blocked, stack);
        made.sample(2, State::Running, stack);
        let times = made.times();
        let idle = if is_idle { 8 } else { 0 };
        assert_eq!((times.idle, times.busy()), (idle, 11 - idle), "{stack:?}");
        let entries: u64 = times.entry_points.iter().map(|point| point.weight).sum();
        assert_eq!(entries, 11 - idle, "{stack:?}");
        let row = &times.blocked[0];
        assert_eq!((row.frame.is_none(), row.wait == Wait::IdleMain), (is_idle, is_idle), "{stack:?}");
    }
}

#[test]
fn one_call_that_compiles_methods_again_and_again_is_a_known_problem() {
    let regex = "System.Text.RegularExpressions.Regex.IsMatch(string)|System.Text.RegularExpressions.dll";
    let made = |late: u64, of_others: u64| {
        let mut made = Made::new();
        made.profile.meta.duration = 100;
        made.sample_at(10, 10, State::Running, &["Shop.Find()|Shop.dll|3", regex, "[JIT]"]);
        made.sample_at(90, late, State::Running, &["Shop.Find()|Shop.dll|3", regex, "[JIT]"]);
        made.sample_at(90, 2, State::Running, &["Shop.Find()|Shop.dll|3", regex]);
        made.sample_at(90, of_others, State::Running, &["clone3|libc.so.6", "[JIT]"]);
        made.sample_at(90, 50, State::Running, &["Shop.Work()|Shop.dll|4"]);
        made
    };
    let steady = made(10, 20);
    assert_eq!(steady.problems(), [("jit", "Shop.Find()", 0, 43)]);
    let finding = &Finding::all(&steady.profile, &steady.times())[0];
    assert_eq!(
        finding.callee.map(|frame| steady.name(frame)),
        Some("System.Text.RegularExpressions.Regex.IsMatch(string)")
    );
    let times = steady.times();
    let find = times.methods.iter().find(|method| steady.name(method.frame) == "Shop.Find()").unwrap();
    assert_eq!((find.callees[0].weight, find.callees[0].cost), (22, Some((Cost::Jit, 20))));
    assert_eq!(made(4, 14).problems(), [], "a program that starts compiles less and less");
    assert_eq!(made(10, 21).problems(), [], "many methods compile, or the background does");
}

#[test]
fn without_a_stack_that_collects_the_method_with_most_time_in_the_runtime_allocates() {
    let mut made = Made::new();
    made.profile.meta.duration = 100;
    made.sample(50, State::Running, &["clone3|libc.so.6", "[GC]"]);
    made.sample(4, State::Running, &["Shop.Keep()|Shop.dll|3", "[runtime]", "memset|libc.so.6"]);
    made.sample(46, State::Running, &["Shop.Work()|Shop.dll|4"]);
    assert_eq!(made.problems(), [("garbage-collection", "", 0, 50)]);
    made.sample(1, State::Running, &["Shop.Keep()|Shop.dll|3", "[runtime]", "memset|libc.so.6"]);
    assert_eq!(made.problems(), [("garbage-collection", "Shop.Keep()", 0, 50)]);
    let frame = made.profile.frame_at(Finding::all(&made.profile, &made.times())[0].frame.unwrap());
    assert_eq!(frame.line, Some(3));
    made.sample(1, State::Running, &["Shop.Keep()|Shop.dll|3", "[runtime]", "memset|libc.so.6"]);
    made.sample(5, State::Running, &["Shop.Text()|Shop.dll|9", "[allocation]", "[GC]"]);
    assert_eq!(made.problems(), [("garbage-collection", "Shop.Keep()", 0, 51)], "less than a tenth of the GC");
    made.sample(2, State::Running, &["Shop.Text()|Shop.dll|9", "[allocation]"]);
    assert_eq!(made.problems(), [("garbage-collection", "Shop.Text()", 0, 50)]);
}
