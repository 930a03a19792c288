//! What of the heap is not in the graph, or is there otherwise than it was given.

/// The account of one graph. What the walker could not see is filled in by the caller, the rest by [`crate::Builder`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completeness {
    /// Ranges of the heap that were not walked, or not to their end.
    pub ranges_unwalked: u64,
    /// Their bytes.
    pub bytes_unwalked: u64,
    /// Objects that were met and could not be described.
    pub objects_unwalked: u64,
    /// Objects whose address was that of an earlier one, or one that no object can have. They are not in the graph.
    pub objects_refused: u64,
    /// Objects in the graph whose type is not known. They bear a type that says so.
    pub types_unknown: u64,
    /// References to no object of the graph. They are not in the graph.
    pub references_dangling: u64,
    /// Roots that hold no object of the graph. They are not in the graph.
    pub roots_dangling: u64,
    /// References that were null: no loss.
    pub references_null: u64,
}

impl Completeness {
    /// Whether the graph is all of the heap.
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
