//! Types as text: the parts of their names, nesting, and C# syntax (`int?`, tuples, keywords).

use crate::generated::{Generated, generated, split_arity};
use crate::keyword::system_keyword;
use crate::member::Member;
use crate::metadata::{Metadata, Table};
use crate::name::NamePart;

/// Maximum nesting of types. Deeper ones are damage.
const NESTING_LIMIT: usize = 64;
/// Maximum number of generated names around each other (a lambda's state machine in a local function ...).
const GENERATED_DEPTH_LIMIT: u32 = 8;

/// A type's name in the metadata: every part is still a mangled identifier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawType {
    pub(crate) namespace: String,
    /// Outermost first, each with the number of generic parameters that it adds.
    pub(crate) parts: Vec<(String, usize)>,
}

/// Whether types in argument lists have their namespaces. Names without them are easier to read; names with them are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespaces {
    Left,
    Kept,
}

impl RawType {
    /// The type as C# writes it without its namespace.
    pub(crate) fn short(&self, arguments: &[String]) -> String {
        self.shown(arguments, Namespaces::Left)
    }

    /// The type as an argument or a parameter.
    pub(crate) fn shown(&self, arguments: &[String], namespaces: Namespaces) -> String {
        if let (true, [(name, _)]) = (self.namespace == "System", &self.parts[..]) {
            match (split_arity(name).0, arguments) {
                (plain, []) => {
                    if let Some(keyword) = system_keyword(plain) {
                        return keyword.to_owned();
                    }
                }
                ("Nullable", [argument]) => return format!("{argument}?"),
                ("ValueTuple", [_, _, ..]) => return tuple(arguments),
                _ => {}
            }
        }
        let mut parts: Vec<String> = self.name_parts(arguments).iter().map(NamePart::to_string).collect();
        if namespaces == Namespaces::Kept && !self.namespace.is_empty() {
            parts.insert(0, self.namespace.clone());
        }
        parts.join(".")
    }

    /// The readable parts, with `arguments` assigned from the outermost to the innermost.
    pub(crate) fn name_parts(&self, arguments: &[String]) -> Vec<NamePart> {
        let mut rest = arguments;
        let last = self.parts.len().saturating_sub(1);
        let deal = |(index, (name, arity)): (usize, &(String, usize))| {
            let count = if index == last { rest.len() } else { (*arity).min(rest.len()) };
            let (own, tail) = rest.split_at(count);
            rest = tail;
            NamePart { name: type_identifier(name), arguments: own.to_vec() }
        };
        self.parts.iter().enumerate().map(deal).collect()
    }

    pub(crate) fn is(&self, namespace: &str, name: &str) -> bool {
        self.namespace == namespace && matches!(&self.parts[..], [(only, _)] if only == name)
    }

    /// Whether it only holds the captured variables of a local function or lambda.
    pub(crate) fn is_closure(&self) -> bool {
        let last = self.parts.last().map(|(name, _)| split_arity(name).0);
        matches!(last.and_then(generated), Some(Generated::Closure { .. }))
    }
}

/// The display name of a type's identifier.
pub(crate) fn type_identifier(identifier: &str) -> String {
    let (plain, _) = split_arity(identifier);
    match generated(plain) {
        Some(Generated::StateMachine { method }) => {
            format!("{}.StateMachine", method_identifier(&method.replace('-', ".")))
        }
        Some(Generated::TopLevel { name } | Generated::FileLocal { name }) => name.to_owned(),
        Some(Generated::AnonymousType { number }) => format!("AnonymousType#{number}"),
        _ => plain.to_owned(),
    }
}

/// The display name of a method if only its identifier is known.
pub(crate) fn method_identifier(identifier: &str) -> String {
    method_identifier_within(identifier, GENERATED_DEPTH_LIMIT)
}

fn method_identifier_within(identifier: &str, depth: u32) -> String {
    let Some(depth) = depth.checked_sub(1) else { return identifier.to_owned() };
    match generated(identifier) {
        Some(Generated::Lambda { method, number, .. }) => {
            format!("{}.lambda#{number}", method_identifier_within(method, depth))
        }
        Some(Generated::LocalFunction { method, name }) => {
            format!("{}.{name}", method_identifier_within(method, depth))
        }
        Some(Generated::TopLevel { name }) => name.to_owned(),
        Some(Generated::StateMachine { method }) => method_identifier_within(&method.replace('-', "."), depth),
        Some(Generated::Finally { number }) => format!("finally#{number}"),
        _ => Member::parse(identifier, true).text(),
    }
}

/// `(int, string)`. The metadata nests the eighth and later elements one tuple deeper.
fn tuple(arguments: &[String]) -> String {
    let mut elements = arguments.to_vec();
    if elements.len() == 8 {
        let rest = elements[7].clone();
        let inner = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let rest = rest.strip_prefix("System.").unwrap_or(&rest);
        let single = rest.strip_prefix("ValueTuple<").and_then(|rest| rest.strip_suffix('>'));
        if let Some(flat) = inner.or(single) {
            elements[7] = flat.to_owned();
        }
    }
    format!("({})", elements.join(", "))
}

impl Metadata {
    /// The TypeDef rows from the outermost enclosing type to `row` itself.
    pub(crate) fn type_def_chain(&self, row: u32) -> Vec<u32> {
        let mut chain = vec![row];
        while let Some(enclosing) = chain.last().and_then(|&inner| self.enclosing_type(inner)) {
            if chain.len() == NESTING_LIMIT || chain.contains(&enclosing) {
                break;
            }
            chain.push(enclosing);
        }
        chain.reverse();
        chain
    }

    pub(crate) fn enclosing_type(&self, row: u32) -> Option<u32> {
        let rows = self.equal_rows(Table::NestedClass, 0, row);
        if rows.is_empty() { None } else { self.cell(Table::NestedClass, rows.start, 1) }
    }

    pub(crate) fn type_def(&self, row: u32) -> Option<RawType> {
        let chain = self.type_def_chain(row);
        let namespace = self.text(Table::TypeDef, *chain.first()?, 2)?.into_owned();
        let mut parts = Vec::with_capacity(chain.len());
        let mut known = 0;
        for &row in &chain {
            let count = self.type_parameters(row).len();
            parts.push((self.text(Table::TypeDef, row, 1)?.into_owned(), count.saturating_sub(known)));
            known = count;
        }
        Some(RawType { namespace, parts })
    }

    pub(crate) fn type_ref(&self, row: u32) -> Option<RawType> {
        let mut parts = Vec::new();
        let mut row = row;
        loop {
            let name = self.text(Table::TypeRef, row, 1)?;
            parts.push((name.to_string(), split_arity(&name).1));
            let scope = self.cell(Table::TypeRef, row, 0)?;
            if scope & 3 != 3 || parts.len() == NESTING_LIMIT {
                break;
            }
            row = scope >> 2;
        }
        parts.reverse();
        Some(RawType { namespace: self.text(Table::TypeRef, row, 2)?.into_owned(), parts })
    }

    /// The type that a TypeDefOrRef names, unless it is a TypeSpec.
    pub(crate) fn defined_type(&self, coded: u32) -> Option<RawType> {
        match coded & 3 {
            0 => self.type_def(coded >> 2),
            1 => self.type_ref(coded >> 2),
            _ => None,
        }
    }

    /// The GenericParam rows of a TypeDef. The compiler repeats those of enclosing types first.
    pub(crate) fn type_parameters(&self, row: u32) -> std::ops::Range<u32> {
        self.equal_rows(Table::GenericParam, 2, row << 1)
    }

    /// The GenericParam rows of a MethodDef.
    pub(crate) fn method_parameters(&self, row: u32) -> std::ops::Range<u32> {
        self.equal_rows(Table::GenericParam, 2, row << 1 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_csharp() {
        let text = |name: &str, arguments: &[&str]| {
            let raw = RawType { namespace: "System".into(), parts: vec![(name.into(), arguments.len())] };
            raw.short(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
        };
        for (name, arguments, expected) in [
            ("Int32", &[][..], "int"),
            ("DateTime", &[], "DateTime"),
            ("Nullable`1", &["int"], "int?"),
            ("ValueTuple`1", &["int"], "ValueTuple<int>"),
            ("ValueTuple`2", &["int", "string"], "(int, string)"),
            ("ValueTuple`8", &["a", "b", "c", "d", "e", "f", "g", "(h, i)"], "(a, b, c, d, e, f, g, h, i)"),
            ("ValueTuple`8", &["a", "b", "c", "d", "e", "f", "g", "ValueTuple<h>"], "(a, b, c, d, e, f, g, h)"),
            ("ValueTuple`8", &["a", "b", "c", "d", "e", "f", "g", "System.ValueTuple<h>"], "(a, b, c, d, e, f, g, h)"),
            ("Func`2", &["int", "T"], "Func<int, T>"),
        ] {
            assert_eq!(text(name, arguments), expected);
        }
    }

    #[test]
    fn identifiers_without_a_signature() {
        for (identifier, expected) in [
            ("<Main>b__0_1", "Main.lambda#1"),
            ("<<Main>$>b__0_1", "Main.lambda#1"),
            ("<get_Lazy>b__3_0", "Lazy.get.lambda#0"),
            ("<Main>g__Local|0_1", "Main.Local"),
            ("<Clone>$", "<Clone>$"),
        ] {
            assert_eq!(method_identifier(identifier), expected);
        }
        for (identifier, expected) in [
            ("<<Main>b__0_1>d", "Main.lambda#1.StateMachine"),
            ("<System-IFoo-Bar>d__3`1", "IFoo.Bar.StateMachine"),
            ("<>f__AnonymousType0`2", "AnonymousType#0"),
            ("List`1", "List"),
        ] {
            assert_eq!(type_identifier(identifier), expected);
        }
    }
}
