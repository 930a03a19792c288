//! The contents of a program's module: its main class, and types with everything that profilers read.
//!
//! `tests/targets/obedient.cs` has the same types, and the answers about them are the same
//! (tests/conformance/tests/metadata_contents.rs).

use super::contents::{Contents, Value, in_signature};

/// Where references to the framework's types lead: the first referenced assembly.
const FRAMEWORK: u32 = 0x2300_0001;
/// No base: an invalid type.
const NO_TYPE: u32 = 0x0200_0000;

/// Flags of types (source: corhdr.h, CorTypeAttr).
const PRIVATE_CLASS: u32 = 0x0010_0000;
const SEALED: u32 = 0x0100;
const STATIC_CLASS: u32 = PRIVATE_CLASS | SEALED | ABSTRACT_CLASS;
const ABSTRACT_CLASS: u32 = 0x80;
const INTERFACE: u32 = 0x20;
const NESTED_IN_ASSEMBLY: u32 = 0x5;

/// Flags of fields (source: corhdr.h, CorFieldAttr).
const PRIVATE_STATIC: u32 = 0x11;
const PUBLIC_FIELD: u32 = 0x6;
const PUBLIC_CONSTANT: u32 = 0x8056;
const PROTECTED_READ_ONLY: u32 = 0x24;

/// Flags of methods (source: corhdr.h, CorMethodAttr).
const PUBLIC_STATIC: u32 = 0x96;
const CONSTRUCTOR: u32 = 0x1886;
const PROTECTED_CONSTRUCTOR: u32 = 0x1884;
const ACCESSOR: u32 = 0x886;
const FINAL_ACCESSOR: u32 = 0x9E6;
const ABSTRACT_ACCESSOR: u32 = 0xDC6;

/// Flags of parameters and type parameters.
const OUT: u32 = 0x2;
const OPTIONAL: u32 = 0x1010;
const REFERENCE_TYPE: u32 = 0x4;

/// Roles of methods (source: corhdr.h, CorMethodSemanticsAttr).
const SETTER: u32 = 0x1;
const GETTER: u32 = 0x2;
const ADDER: u32 = 0x8;
const REMOVER: u32 = 0x10;

/// Signatures of methods and fields (ECMA-335, II.23.2).
const OF_INSTANCE: [u8; 3] = [0x20, 0x00, 0x01];
const GIVES_TEXT: [u8; 3] = [0x00, 0x00, 0x0E];
const SIZE_METHOD: [u8; 3] = [0x20, 0x00, 0x08];
const SIZE: [u8; 3] = [0x28, 0x00, 0x08];
const NUMBER_FIELD: [u8; 2] = [0x06, 0x08];

/// References to the framework.
#[derive(Debug, Clone, Copy)]
pub struct Framework {
    /// System.Object.
    pub object: u32,
    /// System.WeakReference.
    pub weak: u32,
    attribute: u32,
    usage: u32,
    disposable: u32,
    action: u32,
    stream: u32,
}

impl Contents {
    /// A program: its static main class, whose members `fill` adds, and further types.
    pub fn of_program(main_class: &str, fill: impl FnOnce(&mut Contents, Framework)) -> Contents {
        let mut made = Contents::new();
        let mut framework = |namespace, name| made.type_reference(FRAMEWORK, namespace, name);
        let framework = Framework {
            object: framework("System", "Object"),
            attribute: framework("System", "Attribute"),
            usage: framework("System", "AttributeUsageAttribute"),
            disposable: framework("System", "IDisposable"),
            action: framework("System", "Action"),
            weak: framework("System", "WeakReference"),
            stream: framework("System.IO", "MemoryStream"),
        };
        made.type_definition(STATIC_CLASS, "", main_class, framework.object);
        fill(&mut made, framework);
        let note = note_attribute(&mut made, &framework);
        let sized = sized_interface(&mut made);
        let shelf = shelf_class(&mut made, &framework, sized, note);
        shelves_class(&mut made, &framework, shelf);
        slip_class(&mut made, &framework, shelf, note);
        for text in ["ready", "start", "started", "finish", "quit", "unknown", "put", "none"] {
            made.user_string(text);
        }
        made
    }
}

/// The attribute's constructor.
fn note_attribute(made: &mut Contents, framework: &Framework) -> u32 {
    made.member_reference(framework.attribute, ".ctor", &OF_INSTANCE);
    let usage = made.member_reference(framework.usage, ".ctor", &[0x20, 0x01, 0x01, 0x08]);
    let note = made.type_definition(PRIVATE_CLASS | SEALED, "", "NoteAttribute", framework.attribute);
    made.attribute(note, usage, &[1, 0, 0xFF, 0x7F, 0, 0, 0, 0]);
    made.field(PUBLIC_FIELD, "Kept", &[0x06, 0x02]);
    let constructor = made.method(CONSTRUCTOR, ".ctor", &[0x20, 0x02, 0x01, 0x0E, 0x08]);
    made.parameter(0, 1, "text");
    made.parameter(0, 2, "number");
    constructor
}

fn sized_interface(made: &mut Contents) -> u32 {
    let sized = made.type_definition(PRIVATE_CLASS | ABSTRACT_CLASS | INTERFACE, "", "ISized", NO_TYPE);
    let getter = made.method(ABSTRACT_ACCESSOR, "get_Size", &SIZE_METHOD);
    let size = made.property("Size", &SIZE);
    made.accessor(GETTER, getter, size);
    sized
}

fn shelf_class(made: &mut Contents, framework: &Framework, sized: u32, note: u32) -> u32 {
    let shelf = made.type_definition(PRIVATE_CLASS, "", "Shelf`1", framework.object);
    made.implement(shelf, sized);
    made.attribute(shelf, note, b"\x01\x00\x07a shelf\x07\0\0\0\x01\x00\x53\x02\x04Kept\x01");
    let parameter = made.type_parameter(shelf, 0, REFERENCE_TYPE, "T");
    made.constrain(parameter, framework.disposable);

    let most = made.field(PUBLIC_CONSTANT, "Most", &NUMBER_FIELD);
    made.constant(most, Value::Number(12));
    let label = made.field(PUBLIC_CONSTANT, "Label", &[0x06, 0x0E]);
    made.constant(label, Value::Text("shelf"));
    made.field(PRIVATE_STATIC, "made", &[0x06, 0x0A]);
    made.field(PROTECTED_READ_ONLY, "first", &[0x06, 0x13, 0x00]);

    made.method(PROTECTED_CONSTRUCTOR, ".ctor", &[0x20, 0x01, 0x01, 0x13, 0x00]);
    made.parameter(0, 1, "first");
    let getter = made.method(FINAL_ACCESSOR, "get_Size", &SIZE_METHOD);
    let setter = made.method(ACCESSOR, "set_Size", &[0x20, 0x01, 0x01, 0x08]);
    made.parameter(0, 1, "value");
    let [adder, remover] = ["add_Emptied", "remove_Emptied"].map(|name| {
        let method = made.method(ACCESSOR, name, &[0x20, 0x01, 0x01, 0x12, in_signature(framework.action)]);
        made.parameter(0, 1, "value");
        method
    });
    let put = made.method(PUBLIC_STATIC, "Put", &[0x10, 0x01, 0x03, 0x0E, 0x13, 0x00, 0x10, 0x1E, 0x00, 0x0E]);
    made.parameter(0, 1, "item");
    made.parameter(OUT, 2, "place");
    let name = made.parameter(OPTIONAL, 3, "name");
    made.constant(name, Value::Text("none"));
    made.type_parameter(put, 0, 0, "U");

    let size = made.property("Size", &SIZE);
    made.accessor(SETTER, setter, size);
    made.accessor(GETTER, getter, size);
    let emptied = made.event("Emptied", framework.action);
    made.accessor(ADDER, adder, emptied);
    made.accessor(REMOVER, remover, emptied);
    shelf
}

/// Calls `Put` of an instance of the shelf.
fn shelves_class(made: &mut Contents, framework: &Framework, shelf: u32) {
    made.type_definition(STATIC_CLASS, "", "Shelves", framework.object);
    made.method(PUBLIC_STATIC, "Use", &GIVES_TEXT);
    made.local_variables(&[0x07, 0x01, 0x08]);
    let (of, stream) = (in_signature(shelf), in_signature(framework.stream));
    let instance = made.type_spec(&[0x15, 0x12, of, 0x01, 0x12, stream]);
    let signature = [0x10, 0x01, 0x03, 0x0E, 0x13, 0x00, 0x10, 0x1E, 0x00, 0x0E];
    let put = made.member_reference(instance, "Put", &signature);
    made.method_spec(put, &[0x0A, 0x01, 0x08]);
}

fn slip_class(made: &mut Contents, framework: &Framework, shelf: u32, note: u32) {
    let slip = made.type_definition(PRIVATE_CLASS | SEALED | NESTED_IN_ASSEMBLY, "", "Slip", framework.object);
    made.nest(slip, shelf);
    let parameter = made.type_parameter(slip, 0, REFERENCE_TYPE, "T");
    made.constrain(parameter, framework.disposable);
    let depth = made.field(PUBLIC_FIELD, "Depth", &NUMBER_FIELD);
    made.attribute(depth, note, b"\x01\x00\x05depth\x01\0\0\0\0\0");
    made.method(CONSTRUCTOR, ".ctor", &OF_INSTANCE);
}
