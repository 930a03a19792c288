//! Converts a method's metadata name to C# notation: accessors, operators, explicit interface implementations.

use crate::brackets::dots_outside;
use crate::keyword::shorten;

/// A member, parsed from its metadata name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The explicitly implemented interface, shortened: `IEnumerable<int>`.
    pub(crate) interface: Option<String>,
    pub(crate) shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An ordinary method, also `.ctor`.
    Method(String),
    /// `Count` and `get`, `set`, `add` or `remove`.
    Accessor { property: String, accessor: &'static str },
    /// `operator +`.
    Operator(String),
    /// `implicit operator`: its result type belongs to the name.
    Conversion(&'static str),
}

impl Member {
    /// `special` is the method's SpecialName flag, set for accessors and operators. Compilers do not set it for explicitly implemented
    /// operators.
    pub(crate) fn parse(name: &str, special: bool) -> Member {
        let (interface, simple) = split_interface(name);
        let shape = if special || interface.is_some() { special_shape(simple) } else { None };
        Member { interface: interface.map(shorten), shape: shape.unwrap_or_else(|| Shape::Method(simple.to_owned())) }
    }

    /// The name alone, without the parts that need the signature.
    pub(crate) fn text(&self) -> String {
        let text = match &self.shape {
            Shape::Method(name) | Shape::Operator(name) => name.clone(),
            Shape::Accessor { property, accessor } => format!("{property}.{accessor}"),
            Shape::Conversion(words) => (*words).to_owned(),
        };
        self.prefixed(&text)
    }

    /// Puts the explicitly implemented interface in front of `text`.
    pub(crate) fn prefixed(&self, text: &str) -> String {
        match &self.interface {
            Some(interface) => format!("{interface}.{text}"),
            None => text.to_owned(),
        }
    }
}

/// Splits `System.Collections.Generic.IEnumerable<System.Int32>.GetEnumerator` before its last part.
fn split_interface(name: &str) -> (Option<&str>, &str) {
    if name.starts_with(['.', '<']) {
        return (None, name);
    }
    let inner = dots_outside(name).find(|dot| *dot > 0 && dot + 1 < name.len());
    inner.map_or((None, name), |dot| (Some(&name[..dot]), &name[dot + 1..]))
}

fn special_shape(name: &str) -> Option<Shape> {
    for (prefix, accessor) in [("get_", "get"), ("set_", "set"), ("add_", "add"), ("remove_", "remove")] {
        if let Some(property) = name.strip_prefix(prefix).filter(|property| !property.is_empty()) {
            return Some(Shape::Accessor { property: property.to_owned(), accessor });
        }
    }
    let operator = name.strip_prefix("op_")?;
    match operator {
        "Implicit" => return Some(Shape::Conversion("implicit operator")),
        "Explicit" => return Some(Shape::Conversion("explicit operator")),
        "CheckedExplicit" => return Some(Shape::Conversion("explicit operator checked")),
        _ => {}
    }
    let (checked, plain) = match operator.strip_prefix("Checked") {
        Some(plain) => ("checked ", plain),
        None => ("", operator),
    };
    let (_, symbol) = OPERATORS.iter().find(|(name, _)| *name == plain)?;
    Some(Shape::Operator(format!("operator {checked}{symbol}")))
}

/// Operators by their names in the Common Language Specification.
const OPERATORS: [(&str, &str); 42] = [
    ("Addition", "+"),
    ("Subtraction", "-"),
    ("Multiply", "*"),
    ("Division", "/"),
    ("Modulus", "%"),
    ("ExclusiveOr", "^"),
    ("BitwiseAnd", "&"),
    ("BitwiseOr", "|"),
    ("LogicalNot", "!"),
    ("OnesComplement", "~"),
    ("LeftShift", "<<"),
    ("RightShift", ">>"),
    ("UnsignedRightShift", ">>>"),
    ("Equality", "=="),
    ("Inequality", "!="),
    ("LessThan", "<"),
    ("GreaterThan", ">"),
    ("LessThanOrEqual", "<="),
    ("GreaterThanOrEqual", ">="),
    ("Increment", "++"),
    ("Decrement", "--"),
    ("UnaryPlus", "+"),
    ("UnaryNegation", "-"),
    ("True", "true"),
    ("False", "false"),
    ("LogicalAnd", "&&"),
    ("LogicalOr", "||"),
    ("AdditionAssignment", "+="),
    ("SubtractionAssignment", "-="),
    ("MultiplicationAssignment", "*="),
    ("DivisionAssignment", "/="),
    ("ModulusAssignment", "%="),
    ("ExclusiveOrAssignment", "^="),
    ("BitwiseAndAssignment", "&="),
    ("BitwiseOrAssignment", "|="),
    ("LeftShiftAssignment", "<<="),
    ("RightShiftAssignment", ">>="),
    ("UnsignedRightShiftAssignment", ">>>="),
    ("IncrementAssignment", "++"),
    ("DecrementAssignment", "--"),
    ("Concatenate", "&"),
    ("Exponent", "**"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_names_become_what_csharp_calls_them() {
        for (name, expected) in [
            ("get_Count", "Count.get"),
            ("set_Count", "Count.set"),
            ("add_Changed", "Changed.add"),
            ("remove_Changed", "Changed.remove"),
            ("get_", "get_"),
            ("op_Addition", "operator +"),
            ("op_CheckedSubtraction", "operator checked -"),
            ("op_Implicit", "implicit operator"),
            ("op_Unheard", "op_Unheard"),
            (".ctor", ".ctor"),
            (".cctor", ".cctor"),
            ("System.IDisposable.Dispose", "IDisposable.Dispose"),
            ("System.Collections.Generic.IEnumerator<System.Int32>.get_Current", "IEnumerator<int>.Current.get"),
            ("System.IFoo<System.Collections.Generic.List<T>>.op_Addition", "IFoo<List<T>>.operator +"),
            ("x.", "x."),
            ("", ""),
        ] {
            assert_eq!(Member::parse(name, true).text(), expected, "{name}");
        }
        assert_eq!(Member::parse("get_Count", false).text(), "get_Count");
        assert_eq!(Member::parse("System.IFoo.op_Addition", false).text(), "IFoo.operator +");
    }
}
