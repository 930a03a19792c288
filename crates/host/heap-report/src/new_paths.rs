//! Paths to roots that the objects of a type have in the later of two snapshots, and had not in the earlier one.
//!
//! Objects have no identity across a GC. So a path is the root's name and the types along the way.
//! In a list whose node types alternate, each node has a path of its own. So paths share their beginnings as numbers, and only shown ones get
//! their names.

use crate::long_paths::{JSON, middle_within};
use crate::roots;
use remora_heap::{Allowance, HeapGraph, ObjectIx, ShortestPaths, Step, TypeIx};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

/// The path of an object that no root reaches, and of one whose path is not known yet.
const NONE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
/// The path before a root.
const START: u32 = u32::MAX - 2;

/// The new paths, most objects first.
#[derive(Debug)]
pub(crate) struct NewPaths {
    names: Vec<Rc<str>>,
    steps: Vec<PathStep>,
    /// The last step of each, and the objects with this path.
    rows: Vec<(u32, u64)>,
}

/// A path, as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewPath<'a> {
    /// The objects with this path.
    pub(crate) objects: u64,
    /// The root, and the types from there to the objects. A type follows itself once: in a list, each node has another length.
    pub(crate) begins: Vec<&'a str>,
    /// Steps of a long path that are left out.
    pub(crate) left_out: usize,
    /// The steps behind them.
    pub(crate) ends: Vec<&'a str>,
}

/// The last step of a path.
#[derive(Debug)]
struct PathStep {
    before: u32,
    name: u32,
    /// The number of steps, this one included.
    length: usize,
    /// The path's last step that JSON shows of its beginning.
    begin: u32,
}

/// The paths of two snapshots: each is a step after another path. Steps and names are numbers.
#[derive(Default)]
struct Paths {
    name_of: HashMap<Rc<str>, u32>,
    names: Vec<Rc<str>>,
    known: HashMap<(u32, u32), u32>,
    steps: Vec<PathStep>,
}

/// A snapshot, while its paths are counted.
struct Side<'a> {
    graph: &'a HeapGraph,
    shortest: ShortestPaths,
    roots: HashMap<ObjectIx, String>,
    /// The path of each object, and the name of each type, as far as they are known.
    path_of: Vec<u32>,
    name_of: Vec<u32>,
}

/// The new paths of the objects of these types, by name and assembly. Most objects first.
pub(crate) fn new_paths(before: &HeapGraph, after: &HeapGraph, types: &[(&str, &str)]) -> NewPaths {
    let mut paths = Paths::default();
    let old = paths.count(before, types);
    let new = paths.count(after, types).into_iter().filter(|(path, _)| !old.contains_key(path));
    let mut rows: Vec<(u32, u64)> = new.collect();
    let order = paths.order();
    rows.sort_unstable_by_key(|(path, objects)| (Reverse(*objects), order[*path as usize]));
    NewPaths { names: paths.names, steps: paths.steps, rows }
}

impl NewPaths {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The first of them, as long as the allowance suffices. Of a long path `most` names its steps at the beginning and at the end.
    pub(crate) fn shown<'a>(
        &'a self,
        most: [usize; 2],
        allowance: &'a Allowance,
    ) -> impl Iterator<Item = NewPath<'a>> + 'a {
        self.rows.iter().map_while(move |(path, objects)| self.path(*path, *objects, most, allowance))
    }

    /// A path; nothing if the allowance has no room for its root.
    fn path(&self, path: u32, objects: u64, most: [usize; 2], allowance: &Allowance) -> Option<NewPath<'_>> {
        let PathStep { length, begin, .. } = *self.steps.get(path as usize)?;
        let begins = self.last(begin, JSON[0]);
        let ends = self.last(path, JSON[1].min(length - begins.len()));
        let name = |place: usize| begins.get(place).copied().unwrap_or_else(|| ends[ends.len() + place - length]);
        let hidden = middle_within(length, most, allowance, name);
        (hidden.start > 0).then(|| NewPath {
            objects,
            begins: (0..hidden.start).map(name).collect(),
            left_out: hidden.len(),
            ends: (hidden.end..length).map(name).collect(),
        })
    }

    /// The names of a path's last steps.
    fn last(&self, path: u32, count: usize) -> Vec<&str> {
        let before = |step: &&PathStep| self.steps.get(step.before as usize);
        let steps = std::iter::successors(self.steps.get(path as usize), before).take(count);
        let mut names: Vec<&str> = steps.map(|step| &*self.names[step.name as usize]).collect();
        names.reverse();
        names
    }
}

impl Paths {
    /// The paths of the objects of these types, and how many objects have each.
    fn count(&mut self, graph: &HeapGraph, types: &[(&str, &str)]) -> HashMap<u32, u64> {
        let wanted: Vec<bool> = graph.types().iter().map(|of| types.contains(&(&*of.name, &*of.assembly))).collect();
        let mut side = Side {
            graph,
            shortest: ShortestPaths::new(graph),
            roots: roots::all_holders(graph),
            path_of: vec![UNKNOWN; graph.object_count()],
            name_of: vec![UNKNOWN; graph.types().len()],
        };
        let mut counts = HashMap::new();
        for object in graph.objects().filter(|object| wanted[graph.type_ix(*object).0 as usize]) {
            let path = self.of(&mut side, object);
            if path != NONE {
                *counts.entry(path).or_default() += 1;
            }
        }
        counts
    }

    fn of(&mut self, side: &mut Side<'_>, object: ObjectIx) -> u32 {
        let (mut way, mut here) = (vec![object], object);
        let mut path = loop {
            match (side.path_of[here.0 as usize], side.shortest.step(here)) {
                (UNKNOWN, Step::Object(next)) => {
                    way.push(next);
                    here = next;
                }
                (UNKNOWN, Step::Root) => {
                    let root = self.name(side.roots.get(&here).map_or("a root that is not known", String::as_str));
                    break self.after(START, root);
                }
                (UNKNOWN, Step::Nothing) => break NONE,
                (known, _) => {
                    way.pop();
                    break known;
                }
            }
        };
        for passed in way.into_iter().rev() {
            if path != NONE {
                let of = self.type_name(side, side.graph.type_ix(passed));
                path = self.after(path, of);
            }
            side.path_of[passed.0 as usize] = path;
        }
        path
    }

    /// The number of a type's name.
    fn type_name(&mut self, side: &mut Side<'_>, of: TypeIx) -> u32 {
        let known = &mut side.name_of[of.0 as usize];
        if *known == UNKNOWN {
            *known = self.name(&side.graph.shown_type(of));
        }
        *known
    }

    /// The number of a name: the same in both snapshots.
    fn name(&mut self, name: &str) -> u32 {
        if let Some(known) = self.name_of.get(name) {
            return *known;
        }
        let (next, name) = (self.names.len() as u32, Rc::<str>::from(name));
        self.names.push(Rc::clone(&name));
        self.name_of.insert(name, next);
        next
    }

    fn after(&mut self, path: u32, name: u32) -> u32 {
        let last = self.steps.get(path as usize);
        if last.is_some_and(|last| last.name == name) {
            return path;
        }
        let next = self.steps.len() as u32;
        let known = *self.known.entry((path, name)).or_insert(next);
        if known == next {
            let length = last.map_or(0, |last| last.length) + 1;
            let begin = last.filter(|_| length > JSON[0]).map_or(next, |last| last.begin);
            self.steps.push(PathStep { before: path, name, length, begin });
        }
        known
    }

    /// The place of each path, if all were sorted by their steps' names: a path comes before those that it begins.
    fn order(&self) -> Vec<u32> {
        let mut by_name: Vec<u32> = (0..self.names.len() as u32).collect();
        by_name.sort_unstable_by_key(|name| &self.names[*name as usize]);
        let name_places = places(&by_name);
        let key = |step: &u32| {
            let PathStep { before, name, .. } = self.steps[*step as usize];
            (before, name_places[name as usize])
        };
        let mut siblings: Vec<u32> = (0..self.steps.len() as u32).collect();
        siblings.sort_unstable_by_key(key);
        let behind = |path: u32| {
            let begin = siblings.partition_point(|step| key(step).0 < path);
            siblings[begin..].iter().copied().take_while(move |step| self.steps[*step as usize].before == path)
        };
        let mut waiting: Vec<u32> = behind(START).collect();
        waiting.reverse();
        let mut sorted = Vec::with_capacity(self.steps.len());
        while let Some(path) = waiting.pop() {
            sorted.push(path);
            let rest = waiting.len();
            waiting.extend(behind(path));
            waiting[rest..].reverse();
        }
        places(&sorted)
    }
}

/// The place of each number in a list of all numbers below its length.
fn places(sorted: &[u32]) -> Vec<u32> {
    let mut places = vec![0; sorted.len()];
    sorted.iter().zip(0..).for_each(|(number, place)| places[*number as usize] = place);
    places
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::long_paths::TEXT;
    use remora_heap::{Builder, Object, RootKind, Type, TypeFlags};

    const TYPES: [(&str, &str); 2] = [("App.Even", "App"), ("App.Odd", "App")];

    /// A list whose node types alternate.
    pub(crate) fn list(nodes: u64) -> HeapGraph {
        let mut builder = Builder::new();
        let types = TYPES.map(|(name, assembly)| {
            let of = Type { name: name.into(), assembly: assembly.into(), flags: TypeFlags::default() };
            builder.add_type(of).expect("there is room")
        });
        for index in 0..nodes {
            let next = (index + 1 < nodes).then_some(0x1000 + (index + 1) * 24);
            let object = Object { address: 0x1000 + index * 24, type_ix: types[index as usize % 2], bytes: 24 };
            builder.add_object(object, next).expect("there is room");
        }
        builder.add_root(0x1000, RootKind::Static).expect("there is room");
        builder.finish().expect("there is room")
    }

    fn text(path: &NewPath<'_>) -> String {
        format!("{} × {} …{} {}", path.objects, path.begins.join(" "), path.left_out, path.ends.join(" "))
    }

    #[test]
    fn regression_each_node_of_a_list_of_alternating_types_repeated_the_names_of_all_before_it() {
        let paths = new_paths(&list(2), &list(30_000), &TYPES);
        assert_eq!((paths.count(), paths.steps.len(), paths.names.len()), (29_998, 30_001, 3));
        let allowance = Allowance::new(1 << 20);
        let shown: Vec<NewPath<'_>> = paths.shown(JSON, &allowance).collect();
        let bytes = |path: &NewPath<'_>| path.begins.iter().chain(&path.ends).map(|name| name.len()).sum::<usize>();
        let all: usize = shown.iter().map(bytes).sum();
        assert!((1 << 16..1 << 20).contains(&all) && shown.len() < 200, "{all} bytes in {} paths", shown.len());
        let last = paths.path(paths.rows[29_997].0, 1, JSON, &Allowance::new(1 << 20)).expect("there is room");
        assert_eq!((last.begins.len(), last.left_out, last.ends.len()), (5000, 20_001, 5000));
        assert_eq!((last.begins[0], last.ends[4999]), ("static", "App.Odd"));
    }

    #[test]
    fn a_long_path_has_the_names_of_its_ends_in_their_order() {
        let paths = new_paths(&list(1), &list(12_001), &TYPES);
        let allowance = Allowance::new(1 << 20);
        let last = paths.path(paths.rows[11_999].0, 1, [3, 2], &allowance).expect("there is room");
        assert_eq!(text(&last), "1 × static App.Even App.Odd …11997 App.Odd App.Even");
    }

    #[test]
    fn paths_with_most_objects_come_first_then_those_by_their_names() {
        let mut builder = Builder::new();
        let types = ["App.B", "App.A", "App.Leaf"].map(|name| {
            let of = Type { name: name.into(), assembly: "App".into(), flags: TypeFlags::default() };
            builder.add_type(of).expect("there is room")
        });
        let objects: [(u64, usize, &[u64]); 8] = [
            (1, 0, &[3, 4, 5]),
            (2, 1, &[7]),
            (3, 2, &[]),
            (4, 1, &[6]),
            (5, 0, &[8]),
            (6, 2, &[]),
            (7, 2, &[]),
            (8, 2, &[]),
        ];
        for (address, of, references) in objects {
            let object = Object { address: address * 24, type_ix: types[of], bytes: 24 };
            builder.add_object(object, references.iter().map(|to| to * 24)).expect("there is room");
        }
        for root in [24, 48] {
            builder.add_root(root, RootKind::Static).expect("there is room");
        }
        let after = builder.finish().expect("there is room");
        let paths = new_paths(&list(0), &after, &[("App.Leaf", "App")]);
        let allowance = Allowance::new(1 << 20);
        let shown: Vec<String> = paths.shown(TEXT, &allowance).map(|path| text(&path)).collect();
        let expected =
            ["2 × static App.B App.Leaf …0 ", "1 × static App.A App.Leaf …0 ", "1 × static App.B App.A App.Leaf …0 "];
        assert_eq!(shown, expected);
    }
}
