//! How far a description can be remembered.

/// How reliable an answer is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Certainty {
    /// The depth limit cut a part of it.
    pub(crate) cut: bool,
    /// The runtime answered a part of it with an error.
    pub(crate) failed: bool,
}

impl Certainty {
    pub(crate) const FACT: Certainty = Certainty { cut: false, failed: false };
    pub(crate) const CUT: Certainty = Certainty { cut: true, failed: false };
    pub(crate) const FAILED: Certainty = Certainty { cut: false, failed: true };

    pub(crate) fn and(&mut self, other: Certainty) {
        self.cut |= other.cut;
        self.failed |= other.failed;
    }

    pub(crate) fn is_fact(self) -> bool {
        !self.cut && !self.failed
    }
}
