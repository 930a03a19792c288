//! What CPU time goes to besides the work itself.

use crate::runtime_names::{ALLOCATION, EXCEPTION, JIT};
use crate::{Frame, GC, Profile};
use strum::IntoStaticStr;

/// A cost that frames between an application method and the leaf show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Cost {
    /// Waiting in a loop.
    Spinning,
    /// Throwing and catching.
    Exception,
    /// Collecting garbage.
    Gc,
    /// Compiling methods.
    Jit,
    /// Allocating memory, as far as the runtime's frames show it.
    Allocation,
}

/// Beginnings of the names of frames, with the cost that they show.
const FRAMES: [(&str, Cost); 15] = [
    ("System.Threading.SpinWait.", Cost::Spinning),
    ("System.Threading.Thread.SpinWait", Cost::Spinning),
    ("System.Threading.SpinLock.", Cost::Spinning),
    ("System.Threading.Thread.Yield", Cost::Spinning),
    ("System.Threading.Thread.UninterruptibleSleep0", Cost::Spinning),
    ("System.Runtime.CompilerServices.YieldAwaitable", Cost::Spinning),
    ("sched_yield", Cost::Spinning),
    (EXCEPTION, Cost::Exception),
    ("System.Runtime.EH.", Cost::Exception),
    ("_Unwind_RaiseException", Cost::Exception),
    ("__cxa_throw", Cost::Exception),
    ("__cxa_rethrow", Cost::Exception),
    (GC, Cost::Gc),
    (JIT, Cost::Jit),
    (ALLOCATION, Cost::Allocation),
];

impl Cost {
    /// Its name in reports: `gc`, `jit`.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// The cost that `frame` shows.
    pub(crate) fn of(profile: &Profile, frame: &Frame) -> Option<Cost> {
        let name = profile.text(frame.name);
        FRAMES.iter().find(|(start, _)| name.starts_with(start)).map(|(_, cost)| *cost)
    }
}
