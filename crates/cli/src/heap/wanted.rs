//! What is meant by the name of a type or an address that somebody has written.

use crate::console::{counted, plain};
use remora_heap::{HeapGraph, ObjectIx, StaticField, TypeIx};
use std::collections::{BTreeSet, HashSet};

/// Types that are offered in place of one that is not there.
const OFFERED: usize = 8;

/// What C# calls types otherwise than they are called in a snapshot, of those that objects can be of.
const KEYWORDS: [(&str, &str); 15] = [
    ("string", "System.String"),
    ("object", "System.Object"),
    ("bool", "System.Boolean"),
    ("byte", "System.Byte"),
    ("sbyte", "System.SByte"),
    ("char", "System.Char"),
    ("short", "System.Int16"),
    ("ushort", "System.UInt16"),
    ("int", "System.Int32"),
    ("uint", "System.UInt32"),
    ("long", "System.Int64"),
    ("ulong", "System.UInt64"),
    ("float", "System.Single"),
    ("double", "System.Double"),
    ("decimal", "System.Decimal"),
];

/// A type by its name, and its assembly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) assembly: String,
}

/// The static fields that a snapshot has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statics<'a> {
    pub(super) fields: &'a [StaticField],
    /// Whether these are all that could be asked about.
    pub(super) are_all: bool,
}

impl Statics<'_> {
    /// What is to be said where none belongs to what was asked for.
    fn none_belongs(self) -> &'static str {
        match self.are_all {
            true => "and no static field belongs to one",
            false => "and whether static fields belong to one is not known: this snapshot does not have them all",
        }
    }
}

/// What is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Object(ObjectIx),
    Type(TypeIx),
    /// A type that no object is of: it has static fields.
    Static(Owner),
}

/// What `text` names: `@` and an address, or a type by its name or an unmistakable part of it.
pub(super) fn wanted(graph: &HeapGraph, statics: Statics<'_>, text: &str) -> Result<Wanted, String> {
    match text.strip_prefix('@') {
        Some(address) => object(graph, address).map(Wanted::Object),
        None => type_(graph, statics, text),
    }
}

fn object(graph: &HeapGraph, text: &str) -> Result<ObjectIx, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let address = u64::from_str_radix(digits, 16)
        .map_err(|_| format!("@{text} is no address: write it as `remora heap report` shows it, @0x7f0012345678"))?;
    if let Some(object) = graph.object_at(address) {
        return Ok(object);
    }
    Err(match graph.object_around(address) {
        Some(around) => {
            let (begin, name) = (graph.address(around), plain(&graph.type_of(around).name));
            format!("no object begins at {address:#x}, which lies within one of {name}; show that by @{begin:#x}")
        }
        None => format!(
            "there is no object at {address:#x} in this snapshot; `remora heap report` shows some that there are"
        ),
    })
}

/// What C# calls a type, as snapshots name it: `int?[]` is `System.Nullable<int>[]`.
fn as_named(text: &str) -> String {
    let stem = text.trim_end_matches(['[', ']', ',', '*']);
    let ranks = &text[stem.len()..];
    let named = |keyword: &str| KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, whole)| *whole);
    match stem.strip_suffix('?') {
        Some(value) => format!("System.Nullable<{value}>{ranks}"),
        None => named(stem).map_or_else(|| text.to_owned(), |whole| format!("{whole}{ranks}")),
    }
}

/// Types that objects are of, and others that have static fields; each by its name.
fn all_types(graph: &HeapGraph, statics: &[StaticField]) -> Vec<(String, Wanted)> {
    let mut there = vec![false; graph.types().len()];
    graph.objects().for_each(|object| there[graph.type_ix(object).0 as usize] = true);
    let types = (0..there.len()).filter(|index| there[*index]).map(|index| TypeIx(index as u32));
    let named = types.map(|of| (graph.type_at(of), of));
    let known: HashSet<(&str, &str)> = named.clone().map(|(at, _)| (&*at.name, &*at.assembly)).collect();
    let mut all: Vec<(String, Wanted)> = named.map(|(at, of)| (at.name.clone(), Wanted::Type(of))).collect();
    let others = statics.iter().filter(|field| !known.contains(&(&*field.owner, &*field.assembly)));
    let owner = |field: &StaticField| Owner { name: field.owner.clone(), assembly: field.assembly.clone() };
    let owners: BTreeSet<Owner> = others.map(owner).collect();
    all.extend(owners.into_iter().map(|owner| (owner.name.clone(), Wanted::Static(owner))));
    all
}

fn type_(graph: &HeapGraph, statics: Statics<'_>, text: &str) -> Result<Wanted, String> {
    if text.trim().is_empty() {
        // It is a part of every name.
        return Err("what is to be shown is empty; give a type by its name, or an object as @0x7f0012345678, as \
                    `remora heap report` shows them"
            .to_owned());
    }
    let all = all_types(graph, statics.fields);
    let (lower, meant) = (text.to_lowercase(), as_named(text));
    let mut exact = all.iter().filter(|(name, _)| *name == meant);
    // A keyword of C# means one type, and no other whose name it is a part of.
    let is_alike = |name: &str| meant == text && name.to_lowercase().contains(&lower);
    let mut alike: Vec<&(String, Wanted)> = all.iter().filter(|(name, _)| is_alike(name)).collect();
    // Its name without what it stands in is more than a part of another's.
    let is_own = |name: &str| name.strip_suffix(text).is_some_and(|before| before.ends_with('.'));
    if alike.iter().filter(|(name, _)| is_own(name)).count() == 1 {
        alike.retain(|(name, _)| is_own(name));
    }
    match (exact.next(), &alike[..]) {
        (Some((_, one)), _) | (None, [(_, one)]) => Ok(one.clone()),
        (None, []) => Err(format!(
            "no object of this snapshot is of a type called {text}, {}; `remora heap report` shows those there are",
            statics.none_belongs()
        )),
        (None, several) => {
            let offered: Vec<String> = several.iter().take(OFFERED).map(|(name, _)| plain(name)).collect();
            let more = several.len().saturating_sub(OFFERED);
            let more = if more > 0 { format!(", and {}", counted(more as u64, "other")) } else { String::new() };
            Err(format!(
                "{text} is part of the names of {} types; give one whole: {}{more}",
                several.len(),
                offered.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::show::tests::list;
    use super::*;
    use remora_heap::layout::{Slot, SlotKind};
    use remora_heap::{Builder, Object, StaticContent, Type, TypeFlags};

    const NONE: Statics<'_> = Statics { fields: &[], are_all: true };

    #[test]
    fn an_object_is_named_by_its_address_and_a_type_by_an_unmistakable_part_of_its_name() {
        let graph = list(3);
        let holder = graph.object_at(0x1000).expect("it is there");
        for text in ["@0x1000", "@1000"] {
            assert_eq!(wanted(&graph, NONE, text), Ok(Wanted::Object(holder)));
        }
        for text in ["Known.Holder", "holder"] {
            assert_eq!(wanted(&graph, NONE, text), Ok(Wanted::Type(graph.type_ix(holder))), "{text}");
        }
        for (text, told) in [
            ("@0x1008", "lies within one of Known.Holder; show that by @0x1000"),
            ("@0x9999", "there is no object at 0x9999"),
            ("@nothing", "@nothing is no address"),
            ("known", "known is part of the names of 2 types; give one whole: Known.Holder, Known.Node"),
            ("", "what is to be shown is empty"),
            (" ", "what is to be shown is empty"),
            ("Known.Node.Empty", "no object of this snapshot is of a type called Known.Node.Empty"),
        ] {
            let error = wanted(&graph, NONE, text).expect_err(text);
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn gch_06_what_was_not_asked_about_is_not_said_not_to_be_there() {
        let told = |statics| wanted(&list(1), statics, "Known.Cache").expect_err("no object is of it");
        assert!(told(NONE).contains("and no static field belongs to one; "), "{}", told(NONE));
        let unasked = told(Statics { are_all: false, ..NONE });
        assert!(unasked.contains("whether static fields belong to one is not known"), "{unasked}");
    }

    #[test]
    fn a_type_is_found_by_what_csharp_calls_it_though_others_have_that_in_their_names() {
        let mut builder = Builder::new();
        for (at, name) in [(0x1000, "System.String"), (0x2000, "Known.Pair<string, string>")] {
            let of = Type { name: name.into(), assembly: "Known".into(), flags: TypeFlags::default() };
            let type_ix = builder.add_type(of).expect("there is room");
            builder.add_object(Object { address: at, type_ix, bytes: 24 }, []).expect("there is room");
        }
        let graph = builder.finish().expect("there is room");
        assert_eq!(wanted(&graph, NONE, "string"), Ok(Wanted::Type(TypeIx(0))));
    }

    #[test]
    fn gch_06_a_type_that_only_static_fields_belong_to_is_found_by_its_name() {
        let graph = list(1);
        let field = |owner: &str| StaticField {
            owner: owner.into(),
            assembly: "Known".into(),
            name: "entries".into(),
            slot: Slot { kind: SlotKind::OBJECT, of: "object".into(), layout: None },
            content: StaticContent::Bits(0x1000),
        };
        let statics = [field("Known.Cache"), field("Known.CacheOfOthers"), field("Known.Node")];
        let found = |text: &str| wanted(&graph, Statics { fields: &statics, are_all: true }, text);
        let owner = |name: &str| Owner { name: name.into(), assembly: "Known".into() };
        // As the last part of a name it is that, and no part of another's.
        assert_eq!(found("Cache"), Ok(Wanted::Static(owner("Known.Cache"))));
        assert_eq!(found("OfOthers"), Ok(Wanted::Static(owner("Known.CacheOfOthers"))));
        assert!(matches!(found("Known.Node"), Ok(Wanted::Type(_))));
        assert!(found("cache").is_err_and(|error| error.contains("of the names of 2 types")));
    }

    #[test]
    fn what_csharp_calls_a_type_is_that_type_and_no_other_with_a_name_that_ends_so() {
        for (said, named) in [
            ("int", "System.Int32"),
            ("int[]", "System.Int32[]"),
            ("byte[,][]", "System.Byte[,][]"),
            ("int?[]", "System.Nullable<int>[]"),
            ("MyApp.Point[]", "MyApp.Point[]"),
            ("MyApp.Cache<int>", "MyApp.Cache<int>"),
        ] {
            assert_eq!(as_named(said), named);
        }
    }
}
