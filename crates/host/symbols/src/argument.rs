//! Generic arguments of the runtime, and their display names.

use crate::generated::{Generated, generated};
use crate::image::ManagedImage;
use crate::keyword::Primitive;
use crate::metadata::{Metadata, Table, row_of};
use crate::name::shortened;
use crate::types::Namespaces;
use std::sync::Arc;

/// Maximum nesting of arguments. Deeper ones are shown as `…`.
pub(crate) const ARGUMENT_DEPTH: u32 = 32;
/// Maximum number of generic parameters shown for one type or method.
const PARAMETER_LIMIT: usize = 256;
/// More dimensions than the runtime allows; a larger rank is shown as this many.
const RANK_LIMIT: u32 = 32;

/// The argument for a generic parameter in one instantiation.
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
        /// The element type.
        element: Box<TypeArgument>,
        /// Number of dimensions: 1 for `int[]`.
        rank: u32,
    },
    /// A primitive type.
    Primitive(Primitive),
    /// `System.__Canon`, which replaces all reference types in shared code: shown as the parameter's own name.
    Canon,
    /// A type name read in the target, shown unchanged ([`crate::short_type_name`] makes a reflection name readable).
    Named(String),
    /// An unknown type: shown as the parameter's own name.
    Unknown,
}

impl TypeArgument {
    /// The full name of a type on its own, in C# notation with all namespaces; `None` if unknown.
    pub fn full_name(&self) -> Option<String> {
        match self {
            TypeArgument::Class { image, token, arguments } => image.type_name(*token, arguments),
            TypeArgument::Array { element, rank } => Some(array_of(&element.full_name()?, *rank)),
            TypeArgument::Primitive(primitive) => Some(primitive.keyword().to_owned()),
            TypeArgument::Named(name) => Some(name.clone()),
            TypeArgument::Canon | TypeArgument::Unknown => None,
        }
    }

    /// The name of a type in C# notation without its namespace; `None` if unknown.
    pub fn short_name(&self) -> Option<String> {
        match self {
            TypeArgument::Canon | TypeArgument::Unknown => None,
            known => Some(known.text("?", ARGUMENT_DEPTH, Namespaces::Left)),
        }
    }

    /// The display name for parameter `parameter`. `depth` is the number of levels that arguments may still nest.
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

impl Metadata {
    /// The texts for the generic parameters in `rows`: each argument's display name, or the parameter's own name.
    pub(crate) fn argument_texts(
        &self,
        rows: std::ops::Range<u32>,
        arguments: &[TypeArgument],
        depth: u32,
        namespaces: Namespaces,
    ) -> Vec<String> {
        rows.take(PARAMETER_LIMIT)
            .enumerate()
            .map(|(index, row)| {
                let name = self.text(Table::GenericParam, row, 3).unwrap_or_default();
                let name = match generated(&name) {
                    Some(Generated::AnonymousParameter { name }) => name,
                    _ => &name,
                };
                let shown = arguments.get(index).map(|argument| argument.text(name, depth, namespaces));
                shortened(shown.unwrap_or_else(|| name.to_owned()))
            })
            .collect()
    }
}

impl ManagedImage {
    /// The display name of a TypeDef token in an argument list; `None` for a type without a name of its own.
    fn argument_text(
        &self,
        token: u32,
        arguments: &[TypeArgument],
        depth: u32,
        namespaces: Namespaces,
    ) -> Option<String> {
        let row = row_of(token, Table::TypeDef)?;
        let raw = self.metadata.type_def(row)?;
        if raw.is("System", "__Canon") {
            return None;
        }
        let parameters = self.metadata.type_parameters(row);
        Some(raw.shown(&self.metadata.argument_texts(parameters, arguments, depth, namespaces), namespaces))
    }
}

/// Adds a pair of brackets to `element`. C# writes the outermost array first, so the new pair goes before the existing ones.
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
