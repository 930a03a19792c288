//! V8's heap snapshots, for the Memory panel of Chrome's DevTools (`HeapSnapshotLoader.ts` of devtools-frontend).
//! The file is one JSON object with `nodes` and `edges` as flat arrays of numbers.
//!
//! The first node is a synthetic root. Then follows one node for each kind of root present, with an `element` edge for each root.
//! The root also has one `shortcut` to each object that a root holds. DevTools take such objects for the application's own roots, and count
//! distances from them. Two to one object make their graph search fail.
//! Every object is an `object`, strings and arrays, too: DevTools add the bytes of V8's own `array` and `hidden` nodes to their owners.
//! The class is the type's name. Only snapshots with values have field names, and no graph does. So an edge is an `element`, numbered among
//! the non-null references.
//! Losses of the graph are listed under `remora`, which DevTools ignore.

use crate::rest::{NAME, Rest};
use crate::{About, Format, TooLarge, refuse_above};
use remora_heap::{HeapGraph, ObjectIx, RootKind};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

/// DevTools keep every number in 32 bits (`createFixedBigUint32Array`), including a node's position, which counts its fields.
const NODES_MOST: u64 = u32::MAX as u64 / NODE_FIELDS;
/// The same limit for positions of edges.
const EDGES_MOST: u64 = u32::MAX as u64 / EDGE_FIELDS;
/// They parse all names together as one string, and V8's longest has 2^29 - 24 characters (`String::kMaxLength`).
const NAMES_MOST: u64 = (1 << 29) - 24;
/// Larger objects are split into pieces.
const LARGEST: u64 = u32::MAX as u64;

const NODE_FIELDS: u64 = 7;
const EDGE_FIELDS: u64 = 3;

/// The used node and edge types, by their index in [`META`].
const OBJECT: u64 = 3;
const SYNTHETIC: u64 = 9;
const ELEMENT: u64 = 1;
const SHORTCUT: u64 = 5;

/// The field descriptions, as V8 writes them.
const META: &str = r#"{"node_fields":["type","name","id","self_size","edge_count","trace_node_id","detachedness"],"node_types":[["hidden","array","string","object","code","closure","regexp","number","native","synthetic","concatenated string","sliced string","symbol","bigint","object shape"],"string","number","number","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"string_or_number","node"]}"#;

pub(crate) fn check(graph: &HeapGraph) -> Result<(), TooLarge> {
    let (rest, roots) = (Rest::of(graph, LARGEST), Roots::of(graph));
    let names: u64 = graph.types().iter().map(|known| known.name.len() as u64 + known.assembly.len() as u64 + 8).sum();
    let counted = [
        ("objects", node_count(graph, &rest, &roots), NODES_MOST),
        ("references", edge_count(graph, &rest, &roots), EDGES_MOST),
        ("characters of types' names", names, NAMES_MOST),
    ];
    refuse_above(Format::HeapSnapshot, counted)
}

pub(crate) fn write(graph: &HeapGraph, about: &About, out: &mut dyn Write) -> io::Result<()> {
    let rest = Rest::of(graph, LARGEST);
    let roots = Roots::of(graph);
    let (nodes, edges) = (node_count(graph, &rest, &roots), edge_count(graph, &rest, &roots));
    let account = serde_json::json!({ "complete": about.complete, "account": about.account() });
    write!(out, r#"{{"snapshot":{{"meta":{META},"node_count":{nodes},"edge_count":{edges},"#)?;
    writeln!(out, r#""trace_function_count":0,"remora":{account}}},"#)?;
    let mut snapshot = Snapshot { graph, rest, roots, rows: Rows { out, row: Vec::with_capacity(80), any: false } };
    snapshot.nodes()?;
    snapshot.edges()?;
    let out = snapshot.rows.out;
    writeln!(out, r#""trace_function_infos":[],"trace_tree":[],"samples":[],"locations":[],"#)?;
    strings(graph, out)
}

fn node_count(graph: &HeapGraph, rest: &Rest, roots: &Roots) -> u64 {
    roots.first_object() + graph.object_count() as u64 + rest.pieces.len() as u64
}

fn edge_count(graph: &HeapGraph, rest: &Rest, roots: &Roots) -> u64 {
    let of_roots = roots.kinds.len() + roots.held.len() + graph.roots().len();
    (of_roots + graph.reference_count() + rest.pieces.len()) as u64
}

/// The nodes before the objects.
struct Roots {
    /// The kinds of roots present, and their number.
    kinds: Vec<(RootKind, u64)>,
    /// The objects they hold, each once, ascending.
    held: Vec<ObjectIx>,
}

impl Roots {
    fn of(graph: &HeapGraph) -> Roots {
        let count = |kind| graph.roots().iter().filter(|root| root.kind == kind).count() as u64;
        let kinds = RootKind::ALL.iter().copied().map(|kind| (kind, count(kind))).filter(|(_, count)| *count > 0);
        let mut held: Vec<ObjectIx> = graph.roots().iter().map(|root| root.object).collect();
        held.sort_unstable();
        held.dedup();
        Roots { kinds: kinds.collect(), held }
    }

    /// The node of the first object: after the root and the kinds.
    fn first_object(&self) -> u64 {
        1 + self.kinds.len() as u64
    }
}

struct Snapshot<'a> {
    graph: &'a HeapGraph,
    rest: Rest,
    roots: Roots,
    rows: Rows<'a>,
}

impl Snapshot<'_> {
    /// The root, the kinds of roots, the objects, and the pieces.
    fn nodes(&mut self) -> io::Result<()> {
        self.rows.begin("nodes")?;
        let graph = self.graph;
        let mut id = 1;
        self.rows.node([SYNTHETIC, 0, id, 0, (self.roots.kinds.len() + self.roots.held.len()) as u64])?;
        for (kind, count) in &self.roots.kinds {
            id += 2;
            self.rows.node([SYNTHETIC, kind_name(*kind), id, 0, *count])?;
        }
        for object in graph.objects() {
            let piece = u64::from(self.rest.first_of(object).is_some());
            let (name, bytes) = (first_type() + u64::from(graph.type_ix(object).0), self.rest.bytes(graph, object));
            id += 2;
            self.rows.node([OBJECT, name, id, bytes, graph.references(object).len() as u64 + piece])?;
        }
        for piece in &self.rest.pieces {
            id += 2;
            let name = first_type() + graph.types().len() as u64;
            self.rows.node([OBJECT, name, id, piece.bytes, u64::from(piece.goes_on)])?;
        }
        self.rows.end()
    }

    /// The edges, in the order of nodes.
    fn edges(&mut self) -> io::Result<()> {
        self.rows.begin("edges")?;
        let graph = self.graph;
        let first = self.roots.first_object();
        let node = |object: ObjectIx| first + u64::from(object.0);
        let node_of_piece = |piece: usize| first + graph.object_count() as u64 + piece as u64;
        for place in 0..self.roots.kinds.len() as u64 {
            self.rows.edge([ELEMENT, place, 1 + place])?;
        }
        for object in &self.roots.held {
            self.rows.edge([SHORTCUT, HELD, node(*object)])?;
        }
        for (kind, _) in &self.roots.kinds {
            let of_kind = graph.roots().iter().filter(|root| root.kind == *kind);
            for (number, root) in of_kind.enumerate() {
                self.rows.edge([ELEMENT, number as u64, node(root.object)])?;
            }
        }
        for object in graph.objects() {
            let references = graph.references(object);
            let count = references.len() as u64;
            for (number, target) in references.enumerate() {
                self.rows.edge([ELEMENT, number as u64, node(target)])?;
            }
            if let Some(piece) = self.rest.first_of(object) {
                self.rows.edge([ELEMENT, count, node_of_piece(piece)])?;
            }
        }
        for (index, piece) in self.rest.pieces.iter().enumerate() {
            if piece.goes_on {
                self.rows.edge([ELEMENT, 0, node_of_piece(index + 1)])?;
            }
        }
        self.rows.end()
    }
}

/// Indexes of names: the root's own, which is empty; that of shortcuts; those of kinds.
const HELD: u64 = 1;
const FIRST_KIND: u64 = 2;

fn kind_name(kind: RootKind) -> u64 {
    RootKind::ALL.iter().position(|known| *known == kind).map_or(0, |place| place as u64 + FIRST_KIND)
}

/// The index of the first type's name.
fn first_type() -> u64 {
    FIRST_KIND + RootKind::ALL.len() as u64
}

fn strings(graph: &HeapGraph, out: &mut dyn Write) -> io::Result<()> {
    let shared = shared_names(graph);
    let mut separator = r#""strings":["#;
    let mut put = |text: &str, out: &mut dyn Write| {
        out.write_all(std::mem::replace(&mut separator, ",\n").as_bytes())?;
        serde_json::to_writer(out, text).map_err(io::Error::from)
    };
    put("", out)?;
    put("held", out)?;
    for kind in RootKind::ALL {
        put(&format!("({} roots)", kind.name()), out)?;
    }
    for known in graph.types() {
        if shared.contains(known.name.as_str()) {
            put(&format!("{} [{}]", known.name, known.assembly), out)?;
        } else {
            put(&known.name, out)?;
        }
    }
    put(NAME, out)?;
    out.write_all(b"]}\n")
}

/// Type names that occur in several assemblies: DevTools would show one class.
fn shared_names(graph: &HeapGraph) -> HashSet<&str> {
    let mut assemblies = HashMap::new();
    let mut shared = HashSet::new();
    for known in graph.types() {
        let (name, assembly) = (known.name.as_str(), known.assembly.as_str());
        if *assemblies.entry(name).or_insert(assembly) != assembly {
            shared.insert(name);
        }
    }
    shared
}

/// Arrays of numbers, one line for each node and edge.
struct Rows<'a> {
    out: &'a mut dyn Write,
    row: Vec<u8>,
    any: bool,
}

impl Rows<'_> {
    fn begin(&mut self, name: &str) -> io::Result<()> {
        self.any = false;
        write!(self.out, "\"{name}\":[")
    }

    /// A node without an allocation trace, of unknown detachedness.
    fn node(&mut self, [kind, name, id, bytes, edges]: [u64; 5]) -> io::Result<()> {
        self.row([kind, name, id, bytes, edges, 0, 0])
    }

    /// An edge to the node at this index.
    fn edge(&mut self, [kind, name, node]: [u64; 3]) -> io::Result<()> {
        self.row([kind, name, node * NODE_FIELDS])
    }

    fn row<const N: usize>(&mut self, numbers: [u64; N]) -> io::Result<()> {
        self.row.clear();
        self.row.extend_from_slice(if std::mem::replace(&mut self.any, true) { b",\n" } else { b"" });
        for (place, number) in numbers.into_iter().enumerate() {
            if place > 0 {
                self.row.push(b',');
            }
            self.row.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        self.out.write_all(&self.row)
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"],\n")
    }
}
