//! Every method of real modules is read, wrapped, and read again.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_il::{Body, Error, Handler, MethodSignature, NamedType, Value, locals_with, type_text, wrap};
use support::{Method, check, methods, probes};

const MODULES: [&[u8]; 2] = [
    include_bytes!("../../../host/symbols/fixtures/names.dll"),
    include_bytes!("../../../host/symbols/fixtures/locks.dll"),
];

#[test]
fn every_method_of_a_module_keeps_its_instructions_branches_and_clauses() {
    let (mut wrapped, mut with_clauses) = (0, 0);
    for module in MODULES {
        for method in methods(module).unwrap() {
            wrapped += usize::from(check(&method).is_some());
            with_clauses += usize::from(!Body::read(method.body).unwrap().clauses.is_empty());
        }
    }
    assert!(wrapped > 50 && with_clauses > 5, "{wrapped} {with_clauses}");
}

/// A tiny body: `ldarg.0; brtrue.s +1; nop; ret`.
const TINY: [u8; 6] = [5 << 2 | 2, 0x02, 0x2D, 0x01, 0x00, 0x2A];
/// `instance int32 ()`.
const INT: [u8; 3] = [0x20, 0, 0x08];
/// `void ()`.
const VOID: [u8; 3] = [0x00, 0, 0x01];

#[test]
fn a_tiny_body_becomes_a_fat_one_with_long_branches() {
    let bytes = check(&Method { body: &TINY, signature: &INT }).unwrap();
    let body = Body::read(&bytes).unwrap();
    assert_eq!((body.max_stack, body.locals, body.clauses.len()), (8, 0x1100_0001, 1));
    assert!(!body.init_locals);
}

#[test]
fn a_body_that_only_throws_is_wrapped() {
    // `ldnull; throw`.
    let body = [2 << 2 | 2, 0x14, 0x7A];
    assert!(check(&Method { body: &body, signature: &VOID }).is_some());
}

#[test]
fn a_filter_keeps_its_begin() {
    let code = [0x00, 0xDE, 0x08, 0x26, 0x17, 0xFE, 0x11, 0x26, 0xDE, 0x01, 0x00, 0x2A];
    let mut bytes = vec![0x0B, 0x30, 8, 0, code.len() as u8, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&code);
    // A small section: filter at 3, handler from 7 to 10, protected from 0 to 3.
    bytes.extend_from_slice(&[1, 16, 0, 0, 1, 0, 0, 0, 3, 7, 0, 3, 3, 0, 0, 0]);
    let old = Body::read(&bytes).unwrap();
    assert_eq!(old.clauses[0].handler, Handler::Filter(3));
    assert!(check(&Method { body: &bytes, signature: &VOID }).is_some());
}

#[test]
fn calls_that_need_their_callers_frame_gone_are_refused() {
    let signature = MethodSignature::read(&VOID).unwrap();
    let refused = |code: &[u8]| {
        let body = Body { max_stack: 8, init_locals: false, locals: 0, code, clauses: Vec::new() };
        wrap(&body, &probes(&signature)).unwrap_err()
    };
    assert_eq!(refused(&[0xFE, 0x14, 0x28, 1, 0, 0, 6, 0x2A]), Error::TailCall);
    assert_eq!(refused(&[0x27, 1, 0, 0, 6]), Error::Jump);
    assert_eq!(refused(&[0x24]), Error::Opcode(0x24));
    assert_eq!(refused(&[0x2B, 0x05, 0x2A]), Error::Boundary);
    assert_eq!(refused(&[0x20, 1, 2]), Error::Truncated);
}

#[test]
fn signatures_give_result_and_parameters_without_modifiers() {
    // `!!0 Method<T>(valuetype 1.2, class List<!!0>&, int32[,], string modopt(x))`.
    let bytes =
        [0x10, 1, 4, 0x1E, 0, 0x11, 0x09, 0x10, 0x15, 0x12, 0x05, 1, 0x1E, 0, 0x14, 0x08, 2, 0, 0, 0x20, 0x09, 0x0E];
    let signature = MethodSignature::read(&bytes).unwrap();
    assert_eq!(signature.result, Some([0x1E, 0].as_slice()));
    let parameters: [&[u8]; 4] =
        [&[0x11, 0x09], &[0x10, 0x15, 0x12, 0x05, 1, 0x1E, 0], &[0x14, 0x08, 2, 0, 0], &[0x0E]];
    assert_eq!(signature.parameters, parameters);
    assert_eq!(Value::of(signature.parameters[0]), Value::ValueType(0x0100_0002));
    assert_eq!(Value::of(signature.parameters[3]), Value::Text);
    let name = |token| (token == 0x0100_0002).then(|| "Day".to_owned());
    let texts: Vec<String> = parameters.iter().map(|of_type| type_text(of_type, &name).unwrap()).collect();
    assert_eq!(texts, ["Day", "ref ?<M0>", "int[,]", "string"]);
    let pairs = [0x1D, 0x15, 0x11, 0x09, 2, 0x08, 0x0F, 0x01];
    assert_eq!(type_text(&pairs, &name).unwrap(), "Day<int, void*>[]");
    assert_eq!(type_text(&pairs[..6], &name), Err(Error::Truncated));
    // A setter of `init` returns a modified void.
    assert_eq!(MethodSignature::read(&[0x20, 1, 0x1F, 0x05, 0x01, 0x08]).unwrap().result, None);
    assert_eq!(MethodSignature::read(&[0x00, 9]), Err(Error::Truncated));
    assert_eq!(MethodSignature::read(&[0x00, 0, 0x7F]), Err(Error::Signature));
}

#[test]
fn a_named_type_has_its_argument_and_takes_another() {
    let task = NamedType::of(&[0x15, 0x12, 0x80, 0x85, 1, 0x08]).unwrap();
    assert_eq!(task, NamedType { is_value: false, token: 0x0100_0021, argument: Some(&[0x08]) });
    assert_eq!(task.with(Some(&[0x13, 0])), [0x15, 0x12, 0x80, 0x85, 1, 0x13, 0]);
    assert_eq!(task.with(None), [0x12, 0x80, 0x85]);
    let pair = NamedType::of(&[0x11, 0x08]).unwrap();
    assert_eq!(pair, NamedType { is_value: true, token: 0x0200_0002, argument: None });
    assert_eq!(pair.with(None), [0x11, 0x08]);
    // Two arguments, a cut one, and a number.
    for other in [&[0x15, 0x12, 0x05, 2, 0x08, 0x08][..], &[0x15, 0x12, 0x05, 1], &[0x08], &[]] {
        assert_eq!(NamedType::of(other), None);
    }
}

#[test]
fn locals_are_added_behind_those_that_are_there() {
    assert_eq!(locals_with(&[], &[&[0x0B]]).unwrap(), (vec![7, 1, 0x0B], 0));
    assert_eq!(locals_with(&[7, 2, 0x08, 0x0E], &[&[0x0B], &[0x45, 0x0E]]).unwrap().1, 2);
    let many = [7, 0x80, 127].iter().copied().chain([0x08; 127]).collect::<Vec<u8>>();
    let (signature, first) = locals_with(&many, &[&[0x0B]]).unwrap();
    assert_eq!((first, &signature[..3]), (127, [7, 0x80, 128].as_slice()));
    assert_eq!(locals_with(&[6, 1, 8], &[]), Err(Error::Signature));
    assert_eq!(locals_with(&[7, 0xC0, 0, 0xFF, 0xFE], &[&[8]]), Err(Error::TooLarge));
}
