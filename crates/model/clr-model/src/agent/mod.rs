//! Remora's own agent in the modelled process: `session` as it is, over an operating system that is modelled, too.

mod heap;
mod host;
mod link;
mod platform;
mod sampler;

pub use host::{AgentLibrary, ModelHost};
pub use link::Link;
pub use platform::ModelPlatform;
pub use sampler::Sampler;

use crate::library::Library;
use crate::runtime::Runtime;
use std::cell::RefCell;
use std::sync::Arc;

/// What of the modelled process the agent meets.
pub struct Process {
    /// Its runtime.
    pub runtime: Arc<Runtime>,
    /// The agent's library.
    pub library: Arc<Library>,
    /// The way to the recording process.
    pub link: Arc<Link>,
    /// The system's clocks and signals.
    pub sampler: Arc<Sampler>,
    /// What goes wrong with the system.
    pub system_faults: SystemFaults,
}

/// What goes wrong with the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFaults {
    /// Threads take long from their last work to their end.
    pub threads_end_slowly: bool,
    /// The thread that first wakes the agent, the one that confirms the attach, loses its processor for long at that.
    pub the_first_wake_is_slow: bool,
    /// A timer cannot be deleted.
    pub a_timer_stays: bool,
}

thread_local! {
    /// The process whose library makes objects now: the factory's function takes no argument of ours, and a schedule runs on one thread.
    static PROCESS: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
}

/// From now on the agent's library makes its objects in this process; in none after `None`.
pub fn enter_process(process: Option<Arc<Process>>) {
    PROCESS.with(|place| *place.borrow_mut() = process);
}

fn this_process() -> Option<Arc<Process>> {
    PROCESS.with(|place| place.borrow().clone())
}
