//! A heap object by object, from three sources for comparison: the runtime's callbacks, the walk's stream, a snapshot's file.

#![allow(dead_code, reason = "each test program uses its part of it")]

use remora_e2e::probe::Seat;
use remora_heap_file::{HeapGraph, Limits, Snapshot, State, Writer};
use remora_heap_stream::{ClassFacts, HeapDecoder, HeapVisitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The facts about an object; `C` is the type of its class name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object<C> {
    pub class: C,
    pub bytes: u64,
    /// Ascending.
    pub references: Vec<u64>,
}

impl<C> Object<C> {
    /// The same with another class name.
    pub fn called<D>(&self, class: D) -> Object<D> {
        Object { class, bytes: self.bytes, references: self.references.clone() }
    }
}

/// Objects by address.
pub type Heap<C> = BTreeMap<u64, Object<C>>;

/// A root reported by the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    pub object: u64,
    pub kind: u64,
    pub flags: u64,
    pub id: u64,
}

/// The callbacks of the runtime in one GC.
#[derive(Debug)]
pub struct Reported {
    pub objects: Heap<u64>,
    pub roots: Vec<Root>,
    /// Pairs of dependent handles: the first keeps the second alive.
    pub dependents: BTreeSet<(u64, u64)>,
    /// Frozen segments: begin and end.
    pub frozen: Vec<(u64, u64)>,
}

impl Reported {
    /// Reads the probe's output folder.
    pub fn read(folder: &Path) -> Reported {
        let words = words(&folder.join("objects"));
        let (mut objects, mut rest) = (Heap::new(), &words[..]);
        while let [address, class, bytes, count, behind @ ..] = rest {
            let (references, behind) = behind.split_at(*count as usize);
            let object = object(*class, *bytes, references.to_vec());
            assert_eq!(objects.insert(*address, object), None, "{address:#x} was told of twice");
            rest = behind;
        }
        let roots = self::words(&folder.join("roots"));
        let roots = roots.as_chunks::<4>().0.iter().map(|&[object, kind, flags, id]| Root { object, kind, flags, id });
        let dependents = self::words(&folder.join("dependents"));
        let dependents = dependents.as_chunks::<3>().0.iter().map(|&[from, to, _]| (from, to));
        let frozen = self::words(&folder.join("frozen"));
        let frozen = frozen.as_chunks::<2>().0.iter().map(|&[begin, length]| (begin, begin + length));
        Reported { objects, roots: roots.collect(), dependents: dependents.collect(), frozen: frozen.collect() }
    }
}

fn object<C>(class: C, bytes: u64, mut references: Vec<u64>) -> Object<C> {
    references.sort_unstable();
    Object { class, bytes, references }
}

fn words(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Reads a snapshot's file, which must be complete.
pub fn snapshot(file: &Path) -> Snapshot {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    let snapshot = remora_heap_file::read(&bytes[..], Limits::default())
        .unwrap_or_else(|error| panic!("cannot understand {}: {error}", file.display()));
    assert!(snapshot.is_complete(), "{:?} {:?}", snapshot.state, snapshot.graph.completeness());
    snapshot
}

/// The graph of a probe's walk, built by the product's own reader; its types have no names.
pub fn graph_of_stream(folder: &Path) -> HeapGraph {
    let stream = fs::read(folder.join("stream")).expect("the walk has written");
    let file = Writer::create(Vec::new()).and_then(|mut file| {
        file.stream(&stream)?;
        file.finish(&State { complete: true, ..State::default() })
    });
    let file = file.unwrap_or_else(|error| panic!("cannot write a snapshot: {error}"));
    let snapshot = remora_heap_file::read(&file[..], Limits::default());
    snapshot.unwrap_or_else(|error| panic!("cannot understand the walk: {error}")).graph
}

/// The graph as objects with type names.
pub fn named(graph: &HeapGraph) -> Heap<String> {
    let of = |index| {
        let references = graph.references(index).map(|target| graph.address(target)).collect();
        (graph.address(index), object(graph.type_of(index).name.clone(), graph.bytes(index), references))
    };
    graph.objects().map(of).collect()
}

/// The objects of the product's walk in the probe.
#[derive(Debug, Default)]
pub struct Walked {
    pub objects: Heap<u64>,
    classes: Vec<u64>,
    last: u64,
    has_ended: bool,
}

impl Walked {
    /// Reads the probe's output folder.
    pub fn read(folder: &Path) -> Walked {
        let stream = fs::read(folder.join("stream")).expect("the walk has written");
        let mut walked = Walked::default();
        HeapDecoder::default().push((&stream).into(), &mut walked).expect("the walk can be read");
        assert!(walked.has_ended, "the walk came to its end");
        walked.objects.values_mut().for_each(|object| object.references.sort_unstable());
        walked
    }
}

impl HeapVisitor for Walked {
    fn class(&mut self, id: u64, _: ClassFacts) {
        self.classes.push(id);
    }

    fn object(&mut self, address: u64, class: u32, size: u64) {
        self.last = address;
        let shown = self.objects.insert(address, object(self.classes[class as usize], size, Vec::new()));
        assert_eq!(shown, None, "{address:#x} was walked twice");
    }

    fn reference(&mut self, target: u64) {
        self.objects.get_mut(&self.last).expect("an object comes before what it refers to").references.push(target);
    }

    fn broken(&mut self, address: u64) {
        panic!("the walk broke off at {address:#x}");
    }

    fn end(&mut self, objects: u64) {
        assert_eq!(objects, self.objects.len() as u64);
        self.has_ended = true;
    }
}

/// The runtime's own class names, from its metadata.
pub struct Names<'a> {
    probe: &'a mut Seat,
    known: BTreeMap<(u64, Place), String>,
}

/// The position of a name: type arguments use C# keywords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Outermost,
    Argument,
}

/// Types with C# keywords.
const WORDS: [(&str, &str); 16] = [
    ("System.Boolean", "bool"),
    ("System.Byte", "byte"),
    ("System.Char", "char"),
    ("System.Decimal", "decimal"),
    ("System.Double", "double"),
    ("System.Int16", "short"),
    ("System.Int32", "int"),
    ("System.Int64", "long"),
    ("System.IntPtr", "nint"),
    ("System.Object", "object"),
    ("System.SByte", "sbyte"),
    ("System.Single", "float"),
    ("System.String", "string"),
    ("System.UInt16", "ushort"),
    ("System.UInt32", "uint"),
    ("System.UInt64", "ulong"),
];

impl Names<'_> {
    /// Names queried by a seat of the probe outside of callbacks.
    pub fn asked_by(probe: &mut Seat) -> Names<'_> {
        Names { probe, known: BTreeMap::new() }
    }

    /// A class's name in C# syntax.
    pub fn of(&mut self, class: u64) -> String {
        self.at(class, Place::Outermost)
    }

    fn at(&mut self, class: u64, place: Place) -> String {
        if let Some(name) = self.known.get(&(class, place)) {
            return name.clone();
        }
        let words = self.probe.done(&format!("describe {class:#x}"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = match &words[..] {
            ["array", element, kind, rank] => self.array(number(element), number(kind), number(rank), place),
            ["plain", rest @ ..] => self.plain(rest, place),
            _ => panic!("no description of {class:#x}: {words:?}"),
        };
        self.known.insert((class, place), name.clone());
        name
    }

    fn array(&mut self, element: u64, kind: u64, rank: u64, place: Place) -> String {
        // A pointer has no class.
        let element = if element == 0 { format!("element of kind {kind}") } else { self.at(element, place) };
        let brackets = format!("[{}]", ",".repeat(rank as usize - 1));
        // C# writes the outermost array first.
        let end = element.rfind('>').map_or(0, |end| end + 1);
        let begin = element[end..].find('[').map_or(element.len(), |begin| end + begin);
        format!("{}{brackets}{}", &element[..begin], &element[begin..])
    }

    /// The name with its enclosing classes; each takes as many arguments as its name says.
    fn plain(&mut self, words: &[&str], place: Place) -> String {
        let bar = words.iter().position(|word| *word == "|").expect("a bar before type arguments");
        let arguments: Vec<String> =
            words[bar + 1..].iter().map(|argument| self.at(number(argument), Place::Argument)).collect();
        let (names, mut rest) = (&words[..bar], arguments.into_iter());
        let word = WORDS.iter().find(|(name, _)| names == [*name]);
        match (place, word, names) {
            (Place::Argument, Some((_, word)), _) => return (*word).to_owned(),
            (Place::Argument, None, ["System.Nullable`1"]) => return format!("{}?", rest.next().expect("an argument")),
            _ => {}
        }
        let mut shown = Vec::new();
        for name in names {
            let (name, count) =
                name.rsplit_once('`').map_or((*name, 0), |(name, count)| (name, number(count) as usize));
            let own: Vec<String> = rest.by_ref().take(count).collect();
            shown.push(if own.is_empty() { name.to_owned() } else { format!("{name}<{}>", own.join(", ")) });
        }
        shown.join(".")
    }
}

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("no number: {text}"))
}
