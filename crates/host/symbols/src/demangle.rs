//! Readable names for C++ and Rust symbols, and for managed methods whose names were read in the target.

use crate::argument::{ARGUMENT_DEPTH, array_of};
use crate::brackets::{dots_outside, split_outside};
use crate::generated::{Generated, generated, split_arity};
use crate::name::{MethodKind, MethodName, NamePart};
use crate::types::{RawType, method_identifier, type_identifier};
use remora_wire::floor_char_boundary;

/// Longer symbols are shown unchanged: demangling may grow a name exponentially.
const MANGLED_LIMIT: usize = 4096;
/// Longer demangled names are cut, and end with `…`.
const NAME_LIMIT: usize = 2048;

/// The readable name of a native symbol. Symbols of other languages are returned unchanged, without a symbol version.
pub fn native(symbol: &str) -> String {
    if let Some(target) = symbol.strip_suffix("@plt") {
        return native(target) + "@plt";
    }
    let plain = symbol.split("@@").next().unwrap_or(symbol);
    let readable = if plain.len() > MANGLED_LIMIT { None } else { rust(plain).or_else(|| c_plus_plus(plain)) };
    cut(readable.unwrap_or_else(|| plain.to_owned()))
}

/// The name of a method from its reflection names alone: `Namespace.Outer+<>c` and `<Main>b__0_1`.
///
/// Parameters are unknown and not shown. `+` and `/` separate nested types; arguments in brackets after the type are shown.
pub fn demangle_raw(type_name: &str, method_name: &str) -> MethodName {
    let (qualified, arguments) = split_arguments(type_name, ARGUMENT_DEPTH);
    let mut segments = split_nested(qualified);
    let (namespace, first) = match segments.first() {
        Some(outer) => split_namespace(outer),
        None => ("", ""),
    };
    if let Some(outer) = segments.first_mut() {
        *outer = first;
    }
    let kinds: Vec<Option<Generated<'_>>> = segments.iter().map(|segment| generated(split_arity(segment).0)).collect();
    let mut name = MethodName { namespace: namespace.to_owned(), ..MethodName::default() };
    describe(&mut name, method_name, kinds.last().copied().flatten());
    // Hide closures and state machines, which nobody wrote, if the method names the one it was written in.
    let machine = matches!(kinds.last(), Some(Some(Generated::StateMachine { .. })));
    let invented = machine || matches!(name.kind, MethodKind::Lambda | MethodKind::LocalFunction);
    let hidden = |kind: &&Option<Generated<'_>>| {
        matches!(kind, Some(Generated::Closure { .. } | Generated::StateMachine { .. }))
    };
    let shown = if invented { kinds.len() - kinds.iter().rev().take_while(hidden).count() } else { kinds.len() };
    let mut rest = &arguments[..];
    for (index, segment) in segments[..shown].iter().enumerate() {
        let count = if index + 1 == shown { rest.len() } else { split_arity(segment).1.min(rest.len()) };
        let (own, tail) = rest.split_at(count);
        rest = tail;
        name.types.push(NamePart { name: type_identifier(segment), arguments: own.to_vec() });
    }
    name.types.retain(|part| !part.name.is_empty());
    name
}

/// The short display name of a type from its reflection name: `App.Outer+Inner[System.Int32]` is `Outer.Inner<int>`.
pub fn short_type_name(type_name: &str) -> String {
    argument(type_name, ARGUMENT_DEPTH)
}

/// Fills in the method's part of a name.
fn describe(name: &mut MethodName, method_name: &str, declaring: Option<Generated<'_>>) {
    let written =
        |identifier: &str| NamePart { name: method_identifier(&identifier.replace('-', ".")), arguments: Vec::new() };
    match (declaring, generated(method_name)) {
        (Some(Generated::StateMachine { method }), _) if method_name == "MoveNext" => {
            name.method = written(method);
            name.kind = MethodKind::Async;
        }
        (Some(Generated::StateMachine { method }), _) => {
            name.within.push(written(method));
            name.method.name = method_identifier(method_name);
        }
        (_, Some(Generated::Lambda { method, number, .. })) => {
            name.within.push(NamePart { name: method_identifier(method), arguments: Vec::new() });
            name.method.name = format!("lambda#{number}");
            name.kind = MethodKind::Lambda;
        }
        (_, Some(Generated::LocalFunction { method, name: local })) => {
            name.within.push(NamePart { name: method_identifier(method), arguments: Vec::new() });
            name.method.name = local.to_owned();
            name.kind = MethodKind::LocalFunction;
        }
        _ => name.method.name = method_identifier(method_name),
    }
}

/// Splits `List`1[System.__Canon,[System.Int32, CoreLib]]` into the type and the display names of its arguments.
fn split_arguments(type_name: &str, depth: u32) -> (&str, Vec<String>) {
    let Some(open) = type_name.find('[').filter(|_| type_name.ends_with(']')) else { return (type_name, Vec::new()) };
    let arguments = split_list(&type_name[open + 1..type_name.len() - 1]);
    let count = arguments.len();
    let shown = arguments.into_iter().enumerate().map(|(index, text)| match (text.trim(), count) {
        ("System.__Canon", 1) => "T".to_owned(),
        ("System.__Canon", _) => format!("T{}", index + 1),
        (text, _) => argument(text, depth),
    });
    (&type_name[..open], shown.collect())
}

/// Splits at the commas outside brackets.
fn split_list(list: &str) -> Vec<&str> {
    split_outside(list, ["[<", "]>"], &[','])
}

/// The display name of an argument: without namespace, its own arguments included.
fn argument(text: &str, depth: u32) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "…".to_owned() };
    // Reflection writes an argument of another assembly as `[Type, Assembly]`.
    let text = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(qualified) => split_list(qualified)[0],
        None => text,
    };
    let element =
        text.rfind('[').filter(|_| text.ends_with(']')).map(|open| (&text[..open], &text[open + 1..text.len() - 1]));
    if let Some((element, commas)) = element.filter(|(_, inside)| inside.bytes().all(|byte| byte == b',')) {
        return array_of(&argument(element, depth), commas.len() as u32 + 1);
    }
    let (qualified, arguments) = split_arguments(text, depth);
    let mut segments = split_nested(qualified);
    let (namespace, outer) = split_namespace(segments[0]);
    segments[0] = outer;
    let parts = segments.into_iter().map(|segment| (segment.to_owned(), split_arity(segment).1)).collect();
    RawType { namespace: namespace.to_owned(), parts }.short(&arguments)
}

/// Splits at `+` and `/` outside `<>`.
fn split_nested(qualified: &str) -> Vec<&str> {
    split_outside(qualified, ["<", ">"], &['+', '/'])
}

/// Splits before the last part: at the last dot outside `<>`.
fn split_namespace(outer: &str) -> (&str, &str) {
    dots_outside(outer).next().map_or(("", outer), |dot| (&outer[..dot], &outer[dot + 1..]))
}

fn rust(symbol: &str) -> Option<String> {
    rustc_demangle::try_demangle(symbol).ok().map(|name| format!("{name:#}"))
}

fn c_plus_plus(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") {
        return None;
    }
    let parsed = cpp_demangle::Symbol::new(symbol).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_return_type().recursion_limit(128);
    let mut name = Bounded(String::new());
    // A name beyond the bound ends with an error: show the part before it.
    let whole = parsed.structured_demangle(&mut name, &options).is_ok();
    (whole || name.0.len() > NAME_LIMIT).then_some(name.0)
}

/// Accepts no more than the shown length of a name: a symbol of some hundred bytes can demangle to gigabytes.
struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() > NAME_LIMIT {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn cut(name: String) -> String {
    if name.len() <= NAME_LIMIT {
        return name;
    }
    format!("{}…", &name[..floor_char_boundary(&name, NAME_LIMIT)])
}
