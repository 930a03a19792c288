//! The host's end of the transport: attaches the agent, reads its messages, accounts for every loss.
//!
//! # Purpose
//! [`Session`] is one recording by the agent. It turns the agent's messages into a [`remora_profile::Profile`], with names from files that
//! are read here, not in the target.
//!
//! # Design constraints
//! Every wait for the target is bounded, and everything it sends is checked: it may be hostile, damaged or dead. Everything placed for the
//! target is unlinked as soon as the target has opened it.
//!
//! # Rejected
//! Output files and formats: those see the finished profile only.

mod account;
mod agent_error;
mod assembler;
mod attach;
mod attached_agent;
mod bundle;
mod classes;
mod control;
mod copy_cost;
mod declared;
mod error;
mod files;
mod heap;
mod id_history;
mod layouts;
mod limits;
mod method_trace;
mod methods;
mod names;
mod naming_budget;
mod profiler_count;
mod rate;
mod scaling;
mod session;
mod shared_memory;
mod socket;
mod startup;
mod statics;
mod symbol_files;
mod target;
mod tracing;
mod unwinding;
mod watch;

pub use attach::shown_runtime;
pub use classes::{Called, Classes, ONLY_MODULE};
pub use error::{Error, NotAttached};
pub use heap::{HeapAbout, HeapFinished, HeapProgress, HeapSession, HeapWait};
pub use layouts::LaidOut;
pub use limits::MemoryLimit;
pub use method_trace::{Calls, MadeChange, MethodTrace, TraceCounts, TracedMethod, TracedTime, has_inert_tracer};
pub use naming_budget::NamingBudget;
pub use profiler_count::{has_places_for_a_main_one, set_count_right};
pub use session::{CPU_BUDGET, Finished, Options, Progress, Session, WALL_BUDGET, WatchesExceptions};
pub use startup::Startup;
pub use symbol_files::NoSymbols;
pub use tracing::{Tracing, TracingOrder};
pub use watch::{EndedSnapshot, WatchFinished, WatchSession, WatchState, Watched};
