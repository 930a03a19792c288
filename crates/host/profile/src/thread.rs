//! The threads of a recording.

/// Index of a [`Thread`] in a [`crate::Profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIx(pub u32);

/// One thread of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The system's thread id, in the target's own namespace.
    pub id: u32,
    /// Its name; empty if it has none.
    pub name: String,
}

impl Thread {
    /// The displayed text: `name (id)`, or `thread id`.
    pub fn label(&self) -> String {
        if self.name.is_empty() { format!("thread {}", self.id) } else { format!("{} ({})", self.name, self.id) }
    }
}
