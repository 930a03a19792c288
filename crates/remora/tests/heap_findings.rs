//! The findings in the report of a snapshot.

#[allow(dead_code, reason = "this test uses a part")]
mod command;

use command::{Directory, remora};
use expect_test::expect;
use remora_heap_file::{State, TypeRow, Writer};
use remora_heap_stream::{ARRAY_CLASS, CLASS, END, FIRST_CLASS, PLAIN_CLASS, RANGE, distance, written};

const BASE: u64 = 0x7f00_0000_0000;
/// Distance between two objects; the rest is a gap.
const APART: u64 = 64 << 10;

/// The names of the classes; their ids are their index plus 1.
const CLASSES: [(&str, &str); 10] = [
    ("System.Object", "System.Private.CoreLib"),
    ("App.Node", "App"),
    ("App.Node[]", "App"),
    ("System.Collections.Generic.List<Node>", "System.Private.CoreLib"),
    ("System.MulticastDelegate", "System.Private.CoreLib"),
    ("System.EventHandler", "System.Private.CoreLib"),
    ("App.Publisher", "App"),
    ("App.Subscriber", "App"),
    ("App.Holder", "App"),
    ("System.Collections.Generic.List<Value>", "System.Private.CoreLib"),
];

fn stream() -> Vec<u8> {
    let plain = |id: u64, parent: u64, arguments: &[u64]| {
        let head = [CLASS, id, PLAIN_CLASS, 0x80, 0x0200_0000 + id, parent, arguments.len() as u64];
        [&head, arguments].concat()
    };
    let mut numbers = vec![RANGE, 2, BASE, 10 * APART];
    numbers.extend(plain(1, 0, &[]));
    numbers.extend(plain(2, 1, &[]));
    numbers.extend([CLASS, 3, ARRAY_CLASS, 2, 0x12, 1]);
    numbers.extend(plain(4, 1, &[2]));
    numbers.extend(plain(5, 1, &[]));
    numbers.extend(plain(6, 5, &[]));
    [7, 8, 9].iter().for_each(|id| numbers.extend(plain(*id, 1, &[])));
    numbers.extend(plain(10, 1, &[]));
    // Holder, node, an array of 1,000 with one node, a list and its array, a publisher, its handler, its subscriber, a list and its array.
    let objects: [(u64, u64, &[u64]); 10] = [
        (9, 48, &[2, 3, 5, 8]),
        (2, 24, &[]),
        (3, 24 + 1000 * 8, &[1]),
        (4, 32, &[4]),
        (3, 24 + 500 * 8, &[1, 1]),
        (7, 32, &[6]),
        (6, 64, &[7]),
        (8, 2000, &[]),
        (10, 32, &[9]),
        (3, 24 + 100 * 8, &[]),
    ];
    for (place, (class, bytes, references)) in objects.iter().enumerate() {
        let at = |place: u64| BASE + place * APART;
        numbers.extend([RANGE, 2, at(place as u64), APART, FIRST_CLASS + class - 1, *bytes]);
        numbers.extend(references.iter().map(|target| distance(at(place as u64), at(*target))));
        numbers.push(0);
    }
    numbers.extend([END, objects.len() as u64]);
    written(&numbers)
}

fn snapshot(directory: &Directory) -> String {
    let path = directory.path("found.remora-heap");
    let mut writer = Writer::create(Vec::new()).expect("memory can be written to");
    writer.stream(&stream()).expect("memory can be written to");
    let rows = CLASSES.map(|(name, assembly)| {
        let events =
            if name == "App.Publisher" { vec![("Changed".into(), "System.EventHandler".into())] } else { vec![] };
        TypeRow { name: name.into(), assembly: assembly.into(), events, ..TypeRow::default() }
    });
    writer.types(&rows).expect("memory can be written to");
    let state = State { process_id: 4711, application: "Shop".into(), complete: true, ..State::default() };
    std::fs::write(&path, writer.finish(&state).expect("memory can be written to")).expect("written");
    path
}

/// The part of `shown` from one text up to another.
fn part<'a>(shown: &'a str, begin: &str, end: &str) -> &'a str {
    let from = &shown[shown.find(begin).expect(begin)..];
    &from[..from.find(end).expect(end)]
}

#[test]
fn what_holds_most_and_who_subscribed_comes_first_and_the_rest_behind_the_tables() {
    let directory = Directory::new();
    let file = snapshot(&directory);
    let shown = remora(["heap", "report", &file]).succeeds();
    expect![[r#"

        suspect      100.0% of the heap: 14.8 KiB in 10 objects
        held by      a static field, a local variable or a handle
        name it by   remora heap -p 4711 --roots
        object       App.Holder (at 0x7f0000000000)
        accumulates  3 × App.Node[]: 12.6 KiB, retained 12.6 KiB

        subscribers that only an event keeps alive: unsubscribed, they would go
        retained  subscribers  of type         to                     for example
        1.95 KiB            1  App.Subscriber  App.Publisher.Changed  @0x7f0000070000
    "#]]
    .assert_eq(part(&shown, "\nsuspect", "\ntypes,"));
    expect![[r#"

        collections that are mostly room: 3.89 KiB of places that are not used (~ by references: null counts as unused, and of an entry its key and its value count)
          wasted  collections  places  used  type
        3.89 KiB            1     500    ~2  System.Collections.Generic.List<Node>
        System.Collections.Generic.List<Node> (at 0x7f0000030000): 2 of 500 places used, 3.89 KiB wasted

        arrays of references that are mostly empty: 7.80 KiB of places without an object
          wasted  arrays  places  empty  type
        7.80 KiB       1   1,000    999  App.Node[]
        App.Node[] (at 0x7f0000020000): 999 of 1,000 places empty

        A snapshot that is taken with --values says, too: how much of 800 B in 1 collection is used.
    "#]].assert_eq(part(&shown, "\ncollections", "\nRoots"));
}

#[test]
fn the_first_table_has_assemblies_if_it_is_asked_to() {
    let directory = Directory::new();
    let file = snapshot(&directory);
    let shown = remora(["heap", "report", &file, "--by", "assembly"]).succeeds();
    let begin = shown.find("\nassemblies").expect("a table");
    let end = shown.find("\nholders").expect("what follows");
    expect![[r#"

        assemblies, by what would go with the objects of their types
        retained               own  objects  assembly
        14.8 KiB  100.0%  14.6 KiB        7  App
        6.81 KiB   46.2%     128 B        3  System.Private.CoreLib
    "#]]
    .assert_eq(&shown[begin..end]);
    remora(["heap", "report", &file, "--by", "colour"]).fails(2);
}
