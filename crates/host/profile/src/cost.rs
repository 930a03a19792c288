//! What CPU time goes to besides the work itself.

use crate::runtime_names::EXCEPTION;
use crate::{Frame, GC, Profile};

/// A cost that frames between an application method and the leaf show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cost {
    /// Waiting in a loop.
    Spinning,
    /// Throwing and catching.
    Exception,
    /// Collecting garbage.
    Gc,
}

/// Beginnings of the names of frames, with the cost that they show.
const FRAMES: [(&str, Cost); 10] = [
    ("System.Threading.SpinWait.", Cost::Spinning),
    ("System.Threading.Thread.SpinWait", Cost::Spinning),
    ("System.Threading.SpinLock.", Cost::Spinning),
    ("sched_yield", Cost::Spinning),
    (EXCEPTION, Cost::Exception),
    ("System.Runtime.EH.", Cost::Exception),
    ("_Unwind_RaiseException", Cost::Exception),
    ("__cxa_throw", Cost::Exception),
    ("__cxa_rethrow", Cost::Exception),
    (GC, Cost::Gc),
];

impl Cost {
    /// The cost that `frame` shows.
    pub(crate) fn of(profile: &Profile, frame: &Frame) -> Option<Cost> {
        let name = profile.text(frame.name);
        FRAMES.iter().find(|(start, _)| name.starts_with(start)).map(|(_, cost)| *cost)
    }
}
