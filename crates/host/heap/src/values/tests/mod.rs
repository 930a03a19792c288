//! Made-up objects and values.

use super::*;

fn slot(kind: u8, of: &str, layout: Option<u32>) -> Slot {
    Slot { kind: SlotKind(kind), of: of.to_owned(), layout: layout.map(LayoutIx) }
}

fn field(name: &str, offset: u32, slot: Slot) -> Field {
    Field { name: name.to_owned(), offset, slot }
}

fn layout(class: u32, family: &str, shape: Shape) -> Layout {
    let name = family.rsplit('.').next().unwrap_or(family).to_owned();
    Layout { class: Some(TypeIx(class)), name, family: family.to_owned(), shape, source: Source::Reported }
}

/// A point, a nullable point, a class with both and a derived class, an array of points, and one of numbers.
fn layouts() -> Layouts {
    let int = || slot(0x08, "int", None);
    let all = [
        Shape::Value { bytes: 8, fields: vec![field("X", 0, int()), field("Y", 4, int())] },
        Shape::Value {
            bytes: 12,
            fields: vec![
                field("hasValue", 0, slot(0x02, "bool", None)),
                field("value", 4, slot(0x11, "Point", Some(0))),
            ],
        },
        Shape::Class { base: None, fields: vec![field("<Id>k__BackingField", 0, slot(0x0a, "long", None))] },
        Shape::Class {
            base: Some(LayoutIx(2)),
            fields: vec![
                field("At", 8, slot(0x11, "Point", Some(0))),
                field("Maybe", 16, slot(0x11, "Point?", Some(1))),
                field("Next", 32, slot(0x12, "Node", None)),
                field("Odd", 40, slot(0x11, "Odd", None)),
            ],
        },
        Shape::Array { element: slot(0x11, "Point", Some(0)), rank: 1 },
        Shape::Array { element: int(), rank: 2 },
    ];
    let families = ["Known.Point", "System.Nullable`1", "Known.Base", "Known.Node", "", ""];
    let mut layouts = Layouts::default();
    for (class, (shape, family)) in all.into_iter().zip(families).enumerate() {
        layouts.add(layout(class as u32, family, shape));
    }
    layouts
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn enough() -> Allowance {
    Allowance::new(Allowance::VALUES)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// The values of members.
fn values(members: &[Member]) -> Vec<Value> {
    members.iter().map(|member| member.value.clone()).collect()
}

#[test]
fn an_object_has_the_fields_of_its_class_and_then_those_that_it_inherits() {
    let bytes = words(&[7, 0, 1, 2, 1, 3, 4, 0, 0x1000, 0, 9, 9]);
    let Inside::Fields(members) = layouts().inside(TypeIx(3), (&bytes, 48), 0, &enough()) else {
        panic!("it has fields")
    };
    let names: Vec<_> = members.iter().map(|member| (&*member.name, member.declared_by.as_deref())).collect();
    assert_eq!(names, [("At", None), ("Maybe", None), ("Next", None), ("Odd", None), ("Id", Some("Base"))]);
    let Value::Fields(point) = &members[0].value else { panic!("{:?}", members[0]) };
    assert_eq!(values(point), [text("1"), text("2")]);
    let Value::Fields(maybe) = &members[1].value else { panic!("{:?}", members[1]) };
    assert_eq!(values(maybe), [text("3"), text("4")]);
    assert_eq!(members[2].value, Value::Reference(0x1000));
    assert_eq!(members[3].value, Value::Raw { count: None, bytes: Vec::new() });
    assert_eq!(members[4].value, text("7"));
    let inside = Inside::Fields(members);
    assert_eq!((inside.way_to(0x1000).as_deref(), inside.way_to(0x2000)), (Some("Next"), None));
}

#[test]
fn a_way_goes_through_values_and_elements() {
    let reference = |at| Value::Reference(at);
    let member = |name: &str, value| Member {
        name: name.to_owned(),
        of: "T".to_owned(),
        declared_by: None,
        value,
        is_computed: false,
    };
    let owner = Value::Fields(vec![member("Other", reference(1)), member("Owner", reference(2))]);
    let pair = Value::Tuple(vec![text("1"), reference(3)]);
    let inside = Inside::Fields(vec![member("At", owner.clone()), member("Pair", pair)]);
    assert_eq!(
        [1, 2, 3, 4].map(|at| inside.way_to(at)).map(Option::unwrap_or_default),
        ["At.Other", "At.Owner", "Pair.Item2", ""]
    );
    let first = vec![Value::Null, owner.clone()];
    let elements = Elements { of: "T".to_owned(), dimensions: vec![(5, 2)], count: 2, first };
    assert_eq!(Inside::Elements(elements).way_to(2).as_deref(), Some("[6].Owner"));
    assert_eq!(Inside::Boxed(owner).way_to(2).as_deref(), Some("Owner"));
}

#[test]
fn the_rest_of_a_long_tuple_stands_in_it_as_in_the_source() {
    let int = |name: &str, at: u32| field(name, at, slot(0x08, "int", None));
    let seven = || (1..8).map(|number| int(&format!("Item{number}"), (number - 1) * 4));
    let with = |last| Shape::Value { bytes: 40, fields: seven().chain([last]).collect() };
    let rest = || field("Rest", 28, slot(0x11, "(int, Node)", Some(0)));
    let mut layouts = Layouts::default();
    let pair = vec![int("Item1", 0), field("Item2", 4, slot(0x12, "Node", None))];
    layouts.add(layout(0, "System.ValueTuple`2", Shape::Value { bytes: 12, fields: pair }));
    layouts.add(layout(1, "System.ValueTuple`8", with(rest())));
    // A tuple of seven that ends with a tuple, and a last element that is no tuple.
    let six = seven().skip(1).chain([rest()]).collect();
    layouts.add(layout(2, "System.ValueTuple`7", Shape::Value { bytes: 40, fields: six }));
    layouts.add(layout(3, "System.ValueTuple`8", with(int("Rest", 28))));
    let bytes = words(&[1, 2, 3, 4, 5, 6, 7, 8, 0x1000, 0]);
    let inside = |class| layouts.inside(TypeIx(class), (&bytes, 40), 0, &enough());
    let numbers = |from: u32, to: u32| (from..=to).map(|number| text(&number.to_string()));
    let node = Value::Reference(0x1000);
    let nine = Value::Tuple(numbers(1, 8).chain([node.clone()]).collect());
    assert_eq!((inside(1), inside(1).way_to(0x1000).as_deref()), (Inside::Boxed(nine), Some("Item9")));
    let seven = Value::Tuple(numbers(2, 7).chain([Value::Tuple(vec![text("8"), node])]).collect());
    assert_eq!((inside(2), inside(2).way_to(0x1000).as_deref()), (Inside::Boxed(seven), Some("Item7.Item2")));
    assert_eq!(inside(3), Inside::Boxed(Value::Tuple(numbers(1, 8).collect())));
}

#[test]
fn what_was_not_kept_is_not_made_up() {
    let Inside::Fields(members) = layouts().inside(TypeIx(3), (&words(&[7, 0, 1]), 48), 0, &enough()) else {
        panic!("fields")
    };
    assert_eq!(values(&members[..2]), [Value::Cut, Value::Cut]);
    assert_eq!(members[4].value, text("7"));
    let unknown = layouts().inside(TypeIx(99), (&[1, 2], 8), 0, &enough());
    assert_eq!(unknown, Inside::Unknown(Value::Raw { count: Some(8), bytes: vec![1, 2] }));
}

#[test]
fn elements_have_their_places_in_as_many_dimensions_as_there_are() {
    let bytes = words(&[2, 0, 1, 2, 3, 4]);
    let Inside::Elements(points) = layouts().inside(TypeIx(4), (&bytes, 24), 9, &enough()) else { panic!("elements") };
    assert_eq!((points.count, points.first.len(), points.indexes(1)), (2, 2, vec![1]));
    // Longer by its lower bound.
    let bytes = words(&[1, 0, 1, 5, 8, 9]);
    let Inside::Elements(points) = layouts().inside(TypeIx(4), (&bytes, 24), 9, &enough()) else { panic!("elements") };
    let Value::Fields(point) = &points.first[0] else { panic!("{points:?}") };
    assert_eq!((values(point), points.indexes(0)), (vec![text("8"), text("9")], vec![5]));
    // Two by three, the second dimension from index 10; the last element was not stored.
    let bytes = words(&[6, 0, 2, 3, 0, 10, 1, 2, 3, 4, 5]);
    let Inside::Elements(numbers) = layouts().inside(TypeIx(5), (&bytes, 48), 9, &enough()) else { panic!("elements") };
    assert_eq!((numbers.indexes(0), numbers.indexes(4)), (vec![0, 10], vec![1, 11]));
    assert_eq!(numbers.first, [text("1"), text("2"), text("3"), text("4"), text("5"), Value::Cut]);
}

#[test]
fn values_that_stand_in_themselves_come_to_an_end() {
    let mut layouts = Layouts::default();
    let own = || (0..100).map(|_| field("Own", 0, slot(0x11, "Own", Some(0)))).collect();
    layouts.add(layout(0, "Own", Shape::Value { bytes: 0, fields: own() }));
    assert!(matches!(layouts.inside(TypeIx(0), (&[0; 8], 8), 0, &enough()), Inside::Boxed(Value::Fields(_))));
}
