//! The contents of a module's metadata on live runtimes and their models: members, parameters, constants, generics, attributes, nested
//! types, properties and events, references, user strings, and the tables that hold them.
//!
//! Both worlds have the same types (`tests/targets/obedient.cs`, `tests/model-host/src/obedient_metadata.rs`), with other tokens. So each
//! test finds its tokens by name, and compares what is said about them.
#![forbid(unsafe_code)]

#[path = "support/answers.rs"]
mod answers;

use answers::{Answer, ask, compiled};
use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};

const JIT: u32 = 0x20;

const DONE: u64 = 0;
const LESS: u64 = 1;
const CUT: u64 = 0x0013_1106;
const INVALID: u64 = 0x8007_0057;
const CORRUPT: u64 = 0x8013_110E;
const NO_ROW: u64 = 0x8013_1124;
const NOT_FOUND: u64 = 0x8013_1130;
const BAD_INPUT: u64 = 0x8013_1193;

/// The probe's initial value of every output.
const UNTOUCHED: u64 = 0x77;
const NO_METHOD: u64 = 0x0600_0000;
const NO_REFERENCE: u64 = 0x0100_0000;

/// The types of constants: none, a number, a text (ECMA-335, II.23.1.16).
const NO_CONSTANT: [u64; 3] = [0x01, 0, 0];
const TWELVE: [u64; 3] = [0x08, 0x01_0C00_0000, 0];

/// A probe in a process with the program's module.
struct Reader {
    _stage: Stage,
    own: Seat,
    module: String,
    is_old: bool,
}

fn in_metadata(test: impl Fn(&mut Reader)) {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let mut own = stage.attached(JIT, 0);
        let function = compiled(&mut stage, &mut own);
        let module = own.done(&format!("ask function {function}")).remove(2);
        test(&mut Reader { _stage: stage, own, module, is_old: runtime.major() < 8 });
    });
}

impl Reader {
    fn ask(&mut self, question: &str) -> Answer {
        ask(&mut self.own, &format!("meta {} {question}", self.module))
    }

    fn numbers(&mut self, question: &str) -> Vec<u64> {
        self.ask(question).numbers
    }

    /// The one token that is found.
    fn token(&mut self, question: &str) -> u64 {
        let found = self.numbers(question);
        assert_eq!(found[0], DONE, "{question}");
        found[1]
    }

    fn class(&mut self, name: &str) -> u64 {
        self.token(&format!("find-type {name} 0"))
    }

    fn shelf(&mut self) -> u64 {
        self.class("Shelf`1")
    }

    /// Every token of a list. Without any, the list's code says so.
    fn all(&mut self, list: &str) -> Vec<u64> {
        let mut found = self.numbers(&format!("all {list}"));
        let code = found.remove(0);
        assert_eq!(code, if found.is_empty() { LESS } else { DONE }, "{list}");
        found
    }

    /// The tokens of a list by their names.
    fn named(&mut self, list: &str) -> Vec<(String, u64)> {
        let tokens = self.all(list);
        tokens.into_iter().map(|token| (self.ask(&format!("name {token}")).text, token)).collect()
    }

    fn names(&mut self, list: &str) -> Vec<String> {
        self.named(list).into_iter().map(|(name, _)| name).collect()
    }
}

#[test]
fn a_types_members_are_its_methods_and_its_fields() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let methods = reader.names(&format!("methods {shelf}"));
        assert_eq!(methods, [".ctor", "get_Size", "set_Size", "add_Emptied", "remove_Emptied", "Put"]);
        let fields = reader.names(&format!("fields {shelf}"));
        assert_eq!(fields, ["Most", "Label", "made", "first"]);
        assert_eq!(reader.names(&format!("members {shelf}")), [methods, fields].concat());
        assert_eq!(reader.names(&format!("members-of-name {shelf} Most")), ["Most"]);
        assert_eq!(reader.names(&format!("fields-of-name {shelf} made")), ["made"]);
        assert_eq!(reader.names(&format!("methods-of-name {shelf} Put")), ["Put"]);
        assert_eq!(reader.names(&format!("fields-of-name {shelf} Put")), [""; 0]);
        for (list, count) in [("members", 10), ("fields", 4)] {
            let found = reader.numbers(&format!("{list} 500 {shelf}"));
            assert_eq!(
                (found[..3].to_vec(), found[4] >> 24),
                (vec![DONE, count, count], if count == 4 { 4 } else { 6 })
            );
        }
    });
}

#[test]
fn a_field_has_flags_a_signature_and_perhaps_a_constant() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let label = [0x0E, 0x0173_0068_0065_006C, 5];
        let fields = [
            ("Most", 0x8056, [0x1_0608, 2], TWELVE),
            ("Label", 0x8056, [0x1_060E, 2], label),
            ("made", 0x11, [0x1_060A, 2], NO_CONSTANT),
            ("first", 0x24, [0x106_1300, 3], NO_CONSTANT),
        ];
        for (name, flags, signature, constant) in fields {
            let token = reader.token(&format!("find-field {name} {shelf}"));
            assert_eq!(reader.token(&format!("find-member {name} {shelf}")), token);
            assert_eq!(reader.token(&format!("find-field {name} {shelf} {token}")), token, "by its signature");
            let whole = reader.ask(&format!("field {token} 100"));
            let length = name.len() as u64 + 1;
            let expected = [&[DONE, length, shelf, flags], &signature[..], &constant[..]].concat();
            assert_eq!((whole.numbers.clone(), whole.text.as_str()), (expected, name));
            let member = reader.numbers(&format!("member {token} 100"));
            let as_member = [&[DONE, length, shelf, flags, UNTOUCHED, UNTOUCHED], &signature[..], &constant[..1]];
            assert_eq!(member, as_member.concat(), "{name}: a field has no code");
            let short = reader.ask(&format!("field {token} 3"));
            let cut = if reader.is_old { "-" } else { &name[..2] };
            assert_eq!((short.code(), short.count(), short.text.as_str()), (CUT, length, cut), "{name}");
            assert_eq!(short.numbers[1..], whole.numbers[1..], "the rest is written");
            assert_eq!(reader.numbers(&format!("field {token} 0"))[..2], [DONE, length], "{name}");
            assert_eq!(reader.numbers(&format!("field {token} 3 nowhere"))[..2], [CUT, length], "{name}");
            assert_eq!(
                reader.numbers(&format!("field {token} 100 nowhere"))[..2],
                [CUT, length],
                "{name}: room without a place"
            );
            assert_eq!(reader.numbers(&format!("address {token}")), [NOT_FOUND, 0, UNTOUCHED]);
            assert_eq!(reader.numbers(&format!("valid {token}")), [1]);
            assert_eq!(reader.numbers(&format!("global {token}")), [DONE, 0]);
        }
        let other = reader.token(&format!("find-field Label {shelf}"));
        let [nobody, elsewhere] = ["Nobody", "made"].map(|name| format!("find-field {name} {shelf} {other}"));
        assert_eq!(reader.numbers(&nobody), [NOT_FOUND, 0x0400_0000]);
        assert_eq!(reader.numbers(&elsewhere), [NOT_FOUND, 0x0400_0000], "with the signature of another field");
    });
}

#[test]
fn a_method_has_a_signature_and_parameters_by_their_places() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let put = reader.token(&format!("find-method Put {shelf}"));
        let method = reader.numbers(&format!("method {put} 100"));
        assert_eq!(method[..5], [DONE, 4, shelf, 0x96, 0]);
        assert_ne!(method[5], 0, "where its code lies");
        assert_eq!(method[6..], [0x0110_0103_0E13_0010, 10, UNTOUCHED], "a generic method of three parameters");
        let parameters = reader.named(&format!("parameters {put}"));
        let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["item", "place", "name"]);
        let none = [0x0E, 0x016E_006F_006E_0065, 4];
        let facts = [(5, 0, NO_CONSTANT), (6, 2, NO_CONSTANT), (5, 0x1010, none)];
        for (at, ((name, token), (length, flags, constant))) in (1..).zip(parameters.iter().zip(facts)) {
            let whole = reader.ask(&format!("parameter {token} 100"));
            let expected = [&[DONE, length, put, at, flags], &constant[..]].concat();
            assert_eq!((whole.numbers, whole.text.as_str()), (expected, name.as_str()));
            assert_eq!(reader.numbers(&format!("parameter-at {put} {at}")), [DONE, *token]);
            assert_eq!(reader.numbers(&format!("parameter {token} 2"))[..2], [CUT, length]);
        }
        for at in [0, 4] {
            assert_eq!(reader.numbers(&format!("parameter-at {put} {at}")), [NOT_FOUND, UNTOUCHED], "{at}");
        }
        let constructor = reader.token(&format!("find-method .ctor {shelf}"));
        assert_eq!(reader.names(&format!("parameters {constructor}")), ["first"]);
        let wrong = format!("find-method Put {shelf} {constructor}");
        assert_eq!(reader.numbers(&wrong), [NOT_FOUND, NO_METHOD], "with the signature of another method");
        let sized = reader.class("ISized");
        let getter = reader.token(&format!("find-method get_Size {sized}"));
        assert_eq!(
            reader.numbers(&format!("method {getter} 100"))[3..6],
            [0xDC6, 0, 0],
            "an abstract method has no code"
        );
        assert_eq!(reader.numbers(&format!("address {getter}")), [DONE, 0, 0]);
        assert_eq!(reader.numbers(&format!("type {sized} 100")), [DONE, 7, 0x0010_00A0, NO_REFERENCE], "nor a base");
    });
}

#[test]
fn a_property_and_an_event_know_their_methods_and_these_know_them() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let [get, set, add, remove] = ["get_Size", "set_Size", "add_Emptied", "remove_Emptied"]
            .map(|name| reader.token(&format!("find-method {name} {shelf}")));
        let properties = reader.named(&format!("properties {shelf}"));
        let [(name, size)] = &properties[..] else { panic!("{properties:?}") };
        assert_eq!(name, "Size");
        let whole = reader.numbers(&format!("property {size} 100"));
        assert_eq!(whole, [DONE, 5, shelf, 0, set, get, 0, 0x128_0008, 3, 0x01, 0, 0]);
        assert_eq!(reader.numbers(&format!("property {size} 3"))[..2], [CUT, 5]);
        let events = reader.named(&format!("events {shelf}"));
        let [(name, emptied)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(name, "Emptied");
        let action = reader.token("find-ref System.Action 0x23000001");
        let whole = reader.numbers(&format!("event {emptied} 100"));
        assert_eq!(whole, [DONE, 8, shelf, 0, action, add, remove, NO_METHOD, 0]);
        assert_eq!(reader.numbers(&format!("event {emptied} 3"))[..2], [CUT, 8]);
        for (method, of, role) in [(get, size, 2), (set, size, 1), (add, emptied, 8), (remove, emptied, 0x10)] {
            assert_eq!(reader.all(&format!("semantics {method}")), [*of]);
            assert_eq!(reader.numbers(&format!("semantics-of {method} {of}")), [DONE, role]);
        }
        assert_eq!(reader.numbers(&format!("semantics-of {add} {size}")), [NOT_FOUND, 0]);
        let sized = reader.class("ISized");
        let of_interface = reader.all(&format!("properties {sized}"));
        let whole = reader.numbers(&format!("property {} 100", of_interface[0]));
        assert_eq!((whole[2], whole[4], whole[5] >> 24), (sized, NO_METHOD, 0x06), "without a setter");
        for list in ["properties", "events"] {
            for class in [0, 0x02FF_FFFF] {
                assert_eq!(reader.all(&format!("{list} {class}")), [0; 0], "{list} of {class:#x}");
            }
        }
    });
}

#[test]
fn generics_have_parameters_constraints_and_instances() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let slip = reader.token(&format!("find-type Slip {shelf}"));
        let put = reader.token(&format!("find-method Put {shelf}"));
        let disposable = reader.token("find-ref System.IDisposable 0x23000001");
        for (owner, name, flags, is_constrained) in [(shelf, "T", 4, true), (slip, "T", 4, true), (put, "U", 0, false)]
        {
            let parameters = reader.all(&format!("type-parameters {owner}"));
            let [parameter] = parameters[..] else { panic!("{parameters:x?}") };
            let whole = reader.ask(&format!("type-parameter {parameter} 100"));
            assert_eq!((whole.numbers, whole.text.as_str()), (vec![DONE, 2, 0, flags, owner, UNTOUCHED], name));
            let constraints = reader.all(&format!("constraints {parameter}"));
            assert_eq!(constraints.len(), usize::from(is_constrained), "{name}");
            for constraint in constraints {
                assert_eq!(reader.numbers(&format!("constraint {constraint}")), [DONE, parameter, disposable]);
            }
            assert_eq!(reader.numbers(&format!("name {parameter}")), [INVALID]);
        }
        let specs = reader.all("method-specs 0");
        let instances = specs.iter().map(|spec| (*spec, reader.numbers(&format!("method-spec {spec}"))));
        let found: Vec<(u64, Vec<u64>)> = instances.collect();
        let [(spec, facts)] = &found[..] else { panic!("{found:x?}") };
        let [code, generic, start, length] = facts[..] else { panic!("{facts:x?}") };
        assert_eq!((code, start, length), (DONE, 0x010A_0108, 3), "of a number");
        assert_eq!(reader.all(&format!("method-specs {generic}")), [*spec]);
        let reference = reader.ask(&format!("member-ref {generic} 100"));
        assert_eq!((reference.code(), reference.text.as_str()), (DONE, "Put"));
        let instance = reference.numbers[2];
        assert_eq!(instance >> 24, 0x1B, "of an instance of the type");
        assert_eq!(reference.numbers[3..], [0x0110_0103_0E13_0010, 10], "with the signature of the definition");
        assert_eq!(reader.numbers(&format!("find-foreign Put {instance}")), [DONE, generic]);
        assert!(reader.all(&format!("member-refs {instance}")).contains(&generic));
        assert!(reader.all("specs 0").contains(&instance));
        let signature = reader.numbers(&format!("spec {instance}"));
        assert_eq!((signature[0], signature[1] >> 40, signature[2]), (DONE, 0x0115, 6), "a generic instance");
    });
}

#[test]
fn an_attribute_is_found_at_its_row_by_its_constructor_and_by_its_types_name() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let note = reader.class("NoteAttribute");
        let constructor = reader.token(&format!("find-method .ctor {note}"));
        let attributes = reader.all(&format!("attributes {shelf}"));
        let [of_shelf] = attributes[..] else { panic!("{attributes:x?}") };
        let whole = reader.numbers(&format!("attribute-at {of_shelf}"));
        assert_eq!(whole, [DONE, shelf, constructor, 0x0101_0007_6120_7368, 0x18], "the text, the number, the field");
        assert_eq!(reader.all(&format!("attributes {shelf} {constructor}")), [of_shelf]);
        assert_eq!(reader.all(&format!("attributes {shelf} {note}")), [0; 0], "by the type itself none is found");
        assert_eq!(reader.numbers(&format!("attribute NoteAttribute {shelf}")), [DONE, 0, 0x18]);
        let slip = reader.token(&format!("find-type Slip {shelf}"));
        let depth = reader.token(&format!("find-field Depth {slip}"));
        assert_eq!(reader.numbers(&format!("attribute NoteAttribute {depth}")), [DONE, 0, 14], "a field's");
        assert_eq!(reader.numbers(&format!("attribute NoteAttribute {slip}")), [LESS, 0, UNTOUCHED]);
        let usage = "System.AttributeUsageAttribute";
        assert_eq!(reader.numbers(&format!("attribute {usage} {note}")), [DONE, 0, 8], "of a referenced type");
        assert_eq!(reader.numbers(&format!("attribute AttributeUsageAttribute {note}")), [LESS, 0, UNTOUCHED]);
        let all = reader.all("attributes 0");
        assert!(all.contains(&of_shelf));
        assert_eq!(reader.all(&format!("attributes 0 {note}")), all, "whatever the constructor");
        let rows = reader.numbers("table-info 12")[2];
        assert_eq!(all.len() as u64, rows);
    });
}

#[test]
fn a_nested_type_knows_the_type_around_it_and_a_type_its_interfaces() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let slip = reader.token(&format!("find-type Slip {shelf}"));
        assert_eq!(reader.numbers(&format!("nested {slip}")), [DONE, shelf]);
        assert_eq!(reader.numbers(&format!("nested {shelf}"))[0], NOT_FOUND);
        assert_eq!(reader.numbers("find-type Slip 0"), [NOT_FOUND, 0x0200_0000], "not at the top");
        let elsewhere = reader.class("NoteAttribute");
        assert_eq!(reader.numbers(&format!("find-type Slip {elsewhere}"))[0], NOT_FOUND, "nor in another type");
        let shown = reader.ask(&format!("type {slip} 100"));
        assert_eq!((shown.numbers[2], shown.text.as_str()), (0x0010_0105, "Slip"));
        let sized = reader.class("ISized");
        let interfaces = reader.all(&format!("interfaces {shelf}"));
        let [of_shelf] = interfaces[..] else { panic!("{interfaces:x?}") };
        assert_eq!(reader.numbers(&format!("implemented {of_shelf}")), [DONE, shelf, sized]);
        assert_eq!(reader.all(&format!("interfaces {sized}")), [0; 0]);
    });
}

#[test]
fn a_user_string_is_read_by_its_token_without_a_final_zero() {
    in_metadata(|reader| {
        let texts = reader.all("texts 0");
        let known: Vec<(u64, String)> =
            texts.iter().map(|token| (*token, reader.ask(&format!("text {token} 100")).text)).collect();
        let (ready, _) = known.iter().find(|(_, text)| text == "ready").expect("what the program says first");
        assert!(known.iter().any(|(_, text)| text == "put"), "{known:?}");
        assert_eq!(reader.numbers(&format!("text {ready} 0")), [DONE, 5]);
        assert_eq!(reader.ask(&format!("text {ready} 5")).text, "ready", "just enough room");
        let short = reader.ask(&format!("text {ready} 3"));
        assert_eq!((short.code(), short.count(), short.text.as_str()), (CUT, 5, "re"), "a cut one has it");
        assert_eq!(reader.numbers(&format!("text {ready} 5 nowhere")), [DONE, 5]);
        assert_eq!(reader.numbers("text 0x70000000 9"), [CORRUPT, UNTOUCHED], "the empty entry is no text");
        assert_eq!(reader.numbers(&format!("valid {}", ready + 1)), [1], "any offset is valid");
    });
}

#[test]
fn wrong_kinds_are_read_by_their_rows_and_rows_beyond_the_end_are_not_there() {
    in_metadata(|reader| {
        // The kind of a token is not checked: only its row counts, except for what other tables know about it.
        let field = reader.ask("field 0x4000001 100");
        assert_eq!(reader.ask("field 0x6000001 100").text, field.text);
        assert_eq!(reader.ask("member-ref 0x6000001 100").text, reader.ask("member-ref 0xa000001 100").text);
        assert_eq!(reader.numbers("spec 0x6000001"), reader.numbers("spec 0x1b000001"));
        assert_eq!(reader.numbers("implemented 0x6000001"), reader.numbers("implemented 0x9000001"));
        let [right, wrong] = ["0x17000001", "0x6000001"].map(|token| reader.numbers(&format!("property {token} 100")));
        assert_eq!((right[..4].to_vec(), wrong[4..6].to_vec()), (wrong[..4].to_vec(), vec![NO_METHOD; 2]));
        for kind in ["type-parameter", "constraint"] {
            assert_eq!(reader.numbers(&format!("{kind} 0x6000001"))[0], BAD_INPUT, "{kind}");
        }
        for question in [
            "field 0x4000000",
            "property 0x17000000",
            "property 0x17ffffff",
            "event 0x14ffffff",
            "member-ref 0xa000000",
            "spec 0x1b000000",
            "method-spec 0x2b000000",
            "implemented 0x9000000",
            "attribute-at 0xc000000",
            "signature 0x11000000",
        ] {
            assert_eq!(reader.numbers(question)[0], NO_ROW, "{question}");
        }
        let kinds = [0x01, 0x02, 0x04, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x11, 0x14, 0x17, 0x1B, 0x2A, 0x2B, 0x2C];
        for kind in kinds {
            let rows = reader.numbers(&format!("table-info {kind}"))[2];
            let valid = [0, 1, rows, rows + 1].map(|row| reader.numbers(&format!("valid {}", kind << 24 | row))[0]);
            assert_eq!(valid, [0, 1, 1, 0], "{kind:#x}");
        }
        for kind in [0x0B, 0x12, 0x15, 0x18, 0x29] {
            assert_eq!(reader.numbers(&format!("valid {}", kind << 24 | 1)), [0], "{kind:#x}: no token has this kind");
        }
    });
}

#[test]
fn tables_have_as_many_rows_as_the_lists_have_tokens() {
    in_metadata(|reader| {
        let rows = |reader: &mut Reader, table: u32| reader.numbers(&format!("table-info {table}"))[2];
        let whole = [("refs", 1), ("method-specs", 0x2B), ("specs", 0x1B), ("signatures", 0x11), ("references", 0x23)];
        for (list, table) in whole {
            assert_eq!(reader.all(&format!("{list} 0")).len() as u64, rows(reader, table), "{list}");
        }
        let mut classes = reader.all("types");
        assert_eq!(classes.len() as u64 + 1, rows(reader, 2), "without that of members without a type");
        classes.push(0x0200_0001);
        let of_classes = [("methods", 6), ("fields", 4), ("properties", 0x17), ("events", 0x14), ("interfaces", 9)];
        let mut methods = Vec::new();
        for (list, table) in of_classes {
            let all: Vec<u64> = classes.iter().flat_map(|class| reader.all(&format!("{list} {class}"))).collect();
            assert_eq!(all.len() as u64, rows(reader, table), "{list}");
            if table == 6 {
                methods = all;
            }
        }
        for (list, table) in [("parameters", 8), ("semantics", 0x18)] {
            let all: usize = methods.iter().map(|method| reader.all(&format!("{list} {method}")).len()).sum();
            assert_eq!(all as u64, rows(reader, table), "{list}");
        }
        let owners = classes.iter().chain(&methods);
        let generic: Vec<u64> = owners.flat_map(|owner| reader.all(&format!("type-parameters {owner}"))).collect();
        assert_eq!(generic.len() as u64, rows(reader, 0x2A));
        let nested = classes.iter().filter(|class| reader.numbers(&format!("nested {class}"))[0] == DONE).count();
        assert_eq!(nested as u64, rows(reader, 0x29));
    });
}

#[test]
fn a_cell_of_a_table_is_what_the_other_interfaces_tell() {
    in_metadata(|reader| {
        let shelf = reader.shelf();
        let row = |token: u64| token & 0x00FF_FFFF;
        let string = |reader: &mut Reader, at: u64| reader.ask(&format!("table-string {at}")).text;
        let cells = reader.numbers(&format!("table-cells 2 {}", row(shelf)));
        assert_eq!(string(reader, cells[2]), "Shelf`1");
        assert_eq!((cells[1], cells[3]), (0x0010_0000, 0), "flags, no namespace");
        assert_eq!(cells[4], reader.numbers(&format!("type {shelf} 0"))[3]);
        let firsts = ["fields", "methods"].map(|list| reader.all(&format!("{list} {shelf}"))[0]);
        assert_eq!(cells[5..], firsts, "where its lists begin");

        let most = reader.token(&format!("find-field Most {shelf}"));
        let cells = reader.numbers(&format!("table-cells 4 {}", row(most)));
        assert_eq!((cells[1], string(reader, cells[2]).as_str()), (0x8056, "Most"));
        assert_eq!(reader.numbers(&format!("table-blob {}", cells[3])), [DONE, 0x1_0608, 2]);
        let put = reader.token(&format!("find-method Put {shelf}"));
        let cells = reader.numbers(&format!("table-cells 6 {}", row(put)));
        let known = reader.numbers(&format!("method {put} 0"));
        assert_eq!([cells[1], cells[3], cells[2]], [known[5], known[3], known[4]], "address, flags, kind of code");
        assert_eq!(string(reader, cells[4]), "Put");
        assert_eq!(cells[6], reader.all(&format!("parameters {put}"))[0]);
        let reference = reader.token("find-ref System.IDisposable 0x23000001");
        let cells = reader.numbers(&format!("table-cells 1 {}", row(reference)));
        assert_eq!((cells[1], string(reader, cells[2]).as_str()), (0x2300_0001, "IDisposable"));
        assert_eq!(string(reader, cells[3]), "System");

        // A row's bytes: little-endian, with short indexes; a coded token has its table in the lowest bits.
        let bytes = reader.numbers(&format!("table-row 9 {}", 1));
        let [class, interface] = [shelf, reader.class("ISized")].map(row);
        assert_eq!(bytes, [DONE, 1 << 32 | class << 24 | interface << 2 << 8, 4]);
        assert_eq!(reader.numbers("table-cells 0 1")[3..], [1, 0, 0], "one id, and none");
    });
}

#[test]
fn tables_columns_and_groups_have_the_same_names_numbers_and_keys() {
    in_metadata(|reader| {
        let tables = [
            (0, "Module", [10, 5, 0xFFFF_FFFF]),
            (2, "TypeDef", [14, 6, 0xFFFF_FFFF]),
            (6, "Method", [14, 6, 0xFFFF_FFFF]),
            (0x0B, "Constant", [6, 3, 1]),
            (0x0E, "DeclSecurity", [6, 3, 1]),
            (0x0F, "ClassLayout", [8, 3, 2]),
            (0x19, "MethodImpl", [6, 3, 0]),
            (0x1C, "ImplMap", [8, 4, 1]),
            (0x20, "Assembly", [22, 9, 0xFFFF_FFFF]),
            (0x23, "AssemblyRef", [20, 9, 0xFFFF_FFFF]),
            (0x25, "AssemblyRefOS", [14, 4, 0xFFFF_FFFF]),
            (0x27, "ExportedType", [14, 5, 0xFFFF_FFFF]),
            (0x2A, "GenericParam", [8, 4, 2]),
            (0x2C, "GenericParamConstraint", [4, 2, 0]),
        ];
        for (table, name, [size, columns, key]) in tables {
            let info = reader.ask(&format!("table-info {table}"));
            assert_eq!((info.text.as_str(), info.numbers[1]), (name, size));
            assert_eq!(info.numbers[3..], [columns, key], "{name}");
        }
        let columns = [
            ("2 0", "Flags", [0, 4, 99]),
            ("2 3", "Extends", [8, 2, 64]),
            ("2 5", "MethodList", [12, 2, 6]),
            ("6 4", "Signature", [10, 2, 103]),
            ("11 0", "Type", [0, 1, 100]),
            ("11 1", "Parent", [2, 2, 65]),
            ("14 0", "Action", [0, 2, 96]),
            ("15 1", "ClassSize", [2, 4, 99]),
            ("32 7", "Name", [18, 2, 101]),
            ("0 2", "Mvid", [4, 2, 102]),
            ("42 2", "Owner", [4, 2, 76]),
        ];
        for (column, name, facts) in columns {
            let info = reader.ask(&format!("table-column {column}"));
            assert_eq!((info.numbers[1..].to_vec(), info.text.as_str()), (facts.to_vec(), name));
        }
        let groups = [
            (0, "TypeDefOrRef", 3),
            (2, "HasCustomAttribute", 24),
            (10, "CustomAttributeType", 5),
            (12, "TypeOrMethodDef", 2),
        ];
        for (group, name, kinds) in groups {
            let info = reader.ask(&format!("table-coded {group}"));
            assert_eq!((info.text.as_str(), info.numbers.len()), (name, kinds + 1));
        }
        assert_eq!(reader.numbers("table-coded 0"), [DONE, 0x0200_0000, 0x0100_0000, 0x1B00_0000]);
        assert_eq!(reader.numbers("table-count"), [DONE, 45]);
        assert_eq!(reader.numbers("table-index 0x70000001"), [DONE, 0xFFFF_FFFF]);
        for beyond in
            ["info 45", "column 2 6", "column 45 0", "coded 13", "cell 2 0 0", "cell 2 9 1", "row 2 0", "row 3 1"]
        {
            assert_eq!(reader.numbers(&format!("table-{beyond}"))[0], INVALID, "{beyond}");
        }
    });
}

#[test]
fn heaps_are_walked_from_entry_to_entry_to_their_end() {
    in_metadata(|reader| {
        for (entry, size) in [("string", "strings"), ("blob", "blobs"), ("text", "texts")] {
            let size = reader.numbers(&format!("table-{size}"))[1];
            let (mut at, mut count) = (0, 0);
            let end = loop {
                let next = reader.numbers(&format!("table-next-{entry} {at}"));
                if next[0] != DONE {
                    break next;
                }
                assert!(next[1] > at && next[1] < size, "{entry}: {next:x?} after {at:#x}");
                (at, count) = (next[1], count + 1);
                assert_eq!(reader.numbers(&format!("table-{entry} {at}"))[0], DONE, "{entry} {at:#x}");
            };
            assert_eq!(end, [LESS, 0], "{entry}");
            assert!(count > 5, "{entry}: {count}");
            assert_eq!(reader.numbers(&format!("table-{entry} 0xffffff"))[0], NO_ROW, "{entry}");
            assert_eq!(reader.numbers(&format!("table-next-{entry} 0xffffff")), [LESS, 0], "{entry}");
        }
        assert_eq!(reader.numbers("table-ids"), [DONE, 16]);
        assert_eq!(
            [0, 1, 2].map(|id| reader.numbers(&format!("table-id {id}"))),
            [[DONE, 0, 1], [DONE, 0, 0], [NO_ROW, 0, 1]]
        );
        assert_eq!([0, 1].map(|id| reader.numbers(&format!("table-next-id {id}"))), [[DONE, 1], [LESS, 0]]);
    });
}
