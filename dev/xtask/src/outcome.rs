//! How a task fails: one message that says what went wrong and what to do about it.
//!
//! A task ends at its first failure, so there is nothing to match on: no variants, only text that grows outwards.

use std::fmt::{self, Display};

/// The result of a task or of a part of it.
pub type Outcome<T> = Result<T, Failure>;

/// What went wrong, outermost circumstance first.
pub struct Failure(String);

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Failure(message.into())
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure(message)
    }
}

/// Says in which circumstance something failed.
pub trait Context<T> {
    /// Puts what `circumstance` returns before the message.
    fn context<S: Display>(self, circumstance: impl FnOnce() -> S) -> Outcome<T>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context<S: Display>(self, circumstance: impl FnOnce() -> S) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{}: {error}", circumstance())))
    }
}

/// Ends the task with a message.
macro_rules! bail {
    ($($part:tt)*) => { return Err($crate::outcome::Failure::new(format!($($part)*))) };
}
pub(crate) use bail;
