//! The name of a method in parts, and its display in C# notation.

use remora_wire::floor_char_boundary;
use std::fmt;

/// One name with its generic arguments (or, if unknown, the names of its generic parameters).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NamePart {
    /// The identifier: `List`, `Add`, `lambda#1`, `operator +`.
    pub name: String,
    /// `int`, `T`.
    pub arguments: Vec<String>,
}

/// The kind of a method, beyond its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MethodKind {
    /// Written as a method, accessor, operator or constructor.
    #[default]
    Ordinary,
    /// The state machine's part of an `async` method, shown under the method's own name.
    Async,
    /// The state machine's part of an iterator, shown under the method's own name.
    Iterator,
    /// A lambda or anonymous method.
    Lambda,
    /// A local function.
    LocalFunction,
}

/// The name of a method. [`fmt::Display`] shows it like C#: `Namespace.Outer.Inner<T>.Method<U>(int, string[])`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct MethodName {
    /// `System.Collections.Generic`; empty for none.
    pub namespace: String,
    /// The declaring type, outermost first.
    pub types: Vec<NamePart>,
    /// The methods that contain this lambda or local function in the source, outermost first.
    pub within: Vec<NamePart>,
    /// The method itself.
    pub method: NamePart,
    /// The text in parentheses; `None` if unknown, or if C# shows none (`Count.get`).
    pub parameters: Option<Vec<String>>,
    /// Its kind.
    pub kind: MethodKind,
}

impl MethodName {
    /// The declaring type alone: `Namespace.Outer.Inner<T>`.
    pub fn type_name(&self) -> String {
        let mut text = self.namespace.clone();
        for part in &self.types {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&part.to_string());
        }
        text
    }
}

/// Maximum length of a name, bytes.
const LONGEST_NAME: usize = 4096;
/// Replaces the omitted part of a name.
pub const LEFT_OUT: &str = "…";

/// Cuts a name to at most 4,096 bytes; a cut name ends with [`LEFT_OUT`].
pub fn shortened(mut name: String) -> String {
    if name.len() > LONGEST_NAME {
        name.truncate(floor_char_boundary(&name, LONGEST_NAME - LEFT_OUT.len()));
        name.push_str(LEFT_OUT);
    }
    name
}

impl fmt::Display for NamePart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        if !self.arguments.is_empty() {
            write!(formatter, "<{}>", self.arguments.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let type_name = self.type_name();
        formatter.write_str(&type_name)?;
        let mut dot = if type_name.is_empty() { "" } else { "." };
        for part in self.within.iter().chain([&self.method]) {
            write!(formatter, "{dot}{part}")?;
            dot = ".";
        }
        if let Some(parameters) = &self.parameters {
            write!(formatter, "({})", parameters.join(", "))?;
        }
        Ok(())
    }
}
