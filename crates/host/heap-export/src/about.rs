//! What is known of a snapshot beside its graph.

/// What is said of it in formats that have a place for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The program.
    pub application: String,
    /// Its process.
    pub process_id: u32,
    /// `.NET 8.0.4`.
    pub runtime: String,
    /// When it was taken, since 1970.
    pub taken_unix_nanoseconds: u64,
    /// Whether every object is in it.
    pub complete: bool,
    /// What else is to be said.
    pub notes: Vec<String>,
}

impl About {
    /// In lines: what there is, what is missing.
    pub(crate) fn account(&self) -> Vec<String> {
        let whole = if self.complete { "all of the heap" } else { "NOT all of the heap" };
        let head = format!("{} ({}), {}: {whole}", self.application, self.process_id, self.runtime);
        std::iter::once(head).chain(self.notes.iter().cloned()).collect()
    }
}
