//! Resolves the types of fields to types of the process: through assembly references and type forwards.

use crate::names::Names;
use remora_symbols::{
    FieldType, LEFT_OUT, ManagedImage, Primitive, TypeArgument, TypeNature, TypeReference, shortened,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of forwards for a type.
const MOST_FORWARDS: u32 = 8;
/// Maximum nesting of types.
const MOST_NESTED: u32 = 16;
/// Maximum number of types in one, with all arguments. A type with 30 arguments, each with 30 in turn, would have hundreds of millions.
const MOST_TYPES: usize = 256;

/// A type of the process with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Known {
    /// A primitive type, by its `CorElementType`.
    Primitive(u8),
    /// A type defined in a module.
    Defined { module: u32, token: u32, arguments: Vec<Known> },
    /// An array.
    Array { element: Box<Known>, rank: u32 },
    /// A pointer, with its name.
    Pointer(String),
    /// A type that could not be found.
    Unknown,
    /// A type with more than `MOST_TYPES` types in it.
    TooLarge,
}

impl Known {
    pub(super) fn array(element: Known, rank: u32) -> Known {
        Known::Array { element: Box::new(element), rank }.bounded()
    }

    /// Itself, or `TooLarge`.
    fn bounded(self) -> Known {
        if self.types() > MOST_TYPES { Known::TooLarge } else { self }
    }

    /// The number of types in it. Its parts are bounded already.
    fn types(&self) -> usize {
        1 + match self {
            Known::Defined { arguments, .. } => arguments.iter().map(Known::types).sum(),
            Known::Array { element, .. } => element.types(),
            Known::Primitive(_) | Known::Pointer(_) | Known::Unknown | Known::TooLarge => 0,
        }
    }
}

/// All modules of a process by name.
pub(crate) struct Modules<'a> {
    names: &'a mut Names,
    /// By simple assembly name; `None` for an ambiguous name.
    by_assembly: HashMap<String, Option<u32>>,
    /// The types of each module, by namespace and names.
    types: HashMap<u32, HashMap<(String, Vec<String>), u32>>,
}

impl Modules<'_> {
    pub(crate) fn of(names: &mut Names) -> Modules<'_> {
        let mut by_assembly: HashMap<String, Option<u32>> = HashMap::new();
        for (index, file) in names.module_files() {
            let simple = [".dll", ".exe"].iter().find_map(|end| file.strip_suffix(end)).unwrap_or(&file).to_owned();
            by_assembly.entry(simple).and_modify(|known| *known = None).or_insert(Some(index));
        }
        Modules { names, by_assembly, types: HashMap::new() }
    }

    pub(crate) fn image(&mut self, module: u32) -> Option<Arc<ManagedImage>> {
        self.names.image(module)
    }

    /// Resolves the type of a field that a type of `module` declares, given the arguments of that type.
    pub(crate) fn known(&mut self, module: u32, of: &FieldType, arguments: &[Known]) -> Known {
        self.known_within(module, of, arguments, MOST_NESTED)
    }

    fn known_within(&mut self, module: u32, of: &FieldType, arguments: &[Known], depth: u32) -> Known {
        let Some(depth) = depth.checked_sub(1) else { return Known::Unknown };
        match of {
            FieldType::Primitive(kind) => Known::Primitive(*kind),
            FieldType::Parameter(index) => arguments.get(*index as usize).cloned().unwrap_or(Known::Unknown),
            FieldType::Array { element, rank } => {
                Known::array(self.known_within(module, element, arguments, depth), *rank)
            }
            FieldType::Pointer(None) => Known::Pointer("delegate*".to_owned()),
            FieldType::Pointer(Some(to)) | FieldType::Reference(to) => {
                let to = match &**to {
                    FieldType::Primitive(0x01) => "void".to_owned(),
                    to => {
                        let known = self.known_within(module, to, arguments, depth);
                        self.text(&known)
                    }
                };
                Known::Pointer(format!("{to}*"))
            }
            FieldType::Named { of, arguments: own, .. } => {
                let own: Vec<Known> = own.iter().map(|one| self.known_within(module, one, arguments, depth)).collect();
                match self.defined(module, of) {
                    Some((module, token)) => self.normal(module, token, own),
                    None => Known::Unknown,
                }
            }
        }
    }

    /// A defined type, or the primitive type if it is one.
    pub(crate) fn normal(&mut self, module: u32, token: u32, arguments: Vec<Known>) -> Known {
        let image = self.image(module);
        let names = image.filter(|image| image.is_core()).and_then(|image| image.names_of(token));
        let built_in = names.and_then(|(namespace, names)| match (&*namespace, &names[..]) {
            ("System", [only]) => Primitive::element_type_of(only),
            _ => None,
        });
        built_in.map_or_else(|| Known::Defined { module, token, arguments }.bounded(), Known::Primitive)
    }

    fn defined(&mut self, module: u32, of: &TypeReference) -> Option<(u32, u32)> {
        match of {
            TypeReference::Own(token) => Some((module, *token)),
            TypeReference::Other { assembly, namespace, names } => {
                let mut assembly = assembly.clone();
                for _ in 0..MOST_FORWARDS {
                    let module = (*self.by_assembly.get(&assembly)?)?;
                    if let Some(token) = self.token(module, namespace, names) {
                        return Some((module, token));
                    }
                    assembly = self.image(module)?.forwarded(namespace, names.first()?)?;
                }
                None
            }
        }
    }

    fn token(&mut self, module: u32, namespace: &str, names: &[String]) -> Option<u32> {
        if !self.types.contains_key(&module) {
            let image = self.image(module)?;
            let all = image.type_tokens().filter_map(|token| Some((image.names_of(token)?, token))).collect();
            self.types.insert(module, all);
        }
        self.types.get(&module)?.get(&(namespace.to_owned(), names.to_vec())).copied()
    }

    pub(crate) fn nature(&mut self, known: &Known) -> Option<TypeNature> {
        match known {
            Known::Defined { module, token, .. } => self.image(*module)?.nature(*token),
            _ => None,
        }
    }

    /// The full name of a type, and the name of its module's file.
    pub(crate) fn whole_name(&mut self, known: &Known) -> Option<(String, String)> {
        let Known::Defined { module, .. } = known else { return None };
        let file = self.names.file_of(*module)?;
        Some((shortened(self.argument(known).full_name()?), file))
    }

    /// The short name of a type.
    pub(crate) fn text(&mut self, known: &Known) -> String {
        match known {
            Known::Pointer(text) => text.clone(),
            known => shortened(self.argument(known).short_name().unwrap_or_else(|| "?".to_owned())),
        }
    }

    /// The full name without arguments.
    pub(crate) fn family(&mut self, known: &Known) -> String {
        match known {
            Known::Defined { module, token, .. } => {
                let names = self.image(*module).and_then(|image| image.names_of(*token));
                names.map(|(namespace, names)| format!("{namespace}.{}", names.join("."))).unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    fn argument(&mut self, known: &Known) -> TypeArgument {
        match known {
            Known::Primitive(kind) => {
                Primitive::from_element_type(*kind).map_or(TypeArgument::Unknown, TypeArgument::Primitive)
            }
            Known::Defined { module, token, arguments } => {
                let arguments = arguments.iter().map(|one| self.argument(one)).collect();
                match self.image(*module) {
                    Some(image) => TypeArgument::Class { image, token: *token, arguments },
                    None => TypeArgument::Unknown,
                }
            }
            Known::Array { element, rank } => {
                TypeArgument::Array { element: Box::new(self.argument(element)), rank: *rank }
            }
            Known::Pointer(text) => TypeArgument::Named(text.clone()),
            Known::Unknown => TypeArgument::Named("?".to_owned()),
            Known::TooLarge => TypeArgument::Named(LEFT_OUT.to_owned()),
        }
    }
}
