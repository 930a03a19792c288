//! Generic arguments as the runtime knows them, and how each is shown.

use crate::image::ManagedImage;
use crate::keyword::Primitive;
use crate::types::Namespaces;
use std::sync::Arc;

/// How deep arguments may nest before they are shown as `…`.
pub(crate) const ARGUMENT_DEPTH: u32 = 32;
/// More dimensions than the runtime allows; a larger rank is shown as this many.
const RANK_LIMIT: u32 = 32;

/// What a generic parameter stands for in one instantiation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TypeArgument {
    /// A class, structure, interface or enum, defined in `image`.
    Class {
        /// The module that defines it.
        image: Arc<ManagedImage>,
        /// Its TypeDef token there.
        token: u32,
        /// Its own arguments, those of enclosing types first.
        arguments: Vec<TypeArgument>,
    },
    /// An array.
    Array {
        /// What it holds.
        element: Box<TypeArgument>,
        /// How many dimensions it has: 1 for `int[]`.
        rank: u32,
    },
    /// A type that the runtime builds in.
    Primitive(Primitive),
    /// The stand-in for all reference types in shared code: shown as the parameter's own name.
    Canon,
    /// A type whose name was read in the target, shown as it is ([`crate::short_type_name`] makes a reflection name readable).
    Named(String),
    /// A type that could not be found out: shown as the parameter's own name.
    Unknown,
}

impl TypeArgument {
    /// The whole name of a type that stands for itself, as C# writes it, with all namespaces; `None` if it cannot be told.
    pub fn full_name(&self) -> Option<String> {
        match self {
            TypeArgument::Class { image, token, arguments } => image.type_name(*token, arguments),
            TypeArgument::Array { element, rank } => Some(array_of(&element.full_name()?, *rank)),
            TypeArgument::Primitive(primitive) => Some(primitive.keyword().to_owned()),
            TypeArgument::Named(name) => Some(name.clone()),
            TypeArgument::Canon | TypeArgument::Unknown => None,
        }
    }

    /// The name of a type as C# writes it where it is used: without its namespace; `None` if it cannot be told.
    pub fn short_name(&self) -> Option<String> {
        match self {
            TypeArgument::Canon | TypeArgument::Unknown => None,
            known => Some(known.text("?", ARGUMENT_DEPTH, Namespaces::Left)),
        }
    }

    /// How the argument of a parameter called `parameter` is shown; `depth` is how deep arguments may still nest.
    pub(crate) fn text(&self, parameter: &str, depth: u32, namespaces: Namespaces) -> String {
        let Some(depth) = depth.checked_sub(1) else { return "…".to_owned() };
        match self {
            TypeArgument::Class { image, token, arguments } => {
                image.argument_text(*token, arguments, depth, namespaces).unwrap_or_else(|| parameter.to_owned())
            }
            TypeArgument::Array { element, rank } => array_of(&element.text(parameter, depth, namespaces), *rank),
            TypeArgument::Primitive(primitive) => primitive.keyword().to_owned(),
            TypeArgument::Named(name) => name.clone(),
            TypeArgument::Canon | TypeArgument::Unknown => parameter.to_owned(),
        }
    }
}

/// `element` with another pair of brackets. C# writes the outermost array first, so it goes before those already there.
pub(crate) fn array_of(element: &str, rank: u32) -> String {
    let base = element.trim_end_matches(['[', ']', ',']);
    let commas = ",".repeat(rank.clamp(1, RANK_LIMIT) as usize - 1);
    format!("{base}[{commas}]{}", &element[base.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_array_comes_first() {
        let inner = array_of("int", 2);
        assert_eq!(array_of(&inner, 1), "int[][,]");
        assert_eq!(array_of("List<int[]>", 3), "List<int[]>[,,]");
        assert_eq!(array_of("int", u32::MAX).len(), "int[]".len() + 31);
        assert_eq!(array_of("int", 0), "int[]");
    }

    #[test]
    fn arguments_without_a_name_are_shown_as_their_parameter() {
        for (argument, text) in [
            (TypeArgument::Canon, "TKey"),
            (TypeArgument::Unknown, "TKey"),
            (TypeArgument::Named("App.Order".into()), "App.Order"),
            (TypeArgument::Array { element: Box::new(TypeArgument::Canon), rank: 1 }, "TKey[]"),
        ] {
            assert_eq!(argument.text("TKey", ARGUMENT_DEPTH, Namespaces::Left), text);
        }
        let deep =
            (0..100).fold(TypeArgument::Canon, |inner, _| TypeArgument::Array { element: Box::new(inner), rank: 1 });
        assert!(deep.text("T", ARGUMENT_DEPTH, Namespaces::Left).starts_with('…'));
    }
}
