//! The metadata rows of a module: the module itself, its classes, its methods, its references.

use super::super::State;
use super::super::code::ModuleId;
use super::super::objects::class_of;
use corprof::Guid;
use std::collections::BTreeMap;

/// Token kinds, and the bits of a token with its row (source: corhdr.h).
pub(super) const MODULE: u32 = 0x0000_0000;
pub(super) const TYPE_REFERENCE: u32 = 0x0100_0000;
pub(super) const TYPE: u32 = 0x0200_0000;
pub(super) const FIELD: u32 = 0x0400_0000;
pub(super) const METHOD: u32 = 0x0600_0000;
pub(super) const MEMBER_REFERENCE: u32 = 0x0A00_0000;
pub(super) const ASSEMBLY: u32 = 0x2000_0000;
pub(super) const ASSEMBLY_REFERENCE: u32 = 0x2300_0000;
pub(super) const RESOURCE: u32 = 0x2800_0000;
pub(super) const TYPE_PARAMETER: u32 = 0x2A00_0000;
pub(super) const CONSTRAINT: u32 = 0x2C00_0000;
pub(super) const TEXT: u32 = 0x7000_0000;
const KIND: u32 = 0xFF00_0000;
const ROW: u32 = !KIND;

/// The only row of its kind, if there is one.
pub(super) const ONLY: u32 = 1;
/// The type of members without a type: compilers call it `<Module>`, always the first row.
pub(super) const NO_TYPE: u32 = TYPE | 1;
const NAME_OF_NO_TYPE: &str = "<Module>";
/// tdPublic and tdBeforeFieldInit (source: corhdr.h).
const PUBLIC_TYPE: u32 = 0x0010_0001;
/// The base of every class without another base.
pub(super) const OBJECT: &str = "System.Object";
/// With a module's id added, its MVID.
const MVID: u128 = 0x5265_6D6F_7261_4D6F_6465_6C00 << 32;

/// The kind of a token.
pub(super) fn kind_of(token: u32) -> u32 {
    token & KIND
}

/// The row of a token.
pub(super) fn row_of(token: u32) -> u32 {
    token & ROW
}

/// A class.
pub(super) struct TypeRow {
    pub(super) name: String,
    pub(super) flags: u32,
    pub(super) extends: u32,
}

/// A method.
pub(super) struct MethodRow {
    pub(super) name: String,
    pub(super) class: u32,
}

/// All rows of a module.
pub(super) struct Rows {
    pub(super) mvid: Guid,
    /// The assembly's name.
    pub(super) assembly: String,
    /// The name of the referenced assembly with `System.Object`; the framework references nothing.
    pub(super) framework: Option<String>,
    pub(super) types: BTreeMap<u32, TypeRow>,
    pub(super) methods: BTreeMap<u32, MethodRow>,
}

impl Rows {
    /// The rows of a loaded module.
    pub(super) fn of(state: &State, module: ModuleId) -> Option<Rows> {
        let known = state.code.modules.get(&module)?;
        let framework = state.code.framework().filter(|framework| *framework != module);
        let named = |module: ModuleId| state.code.modules.get(&module).map(|known| known.assembly_name(module));
        let mut rows = Rows {
            mvid: Guid::from_u128(MVID | module.0 as u128),
            assembly: known.assembly_name(module),
            framework: framework.and_then(named),
            types: BTreeMap::new(),
            methods: BTreeMap::new(),
        };
        rows.add_types(state, module);
        rows.add_methods(state, module);
        Some(rows)
    }

    fn add_types(&mut self, state: &State, module: ModuleId) {
        let root = if self.framework.is_some() { TYPE_REFERENCE | ONLY } else { TYPE_REFERENCE };
        let no_type = TypeRow { name: NAME_OF_NO_TYPE.to_owned(), flags: 0, extends: TYPE_REFERENCE };
        self.types.insert(NO_TYPE, no_type);
        for (token, class) in state.classes_of(module) {
            let parent = class.and_then(|class| class.parent);
            let parent = parent.and_then(|parent| state.heap.classes.get(&parent));
            let extends = parent.filter(|parent| parent.module == Some(module)).map_or(root, |parent| parent.token);
            let called = state.code.modules.get(&module).and_then(|module| module.called);
            let called = called.filter(|_| class.is_none()).map(|called| called.class.to_owned());
            let name = called.unwrap_or_else(|| format!("Class{:X}", row_of(token)));
            self.types.insert(token, TypeRow { name, flags: PUBLIC_TYPE, extends });
        }
    }

    fn add_methods(&mut self, state: &State, module: ModuleId) {
        let class = state.token_of_class(class_of(module)).unwrap_or(NO_TYPE);
        for function in state.code.functions.values().filter(|one| one.module == Some(module)) {
            let unnamed = || format!("Method{:X}", row_of(function.token));
            let name = function.name.map_or_else(unnamed, str::to_owned);
            self.methods.insert(function.token, MethodRow { name, class });
        }
    }

    /// The module's name: that of its file.
    pub(super) fn file(&self) -> String {
        format!("{}.dll", self.assembly)
    }

    /// The only row of a kind that exists only in modules that reference the framework.
    pub(super) fn reference(&self, kind: u32) -> Vec<u32> {
        self.framework.iter().map(|_| kind | ONLY).collect()
    }

    /// The listed types: all except `<Module>`.
    pub(super) fn listed_types(&self) -> Vec<u32> {
        self.types.keys().copied().filter(|token| *token != NO_TYPE).collect()
    }

    /// The methods of a type, whatever the token's kind is; `None` for a missing row.
    pub(super) fn methods_of(&self, class: u32) -> Option<Vec<u32>> {
        let class = if row_of(class) == 0 { NO_TYPE } else { TYPE | row_of(class) };
        self.types.get(&class)?;
        let methods = self.methods.iter().filter(|(_, method)| method.class == class);
        Some(methods.map(|(token, _)| *token).collect())
    }

    /// The same for one name.
    pub(super) fn methods_called(&self, class: u32, name: &str) -> Option<Vec<u32>> {
        let mut methods = self.methods_of(class)?;
        methods.retain(|token| self.methods.get(token).is_some_and(|method| method.name == name));
        Some(methods)
    }

    /// The number of rows of a kind. Methods have sparse rows: the last one counts.
    pub(super) fn count(&self, kind: u32) -> u32 {
        match kind {
            MODULE | ASSEMBLY => ONLY,
            TYPE_REFERENCE | ASSEMBLY_REFERENCE => u32::from(self.framework.is_some()),
            TYPE => self.types.keys().last().map_or(0, |last| row_of(*last)),
            METHOD => self.methods.keys().last().map_or(0, |last| row_of(*last)),
            _ => 0,
        }
    }

    /// Whether the row exists.
    pub(super) fn has(&self, token: u32) -> bool {
        match kind_of(token) {
            MODULE | ASSEMBLY => row_of(token) == ONLY,
            TYPE_REFERENCE | ASSEMBLY_REFERENCE => row_of(token) == ONLY && self.framework.is_some(),
            TYPE => self.types.contains_key(&token),
            METHOD => self.methods.contains_key(&token),
            TEXT => row_of(token) == 0,
            _ => false,
        }
    }

    /// The name of a row if its kind has names. The inner value is `None` if the row does not exist.
    pub(super) fn name_of(&self, token: u32) -> Option<Option<String>> {
        Some(match kind_of(token) {
            MODULE => self.has(token).then(|| self.file()),
            // The namespace is a separate column.
            TYPE_REFERENCE => self.has(token).then(|| OBJECT.rsplit('.').next().unwrap_or(OBJECT).to_owned()),
            TYPE => self.types.get(&token).map(|class| class.name.clone()),
            METHOD => self.methods.get(&token).map(|method| method.name.clone()),
            FIELD | PARAMETER | MEMBER_REFERENCE | EVENT | PROPERTY | MODULE_REFERENCE => None,
            _ => return None,
        })
    }
}

/// Kinds without rows in the model, but with names.
const PARAMETER: u32 = 0x0800_0000;
const EVENT: u32 = 0x1400_0000;
const PROPERTY: u32 = 0x1700_0000;
const MODULE_REFERENCE: u32 = 0x1A00_0000;
