//! Names of managed methods, from modules that the C# compiler made.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use expect_test::expect_file;
use remora_symbols::{ManagedImage, MethodKind, Primitive, TypeArgument};
use std::sync::Arc;

fn image(bytes: &[u8]) -> Arc<ManagedImage> {
    Arc::new(ManagedImage::parse(bytes).unwrap())
}

fn names() -> Arc<ManagedImage> {
    image(include_bytes!("../fixtures/names.dll"))
}

/// The token of the only method with this name.
fn token(image: &ManagedImage, name: &str) -> u32 {
    let mut tokens = tokens(image, name);
    assert_eq!(tokens.len(), 1, "{name}: {tokens:x?}");
    tokens.remove(0)
}

fn tokens(image: &ManagedImage, name: &str) -> Vec<u32> {
    image.method_tokens().filter(|&token| image.method_name(token, &[], &[]).unwrap().to_string() == name).collect()
}

fn type_token(image: &ManagedImage, name: &str) -> u32 {
    (0x0200_0001..).find(|&token| image.type_name(token, &[]).unwrap() == name).unwrap()
}

fn list(image: &ManagedImage) -> String {
    let line = |token| {
        let name = image.method_name(token, &[], &[]).unwrap();
        let kind = if name.kind == MethodKind::Ordinary { String::new() } else { format!("  [{:?}]", name.kind) };
        format!("{token:08x} {name}{kind}\n")
    };
    image.method_tokens().map(line).collect()
}

#[test]
fn every_method_has_the_name_it_has_in_csharp() {
    expect_file!["../fixtures/names.txt"].assert_eq(&list(&names()));
}

#[test]
fn top_level_statements_are_main() {
    expect_file!["../fixtures/toplevel.txt"].assert_eq(&list(&image(include_bytes!("../fixtures/toplevel.dll"))));
}

fn int() -> TypeArgument {
    TypeArgument::Primitive(Primitive::from_element_type(8).unwrap())
}

fn string() -> TypeArgument {
    TypeArgument::Primitive(Primitive::from_element_type(14).unwrap())
}

/// A class of the fixture with arguments.
fn class(image: &Arc<ManagedImage>, name: &str, arguments: Vec<TypeArgument>) -> TypeArgument {
    TypeArgument::Class { image: Arc::clone(image), token: type_token(image, name), arguments }
}

#[test]
fn generic_arguments_are_shown_where_they_are_known() {
    let image = names();
    let point = || class(&image, "Fixture.Shapes.Point", vec![]);
    let outer = |argument| class(&image, "Fixture.Shapes.Outer<T>", vec![argument]);
    let array = |element, rank| TypeArgument::Array { element: Box::new(element), rank };
    let inner = "Fixture.Shapes.Outer<T>.Inner<U>.Method<V>(T, U, V, List<T>, Dictionary<U, V[]>)";
    for (name, class_arguments, method_arguments, expected) in [
        ("Fixture.Shapes.Outer<T>.Add(T)", vec![int()], vec![], "Fixture.Shapes.Outer<int>.Add(int)"),
        ("Fixture.Shapes.Outer<T>.Add(T)", vec![TypeArgument::Canon], vec![], "Fixture.Shapes.Outer<T>.Add(T)"),
        (
            "Fixture.Shapes.Outer<T>.Add(T)",
            vec![TypeArgument::Unknown, int()],
            vec![],
            "Fixture.Shapes.Outer<T>.Add(T)",
        ),
        ("Fixture.Shapes.Outer<T>.Add(T)", vec![point()], vec![], "Fixture.Shapes.Outer<Point>.Add(Point)"),
        (
            "Fixture.Shapes.Outer<T>.Add(T)",
            vec![outer(TypeArgument::Canon)],
            vec![],
            "Fixture.Shapes.Outer<Outer<T>>.Add(Outer<T>)",
        ),
        (
            "Fixture.Shapes.Outer<T>.Add(T)",
            vec![array(array(int(), 2), 1)],
            vec![],
            "Fixture.Shapes.Outer<int[][,]>.Add(int[][,])",
        ),
        (
            "Fixture.Shapes.Outer<T>.Add(T)",
            vec![TypeArgument::Named("Order".into())],
            vec![],
            "Fixture.Shapes.Outer<Order>.Add(Order)",
        ),
        (
            inner,
            vec![int(), string()],
            vec![array(int(), 1)],
            "Fixture.Shapes.Outer<int>.Inner<string>.Method<int[]>(int, string, int[], List<int>, Dictionary<string, int[][]>)",
        ),
        (inner, vec![int()], vec![TypeArgument::Canon], &inner.replace("<T>", "<int>").replace("(T", "(int")),
        (
            "Fixture.Shapes.Signatures.Generic<T, U>(T, U[], ref T, Func<T, U>)",
            vec![],
            vec![string(), int()],
            "Fixture.Shapes.Signatures.Generic<string, int>(string, int[], ref string, Func<string, int>)",
        ),
        // What the compiler moved into types of its own: the arguments go back to where they were written.
        (
            "Fixture.Shapes.Outer<T>.Capture<M>.lambda#0(T)",
            vec![int(), string()],
            vec![],
            "Fixture.Shapes.Outer<int>.Capture<string>.lambda#0(int)",
        ),
        (
            "Fixture.Shapes.Generated.Locals<T>.Generic<U>(U, T)",
            vec![],
            vec![int(), string()],
            "Fixture.Shapes.Generated.Locals<int>.Generic<string>(string, int)",
        ),
        (
            "Fixture.Shapes.Outer<T>.Many.IEnumerable<T>.GetEnumerator()",
            vec![int()],
            vec![],
            "Fixture.Shapes.Outer<int>.Many.IEnumerable<int>.GetEnumerator()",
        ),
    ] {
        let shown = image.method_name(token(&image, name), &class_arguments, &method_arguments).unwrap();
        assert_eq!(shown.to_string(), expected);
    }
}

#[test]
fn a_state_machine_has_the_name_and_arguments_of_its_method() {
    let image = names();
    let found = tokens(&image, "Fixture.Shapes.Outer<T>.Later<M>(M, int)");
    let [kickoff, move_next] = found[..] else { panic!("{found:x?}") };
    let shown = image.method_name(move_next, &[int(), string()], &[]).unwrap();
    assert_eq!(shown.to_string(), "Fixture.Shapes.Outer<int>.Later<string>(string, int)");
    assert_eq!(shown.kind, MethodKind::Async);
    let started = image.method_name(kickoff, &[int()], &[string()]).unwrap();
    assert_eq!((started.to_string(), started.kind), (shown.to_string(), MethodKind::Ordinary));
}

#[test]
fn overloads_that_became_state_machines_are_distinguished() {
    let image = names();
    for parameter in ["int", "string"] {
        let found = tokens(&image, &format!("Fixture.Shapes.Generated.Overload({parameter})"));
        let kinds: Vec<_> = found.iter().map(|&token| image.method_name(token, &[], &[]).unwrap().kind).collect();
        assert_eq!(kinds, [MethodKind::Ordinary, MethodKind::Async], "{parameter}");
    }
}

#[test]
fn the_pdb_tells_overloads_apart_where_attributes_were_stripped() {
    let mut bytes = include_bytes!("../fixtures/names.dll").to_vec();
    let attribute = b"\0AsyncStateMachineAttribute\0";
    let at = bytes.windows(attribute.len()).position(|window| window == attribute).unwrap();
    bytes[at + 1] = b'X';
    let mut image = ManagedImage::parse(&bytes).unwrap();
    let machines = tokens(&image, "Fixture.Shapes.Generated.Overload");
    assert_eq!(machines.len(), 2, "no guess without a PDB");
    image.use_pdb(include_bytes!("../fixtures/names.pdb")).unwrap();
    let names: Vec<_> = machines.iter().map(|&token| image.method_name(token, &[], &[]).unwrap().to_string()).collect();
    assert_eq!(names, ["Fixture.Shapes.Generated.Overload(int)", "Fixture.Shapes.Generated.Overload(string)"]);
}

#[test]
fn types_are_named_with_their_arguments() {
    let image = names();
    let inner = type_token(&image, "Fixture.Shapes.Outer<T>.Inner<U>");
    assert_eq!(image.type_name(inner, &[int(), string()]).unwrap(), "Fixture.Shapes.Outer<int>.Inner<string>");
    let point = || class(&image, "Fixture.Shapes.Point", vec![]);
    let outer = |argument| class(&image, "Fixture.Shapes.Outer<T>", vec![argument]);
    let name = outer(outer(point())).full_name().unwrap();
    assert_eq!(name, "Fixture.Shapes.Outer<Fixture.Shapes.Outer<Fixture.Shapes.Point>>", "else two types had one name");
}

#[test]
fn parts_of_a_name_can_be_had() {
    let image = names();
    let name =
        image.method_name(token(&image, "Fixture.Shapes.Generated.Locals<T>.Generic<U>(U, T)"), &[], &[]).unwrap();
    assert_eq!(name.namespace, "Fixture.Shapes");
    assert_eq!(name.type_name(), "Fixture.Shapes.Generated");
    assert_eq!(name.within[0].to_string(), "Locals<T>");
    assert_eq!(name.method.to_string(), "Generic<U>");
    assert_eq!(name.parameters.unwrap(), ["U", "T"]);
}

#[test]
fn tokens_that_do_not_exist_have_no_name() {
    let image = names();
    for token in [0, 1, 0x0600_0000, 0x0600_ffff, 0x06ff_ffff, 0x0200_0001, u32::MAX] {
        assert_eq!(image.method_name(token, &[], &[]), None, "{token:x}");
    }
    assert_eq!(image.type_name(0x0200_ffff, &[]), None);
}

#[test]
fn a_module_says_what_it_is() {
    let image = names();
    assert_eq!(image.module_name().unwrap(), "names.dll");
    assert_eq!(image.assembly_name().unwrap(), "names");
    assert_ne!(image.mvid(), ManagedImage::parse(include_bytes!("../fixtures/toplevel.dll")).unwrap().mvid());
    assert_eq!(image.mvid().unwrap().to_string().len(), 36);
    assert_eq!(image.pdb_paths(&"/app/renamed.dll".into()), ["/app/renamed.pdb", "/app/names.pdb"]);
    assert_eq!(image.pdb_paths(&"names.dll".into()), ["names.pdb"]);
    let id: String = image.code_view().unwrap().guid.to_string().split('-').collect();
    assert_eq!(id.len(), 32);
    let in_store = |name: &str| format!("{name}/{id}FFFFFFFF/{name}");
    assert_eq!(
        image.pdb_names(&"/app/Renamed.dll".into()),
        [in_store("renamed.pdb"), in_store("names.pdb"), "Renamed.pdb".to_owned(), "names.pdb".to_owned()]
    );
}

#[test]
fn a_finalizer_and_events_are_those_that_a_type_declares() {
    let image = names();
    let finalized: Vec<String> = image
        .type_tokens()
        .filter(|&token| image.declares_finalizer(token))
        .map(|token| image.type_name(token, &[]).unwrap())
        .collect();
    assert_eq!(finalized, ["Fixture.Shapes.Square"]);
    let events = |name: &str| -> Vec<(String, String, bool)> {
        let declared = image.declared_events(type_token(&image, name)).into_iter();
        declared.map(|event| (event.name, event.delegate, event.is_static)).collect()
    };
    let event = |name: &str, delegate: &str| (name.to_owned(), delegate.to_owned(), false);
    assert_eq!(events("Fixture.Shapes.IShape<TKey>"), [event("Moved", "System.Action")]);
    assert_eq!(
        events("Fixture.Shapes.Square"),
        [event("Fixture.Shapes.IShape<System.String>.Moved", "System.Action"), event("Changed", "System.EventHandler")]
    );
    assert_eq!((image.declares_finalizer(0x0200_ffff), image.declared_events(0x0600_0001).len()), (false, 0));
}
