//! The clauses of `docs/authors/contract.md`, as `holds!` names them, and its columns. A test compares the clauses with the page.

/// Where a clause is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The runtime model.
    Sim,
    /// Live runtimes. The current world says which.
    Clr,
    /// Remora itself.
    Rem,
}

/// The number of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Clause(&'static str);

impl Clause {
    /// As on the page: `ATT-01`.
    pub fn id(self) -> String {
        self.0.replace('_', "-")
    }
}

macro_rules! clauses {
    ($($id:ident),* $(,)?) => {
        $(
            #[doc = concat!("The clause `", stringify!($id), "`.")]
            pub const $id: Clause = Clause(stringify!($id));
        )*

        /// Every clause.
        pub const ALL: &[Clause] = &[$($id),*];
    };
}

clauses! {
    ATT_01, ATT_02, ATT_03, ATT_04, ATT_05, ATT_06, ATT_07, ATT_08, ATT_09, ATT_10, ATT_11, ATT_12, ATT_13, ATT_14, ATT_15, ATT_16, ATT_17, ATT_18, ATT_19, ATT_20, ATT_21, ATT_22,
    CAT_01, CAT_02, CAT_03, CAT_04, CAT_05, CAT_06, CAT_07, CAT_08, CAT_09,
    CMP_01, CMP_02,
    CTL_01,
    DET_01, DET_02, DET_03, DET_04, DET_05, DET_06, DET_07, DET_08, DET_09, DET_10, DET_11, DET_12, DET_13, DET_14, DET_15, DET_16, DET_17, DET_18, DET_19, DET_20, DET_21, DET_22, DET_23,
    ELT_01, ELT_02,
    GCH_01, GCH_02, GCH_03, GCH_04, GCH_05, GCH_06,
    MOD_01,
    RJT_01,
    SBS_01, SBS_02, SBS_03, SBS_04, SBS_05,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_clauses_are_those_of_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/authors/contract.md");
        let text = std::fs::read_to_string(page).expect("the contract's page");
        let id = |line: &str| {
            let (id, _) = line.strip_prefix("| ")?.split_once(" | ")?;
            let (_, number) = id.split_once('-')?;
            number.parse::<u32>().is_ok().then(|| id.to_owned())
        };
        let on_the_page: BTreeSet<String> = text.lines().filter_map(id).collect();
        let here: BTreeSet<String> = ALL.iter().map(|clause| clause.id()).collect();
        assert_eq!(here, on_the_page);
    }
}
