//! The failure of a task: one message with the cause and the fix.
//!
//! A task ends at its first failure, so there are no variants to match on, only text with added context.

use std::fmt::{self, Display};

/// The result of a task or of a part of it.
pub type Outcome<T> = Result<T, Failure>;

/// The message, outermost context first.
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

/// Adds context to a failure.
pub trait Context<T> {
    /// Prepends the result of `circumstance` to the message.
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
