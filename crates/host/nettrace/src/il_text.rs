//! IL-like text to C#: `instance !0  (class System.String,unsigned int8[])` to `(string, byte[])`.
//!
//! The runtime prints signatures for tools. Unknown parts are shown unchanged, never dropped.

use remora_symbols::{LEFT_OUT, MethodKind, MethodName, demangle_raw, il_keyword, shortened, split_outside};

/// Signatures longer than this are shown as `(…)`.
const LENGTH_LIMIT: usize = 4096;
/// Types nested deeper than this are shown as `…`.
const DEPTH_LIMIT: u32 = 16;

/// A method's displayed name, from the three texts of the runtime's events. A target chooses these texts: the name is cut ([`shortened`]).
///
/// `type_name` is `Namespace.Type`1[System.__Canon]`, `signature` is `instance void  (class System.String,int32)`.
pub fn method_name(type_name: &str, name: &str, signature: &str) -> String {
    if type_name == "dynamicClass" {
        // IL stubs and expression trees: their type is not from source code.
        let parameters = parameters(signature, &[]).unwrap_or_default();
        return shortened(format!("{name}({})", parameters.join(", ")));
    }
    let mut readable = demangle_raw(type_name, name);
    let arguments: Vec<String> =
        readable.types.iter().flat_map(|part| part.arguments.iter().cloned().map(shortened)).collect();
    let parameters = parameters(signature, &arguments);
    // The resumable part of a method has its own, empty parameter list: nothing to show.
    if !matches!(readable.kind, MethodKind::Async | MethodKind::Iterator) {
        show_parameters(&mut readable, parameters);
    }
    shortened(readable.to_string())
}

/// Accessors have no parentheses, indexers show their index parameters.
fn show_parameters(name: &mut MethodName, parameters: Option<Vec<String>>) {
    let Some(mut parameters) = parameters else { return };
    if name.kind == MethodKind::LocalFunction {
        // A reference to captured variables is no parameter in the source.
        parameters.retain(|parameter| !parameter.contains("<>c__DisplayClass"));
    }
    let accessor = name.method.name.rsplit_once('.').map(|(_, accessor)| accessor.to_owned());
    match accessor.as_deref() {
        Some("get") if !parameters.is_empty() => name.method.name = format!("this[{}].get", parameters.join(", ")),
        Some("set") if parameters.len() > 1 => {
            parameters.pop();
            name.method.name = format!("this[{}].set", parameters.join(", "));
        }
        Some("get" | "set" | "init" | "add" | "remove") => {}
        _ => name.parameters = Some(parameters),
    }
}

/// The parameters of a signature; `None` for other text.
fn parameters(signature: &str, class: &[String]) -> Option<Vec<String>> {
    if signature.len() > LENGTH_LIMIT {
        return Some(vec!["…".to_owned()]);
    }
    // Two spaces are in the place of a declaration's name.
    let (_, list) = signature.split_once("  (")?;
    let list = list.strip_suffix(')').unwrap_or(list);
    Some(type_texts(&split(list), class, DEPTH_LIMIT))
}

/// A list of types. It ends with `…` once a name has no room for more: a short list can repeat a long argument a thousand times.
fn type_texts(list: &[&str], class: &[String], depth: u32) -> Vec<String> {
    let (mut texts, mut length) = (Vec::new(), 0);
    for text in list {
        if length > LENGTH_LIMIT {
            texts.push(LEFT_OUT.to_owned());
            break;
        }
        let text = type_text(text, class, depth);
        length += text.len();
        texts.push(text);
    }
    texts
}

/// Splits at commas outside of brackets.
fn split(list: &str) -> Vec<&str> {
    if list.trim().is_empty() {
        return Vec::new();
    }
    split_outside(list, ["<[(", ">])"], &[',']).into_iter().map(str::trim).collect()
}

/// One type. Suffixes are removed from the right; the rest is a name.
fn type_text(text: &str, class: &[String], depth: u32) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "…".to_owned() };
    let text = without_modifiers(text.trim());
    if let Some(referred) = text.strip_suffix('&') {
        return format!("ref {}", type_text(referred, class, depth));
    }
    if let Some(pointed) = text.strip_suffix('*') {
        return type_text(pointed, class, depth) + "*";
    }
    if let Some((element, bounds)) = text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        let commas = ",".repeat(bounds.matches(',').count());
        return array_of(&type_text(element, class, depth), &commas);
    }
    named(text, class, depth)
}

/// `int[]` of `[,]` is `int[,][]` in IL and `int[][,]` in C#: the outer bounds come first.
fn array_of(element: &str, commas: &str) -> String {
    match element.find('[').filter(|_| element.ends_with(']') && !element.contains(['<', '('])) {
        Some(inner) => format!("{}[{commas}]{}", &element[..inner], &element[inner..]),
        None => format!("{element}[{commas}]"),
    }
}

/// Drops ` modreq(..)` and ` modopt(..)` at the end, which C# has no syntax for.
fn without_modifiers(text: &str) -> &str {
    let end = [" modreq(", " modopt("].iter().filter_map(|modifier| text.find(modifier)).min();
    match end {
        Some(end) if text.ends_with(')') => &text[..end],
        _ => text,
    }
}

fn named(text: &str, class: &[String], depth: u32) -> String {
    let text = handle_name(text);
    let text = ["value class ", "valuetype ", "class "].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    if let Some(keyword) = il_keyword(text) {
        return keyword.to_owned();
    }
    if let Some(index) = text.strip_prefix("!!").and_then(|index| index.parse::<usize>().ok()) {
        return format!("M{index}");
    }
    if let Some(index) = text.strip_prefix('!').and_then(|index| index.parse::<usize>().ok()) {
        return class.get(index).cloned().unwrap_or_else(|| format!("T{index}"));
    }
    let (qualified, arguments) = match text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        // Names of generated types start with the bracket: `<>c__DisplayClass0_0`.
        Some((name, arguments)) if !name.is_empty() && !name.ends_with('.') => (name, split(arguments)),
        _ => (text, Vec::new()),
    };
    shown(qualified, &type_texts(&arguments, class, depth))
}

/// A type given by its MethodTable address: `pMT: 0x7f..<class System.Object>`.
fn handle_name(text: &str) -> &str {
    let inner =
        text.strip_prefix("pMT: ").and_then(|text| text.split_once('<')).and_then(|(_, name)| name.strip_suffix('>'));
    inner.unwrap_or(text)
}

/// A named type as a parameter: without its namespace, in C# syntax where there is one.
fn shown(qualified: &str, arguments: &[String]) -> String {
    let plain = qualified.split('`').next().unwrap_or(qualified);
    match (plain, arguments) {
        ("System.Nullable", [argument]) => return format!("{argument}?"),
        ("System.ValueTuple", [_, _, ..]) => return format!("({})", arguments.join(", ")),
        _ => {}
    }
    let generated = plain.find('<').unwrap_or(plain.len());
    let start = plain[..generated].rfind('.').map_or(0, |dot| dot + 1);
    let short = plain[start..].replace(['+', '/'], ".");
    if arguments.is_empty() { short } else { format!("{short}<{}>", arguments.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(type_name: &str, name: &str, signature: &str, wanted: &str) {
        assert_eq!(method_name(type_name, name, signature), wanted);
    }

    #[test]
    fn names_look_as_in_c_sharp() {
        shows("App.Program", "Main", "void  (class System.String[])", "App.Program.Main(string[])");
        shows("App.Work.Gen`1[System.__Canon]", "Spin", "!0  (!0,int32)", "App.Work.Gen<T>.Spin(T, int)");
        shows("App.Work.Gen`1[System.Int32]", "Spin", "!0  (!0,int32)", "App.Work.Gen<int>.Spin(int, int)");
        shows("A.B", "F", "instance void  (!0,!!1)", "A.B.F(T0, M1)");
        shows("A.B", "F", "", "A.B.F");
        shows("System.String", "get_Length", "instance int32  ()", "System.String.Length.get");
        shows("System.String", "get_Chars", "instance wchar  (int32)", "System.String.this[int].get");
        shows("A.L", "set_Item", "instance void  (int32,!0)", "A.L.this[int].set");
        shows("A.B", "set_Name", "instance void  (class System.String)", "A.B.Name.set");
        shows("A.B", ".ctor", "instance void  (unsigned int8&)", "A.B..ctor(ref byte)");
        shows("dynamicClass", "IL_STUB_PInvoke", "int32  (int,unsigned int)", "IL_STUB_PInvoke(nint, nuint)");
    }

    #[test]
    fn compiler_generated_names_are_unmangled() {
        shows("App.P+<RunAsync>d__3", "MoveNext", "instance void  ()", "App.P.RunAsync");
        shows("App.P+<>c", "<Main>b__0_1", "instance int32  (int32)", "App.P.Main.lambda#1(int)");
        shows(
            "App.P",
            "<Main>g__Local|0_0",
            "void  (int32,value class <>c__DisplayClass0_0&)",
            "App.P.Main.Local(int)",
        );
    }

    #[test]
    fn types_look_as_in_c_sharp() {
        for (il, wanted) in [
            (
                "class System.Collections.Generic.Dictionary`2<class System.String,value class System.Span`1<!0>>",
                "Dictionary<string, Span<T>>",
            ),
            ("value class System.Nullable`1<int32>", "int?"),
            ("value class System.ValueTuple`2<int32,class A.B>", "(int, B)"),
            ("wchar**", "char**"),
            ("unsigned int8[0...,0...]", "byte[,]"),
            ("class System.Type[][]", "Type[][]"),
            ("int32[0...,0...][]", "int[][,]"),
            ("class System.Collections.Generic.List`1<int32[]>[]", "List<int[]>[]"),
            ("value class System.Int32 modreq(class System.Runtime.InteropServices.InAttribute)&", "ref int"),
            ("pMT: 0x7f8a7117f558<class System.Object>", "object"),
            ("class A.<>c__DisplayClass0_0", "<>c__DisplayClass0_0"),
            ("float64", "double"),
            ("something new", "something new"),
        ] {
            assert_eq!(type_text(il, &["T".to_owned()], DEPTH_LIMIT), wanted, "{il}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = "class A`1<".repeat(2000);
        assert!(type_text(&deep, &[], DEPTH_LIMIT).len() < deep.len());
        let long = format!("void  ({})", "int32,".repeat(2000));
        assert_eq!(method_name("A", "F", &long), "A.F(…)");
    }

    #[test]
    fn regression_one_long_argument_was_repeated_for_each_parameter_of_its_type() {
        let declaring = format!("A`1[{}]", "B".repeat(100_000));
        for signature in [
            format!("void  ({})", "!0,".repeat(1300)),
            format!("void  ({})", "class C`1<!0>,".repeat(250)),
            format!("void  (class C`9<{}>)", "!0,".repeat(1300)),
        ] {
            let name = method_name(&declaring, "F", &signature);
            assert!(name.starts_with("A<BBB") && name.ends_with('…') && name.len() <= 4096, "{} bytes", name.len());
            let parameters = parameters(&signature, &["B".repeat(1000)]).unwrap_or_default();
            assert!(parameters.join(", ").len() <= 3 * 4096, "{} parameters", parameters.len());
        }
        assert!(method_name("dynamicClass", &"F".repeat(10_000), "void  ()").len() <= 4096);
    }
}
