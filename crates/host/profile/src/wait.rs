//! What a blocked thread waits for, as far as the frames of its stack prove it.

use crate::{Frame, FrameKind, Profile};
use strum::IntoStaticStr;

/// What a blocked thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Wait {
    /// A lock: `Monitor`, `Lock`, `SpinLock`.
    Lock,
    /// `ReaderWriterLockSlim` or `ReaderWriterLock`.
    RwLock,
    /// A task: `Wait`, `Result`, `GetAwaiter().GetResult()`.
    Task,
    /// An event, a mutex, `Monitor.Wait`, another thread.
    Event,
    /// `SemaphoreSlim`. A `Semaphore` waits like an event.
    Semaphore,
    /// The other threads of a `Barrier`.
    Barrier,
    /// An item of a `BlockingCollection`.
    QueueEmpty,
    /// A place in a `BlockingCollection`.
    QueueFull,
    /// A time: `Thread.Sleep`.
    Sleep,
    /// A file, a socket, another process, a console.
    Io,
    /// A CPU.
    Cpu,
    /// A thread of the pool waits for work.
    IdlePool,
    /// A thread of the runtime, or of a native library, waits without managed code.
    IdleRuntime,
    /// The main thread waits for the end of the program: in the host, or in the `Main` that the compiler makes for an async one.
    IdleMain,
    /// Something in the runtime: a lock taken without the framework's help, a garbage collection, the compilation of a method.
    Runtime,
}

/// Beginnings of names, with what their callers wait for. The first one that fits counts.
const WAITS: [(&str, Wait); 25] = [
    ("System.Threading.LowLevelLifoSemaphore.", Wait::IdlePool),
    // The JIT inlines the semaphore. Work begins with a method below this one.
    ("System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart", Wait::IdlePool),
    ("System.Threading.PortableThreadPool.GateThread.", Wait::IdleRuntime),
    ("System.Threading.TimerQueue.TimerThread", Wait::IdleRuntime),
    ("System.Net.Sockets.SocketAsyncEngine.EventLoop", Wait::IdleRuntime),
    ("System.Threading.Thread.Sleep", Wait::Sleep),
    ("System.Threading.Thread.Join", Wait::Event),
    ("System.Threading.Monitor.Wait", Wait::Event),
    ("System.Threading.Monitor.", Wait::Lock),
    ("System.Threading.Lock.", Wait::Lock),
    ("System.Threading.ReaderWriterLock", Wait::RwLock),
    ("System.Threading.SpinLock.", Wait::Lock),
    // Their threads share the work and wait for each other.
    ("System.Threading.Tasks.Parallel", Wait::Event),
    ("System.Threading.Tasks.TaskReplicator", Wait::Event),
    ("System.Linq.Parallel", Wait::Event),
    ("System.Threading.WaitHandle.", Wait::Event),
    ("System.Diagnostics.Process.WaitFor", Wait::Io),
    ("System.IO.", Wait::Io),
    ("System.Net.", Wait::Io),
    ("System.Console.", Wait::Io),
    ("System.Data.", Wait::Io),
    ("Microsoft.Data.", Wait::Io),
    ("Microsoft.Win32.SafeHandles.Safe", Wait::Io),
    ("Interop.Sys.", Wait::Io),
    ("SystemNative_", Wait::Io),
];

/// Types and beginnings of those of their methods that block, with what their callers wait for. Other methods of these types only release
/// somebody, or start something. Names are those of .NET Core 3.1, 8, 9 and 10 (dotnet/runtime:
/// `src/libraries/System.Private.CoreLib/src/System/Threading`, `src/libraries/System.Collections.Concurrent`).
const BLOCKING: [(&str, &[&str], Wait); 7] = [
    (
        "System.Threading.Tasks.Task",
        &["Wait(", "WaitAll", "WaitAny", "InternalWait", "SpinThenBlockingWait(", "SpinWait("],
        Wait::Task,
    ),
    ("System.Threading.SemaphoreSlim", &["Wait(", "WaitCore(", "WaitUntilCountOrTimeout("], Wait::Semaphore),
    ("System.Threading.ManualResetEventSlim", &["Wait("], Wait::Event),
    ("System.Threading.CountdownEvent", &["Wait("], Wait::Event),
    ("System.Threading.Barrier", &["SignalAndWait(", "DiscontinuousWait("], Wait::Barrier),
    ("System.Collections.Concurrent.BlockingCollection", &["Take", "TryTake", "GetConsuming"], Wait::QueueEmpty),
    ("System.Collections.Concurrent.BlockingCollection", &["Add", "TryAdd"], Wait::QueueFull),
];

/// Types whose methods [`RESULTS`] wait for a task, if it has not completed. With a completed one, they only throw or return.
const HOLDERS: [&str; 6] = [
    "System.Threading.Tasks.Task<",
    "System.Threading.Tasks.ValueTask",
    "System.Runtime.CompilerServices.TaskAwaiter",
    "System.Runtime.CompilerServices.ValueTaskAwaiter",
    "System.Runtime.CompilerServices.ConfiguredTaskAwaitable",
    "System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable",
];
const RESULTS: [&str; 4] = [".get_Result(", ".GetResult", ".HandleNonSuccess", ".ValidateEnd("];

/// The mark at the leaf of a thread that is ready to run.
pub const WAITING_FOR_CPU: &str = "[waiting for a CPU]";
/// The mark below a managed method whose `lock` statement the runtime's code below waits for.
pub const LOCK_WAIT: &str = "[lock wait]";
/// The mark below the managed method whose thread collects garbage in the runtime's code below.
pub const GC: &str = "[GC]";

impl Wait {
    /// Its name in reports: `lock`, `idle-pool`.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// What the caller of `frame` waits for, if the frame says so.
    pub(crate) fn of(profile: &Profile, frame: &Frame) -> Option<Wait> {
        let name = profile.text(frame.name);
        if frame.kind == FrameKind::Synthetic {
            return match name {
                WAITING_FOR_CPU => Some(Wait::Cpu),
                LOCK_WAIT => Some(Wait::Lock),
                GC => Some(Wait::Runtime),
                _ => None,
            };
        }
        let blocks = |(of_type, methods, wait): &(&str, &[&str], Wait)| {
            let method = method_of(name, of_type)?;
            methods.iter().any(|start| method.starts_with(start)).then_some(*wait)
        };
        let listed = || WAITS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, wait)| *wait);
        BLOCKING.iter().find_map(blocks).or_else(listed)
    }

    /// Whether `frame` asks for the result of a task. Its caller waits for the task if the frame calls a wait for an event.
    pub(crate) fn is_asked_for_result(profile: &Profile, frame: &Frame) -> bool {
        let name = profile.text(frame.name);
        HOLDERS.iter().any(|start| name.starts_with(start)) && RESULTS.iter().any(|method| name.contains(method))
    }

    /// Whether it is for other threads that hold something meanwhile.
    pub fn is_for_lock(self) -> bool {
        matches!(self, Wait::Lock | Wait::RwLock)
    }

    /// Whether another thread ends it when there is work. Threads that wait so have often nothing to do.
    pub fn is_for_signal(self) -> bool {
        matches!(self, Wait::Event | Wait::Semaphore | Wait::Barrier | Wait::QueueEmpty | Wait::QueueFull)
    }
}

/// The method's name, with its parameters, in the full name of a method of this type: `Take()` for `N.Queue<(int, N.A)>.Take()`.
fn method_of<'a>(name: &'a str, of_type: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(of_type)?;
    let mut depth = 0usize;
    let end = rest.char_indices().find_map(|(at, letter)| {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '.' if depth == 0 => return Some(at),
            _ => {}
        }
        None
    })?;
    // `TaskFactory` is not `Task`.
    let is_it = end == 0 || rest.starts_with(['<', '`']);
    rest.get(end + 1..).filter(|_| is_it)
}
