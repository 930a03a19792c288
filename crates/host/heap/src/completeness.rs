//! What the graph lacks or changed, compared with the heap.

/// The completeness account of a graph. [`crate::Builder`] fills in all but the walker's losses, which the caller adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completeness {
    /// Heap ranges not walked, or not to the end.
    pub ranges_unwalked: u64,
    /// Their bytes.
    pub bytes_unwalked: u64,
    /// Objects found, but not described.
    pub objects_unwalked: u64,
    /// Objects with an invalid or a repeated address; omitted from the graph.
    pub objects_refused: u64,
    /// Objects of an unknown type. Their type's name says so.
    pub types_unknown: u64,
    /// References to no object of the graph; omitted.
    pub references_dangling: u64,
    /// Roots of no object of the graph; omitted.
    pub roots_dangling: u64,
    /// Null references: no loss.
    pub references_null: u64,
}

impl Completeness {
    /// Whether the graph is the whole heap.
    pub fn is_complete(&self) -> bool {
        let Completeness { references_null: _, ranges_unwalked, bytes_unwalked, objects_unwalked, .. } = *self;
        let unwalked = [ranges_unwalked, bytes_unwalked, objects_unwalked];
        let left_out = [self.objects_refused, self.types_unknown, self.references_dangling, self.roots_dangling];
        unwalked.into_iter().chain(left_out).all(|count| count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_a_loss_and_a_null_is_none() {
        let whole = Completeness { references_null: 7, ..Completeness::default() };
        assert!(whole.is_complete());
        let lossy = [
            Completeness { ranges_unwalked: 1, ..whole.clone() },
            Completeness { bytes_unwalked: 1, ..whole.clone() },
            Completeness { objects_unwalked: 1, ..whole.clone() },
            Completeness { objects_refused: 1, ..whole.clone() },
            Completeness { types_unknown: 1, ..whole.clone() },
            Completeness { references_dangling: 1, ..whole.clone() },
            Completeness { roots_dangling: 1, ..whole },
        ];
        assert!(lossy.iter().all(|account| !account.is_complete()));
    }
}
