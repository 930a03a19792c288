//! `remora heap show`: one object or type of a snapshot: its retained size, its referrers, and why it is alive.

use super::strings::text_at;
use crate::Error;
use crate::columns::{Columns, more};
use crate::long_paths::{JSON, TEXT, middle};
use crate::selection::{Owner, Selection, Statics, select};
use crate::totals::TotalsJson;
use crate::values::{InsideJson, MemberJson, Opened, Values};
use crate::{roots, suspects};
use remora_heap::tables::by_type;
use remora_heap::values::Member;
use remora_heap::{DominatorTree, HeapGraph, ObjectIx, Path, Referrers, ShortestPaths, StaticField, TypeIx};
use remora_heap_file::Snapshot;
use remora_terminal::size::shown;
use remora_terminal::{Page, counted, grouped, line, titled};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path as FilePath;

/// An object in a list, as JSON.
#[derive(Debug, Serialize)]
struct ObjectJson {
    address: u64,
    r#type: String,
    bytes: u64,
    retained: u64,
    /// For a referrer: the field or element that refers to the next object of a path, or to the shown object, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// One object, as JSON. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct OneJson {
    object: ObjectJson,
    /// A string's text, if the snapshot has it.
    text: Option<String>,
    /// Its content, if the snapshot has it.
    #[serde(flatten)]
    inside: InsideJson,
    retained_count: u64,
    /// Why it is alive; null if no root reaches it.
    path: Option<PathJson>,
    refers_to_count: usize,
    refers_to: Vec<ObjectJson>,
    referred_from_count: usize,
    referred_from: Vec<ObjectJson>,
}

/// A shortest path from a root to the object, which is last.
#[derive(Debug, Serialize)]
struct PathJson {
    root: &'static str,
    /// The root's details.
    root_note: Option<String>,
    objects: Vec<ObjectJson>,
    /// Objects of a long path that are left out in its middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects_left_out: Option<usize>,
}

/// One type, as JSON. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Default, Serialize)]
struct TypeJson {
    r#type: String,
    assembly: String,
    #[serde(flatten)]
    totals: TotalsJson,
    /// Its objects with the largest retained sizes, largest first.
    objects: Vec<ObjectJson>,
    reached_from_count: usize,
    /// The first objects on the shortest paths to its objects, and to how many each leads, most first.
    reached_from: Vec<BeginningJson>,
    /// The types that refer to its objects, with the number of references.
    referred_from: Vec<ReferrerJson>,
    /// Its static fields in the snapshot: without `--values` only those that can hold objects.
    static_fields: Vec<MemberJson>,
    /// Whether the snapshot has all static fields that the runtime could be asked about; otherwise the type may have more.
    has_static_fields: bool,
}

#[derive(Debug, Serialize)]
struct BeginningJson {
    count: u64,
    root: &'static str,
    root_note: Option<String>,
    object: ObjectJson,
}

#[derive(Debug, Serialize)]
struct ReferrerJson {
    r#type: String,
    references: u64,
}

/// One object or type of a snapshot: its retained size, its referrers, and why it is alive.
pub struct Show<'a> {
    selection: Selection,
    graph: &'a HeapGraph,
    tree: DominatorTree,
    /// The selected object's text.
    text: Option<String>,
    /// The selected object's content.
    inside: Option<(Values<'a>, Option<Opened>)>,
    /// The selected type's static fields.
    fixed: Vec<Member>,
    /// Whether these are all that the runtime could be asked about.
    fixed_are_all: bool,
    /// The field or element by which one address refers to another, where known.
    ways: HashMap<(u64, u64), String>,
    top: usize,
}

/// The static fields of a type, by its name and assembly.
fn fields_of<'a>(statics: &'a [StaticField], (owner, assembly): (&str, &str)) -> Vec<&'a StaticField> {
    statics.iter().filter(|field| field.owner == owner && field.assembly == assembly).collect()
}

impl<'a> Show<'a> {
    /// Shows `what`: an address as in reports, or a type's name or an unambiguous part of it. Tables have `top` rows.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(
        file: &FilePath,
        snapshot: &'a Snapshot,
        tree: DominatorTree,
        what: &str,
        top: usize,
    ) -> Result<Show<'a>, Error> {
        let graph = &snapshot.graph;
        let statics = Statics { fields: &snapshot.statics, are_all: snapshot.state.has_static_fields };
        let selection = select(graph, statics, what).map_err(Error::NotThere)?;
        let has_values = snapshot.state.has_values;
        let mut show = Show {
            selection: selection.clone(),
            graph,
            tree,
            text: None,
            inside: None,
            fixed: Vec::new(),
            fixed_are_all: snapshot.state.has_static_fields,
            ways: HashMap::new(),
            top,
        };
        let owner = match &selection {
            Selection::Object(object) => {
                show.open(file, snapshot, *object)?;
                return Ok(show);
            }
            Selection::Type(of) => (&*graph.type_at(*of).name, &*graph.type_at(*of).assembly),
            Selection::Static(owner) => (&*owner.name, &*owner.assembly),
        };
        let fields = fields_of(&snapshot.statics, owner);
        if has_values || !fields.is_empty() {
            let mut values = Values::of(file, graph)?;
            show.fixed = values.fixed(file, &fields, has_values)?;
            show.inside = Some((values, None));
        }
        Ok(show)
    }

    /// As JSON.
    pub fn json(&self) -> Page {
        match &self.selection {
            Selection::Object(object) => Page::json(&self.object(*object)),
            Selection::Type(of) => Page::json(&self.type_(*of)),
            Selection::Static(owner) => Page::json(&self.static_(owner.clone())),
        }
    }

    /// As text.
    pub fn text(&self) -> Page {
        match &self.selection {
            Selection::Object(object) => self.object_text(*object),
            Selection::Type(of) => self.type_text(*of),
            Selection::Static(owner) => self.static_text(owner.clone()),
        }
    }

    /// Reads an object's content.
    fn open(&mut self, file: &FilePath, snapshot: &'a Snapshot, object: ObjectIx) -> Result<(), Error> {
        if snapshot.state.has_texts {
            self.text = text_at(file, self.graph.address(object))?;
        }
        let (mut values, has_values) = (Values::of(file, self.graph)?, snapshot.state.has_values);
        let opened = if has_values { values.open(file, object, self.top)? } else { None };
        self.ways = values.ways(file, &self.ways_to(object), has_values)?;
        self.inside = Some((values, opened));
        Ok(())
    }

    /// The selected object's content.
    fn open_file(&self) -> Option<(&Values<'_>, &Opened)> {
        let (values, opened) = self.inside.as_ref()?;
        Some((values, opened.as_ref()?))
    }

    fn retained(&self, object: ObjectIx) -> u64 {
        self.tree.retained(self.tree.node(object))
    }

    fn object_json(&self, object: ObjectIx) -> ObjectJson {
        ObjectJson {
            address: self.graph.address(object),
            r#type: self.graph.shown_type_of(object).into_owned(),
            bytes: self.graph.bytes(object),
            retained: self.retained(object),
            by: None,
        }
    }

    fn name(&self, object: ObjectIx) -> String {
        suspects::name(self.graph, &self.tree, self.tree.node(object)).unwrap_or_default()
    }

    /// The objects with the largest retained sizes, largest first, and the number of all; duplicates count once.
    fn greatest(&self, objects: impl Iterator<Item = ObjectIx>) -> (usize, Vec<ObjectIx>) {
        let mut all: Vec<ObjectIx> = objects.collect();
        all.sort_unstable();
        all.dedup();
        let count = all.len();
        all.sort_by_key(|object| Reverse(self.retained(*object)));
        all.truncate(self.top);
        (count, all)
    }

    fn neighbours(&self, object: ObjectIx) -> [(usize, Vec<ObjectIx>); 2] {
        let to = self.greatest(self.graph.references(object));
        [to, self.greatest(Referrers::of_one(self.graph, object))]
    }

    /// The references along an object's path, and those of its referrers.
    fn ways_to(&self, object: ObjectIx) -> Vec<(u64, u64)> {
        let path = ShortestPaths::new(self.graph).to(self.graph, object).map(|path| path.objects).unwrap_or_default();
        let [_, (_, from)] = self.neighbours(object);
        let hidden = middle(path.len(), JSON);
        let shown = path.windows(2).enumerate().filter(|(place, _)| !hidden.contains(place));
        let pairs = shown.map(|(_, pair)| [pair[0], pair[1]]).chain(from.into_iter().map(|from| [from, object]));
        pairs.map(|pair| pair.map(|object| self.graph.address(object)).into()).collect()
    }

    /// The field or element by which one object refers to another.
    fn way(&self, from: ObjectIx, to: ObjectIx) -> Option<&String> {
        self.ways.get(&(self.graph.address(from), self.graph.address(to)))
    }

    /// An object, with its field or element for the reference to another.
    fn name_by(&self, from: ObjectIx, to: Option<ObjectIx>) -> String {
        match to.and_then(|to| self.way(from, to)) {
            Some(way) => format!("{} by {way}", self.name(from)),
            None => self.name(from),
        }
    }

    fn object_json_by(&self, from: ObjectIx, to: Option<ObjectIx>) -> ObjectJson {
        ObjectJson { by: to.and_then(|to| self.way(from, to)).cloned(), ..self.object_json(from) }
    }

    fn object(&self, object: ObjectIx) -> OneJson {
        let [(refers_to_count, refers_to), (referred_from_count, referred_from)] = self.neighbours(object);
        let rows = |objects: Vec<ObjectIx>| objects.into_iter().map(|object| self.object_json(object)).collect();
        let path = ShortestPaths::new(self.graph).to(self.graph, object);
        OneJson {
            object: self.object_json(object),
            text: self.text.clone(),
            inside: self.open_file().map(|(values, opened)| values.json(opened)).unwrap_or_default(),
            retained_count: self.tree.retained_count(self.tree.node(object)),
            path: path.map(|path| PathJson {
                root: path.root.kind.name(),
                root_note: self.graph.root_note(path.root.object, path.root.kind).map(str::to_owned),
                objects_left_out: Some(middle(path.objects.len(), JSON).len()).filter(|count| *count > 0),
                objects: path
                    .objects
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| !middle(path.objects.len(), JSON).contains(place))
                    .map(|(place, one)| self.object_json_by(*one, path.objects.get(place + 1).copied()))
                    .collect(),
            }),
            refers_to_count,
            refers_to: rows(refers_to),
            referred_from_count,
            referred_from: referred_from.into_iter().map(|from| self.object_json_by(from, Some(object))).collect(),
        }
    }

    fn object_text(&self, object: ObjectIx) -> Page {
        let kept = self.tree.retained_count(self.tree.node(object));
        let mut text = line(format!(
            "{}: {} of its own, keeps {} in {}",
            self.name(object),
            shown(self.graph.bytes(object)),
            shown(self.retained(object)),
            counted(kept, "object"),
        ));
        text += self.text.as_ref().map(|said| line(format!("its text: {said}"))).unwrap_or_default();
        text += self.open_file().map(|(values, opened)| values.text(opened)).unwrap_or_default();
        text += titled("why it is alive");
        text += self.path_text(ShortestPaths::new(self.graph).to(self.graph, object));
        let [to, from] = self.neighbours(object);
        text += self.list("refers to", to, None);
        text + self.list("is referred to by", from, Some(object))
    }

    fn path_text(&self, path: Option<Path>) -> Page {
        let Some(Path { root, objects }) = path else {
            return line("  no root reaches it: it is garbage, or not all of the heap is here");
        };
        let mut text = line(format!("  a root ({})", roots::words(self.graph, root.object, root.kind)));
        let hidden = middle(objects.len(), TEXT);
        for (place, object) in objects.iter().enumerate() {
            if hidden.contains(&place) {
                if place == hidden.start {
                    text += line(format!("  … {}", counted(hidden.len() as u64, "other")));
                }
                continue;
            }
            text += line(format!("  → {}", self.name_by(*object, objects.get(place + 1).copied())));
        }
        text
    }

    fn list(&self, title: &str, (count, objects): (usize, Vec<ObjectIx>), to: Option<ObjectIx>) -> Page {
        let mut text = titled(format!("{title} {}", counted(count as u64, "object")));
        if count > 0 {
            text += self.objects(&objects, to);
        }
        text + more(count, objects.len())
    }

    /// A table of objects, with the field or element by which each refers to `to`, if any.
    fn objects(&self, objects: &[ObjectIx], to: Option<ObjectIx>) -> Page {
        let row = |object: &ObjectIx| {
            [shown(self.retained(*object)), shown(self.graph.bytes(*object)), self.name_by(*object, to)]
        };
        Columns { numbers: &["retained", "own"], texts: &["object"] }.table(objects.iter().map(row)).render()
    }

    fn objects_of(&self, of: TypeIx) -> (usize, Vec<ObjectIx>) {
        self.greatest(self.graph.objects().filter(|object| self.graph.type_ix(*object) == of))
    }

    /// The types that refer to objects of this type, with the number of references, most first.
    fn referrers(&self, of: TypeIx) -> Vec<(TypeIx, u64)> {
        let mut counts = vec![0_u64; self.graph.types().len()];
        for source in self.graph.objects() {
            let count = self.graph.references(source).filter(|target| self.graph.type_ix(*target) == of).count();
            counts[self.graph.type_ix(source).0 as usize] += count as u64;
        }
        let mut rows: Vec<(TypeIx, u64)> =
            counts.into_iter().enumerate().map(|(index, count)| (TypeIx(index as u32), count)).collect();
        rows.retain(|(_, count)| *count > 0);
        rows.sort_by_key(|(_, count)| Reverse(*count));
        rows
    }

    /// The first objects on the shortest paths to a type's objects, and to how many each leads.
    fn beginnings(&self, of: TypeIx) -> Vec<(ObjectIx, u64)> {
        let those = self.graph.objects().filter(|object| self.graph.type_ix(*object) == of);
        ShortestPaths::new(self.graph).beginnings(those)
    }

    fn beginning(&self, (object, count): (ObjectIx, u64)) -> Option<BeginningJson> {
        let kind = self.graph.root_of(object)?;
        let root_note = self.graph.root_note(object, kind).map(str::to_owned);
        Some(BeginningJson { count, root: kind.name(), root_note, object: self.object_json(object) })
    }

    fn beginnings_text(&self, of: TypeIx) -> Page {
        let all = self.beginnings(of);
        let columns = Columns { numbers: &["objects"], texts: &["root"] };
        let table = columns.top(&all, self.top, |(object, count)| {
            let root = self.graph.root_of(*object).map(|kind| roots::words(self.graph, *object, kind));
            [grouped(*count), format!("{} → {}", root.unwrap_or_default(), self.name(*object))]
        });
        titled("kept alive from, by the shortest ways") + table
    }

    fn type_(&self, of: TypeIx) -> TypeJson {
        let row = by_type(self.graph, &self.tree).into_iter().find(|row| row.type_ix == of);
        let (_, objects) = self.objects_of(of);
        let (known, beginnings) = (self.graph.type_at(of), self.beginnings(of));
        let referred_from = self.referrers(of).into_iter().map(|(of, references)| {
            let r#type = self.graph.shown_type(of).into_owned();
            ReferrerJson { r#type, references }
        });
        TypeJson {
            r#type: known.name.clone(),
            assembly: known.assembly.clone(),
            totals: row.map(|row| row.totals.into()).unwrap_or_default(),
            objects: objects.into_iter().map(|object| self.object_json(object)).collect(),
            reached_from_count: beginnings.len(),
            reached_from: beginnings.into_iter().take(self.top).filter_map(|row| self.beginning(row)).collect(),
            referred_from: referred_from.collect(),
            static_fields: self.fixed_json(),
            has_static_fields: self.fixed_are_all,
        }
    }

    fn fixed_json(&self) -> Vec<MemberJson> {
        self.inside.as_ref().map(|(values, _)| values.members_json(&self.fixed)).unwrap_or_default()
    }

    /// Its static fields, one a line; empty if it has none.
    fn fixed_text(&self) -> Page {
        let Some((values, _)) = self.inside.as_ref().filter(|_| !self.fixed.is_empty()) else {
            let unknown = "whether it has static fields is not known: this snapshot does not have them all";
            return if self.fixed_are_all { Page::default() } else { titled(unknown) };
        };
        let left = self.fixed.len().saturating_sub(self.top);
        let shown = &self.fixed[..self.fixed.len() - left];
        titled("its static fields") + values.lines(shown, 1) + more(self.fixed.len(), shown.len())
    }

    /// A type without objects.
    fn static_(&self, owner: Owner) -> TypeJson {
        TypeJson {
            r#type: owner.name,
            assembly: owner.assembly,
            static_fields: self.fixed_json(),
            has_static_fields: self.fixed_are_all,
            ..TypeJson::default()
        }
    }

    fn static_text(&self, owner: Owner) -> Page {
        line(format!("{} ({}): no object", owner.name, owner.assembly)) + self.fixed_text()
    }

    fn type_text(&self, of: TypeIx) -> Page {
        let row = self.type_(of);
        let mut text = line(format!(
            "{} ({}): {}, {} of their own, {} with all that goes with them",
            row.r#type,
            row.assembly,
            counted(row.totals.count, "object"),
            shown(row.totals.bytes),
            shown(row.totals.retained),
        ));
        text += self.fixed_text();
        let (count, objects) = self.objects_of(of);
        text += titled("those that keep most") + self.objects(&objects, None) + more(count, objects.len());
        text += self.beginnings_text(of) + titled("referred to by");
        let columns = Columns { numbers: &["references"], texts: &["type"] };
        let cells = |referrer: &ReferrerJson| [grouped(referrer.references), referrer.r#type.clone()];
        text + columns.top(&row.referred_from, self.top, cells)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use remora_heap::{Builder, Object, RootKind, Type, TypeFlags};

    /// An object that holds a linked list of `nodes` nodes.
    pub(crate) fn list(nodes: u64) -> HeapGraph {
        let mut builder = Builder::new();
        let mut of = |name: &str| {
            let flags = TypeFlags::default();
            builder.add_type(Type { name: name.into(), assembly: "Known".into(), flags }).expect("there is room")
        };
        let (holder, node, _) = (of("Known.Holder"), of("Known.Node"), of("Known.Node.Empty"));
        let mut add = |address, type_ix, bytes, references: &[u64]| {
            builder.add_object(Object { address, type_ix, bytes }, references.iter().copied()).expect("there is room");
        };
        add(0x1000, holder, 24, &[0x2000]);
        for index in 0..nodes {
            let next = if index + 1 < nodes { 0x2000 + (index + 1) * 32 } else { 0 };
            add(0x2000 + index * 32, node, 32, &[next]);
        }
        builder.add_root(0x1000, RootKind::Handle).expect("there is room");
        builder.finish().expect("there is room")
    }

    fn show(graph: &HeapGraph) -> Show<'_> {
        Show {
            selection: Selection::Object(ObjectIx(0)),
            graph,
            tree: DominatorTree::new(graph),
            text: None,
            inside: None,
            fixed: Vec::new(),
            fixed_are_all: true,
            ways: HashMap::new(),
            top: 3,
        }
    }

    #[test]
    fn an_object_is_reported_with_why_it_is_alive_and_who_is_beside_it() {
        let graph = list(3);
        let last = graph.object_at(0x2040).expect("it is there");
        let row = show(&graph).object(last);
        let path = row.path.expect("the holder reaches it");
        let addresses: Vec<u64> = path.objects.iter().map(|object| object.address).collect();
        assert_eq!((path.root, &addresses[..]), ("handle", &[0x1000, 0x2000, 0x2020, 0x2040][..]));
        assert_eq!((row.refers_to_count, row.referred_from_count, row.referred_from[0].address), (0, 1, 0x2020));
        let first = show(&graph).object(graph.object_at(0x2000).expect("it is there"));
        assert_eq!((first.object.bytes, first.object.retained, first.retained_count), (32, 96, 3));
    }

    #[test]
    fn a_long_way_is_shown_by_its_ends() {
        let graph = list(100);
        let text = show(&graph).object_text(graph.object_at(0x2000 + 99 * 32).expect("it is there"));
        assert!(
            text.contains("a root (handle)\n  → Known.Holder (at 0x1000)\n") && text.contains("  … 86 others\n"),
            "{text}"
        );
        assert!(text.contains("refers to 0 objects\n\nis referred to by 1 object\n"), "{text}");
    }

    #[test]
    fn regression_the_type_name_of_a_long_list_was_repeated_for_each_of_its_nodes() {
        let graph = list(100_000);
        let path = show(&graph).object(ObjectIx(100_000)).path.expect("the holder reaches it");
        assert_eq!((path.objects.len(), path.objects_left_out), (2 * JSON[0], Some(100_001 - 2 * JSON[0])));
        let [first, last] = [0, 2 * JSON[0] - 1].map(|place| path.objects[place].address);
        assert_eq!([first, last], [0x1000, 0x2000 + 99_999 * 32]);
        assert_eq!(show(&graph).object(ObjectIx(9)).path.expect("one").objects_left_out, None);
    }

    #[test]
    fn a_type_is_reported_with_its_greatest_and_who_refers_to_them() {
        let graph = list(5);
        let show = show(&graph);
        let Ok(Selection::Type(node)) = select(&graph, Statics { fields: &[], are_all: true }, "Known.Node") else {
            panic!("it is there")
        };
        let row = show.type_(node);
        assert_eq!((row.totals.count, row.totals.bytes, row.totals.retained), (5, 160, 160));
        assert_eq!(row.objects.iter().map(|object| object.retained).collect::<Vec<_>>(), [160, 128, 96]);
        let from: Vec<(&str, u64)> =
            row.referred_from.iter().map(|row| (row.r#type.as_str(), row.references)).collect();
        assert_eq!(from, [("Known.Node", 4), ("Known.Holder", 1)]);
        let text = show.type_text(node);
        assert!(text.contains("and 2 others (--top shows more)"));
        let begins: Vec<(u64, u64)> = row.reached_from.iter().map(|row| (row.object.address, row.count)).collect();
        assert_eq!((row.reached_from_count, &begins[..]), (1, &[(0x1000, 5)][..]));
        assert!(text.contains("      5  handle → Known.Holder (at 0x1000)\n"), "{text}");
        assert!(!show.type_text(node).contains("static fields"));
        let unasked = Show { fixed_are_all: false, ..show };
        assert!(unasked.type_text(node).contains("whether it has static fields is not known"));
    }
}
