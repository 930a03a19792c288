//! Identifiers that the C# compiler invents, taken apart: `<Main>b__0_1` is lambda 1 of `Main`.
//!
//! Pure text. The table of what becomes of each is in the crate's documentation.

/// What an invented identifier stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generated<'a> {
    /// `<Foo>d__5`: the type of a state machine. Dots of the method's name are dashes here.
    StateMachine { method: &'a str },
    /// `<>c`, `<>c__DisplayClass3_0`: the type that holds lambdas and what they captured; the number is that of the method.
    Closure { method_number: Option<&'a str> },
    /// `<Foo>b__3_1` or, inside a display class, `<Foo>b__1`.
    Lambda { method: &'a str, method_number: Option<&'a str>, number: &'a str },
    /// `<Foo>g__Local|3_1`.
    LocalFunction { method: &'a str, name: &'a str },
    /// `<Foo>$`, `<Program>$`, `<Main>`: a method or type without a name in the source.
    TopLevel { name: &'a str },
    /// `<File>F0123...__Name`: a type that only its file can see.
    FileLocal { name: &'a str },
    /// `<>f__AnonymousType0`: a type without a name, and its number.
    AnonymousType { number: &'a str },
    /// `<Name>j__TPar`: a generic parameter of a type without a name.
    AnonymousParameter { name: &'a str },
    /// `<>m__Finally1`: a finally block of an iterator.
    Finally { number: &'a str },
}

/// Takes `identifier` (without a generic arity) apart; `None` if it is an ordinary one, or one that is better left as it is.
pub(crate) fn generated(identifier: &str) -> Option<Generated<'_>> {
    if let Some(rest) = identifier.strip_prefix("VB$StateMachine_") {
        let (number, method) = rest.split_once('_')?;
        return is_number(number).then_some(Generated::StateMachine { method });
    }
    let close = closing_bracket(identifier)?;
    let inner = &identifier[1..close];
    let rest = &identifier[close + 1..];
    if (rest == "$" || rest.is_empty()) && !inner.is_empty() && inner != "Module" {
        // `<PrivateImplementationDetails>` and the like are types of their own; only the entry point is renamed.
        return matches!(inner, "Main" | "Program").then_some(Generated::TopLevel { name: inner });
    }
    let kind = rest.chars().next()?;
    let suffix = &rest[kind.len_utf8()..];
    let numbered = suffix.strip_prefix("__");
    match (kind, inner.is_empty()) {
        ('d', false) => Some(Generated::StateMachine { method: inner }),
        ('b', false) => lambda(inner, numbered?),
        ('g', false) => {
            let (name, _) = numbered?.rsplit_once('|')?;
            Some(Generated::LocalFunction { method: inner, name })
        }
        ('F', false) => {
            let (hash, name) = suffix.split_once("__")?;
            let hashed = hash.len() >= 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            (hashed && !name.is_empty()).then_some(Generated::FileLocal { name })
        }
        ('j', false) => (suffix == "__TPar").then_some(Generated::AnonymousParameter { name: inner }),
        ('c', true) => closure(suffix),
        ('f', true) => Some(Generated::AnonymousType { number: numbered?.strip_prefix("AnonymousType")? }),
        ('m', true) => Some(Generated::Finally { number: numbered?.strip_prefix("Finally")? }),
        _ => None,
    }
}

/// The identifier without what follows a backtick, and the arity that stood there.
pub(crate) fn split_arity(identifier: &str) -> (&str, usize) {
    match identifier.rsplit_once('`') {
        Some((name, arity)) if is_number(arity) => (name, arity.parse().unwrap_or(0)),
        _ => (identifier, 0),
    }
}

fn lambda<'a>(method: &'a str, suffix: &'a str) -> Option<Generated<'a>> {
    // What follows a '#' counts edits of a debug session.
    let suffix = suffix.split('#').next()?;
    let (method_number, number) = match suffix.split_once('_') {
        Some((method_number, number)) => (Some(method_number), number),
        None => (None, suffix),
    };
    (is_number(number) && method_number.is_none_or(is_number)).then_some(Generated::Lambda {
        method,
        method_number,
        number,
    })
}

fn closure(suffix: &str) -> Option<Generated<'_>> {
    let Some(rest) = suffix.strip_prefix("__") else {
        return suffix.is_empty().then_some(Generated::Closure { method_number: None });
    };
    let number = rest.strip_prefix("DisplayClass").unwrap_or(rest).split(['_', '#']).next()?;
    is_number(number).then_some(Generated::Closure { method_number: Some(number) })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The index of the `>` that closes the `<` at the start: names of generated code nest.
fn closing_bracket(identifier: &str) -> Option<usize> {
    if !identifier.starts_with('<') {
        return None;
    }
    let mut depth = 0usize;
    for (index, byte) in identifier.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Generated::*;
    use super::*;

    #[test]
    fn invented_identifiers_are_taken_apart() {
        let lambda = |method, method_number, number| Some(Lambda { method, method_number, number });
        for (identifier, expected) in [
            ("<Foo>d__5", Some(StateMachine { method: "Foo" })),
            ("<<Main>$>d__0", Some(StateMachine { method: "<Main>$" })),
            ("<<Main>b__0_1>d", Some(StateMachine { method: "<Main>b__0_1" })),
            ("<System-IFoo<T>-Bar>d__3", Some(StateMachine { method: "System-IFoo<T>-Bar" })),
            ("VB$StateMachine_3_Run", Some(StateMachine { method: "Run" })),
            ("<>c", Some(Closure { method_number: None })),
            ("<>c__3", Some(Closure { method_number: Some("3") })),
            ("<>c__DisplayClass3_0", Some(Closure { method_number: Some("3") })),
            ("<Main>b__0_1", lambda("Main", Some("0"), "1")),
            ("<Main>b__1", lambda("Main", None, "1")),
            ("<Main>b__0_1#2", lambda("Main", Some("0"), "1")),
            ("<.ctor>b__2_0", lambda(".ctor", Some("2"), "0")),
            ("<Main>g__Local|0_1", Some(LocalFunction { method: "Main", name: "Local" })),
            ("<<Main>$>g__Local|0_1", Some(LocalFunction { method: "<Main>$", name: "Local" })),
            ("<Main>$", Some(TopLevel { name: "Main" })),
            ("<Main>", Some(TopLevel { name: "Main" })),
            ("<Program>$", Some(TopLevel { name: "Program" })),
            ("<a>F0123456789ABCDEF__Hidden", Some(FileLocal { name: "Hidden" })),
            ("<>f__AnonymousType0", Some(AnonymousType { number: "0" })),
            ("<Name>j__TPar", Some(AnonymousParameter { name: "Name" })),
            ("<>m__Finally1", Some(Finally { number: "1" })),
            ("<Clone>$", None),
            ("<Module>", None),
            ("<PrivateImplementationDetails>", None),
            ("<>F{00000001}", None),
            ("<Main>b__x_1", None),
            ("<Main", None),
            ("<>", None),
            ("Main", None),
            ("", None),
        ] {
            assert_eq!(generated(identifier), expected, "{identifier}");
        }
    }

    #[test]
    fn arity_is_cut_off() {
        assert_eq!(split_arity("List`1"), ("List", 1));
        assert_eq!(split_arity("odd`name"), ("odd`name", 0));
        assert_eq!(split_arity("x`99999999999999999999999"), ("x", 0));
    }
}
