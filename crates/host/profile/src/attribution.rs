//! The application's part in a stack: whose time it is, what started it, and what it waits for.

use crate::runtime_names::{RUNTIME, THREAD_START, is_cut, is_of_runtime};
use crate::{ApplicationRule, Cost, Frame, FrameIx, FrameKind, Profile, Wait};
use strum::IntoStaticStr;

/// What starts the work of a thread: what calls the outermost application method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Entry {
    /// A thread of its own, among them the main thread.
    #[default]
    Thread,
    /// A thread of the pool: a task, or the continuation of an async method.
    Pool,
    /// A timer.
    Timer,
    /// A hosted service, at its start.
    HostedService,
    /// A request of ASP.NET Core.
    Request,
    /// The outer frames of the stack are missing.
    Unknown,
}

impl Entry {
    /// Its name in reports: `request`, `hosted-service`.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// The application's part in a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Attribution {
    /// A frame of the application method nearest to the leaf.
    pub nearest: Option<FrameIx>,
    /// The frame that it calls, outside of the application.
    pub callee: Option<FrameIx>,
    /// Without an application method: the frame of the work itself, behind those that only start it.
    pub via: Option<FrameIx>,
    /// A frame of the outermost application method, or the mark of missing outer frames.
    pub outermost: Option<FrameIx>,
    /// What calls that one.
    pub entry: Entry,
    /// The first cost that a frame between `nearest` and the leaf shows.
    pub cost: Option<Cost>,
    /// Whether a thread of the pool runs it.
    pub is_of_pool: bool,
    /// The mark of missing outer frames, until a frame shows where the thread begins.
    cut: Option<FrameIx>,
    /// What the frames between `nearest` and the leaf wait for.
    known_wait: Option<Wait>,
    /// Whether one of them asks for the result of a task.
    asks_for_result: bool,
    /// Whether the host that starts services is among the callers, up to the next application method.
    starts_service: bool,
    /// Whether `nearest` waits for the end of the program, if it waits for a task.
    waits_for_end: bool,
    /// Whether it runs work of the pool.
    dispatches: bool,
    /// Whether `via` only starts work.
    is_start: bool,
}

/// What is known of each frame, by its name and module.
#[derive(Clone, Copy)]
struct Facts {
    is_application: bool,
    wait: Option<Wait>,
    asks_for_result: bool,
    cost: Option<Cost>,
    entry: Entry,
    is_of_pool: bool,
    dispatches: bool,
    resumes: bool,
    starts_service: bool,
    runs_host: bool,
    is_main: bool,
    /// Whether outer frames are missing.
    is_cut: bool,
    /// Whether no application method is among its callers.
    begins: bool,
    /// Whether it runs code given to it, whatever its callers wait for.
    runs_code: bool,
    start: Start,
}

/// Whether a frame only starts the work that frames below it do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// It is work.
    Work,
    /// Native code, the runtime's, or a mark: it can be both.
    Native,
    /// It runs code given to it: a delegate, a continuation, an item of the pool.
    Runner,
}

impl Facts {
    fn of(profile: &Profile, rule: &ApplicationRule, frame: &Frame) -> Facts {
        let name = profile.text(frame.name);
        let is_any = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        let is_any_end = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let is_runner = is_any(&RUNNERS) || [STATE_MACHINE, INVOKE].iter().any(|part| name.contains(part));
        // The compiler makes the `Main` that waits for an async one, and gives it no line. Without a PDB no method has one: a written `Main`
        // that waits for a task has usually nothing else to do, either.
        let is_main = frame.line.is_none() && is_any_end(&MAIN);
        Facts {
            is_application: rule.includes(profile, frame),
            wait: Wait::of(profile, frame),
            asks_for_result: Wait::is_asked_for_result(profile, frame),
            cost: Cost::of(profile, frame),
            entry: entry(profile, frame),
            is_of_pool: is_any(&POOL),
            dispatches: name.starts_with(DISPATCH),
            resumes: name.contains(STATE_MACHINE),
            starts_service: is_any(&SERVICES),
            runs_host: is_any(&HOST),
            is_main,
            is_cut: frame.kind == FrameKind::Synthetic && is_cut(name),
            begins: is_any(&POOL) || is_any(&THREAD) || is_any_end(&MAIN) || is_any_end(&STATEMENTS),
            runs_code: is_runner || (name.starts_with(PARALLEL) && name.contains(LAMBDA)),
            start: match frame.kind {
                FrameKind::Managed if is_runner => Start::Runner,
                FrameKind::Managed => Start::Work,
                FrameKind::Synthetic if is_of_runtime(name) && ![RUNTIME, THREAD_START].contains(&name) => Start::Work,
                _ => Start::Native,
            },
        }
    }
}

impl Attribution {
    /// The attributions of all stacks of `profile`, in index order.
    pub fn of_stacks(profile: &Profile, rule: &ApplicationRule) -> Vec<Attribution> {
        let facts: Vec<Facts> = profile.frames().iter().map(|frame| Facts::of(profile, rule, frame)).collect();
        let mut known: Vec<Attribution> = Vec::with_capacity(profile.stacks().len());
        for stack in profile.stacks() {
            let parent = stack.parent.and_then(|parent| known.get(parent.0 as usize)).copied().unwrap_or_default();
            known.push(parent.below(stack.frame, facts[stack.frame.0 as usize]));
        }
        known
    }

    /// That of the stack with one more frame.
    fn below(self, frame: FrameIx, facts: Facts) -> Attribution {
        if facts.is_cut {
            return Attribution { cut: Some(frame), ..Attribution::default() };
        }
        let is_of_pool = self.is_of_pool || facts.is_of_pool;
        let dispatches = self.dispatches || facts.dispatches;
        let cut = self.cut.filter(|_| !facts.begins);
        if facts.is_application {
            // `Main` calls the host, which starts the services: what they do is not `Main`'s.
            let is_service = self.starts_service;
            return Attribution {
                nearest: Some(frame),
                outermost: self.outermost.filter(|_| !is_service).or(cut.filter(|_| !is_service)).or(Some(frame)),
                entry: match (is_service, cut) {
                    (true, _) => Entry::HostedService,
                    (false, Some(_)) => Entry::Unknown,
                    (false, None) => self.entry,
                },
                is_of_pool,
                dispatches,
                waits_for_end: facts.is_main && self.outermost.is_none(),
                ..Attribution::default()
            };
        }
        let (via, is_start) = self.via(frame, facts);
        let known_wait = self.wait_below(facts);
        let asks_for_result = (self.asks_for_result || facts.asks_for_result) && !facts.runs_code;
        Attribution {
            callee: self.callee.or_else(|| self.nearest.map(|_| frame)),
            via,
            is_start,
            entry: match self.outermost {
                // A timer that completes a task: the continuation can be of anything.
                None if facts.resumes && self.entry == Entry::Timer => Entry::Pool,
                None => self.entry.max(facts.entry),
                Some(_) => self.entry,
            },
            starts_service: self.starts_service || facts.starts_service,
            // What the host starts can wait, too: only the wait that follows at once is for the end.
            waits_for_end: match facts.runs_host {
                true => self.nearest.is_some(),
                false => self.waits_for_end && (known_wait.is_some() || asks_for_result),
            },
            known_wait,
            cut,
            asks_for_result,
            cost: match (self.cost, facts.cost) {
                // An allocation can begin a collection.
                (Some(Cost::Allocation), Some(Cost::Gc)) => Some(Cost::Gc),
                (known, of_frame) => known.or(of_frame),
            },
            is_of_pool,
            dispatches,
            ..self
        }
    }

    fn via(self, frame: FrameIx, facts: Facts) -> (Option<FrameIx>, bool) {
        match (self.nearest, self.via, facts.start) {
            (Some(_), ..) => (None, false),
            (None, _, Start::Runner) => (Some(frame), true),
            (None, Some(via), Start::Native) => (Some(via), self.is_start),
            (None, Some(via), Start::Work) if !self.is_start => (Some(via), false),
            (None, _, start) => (Some(frame), start == Start::Native),
        }
    }

    fn wait_below(self, facts: Facts) -> Option<Wait> {
        match facts.wait {
            // The mark of a thread that is ready to run comes last, and says more than its callers. But a thread that gives up its CPU in
            // a loop waits for what the loop waits for.
            // `Thread.Sleep(0)` waits for nothing.
            Some(Wait::Cpu) if self.cost != Some(Cost::Spinning) || self.known_wait == Some(Wait::Sleep) => {
                Some(Wait::Cpu)
            }
            // Whatever calls a lock: the thread waits for it. The pool's own locks are part of its search for work.
            Some(lock) if lock.is_for_lock() && self.known_wait != Some(Wait::IdlePool) => {
                self.known_wait.filter(|known| known.is_for_lock()).or(Some(lock))
            }
            // What calls the code that is given to a task does not wait for the task.
            _ if facts.runs_code => facts.wait.filter(|wait| *wait == Wait::IdlePool),
            Some(Wait::Event) if self.asks_for_result => self.known_wait.or(Some(Wait::Task)),
            wait => self.known_wait.or(wait),
        }
    }

    /// Whether a blocked thread with that stack is idle. One that is ready to run, waits for a lock, or waits while it runs work of the
    /// pool, is not. (The application's method can be missing: the JIT jumps from a lambda to the `Thread.Sleep` that it ends with.)
    pub fn is_idle(&self) -> bool {
        match self.nearest {
            Some(_) => self.waits_for_end && self.known_wait == Some(Wait::Task),
            None => !self.known_wait.is_some_and(|wait| self.dispatches || wait == Wait::Cpu || wait.is_for_lock()),
        }
    }

    /// What a blocked thread with that stack waits for.
    pub fn wait(&self) -> Wait {
        match self.nearest {
            Some(_) if self.is_idle() => Wait::IdleMain,
            Some(_) => self.known_wait.unwrap_or(Wait::Runtime),
            None => self.known_wait.unwrap_or(Wait::IdleRuntime),
        }
    }
}

/// What a frame outside of the outermost application method says about its start.
fn entry(profile: &Profile, frame: &Frame) -> Entry {
    const STARTS: [(&str, Entry); 5] = [
        ("Microsoft.AspNetCore.", Entry::Request),
        ("Microsoft.Extensions.Hosting.", Entry::HostedService),
        ("System.Threading.TimerQueue", Entry::Timer),
        ("System.Threading.ThreadPoolWorkQueue.", Entry::Pool),
        ("System.Threading.PortableThreadPool.", Entry::Pool),
    ];
    let name = profile.text(frame.name);
    STARTS.iter().find(|(start, _)| name.starts_with(start)).map_or(Entry::Thread, |(_, entry)| *entry)
}

/// Beginnings of the names of methods that start hosted services.
const SERVICES: [&str; 2] =
    ["Microsoft.Extensions.Hosting.BackgroundService.", "Microsoft.Extensions.Hosting.Internal.Host."];

/// In the names of methods that continue an async method after an `await`.
const STATE_MACHINE: &str = "StateMachineBox";
/// In the names of methods of tasks that run their delegate.
const INVOKE: &str = ".InnerInvoke(";
/// The bodies of parallel loops have such names: `Parallel.ForWorker<TLocal, int>.lambda#1`.
const PARALLEL: &str = "System.Threading.Tasks.Parallel";
const LAMBDA: &str = ".lambda#";

/// Beginnings of the names of methods that run on threads of the pool only.
/// Other threads call other methods of these types, to queue work or to start a worker: the gate of a pool that grows does.
const POOL: [&str; 2] = [DISPATCH, "System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart"];
/// What runs the pool's work: a thread that waits below it is not idle.
const DISPATCH: &str = "System.Threading.ThreadPoolWorkQueue.Dispatch";

/// Beginnings of the names of the first managed methods of other threads.
const THREAD: [&str; 3] =
    ["System.Threading.Thread.StartCallback", "System.Threading.Thread.StartHelper.", "System.Threading.ThreadHelper."];

/// Beginnings of the names of methods that run the program until its end. Their thread waits for a task meanwhile.
const HOST: [&str; 4] = [
    "Microsoft.Extensions.Hosting.HostingAbstractionsHostExtensions.Run",
    "Microsoft.Extensions.Hosting.HostingAbstractionsHostExtensions.WaitForShutdown",
    "Microsoft.AspNetCore.Hosting.WebHostExtensions.Run",
    "Microsoft.AspNetCore.Builder.WebApplication.Run",
];

/// Ends of the names of `Main`, which only waits for the async `Main` if the compiler made it.
const MAIN: [&str; 2] = [".Main()", ".Main(string[])"];
/// The end of its name if it has the statements of a file.
const STATEMENTS: [&str; 1] = [".<Main>$(string[])"];

/// Beginnings of the names of methods that run code given to them, or are how the runtime starts a thread.
const RUNNERS: [&str; 14] = [
    "System.Threading.ExecutionContext.Run",
    "System.Threading.PortableThreadPool.WorkerThread.",
    "System.Threading.Tasks.AwaitTaskContinuation.",
    "System.Threading.Tasks.SynchronizationContextAwaitTaskContinuation.",
    "System.Threading.Tasks.Task.Execute",
    "System.Threading.Tasks.Task.FinishContinuations",
    "System.Threading.Tasks.Task.RunContinuations",
    "System.Threading.Tasks.TaskReplicator.Replica",
    "System.Threading.Thread.StartCallback",
    "System.Threading.Thread.StartHelper.",
    "System.Threading.ThreadHelper.",
    "System.Threading.ThreadPoolWorkQueue.Dispatch",
    "System.Threading.TimerQueue.FireNextTimers",
    "System.Threading.TimerQueueTimer.",
];
