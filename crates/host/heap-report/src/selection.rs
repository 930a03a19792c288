//! Resolves a type name or address that the user typed.

use remora_heap::{HeapGraph, ObjectIx, RootKind, StaticField, TypeIx, addresses, asked_address};
use remora_heap_file::Snapshot;
use remora_terminal::counted;
use std::collections::{BTreeSet, HashSet};

/// Maximum types suggested for an unknown name.
const OFFERED: usize = 8;

/// C# keywords for types that objects can have, with their names in a snapshot.
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

/// A type by name and assembly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) assembly: String,
}

/// The static fields of a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statics<'a> {
    pub(crate) fields: &'a [StaticField],
    /// Whether these are all that the runtime could be asked about.
    pub(crate) are_all: bool,
}

impl Statics<'_> {
    /// The text if the selection has no static fields.
    fn none_belongs(self) -> &'static str {
        match self.are_all {
            true => "and no static field belongs to one (those of a generic type without objects are not found)",
            false => "and whether static fields belong to one is not known: this snapshot does not have them all",
        }
    }
}

/// The selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    Object(ObjectIx),
    Type(TypeIx),
    /// A type without objects, but with static fields.
    Static(Owner),
}

/// Resolves `text`: an address with `@` or `0x`, a type by its name or an unambiguous part of it, or the object of a static field.
pub(crate) fn select(graph: &HeapGraph, statics: Statics<'_>, text: &str) -> Result<Selection, String> {
    match asked_address(text) {
        Some(address) => object(graph, address).map(Selection::Object),
        None => {
            type_(graph, statics, text).or_else(|unknown| of_field(graph, text).map(Selection::Object).ok_or(unknown))
        }
    }
}

/// The one object that a static field refers to, by the field's name as reports show it.
fn of_field(graph: &HeapGraph, text: &str) -> Option<ObjectIx> {
    let name = text.strip_prefix("static ").unwrap_or(text);
    let mut held = graph.root_notes().filter(|(_, kind, note)| *kind == RootKind::Static && *note == name);
    let (object, ..) = held.next()?;
    held.next().is_none().then_some(object)
}

/// The type that `text` names, with or without objects: by its name, or by that without namespaces. A part of a name is not enough: if the
/// type has no objects, the part may be that of another type.
pub(crate) fn select_type(snapshot: &Snapshot, text: &str) -> Result<Owner, String> {
    let statics = Statics { fields: &snapshot.statics, are_all: snapshot.state.has_static_fields };
    let all = all_types(&snapshot.graph, statics.fields);
    let whole = named_whole(&all, text);
    let similar = || if whole.is_empty() { similar(&all, text) } else { String::new() };
    match one_of(&whole, statics, text).map_err(|why| why + &similar())? {
        Selection::Type(of) => {
            let of = snapshot.graph.type_at(of);
            Ok(Owner { name: of.name.clone(), assembly: of.assembly.clone() })
        }
        Selection::Static(owner) => Ok(owner),
        Selection::Object(_) => Err(format!("{text} is no type")),
    }
}

fn object(graph: &HeapGraph, text: &str) -> Result<ObjectIx, String> {
    let meant = addresses(text);
    if let Some(object) = meant.iter().find_map(|address| graph.object_at(*address)) {
        return Ok(object);
    }
    let address = *meant
        .first()
        .ok_or_else(|| format!("@{text} is no address: write it as `remora heap report` shows it, @0x7f0012345678"))?;
    Err(match graph.object_around(address) {
        Some(around) => {
            let (begin, name) = (graph.address(around), &graph.type_of(around).name);
            format!("no object begins at {address:#x}, which lies within one of {name}; show that by @{begin:#x}")
        }
        None => format!(
            "there is no object at {address:#x} in this snapshot; `remora heap report` shows some that there are"
        ),
    })
}

/// The snapshot's name for a C# type: `int?[]` is `System.Nullable<int>[]`.
fn as_named(text: &str) -> String {
    let stem = text.trim_end_matches(['[', ']', ',', '*']);
    let ranks = &text[stem.len()..];
    let named = |keyword: &str| KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, whole)| *whole);
    match stem.strip_suffix('?') {
        // A pointer to an unknown type.
        Some("") => text.to_owned(),
        Some(value) => format!("System.Nullable<{value}>{ranks}"),
        None => named(stem).map_or_else(|| text.to_owned(), |whole| format!("{whole}{ranks}")),
    }
}

/// A type that can be selected.
struct Named {
    name: String,
    assembly: String,
    wanted: Selection,
}

impl Named {
    /// The name that distinguishes it from a type of another assembly with the same name.
    fn qualified(&self) -> String {
        format!("{}, {}", self.name, self.assembly)
    }

    /// Whether `text` is its name without some namespaces or enclosing types: `List<Node>` for `System.List<App.Node>`.
    fn is_called(&self, text: &str) -> bool {
        let pieces = |text: &str| -> Vec<String> {
            text.split_inclusive(|character: char| "<>,()[]? ".contains(character)).map(str::to_owned).collect()
        };
        let (said, whole) = (pieces(text), pieces(&self.name));
        let is_short = |said: &str, whole: &str| {
            whole.strip_suffix(said).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        said.len() == whole.len() && said.iter().zip(&whole).all(|(said, whole)| is_short(said, whole))
    }
}

/// Types with objects, and others with static fields.
fn all_types(graph: &HeapGraph, statics: &[StaticField]) -> Vec<Named> {
    let mut there = vec![false; graph.types().len()];
    graph.objects().for_each(|object| there[graph.type_ix(object).0 as usize] = true);
    let types = (0..there.len()).filter(|index| there[*index]).map(|index| TypeIx(index as u32));
    let named = types.map(|of| (graph.type_at(of), of));
    let known: HashSet<(&str, &str)> = named.clone().map(|(at, _)| (&*at.name, &*at.assembly)).collect();
    let of_objects = |(at, of): (&remora_heap::Type, TypeIx)| Named {
        name: at.name.clone(),
        assembly: at.assembly.clone(),
        wanted: Selection::Type(of),
    };
    let mut all: Vec<Named> = named.map(of_objects).collect();
    let others = statics.iter().filter(|field| !known.contains(&(&*field.owner, &*field.assembly)));
    let owner = |field: &StaticField| Owner { name: field.owner.clone(), assembly: field.assembly.clone() };
    let owners: BTreeSet<Owner> = others.map(owner).collect();
    all.extend(owners.into_iter().map(|owner| Named {
        name: owner.name.clone(),
        assembly: owner.assembly.clone(),
        wanted: Selection::Static(owner),
    }));
    all
}

fn type_(graph: &HeapGraph, statics: Statics<'_>, text: &str) -> Result<Selection, String> {
    if text.trim().is_empty() {
        // The empty text is part of every name.
        return Err("what is to be shown is empty; give a type by its name, or an object as @0x7f0012345678, as \
                    `remora heap report` shows them"
            .to_owned());
    }
    one_of(&meant_by(&all_types(graph, statics.fields), text), statics, text)
}

fn one_of(meant: &[&Named], statics: Statics<'_>, text: &str) -> Result<Selection, String> {
    match meant {
        [one] => Ok(one.wanted.clone()),
        // No input could distinguish them: state machines of overloads, or one assembly in two contexts.
        [first, rest @ ..] if rest.iter().all(|of| of.qualified() == first.qualified()) => Ok(first.wanted.clone()),
        [] => Err(format!(
            "no object of this snapshot is of a type called {text}, {}; `remora heap report` shows those there are",
            statics.none_belongs()
        )),
        several => Err(ambiguous(text, several)),
    }
}

fn those(all: &[Named], is_meant: impl Fn(&Named) -> bool) -> Vec<&Named> {
    all.iter().filter(|of| is_meant(of)).collect()
}

/// The types whose name is `text`, with or without namespaces and enclosing types.
fn named_whole<'a>(all: &'a [Named], text: &str) -> Vec<&'a Named> {
    let meant = as_named(text);
    let exact = those(all, |of| of.name == meant || of.name == text || of.qualified() == text);
    // A C# keyword means one type, not the types whose names contain it.
    if exact.is_empty() && meant == text { those(all, |of| of.is_called(text)) } else { exact }
}

/// The types that `text` may mean, by the best kind of match.
fn meant_by<'a>(all: &'a [Named], text: &str) -> Vec<&'a Named> {
    let whole = named_whole(all, text);
    // A full simple name beats a part of another name, unless several types have it.
    let is_exact = |of: &&Named| of.name == text || of.name == as_named(text) || of.qualified() == text;
    if whole.len() == 1 || whole.iter().any(is_exact) || as_named(text) != text {
        return whole;
    }
    let lower = text.to_lowercase();
    those(all, |of| of.is_called(text) || of.name.to_lowercase().contains(&lower))
}

/// The types whose names contain `text`, for the end of a message.
fn similar(all: &[Named], text: &str) -> String {
    let similar = those(all, |of| of.name.to_lowercase().contains(&text.to_lowercase()));
    let names: Vec<&str> = similar.iter().take(OFFERED).map(|of| &*of.name).collect();
    if names.is_empty() { String::new() } else { format!("; these have it in their names: {}", names.join(", ")) }
}

fn ambiguous(text: &str, several: &[&Named]) -> String {
    let names: HashSet<&str> = several.iter().map(|of| &*of.name).collect();
    let has_one_name = names.len() < several.len();
    let shown = |of: &Named| if has_one_name { format!("'{}'", of.qualified()) } else { of.name.clone() };
    let offered: Vec<String> = several.iter().take(OFFERED).map(|of| shown(of)).collect();
    let more = several.len().saturating_sub(OFFERED);
    let more = if more > 0 { format!(", and {}", counted(more as u64, "other")) } else { String::new() };
    let how = if has_one_name { " with its assembly" } else { "" };
    let (count, offered) = (several.len(), offered.join(", "));
    format!("{text} is part of the names of {count} types; give one whole{how}: {offered}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tests::list;
    use remora_heap::layout::{Slot, SlotKind};
    use remora_heap::{Builder, Object, StaticContent, Type, TypeFlags};

    const NONE: Statics<'_> = Statics { fields: &[], are_all: true };

    #[test]
    fn an_object_is_named_by_its_address_and_a_type_by_an_unmistakable_part_of_its_name() {
        let graph = list(3);
        let holder = graph.object_at(0x1000).expect("it is there");
        // The last in decimal, as in JSON.
        for text in ["@0x1000", "@1000", "0x1000", "@4096"] {
            assert_eq!(select(&graph, NONE, text), Ok(Selection::Object(holder)));
        }
        for text in ["Known.Holder", "holder"] {
            assert_eq!(select(&graph, NONE, text), Ok(Selection::Type(graph.type_ix(holder))), "{text}");
        }
        for (text, expected) in [
            ("@0x1008", "lies within one of Known.Holder; show that by @0x1000"),
            ("@0x9999", "there is no object at 0x9999"),
            ("@nothing", "@nothing is no address"),
            ("0x1zz", "@0x1zz is no address"),
            ("known", "known is part of the names of 2 types; give one whole: Known.Holder, Known.Node"),
            ("", "what is to be shown is empty"),
            (" ", "what is to be shown is empty"),
            ("Known.Node.Empty", "no object of this snapshot is of a type called Known.Node.Empty"),
        ] {
            let error = select(&graph, NONE, text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_object_is_named_by_the_static_field_that_refers_to_it() {
        let mut graph = list(2);
        graph.note_root(ObjectIx(1), RootKind::Static, "App.Cache.all".into());
        graph.note_root(ObjectIx(0), RootKind::Handle, "App.Cache.old".into());
        for text in ["App.Cache.all", "static App.Cache.all"] {
            assert_eq!(select(&graph, NONE, text), Ok(Selection::Object(ObjectIx(1))), "{text}");
        }
        assert!(select(&graph, NONE, "App.Cache.old").is_err(), "no static field");
        graph.note_root(ObjectIx(2), RootKind::Static, "App.Cache.all".into());
        assert!(select(&graph, NONE, "App.Cache.all").is_err(), "which?");
    }

    #[test]
    fn what_was_not_asked_about_is_not_said_not_to_be_there() {
        let refused = |statics| select(&list(1), statics, "Known.Cache").expect_err("no object is of it");
        assert!(refused(NONE).contains("and no static field belongs to one ("), "{}", refused(NONE));
        let unasked = refused(Statics { are_all: false, ..NONE });
        assert!(unasked.contains("whether static fields belong to one is not known"), "{unasked}");
    }

    #[test]
    fn a_type_is_found_by_what_csharp_calls_it_though_others_have_that_in_their_names() {
        let mut builder = Builder::new();
        for (at, name) in [(0x1000, "System.String"), (0x2000, "Known.Pair<string, string>"), (0x3000, "?*[]")] {
            let of = Type { name: name.into(), assembly: "Known".into(), flags: TypeFlags::default() };
            let type_ix = builder.add_type(of).expect("there is room");
            builder.add_object(Object { address: at, type_ix, bytes: 24 }, []).expect("there is room");
        }
        let graph = builder.finish().expect("there is room");
        assert_eq!(select(&graph, NONE, "string"), Ok(Selection::Type(TypeIx(0))));
        assert_eq!(select(&graph, NONE, "?*[]"), Ok(Selection::Type(TypeIx(2))));
    }

    /// A graph of types, each with its assembly.
    fn of_types(types: &[(&str, &str)]) -> HeapGraph {
        let mut builder = Builder::new();
        for (at, (name, assembly)) in (1..).zip(types) {
            let of = Type { name: (*name).into(), assembly: (*assembly).into(), flags: TypeFlags::default() };
            let type_ix = builder.add_type(of).expect("there is room");
            builder.add_object(Object { address: at * 0x1000, type_ix, bytes: 24 }, []).expect("there is room");
        }
        builder.finish().expect("there is room")
    }

    #[test]
    fn namespaces_may_be_left_out_where_no_other_type_is_called_so() {
        let list = "System.List<App.Node>";
        let one =
            of_types(&[(list, "Core"), ("System.List<App.NodeList>", "Core"), ("System.List<App.Node>[]", "Core")]);
        for said in ["List<Node>", "System.List<Node>", "List<App.Node>", list] {
            assert_eq!(select(&one, NONE, said), Ok(Selection::Type(TypeIx(0))), "{said}");
        }
        assert_eq!(select(&one, NONE, "List<Node>[]"), Ok(Selection::Type(TypeIx(2))));
        let two = of_types(&[(list, "Core"), ("System.List<Other.Node>", "Core")]);
        let error = select(&two, NONE, "List<Node>").expect_err("either is meant");
        assert!(error.ends_with("give one whole: System.List<App.Node>, System.List<Other.Node>"), "{error}");
        let three = of_types(&[(list, "Core"), ("System.List<Other.Node>", "Core"), ("App.SortedList<Node>", "App")]);
        let error = select(&three, NONE, "List<Node>").expect_err("any of three is meant");
        assert!(error.contains("of the names of 3 types"), "{error}");
    }

    #[test]
    fn types_of_one_name_are_distinguished_by_their_assemblies() {
        let graph = of_types(&[("App.Node", "First"), ("App.Node", "Second")]);
        let error = select(&graph, NONE, "App.Node").expect_err("either is meant");
        assert!(error.ends_with("give one whole with its assembly: 'App.Node, First', 'App.Node, Second'"), "{error}");
        // As reports show it.
        assert_eq!(graph.shown_type(TypeIx(1)), "App.Node, Second");
        assert_eq!(select(&graph, NONE, "App.Node, Second"), Ok(Selection::Type(TypeIx(1))));
        let alike = of_types(&[("App.Node", "First"), ("App.Node", "First")]);
        assert_eq!(select(&alike, NONE, "App.Node"), Ok(Selection::Type(TypeIx(0))), "what else could be said?");
        assert_eq!(alike.shown_type(TypeIx(0)), "App.Node");
    }

    #[test]
    fn a_type_that_only_static_fields_belong_to_is_found_by_its_name() {
        let graph = list(1);
        let field = |owner: &str| StaticField {
            owner: owner.into(),
            assembly: "Known".into(),
            name: "entries".into(),
            slot: Slot { kind: SlotKind::OBJECT, of: "object".into(), layout: None },
            content: StaticContent::Bits(0x1000),
        };
        let statics = [field("Known.Cache"), field("Known.CacheOfOthers"), field("Known.Node")];
        let found = |text: &str| select(&graph, Statics { fields: &statics, are_all: true }, text);
        let owner = |name: &str| Owner { name: name.into(), assembly: "Known".into() };
        // A name's last part wins over a substring of another name.
        assert_eq!(found("Cache"), Ok(Selection::Static(owner("Known.Cache"))));
        assert_eq!(found("OfOthers"), Ok(Selection::Static(owner("Known.CacheOfOthers"))));
        assert!(matches!(found("Known.Node"), Ok(Selection::Type(_))));
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
