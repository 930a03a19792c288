//! Remora's own agent in the modelled process: the real `session`, over a modelled operating system.

mod heap;
mod host;
mod link;
mod platform;
mod queue;
mod sampler;

pub use host::{AgentLibrary, ModelHost};
pub use link::Link;
pub use platform::ModelPlatform;
pub use queue::Queue;
pub use sampler::Sampler;

use crate::library::Library;
use crate::runtime::Runtime;
use std::cell::RefCell;
use std::sync::Arc;

/// The modelled process as the agent sees it.
pub struct Process {
    /// Its runtime.
    pub runtime: Arc<Runtime>,
    /// The agent's library.
    pub library: Arc<Library>,
    /// The connection to the recorder.
    pub link: Arc<Link>,
    /// The system's clocks and signals.
    pub sampler: Arc<Sampler>,
    /// Faults of the system.
    pub system_faults: SystemFaults,
}

/// Faults of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFaults {
    /// Threads take long from their last work to their end.
    pub threads_end_slowly: bool,
    /// The thread that first wakes the worker, when it confirms the attach, then loses its CPU for long.
    pub the_first_wake_is_slow: bool,
    /// A timer cannot be deleted.
    pub a_timer_stays: bool,
}

thread_local! {
    /// The process in which the library now makes objects. The factory function takes no such argument, and a schedule runs on one thread.
    static PROCESS: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
}

/// From now on the agent's library makes its objects in this process; after `None`, in none.
pub fn enter_process(process: Option<Arc<Process>>) {
    PROCESS.with(|place| *place.borrow_mut() = process);
}

fn this_process() -> Option<Arc<Process>> {
    PROCESS.with(|place| place.borrow().clone())
}
