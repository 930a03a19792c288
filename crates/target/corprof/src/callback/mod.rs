//! The profiler's side: a trait for the runtime's callbacks, and the COM object that the runtime holds.

mod fence;
mod object;
#[rustfmt::skip]
#[path = "../generated/callback_slots.rs"]
mod slots;

pub use object::CallbackObject;
pub use slots::{CALLBACK_IIDS, ProfilerCallback, SLOT_NAMES};

/// A value from [`ProfilerCallback::enter`] for [`ProfilerCallback::leave`]: a start time, an index, or any other number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallbackToken(pub u64);
