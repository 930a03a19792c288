//! Properties of a snapshot besides its graph.

/// Written in formats with a place for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The application.
    pub application: String,
    /// Its process.
    pub process_id: u32,
    /// `.NET 8.0.4`.
    pub runtime: String,
    /// Time of the snapshot, since 1970.
    pub taken_unix_nanoseconds: u64,
    /// Whether it has every object.
    pub complete: bool,
    /// Further notes.
    pub notes: Vec<String>,
}

impl About {
    /// Lines with its totals and losses.
    pub(crate) fn account(&self) -> Vec<String> {
        let whole = if self.complete { "all of the heap" } else { "NOT all of the heap" };
        let head = format!("{} ({}), {}: {whole}", self.application, self.process_id, self.runtime);
        std::iter::once(head).chain(self.notes.iter().cloned()).collect()
    }
}
