//! The application's assemblies without lines, and why: as a note and as JSON.
//!
//! Assemblies of the framework are left out: their lines are of no use in a table of application methods.

use crate::console::grouped;
use remora_collector::NoSymbols;
use remora_profile::{ApplicationRule, Profile, StringIx};
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};

/// Assemblies named in the note.
const NAMED: usize = 3;

/// What [`WithoutLines::of`] found.
#[derive(Debug, Default)]
pub(crate) struct WithoutLines {
    /// Their files, each with the reason.
    assemblies: Vec<(String, NoSymbols)>,
    /// All assemblies of the application that have frames.
    of: usize,
}

/// An assembly without lines.
#[derive(Debug, Serialize)]
pub(crate) struct AssemblyJson<'a> {
    assembly: &'a str,
    reason: &'static str,
}

impl WithoutLines {
    /// Those of `assemblies` that are the application's, and have frames in `profile`.
    pub(crate) fn of(
        profile: &Profile,
        rule: &ApplicationRule,
        mut assemblies: Vec<(String, NoSymbols)>,
    ) -> WithoutLines {
        let own = profile.frames().iter().filter(|frame| rule.includes(profile, frame));
        let own: HashSet<StringIx> = own.filter_map(|frame| frame.module).collect();
        let own: BTreeSet<&str> = own.into_iter().map(|module| profile.text(module)).collect();
        assemblies.retain(|(assembly, _)| own.contains(assembly.as_str()));
        WithoutLines { assemblies, of: own.len() }
    }

    /// One line; `None` if each assembly has lines.
    pub(crate) fn note(&self) -> Option<String> {
        let count = self.assemblies.len();
        if count == 0 {
            return None;
        }
        let named = self.assemblies.iter().take(NAMED).map(|(assembly, why)| format!("{assembly} ({})", words(*why)));
        let more = count.saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("{} more", grouped(more as u64)));
        let named: Vec<String> = named.chain(more).collect();
        let is_built_without =
            |(_, why): &(String, NoSymbols)| matches!(why, NoSymbols::NotBuilt | NoSymbols::NotPortable);
        let are_too_large = self.assemblies.iter().all(|(_, why)| *why == NoSymbols::TooLarge);
        let fix = match self.assemblies.iter().all(is_built_without) {
            true => "build with DebugType=portable",
            false if are_too_large => "Remora reads smaller ones only",
            false => "put the PDB of the same build beside each, or give --symbols DIR",
        };
        Some(format!(
            "no lines for {} of {} application assemblies: {}; {fix}",
            grouped(count as u64),
            grouped(self.of as u64),
            named.join(", ")
        ))
    }

    /// The same as JSON.
    pub(crate) fn json(&self) -> Vec<AssemblyJson<'_>> {
        self.assemblies.iter().map(|(assembly, why)| AssemblyJson { assembly, reason: code(*why) }).collect()
    }
}

fn code(why: NoSymbols) -> &'static str {
    match why {
        NoSymbols::Missing => "missing",
        NoSymbols::NotBuilt => "not-built",
        NoSymbols::Damaged => "damaged",
        NoSymbols::NotPortable => "not-portable",
        NoSymbols::TooLarge => "too-large",
        NoSymbols::Refused => "refused",
        NoSymbols::OtherBuild => "other-build",
    }
}

fn words(why: NoSymbols) -> &'static str {
    match why {
        NoSymbols::Missing => "no PDB",
        NoSymbols::NotBuilt => "built without a PDB",
        NoSymbols::Damaged => "PDB empty or damaged",
        NoSymbols::NotPortable => "Windows PDB",
        NoSymbols::TooLarge => "PDB too large",
        NoSymbols::Refused => "PDB may not be opened, or is no file",
        NoSymbols::OtherBuild => "PDB of another build",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, FrameKind};

    #[test]
    fn a_note_counts_the_assemblies_without_lines_and_has_reasons_and_the_fix() {
        let mut profile = Profile::default();
        for module in ["A.dll", "B.dll", "C.dll", "D.dll", "Shop.dll", "System.Linq.dll"] {
            let (name, module) = (profile.string("Run()"), Some(profile.string(module)));
            profile.frame(Frame { kind: FrameKind::Managed, name, module, file: None, line: None });
        }
        let of = |assemblies: &[(&str, NoSymbols)]| {
            let assemblies = assemblies.iter().map(|(assembly, why)| ((*assembly).to_owned(), *why)).collect();
            WithoutLines::of(&profile, &ApplicationRule::default(), assemblies)
        };
        let note = |assemblies: &[(&str, NoSymbols)]| of(assemblies).note();
        assert_eq!(note(&[("System.Linq.dll", NoSymbols::Missing), ("Unseen.dll", NoSymbols::Missing)]), None);
        assert_eq!(
            note(&[("Shop.dll", NoSymbols::NotPortable)]).as_deref(),
            Some("no lines for 1 of 5 application assemblies: Shop.dll (Windows PDB); build with DebugType=portable")
        );
        let all = ["A.dll", "B.dll", "C.dll", "D.dll", "Shop.dll"].map(|name| (name, NoSymbols::OtherBuild));
        assert_eq!(
            note(&all).as_deref(),
            Some(
                "no lines for 5 of 5 application assemblies: A.dll (PDB of another build), B.dll (PDB of another build), \
                 C.dll (PDB of another build), 2 more; put the PDB of the same build beside each, or give --symbols DIR"
            )
        );
        let json = serde_json::to_value(of(&all[..1]).json()).expect("it is JSON");
        assert_eq!(json, serde_json::json!([{"assembly": "A.dll", "reason": "other-build"}]));
    }
}
