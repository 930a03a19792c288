//! What a blocked thread waits for, as far as the frames of its stack prove it.

use crate::{Frame, FrameKind, Profile};
use strum::IntoStaticStr;

/// What a blocked thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Wait {
    /// A lock: `Monitor`, `Lock`, `ReaderWriterLockSlim`, `SpinLock`.
    Lock,
    /// A task: `Wait`, `Result`, `GetAwaiter().GetResult()`.
    Task,
    /// An event, a semaphore, a mutex, a queue, another thread.
    Event,
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
    /// Something in the runtime: a lock taken without the framework's help, a garbage collection, the compilation of a method.
    Runtime,
}

/// Beginnings of names, with what their callers wait for. The first one that fits counts.
const WAITS: [(&str, Wait); 36] = [
    ("System.Threading.LowLevelLifoSemaphore.", Wait::IdlePool),
    ("System.Threading.PortableThreadPool.GateThread.", Wait::IdleRuntime),
    ("System.Threading.TimerQueue.TimerThread", Wait::IdleRuntime),
    ("System.Net.Sockets.SocketAsyncEngine.EventLoop", Wait::IdleRuntime),
    ("System.Threading.Thread.Sleep", Wait::Sleep),
    ("System.Threading.Thread.Join", Wait::Event),
    ("System.Threading.Monitor.Wait", Wait::Event),
    ("System.Threading.Monitor.", Wait::Lock),
    ("System.Threading.Lock.", Wait::Lock),
    ("System.Threading.ReaderWriterLock", Wait::Lock),
    ("System.Threading.SpinLock.", Wait::Lock),
    // Their threads share the work and wait for each other.
    ("System.Threading.Tasks.Parallel", Wait::Event),
    ("System.Threading.Tasks.TaskReplicator", Wait::Event),
    ("System.Linq.Parallel", Wait::Event),
    ("System.Threading.Tasks.Task.", Wait::Task),
    ("System.Threading.Tasks.Task<", Wait::Task),
    ("System.Threading.Tasks.ValueTask", Wait::Task),
    ("System.Runtime.CompilerServices.TaskAwaiter", Wait::Task),
    ("System.Runtime.CompilerServices.ValueTaskAwaiter", Wait::Task),
    ("System.Runtime.CompilerServices.ConfiguredTaskAwaitable", Wait::Task),
    ("System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable", Wait::Task),
    ("System.Threading.SemaphoreSlim.", Wait::Event),
    ("System.Threading.ManualResetEventSlim.", Wait::Event),
    ("System.Threading.CountdownEvent.", Wait::Event),
    ("System.Threading.Barrier.", Wait::Event),
    ("System.Threading.WaitHandle.", Wait::Event),
    ("System.Collections.Concurrent.BlockingCollection", Wait::Event),
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
        WAITS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, wait)| *wait)
    }
}
