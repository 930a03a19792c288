//! Turns the agent's descriptions into frames with names, files and lines.

use crate::files::{Files, Mvid};
use remora_attach::TargetPath;
use remora_profile::{Frame, FrameIx, FrameKind, Profile};
use remora_symbols::{LEFT_OUT, ManagedImage, Primitive, TypeArgument, demangle_raw, shortened};
use remora_wire::{MethodKind, TypeKind};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum depth of generic arguments.
const MAXIMUM_DEPTH: u32 = 8;
/// Maximum number of types in one name. A type with 30 arguments, each with 30 in turn, would have hundreds of millions.
const MOST_TYPES: u32 = 256;

struct Module {
    path: TargetPath,
    /// Only for a module without a file of its own.
    mvid: Option<Mvid>,
}

/// All descriptions so far.
#[derive(Default)]
pub struct Names {
    pub(crate) files: Files,
    modules: HashMap<u32, Module>,
    types: HashMap<u32, TypeKind>,
    methods: HashMap<u32, MethodKind>,
    texts: HashMap<u32, (String, Option<String>)>,
    unnamed: HashSet<FrameIx>,
}

impl Names {
    /// No descriptions yet.
    pub fn new(files: Files) -> Names {
        Names { files, ..Names::default() }
    }

    /// Adds the description of a module.
    pub fn module(&mut self, index: u32, path: String, mvid: Option<Mvid>) {
        self.modules.insert(index, Module { path: path.into(), mvid });
    }

    /// Adds the description of a type.
    pub fn type_(&mut self, index: u32, kind: TypeKind) {
        self.types.insert(index, kind);
    }

    /// Adds the description of a method.
    pub fn method(&mut self, index: u32, kind: MethodKind) {
        self.methods.insert(index, kind);
    }

    /// The frame of a method, at an IL offset if known.
    pub fn managed(&mut self, profile: &mut Profile, method: u32, il_offset: Option<u32>) -> FrameIx {
        let known = self.text_of(method);
        let named = known.is_some();
        let (name, module) = known.unwrap_or_else(|| (format!("[unnamed method {method}]"), None));
        let (file, line) =
            self.line_of(method, il_offset).map_or((None, None), |(file, line)| (Some(file), Some(line)));
        let frame = Frame {
            kind: FrameKind::Managed,
            name: profile.string(&name),
            module: module.map(|module| profile.string(&module)),
            file: file.map(|file| profile.string(&file)),
            line,
        };
        let index = profile.frame(frame);
        if !named {
            self.unnamed.insert(index);
        }
        index
    }

    /// The frame of native code at an address, by the current mappings.
    pub fn native(&mut self, profile: &mut Profile, address: u64) -> FrameIx {
        let name = self.files.name(address);
        let kind = if name.name == remora_symbols::UNKNOWN { FrameKind::Unknown } else { FrameKind::Native };
        let module = name.module.as_deref().map(|path| profile.string(file_name(path)));
        let name = profile.string(&name.name);
        profile.frame(Frame { kind, name, module, file: None, line: None })
    }

    /// Whether the frame of a described method has a name.
    pub fn is_named(&self, frame: FrameIx) -> bool {
        !self.unnamed.contains(&frame)
    }

    /// The described modules, each with the name of its file.
    pub(crate) fn module_files(&self) -> Vec<(u32, String)> {
        self.modules.iter().map(|(index, module)| (*index, module.path.file_name().to_owned())).collect()
    }

    /// The file of a module.
    pub(crate) fn image(&mut self, module: u32) -> Option<Arc<ManagedImage>> {
        let Module { path, mvid } = self.modules.get(&module)?;
        self.files.managed(path, *mvid)
    }

    /// The name of a module's file.
    pub(crate) fn file_of(&self, module: u32) -> Option<String> {
        let path = &self.modules.get(&module)?.path;
        (!path.is_empty()).then(|| path.file_name().to_owned())
    }

    fn text_of(&mut self, method: u32) -> Option<(String, Option<String>)> {
        if let Some(known) = self.texts.get(&method) {
            return Some(known.clone());
        }
        let text = match self.methods.get(&method)?.clone() {
            MethodKind::Token { module, token, class_arguments, arguments, names } => {
                let image = self.image(module);
                let mut left = MOST_TYPES;
                let class = self.arguments(&class_arguments, 0, &mut left);
                let own = self.arguments(&arguments, 0, &mut left);
                let name = image.and_then(|image| image.method_name(token, &class, &own));
                let read_inside = || names.map(|(type_name, name)| demangle_raw(&type_name, &name).to_string());
                (name.map(|name| name.to_string()).or_else(read_inside)?, self.file_of(module))
            }
            MethodKind::Named { name, .. } if name.is_empty() => return None,
            MethodKind::Named { module, name } => {
                (demangle_raw("", &name).to_string(), module.and_then(|module| self.file_of(module)))
            }
        };
        let text = (shortened(text.0), text.1);
        self.texts.insert(method, text.clone());
        Some(text)
    }

    /// The full name of a described method; `None` if it cannot be resolved.
    pub fn method_name(&mut self, method: u32) -> Option<String> {
        Some(self.text_of(method)?.0)
    }

    fn line_of(&mut self, method: u32, il_offset: Option<u32>) -> Option<(String, u32)> {
        let MethodKind::Token { module, token, .. } = self.methods.get(&method)? else { return None };
        let token = *token;
        let image = self.image(*module)?;
        let pdb = image.pdb()?;
        il_offset.and_then(|offset| pdb.line(token, offset)).or_else(|| pdb.first_line(token))
    }

    /// Whether the statement at an IL offset of a described method enters a `lock`.
    pub(crate) fn enters_lock(&mut self, method: u32, il_offset: Option<u32>) -> bool {
        let (Some(MethodKind::Token { module, token, .. }), Some(offset)) = (self.methods.get(&method), il_offset)
        else {
            return false;
        };
        let (module, token) = (*module, *token);
        self.image(module).is_some_and(|image| image.enters_lock(token, offset))
    }

    /// The full name of a described type, and the file of its module; `None` without a name. For an array it is the module of its elements.
    pub fn type_name(&mut self, index: u32) -> Option<(String, Option<String>)> {
        let name = self.argument(index, 0, &mut MOST_TYPES.clone()).full_name()?;
        Some((shortened(name), self.module_of_type(index, 0).and_then(|module| self.file_of(module))))
    }

    /// The definition of a described class: its module, and its token there.
    pub fn definition(&mut self, index: u32) -> Option<(Arc<ManagedImage>, u32)> {
        let TypeKind::Class { module, token, .. } = self.types.get(&index)? else { return None };
        let token = *token;
        Some((self.image(*module)?, token))
    }

    fn module_of_type(&self, index: u32, depth: u32) -> Option<u32> {
        match self.types.get(&index)? {
            TypeKind::Class { module, .. } => Some(*module),
            TypeKind::Array { element, .. } if depth < MAXIMUM_DEPTH => self.module_of_type((*element)?, depth + 1),
            _ => None,
        }
    }

    /// Resolves arguments up to the limit. Names show type parameters for the others.
    fn arguments(&mut self, all: &[u32], depth: u32, left: &mut u32) -> Vec<TypeArgument> {
        let mut arguments = Vec::new();
        for index in all {
            let is_last = *left == 0;
            arguments.push(self.argument(*index, depth, left));
            if is_last {
                break;
            }
        }
        arguments
    }

    /// A type as an argument. `left` is the number of types that the name may still have.
    fn argument(&mut self, index: u32, depth: u32, left: &mut u32) -> TypeArgument {
        if depth >= MAXIMUM_DEPTH {
            return TypeArgument::Unknown;
        }
        let Some(rest) = left.checked_sub(1) else { return TypeArgument::Named(LEFT_OUT.to_owned()) };
        *left = rest;
        match self.types.get(&index).cloned() {
            Some(TypeKind::Class { module, token, arguments }) => {
                let Some(image) = self.image(module) else { return TypeArgument::Unknown };
                let arguments = self.arguments(&arguments, depth + 1, left);
                if image.type_name(token, &[]).as_deref() == Some(CANONICAL) {
                    return TypeArgument::Canon;
                }
                TypeArgument::Class { image, token, arguments }
            }
            Some(TypeKind::Array { element, rank, element_kind }) => {
                let element = match element.map(|index| self.argument(index, depth + 1, left)) {
                    None | Some(TypeArgument::Unknown) => built_in(element_kind),
                    Some(element) => element,
                };
                TypeArgument::Array { element: Box::new(element), rank }
            }
            Some(TypeKind::Unknown) | None => TypeArgument::Unknown,
        }
    }
}

/// An element that is no class, by the array's own description. For a pointer the runtime reports nothing else: `GetClassIDInfo2`
/// refuses its id (vm/proftoeeinterfaceimpl.cpp; seen on 3.1, 8, 9 and 10).
fn built_in(element_kind: u32) -> TypeArgument {
    let Ok(kind) = u8::try_from(element_kind) else { return TypeArgument::Unknown };
    match kind {
        POINTER => TypeArgument::Named("?*".to_owned()),
        FUNCTION_POINTER => TypeArgument::Named("delegate*".to_owned()),
        _ => Primitive::from_element_type(kind).map_or(TypeArgument::Unknown, TypeArgument::Primitive),
    }
}

/// Kinds of elements (ECMA-335 II.23.1.16).
const POINTER: u8 = 0x0f;
const FUNCTION_POINTER: u8 = 0x1b;

/// The runtime's stand-in for every reference type in shared code.
const CANONICAL: &str = "System.__Canon";

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_called_by_its_element_as_far_as_that_is_known() {
        let mut names = Names::new(Files::of_ourselves());
        let array = |element, rank, element_kind| TypeKind::Array { element, rank, element_kind };
        // The runtime has an id for a pointer, but does not describe it.
        let kinds = [
            TypeKind::Unknown,
            array(Some(0), 1, 0x0f),
            array(Some(0), 2, 0x0f),
            array(Some(0), 1, 0x1b),
            array(Some(1), 1, 0x1d),
            array(None, 1, 0x08),
            array(Some(0), 1, 0x12),
        ];
        (0..).zip(kinds).for_each(|(index, kind)| names.type_(index, kind));
        let mut named = |index| names.type_name(index).map(|(name, _)| name);
        let names: Vec<Option<String>> = (0..7).map(&mut named).collect();
        let expected = [None, Some("?*[]"), Some("?*[,]"), Some("delegate*[]"), Some("?*[][]"), Some("int[]"), None];
        assert_eq!(names, expected.map(|name| name.map(str::to_owned)));
    }
}
