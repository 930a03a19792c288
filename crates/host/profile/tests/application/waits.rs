//! Waits, and the problems that they show.

use crate::made::{CORE, DISPATCH, Made};
use remora_profile::{Finding, State, Wait};

#[test]
fn waits_at_many_places_are_one_problem_with_the_largest_places_as_evidence() {
    let task = format!("System.Threading.Tasks.Task.InternalWaitCore()|{CORE}");
    let enter = format!("System.Threading.Monitor.Enter(object)|{CORE}");
    let found = |wait: &str, weights: &[u64]| {
        let mut made = Made::new();
        made.profile.meta.duration = 100;
        for (at, weight) in weights.iter().enumerate() {
            made.another(at as u32);
            made.sample(*weight, State::Blocked, &[DISPATCH, &format!("Shop.Get{at}()|Shop.dll|{at}"), wait]);
            made.sample(100 - weight, State::Running, &[DISPATCH, "Shop.Work()|Shop.dll|9"]);
        }
        let times = made.times();
        let finding = Finding::all(&made.profile, &times).into_iter().next();
        finding.map(|finding| {
            let places = finding.places.iter();
            let places = places.map(|place| (made.name(place.frame.expect("a method")).to_owned(), place.weight));
            let extent = (finding.extent * 100.0).round() as u64;
            (finding.problem.code(), finding.threads, finding.weight, extent, finding.place_count, places.collect())
        })
    };
    let places = |places: &[(&str, u64)]| -> Vec<(String, u64)> {
        places.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()
    };
    // Each place has a twentieth of the pool's time, or a tenth of a thread.
    let equal = [10; 20];
    let of_equal = places(&[("Shop.Get0()", 10), ("Shop.Get1()", 10), ("Shop.Get2()", 10)]);
    assert_eq!(found(&task, &equal), Some(("sync-over-async", 20, 200, 10, 20, of_equal.clone())));
    assert_eq!(found(&enter, &equal), Some(("lock-convoy", 20, 200, 200, 20, of_equal)));
    assert_eq!(found(&task, &[9; 20]), None);
    assert_eq!(found(&enter, &[9; 5]), None);
    // Places with little of it are no evidence.
    let most = places(&[("Shop.Get1()", 80), ("Shop.Get2()", 20)]);
    assert_eq!(found(&enter, &[19, 80, 20, 1]), Some(("lock-convoy", 4, 120, 120, 4, most)));
}

#[test]
fn a_wait_is_for_a_task_only_below_frames_that_block_and_other_waits_have_their_own_kinds() {
    let core = |name: &str| format!("{name}|{CORE}");
    let event = "System.Threading.ManualResetEventSlim.Wait(int, CancellationToken)";
    let monitor = "System.Threading.Monitor.Wait(object, int)";
    let queue = "System.Collections.Concurrent.BlockingCollection";
    let slim = "System.Threading.SemaphoreSlim.WaitUntilCountOrTimeout(int, uint, CancellationToken)";
    let cases: [(&[&str], Wait); 28] = [
        (&["System.Threading.Tasks.Task.Wait(int, CancellationToken)"], Wait::Task),
        (&["System.Threading.Tasks.Task.WaitAll(Task[])"], Wait::Task),
        (&["System.Threading.Tasks.Task.WaitAnyCore(Task[], int, CancellationToken)"], Wait::Task),
        (&["System.Threading.Tasks.Task.SpinThenBlockingWait(int, CancellationToken)", event], Wait::Task),
        (&["System.Threading.Tasks.Task<System.Int32>.GetResultCore(bool)", event, monitor], Wait::Task),
        (&["System.Runtime.CompilerServices.TaskAwaiter<(int, N.A)>.GetResult()", event], Wait::Task),
        (
            &["System.Runtime.CompilerServices.ConfiguredTaskAwaitable.ConfiguredTaskAwaiter.GetResult()", event],
            Wait::Task,
        ),
        // These start a task, end one, or throw.
        (&["System.Threading.Tasks.Task.Run(Action)"], Wait::Runtime),
        (&["System.Threading.Tasks.Task.WaitAsync(TimeSpan)"], Wait::Runtime),
        (&["System.Threading.Tasks.Task.DelayPromise..ctor(uint, TimeProvider)"], Wait::Runtime),
        (&["System.Threading.Tasks.Task<TResult>.TrySetResult(TResult)"], Wait::Runtime),
        (&["System.Threading.Tasks.TaskFactory.StartNew(Action)"], Wait::Runtime),
        (&["System.Runtime.CompilerServices.TaskAwaiter.HandleNonSuccessAndDebuggerNotification(Task)"], Wait::Runtime),
        (&["System.Threading.Tasks.ValueTask.GetAwaiter()"], Wait::Runtime),
        // A task that runs, whoever waits for it: its code waits for an event.
        (
            &[
                "System.Threading.Tasks.Task<TResult>.GetResultCore(bool)",
                "System.Threading.Tasks.Task.InternalWaitCore(int, CancellationToken)",
                "System.Threading.Tasks.Task.ExecuteWithThreadLocal(ref Task, Thread)",
                event,
            ],
            Wait::Event,
        ),
        (&["System.Threading.Tasks.Task<TResult>.InnerInvoke()"], Wait::Runtime),
        (&[&format!("{queue}<T>.Take()"), slim, monitor], Wait::QueueEmpty),
        (&[&format!("{queue}<(int, A.B)>.TryTakeWithNoTimeValidation(ref T, int)"), slim], Wait::QueueEmpty),
        (&[&format!("{queue}`1.GetConsumingEnumerable(CancellationToken)"), slim], Wait::QueueEmpty),
        (&[&format!("{queue}<T>.TryAddWithNoTimeValidation(T, int)"), slim, monitor], Wait::QueueFull),
        (&["System.Threading.SemaphoreSlim.Wait(int, CancellationToken)", slim, monitor], Wait::Semaphore),
        (&["System.Threading.SemaphoreSlim.Release(int)"], Wait::Runtime),
        (&["System.Threading.SemaphoreSlim.Wait(int)", "System.Threading.Monitor.Enter(object)"], Wait::Lock),
        (&["System.Threading.CountdownEvent.Wait()", event], Wait::Event),
        (&["System.Threading.Barrier.SignalAndWait(int, CancellationToken)", event], Wait::Barrier),
        (&["System.Threading.ReaderWriterLockSlim.TryEnterReadLock(int)", "[lock wait]"], Wait::RwLock),
        (&["System.Threading.WaitHandle.WaitOneNoCheck(int)"], Wait::Event),
        (&["System.Threading.ManualResetEventSlim.Set()"], Wait::Runtime),
    ];
    for (stack, wait) in cases {
        let mut made = Made::new();
        let frames: Vec<String> =
            stack.iter().map(|name| if name.starts_with('[') { (*name).to_owned() } else { core(name) }).collect();
        let frames = ["Shop.Get()|Shop.dll|4"].into_iter().chain(frames.iter().map(String::as_str));
        let frames: Vec<&str> = frames.chain(["__futex_abstimed_wait_common|libc.so.6"]).collect();
        made.sample(1, State::Blocked, &frames);
        assert_eq!(made.times().blocked[0].wait, wait, "{stack:?}");
    }
}

#[test]
fn threads_that_wait_for_a_reader_writer_lock_are_a_convoy_of_their_own() {
    let mut made = Made::new();
    made.profile.meta.duration = 100;
    let reads = format!("System.Threading.ReaderWriterLockSlim.EnterReadLock()|{CORE}");
    for id in [1, 2] {
        made.another(id);
        made.sample(70, State::Blocked, &["Shop.Read()|Shop.dll|4", &reads]);
        made.sample(25, State::Blocked, &["Shop.Count()|Shop.dll|5", "[lock wait]"]);
    }
    assert_eq!(made.problems(), [("lock-convoy", "Shop.Count()", 2, 50), ("lock-convoy", "Shop.Read()", 2, 140)]);
}
