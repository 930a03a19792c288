//! The metadata rows of a module: those of its contents, and those of what the running program has made.

use super::super::State;
use super::super::code::ModuleId;
use super::super::info::NO_ARGUMENTS;
use super::codes::{NO_ROW, PRIVATE_STATIC, SHA1};
use crate::runtime::metadata_contents::stored::stored_text;
use crate::runtime::metadata_contents::tokens::{
    ADDRESS, ASSEMBLY, ASSEMBLY_REFERENCE, CONSTANT, EVENT, EVENT_MAP, FIELD, MEMBER_REFERENCE, METHOD, MODULE,
    MODULE_REFERENCE, NESTED, NO_TYPE, PARAMETER, PROPERTY, PROPERTY_MAP, ROW, SEMANTICS, TEXT, TYPE, TYPE_REFERENCE,
    kind_of, row_of,
};
use crate::runtime::metadata_contents::{Cell, Row};
use corprof::HResult;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The only row of its kind, if there is one.
pub(super) const ONLY: u32 = 1;
/// tdPublic and tdBeforeFieldInit (source: corhdr.h).
const PUBLIC_TYPE: u32 = 0x0010_0001;
/// The base of every class without another base.
const OBJECT: (&str, &str) = ("System", "Object");
/// With a module's id added, its MVID.
const MVID: u128 = 0x5265_6D6F_7261_4D6F_6465_6C00 << 32;

/// A table whose rows own a list of rows of another table: its kind, the list's column, and the kind of the list's rows.
#[derive(Clone, Copy)]
pub(super) struct Owners {
    kind: u32,
    column: usize,
    items: u32,
}

impl Owners {
    /// The kind of the owned rows.
    pub(super) fn items(self) -> u32 {
        self.items
    }
}

pub(super) const FIELDS: Owners = Owners { kind: TYPE, column: 4, items: FIELD };
pub(super) const METHODS: Owners = Owners { kind: TYPE, column: 5, items: METHOD };
pub(super) const PARAMETERS: Owners = Owners { kind: METHOD, column: 5, items: PARAMETER };
pub(super) const PROPERTIES: Owners = Owners { kind: PROPERTY_MAP, column: 1, items: PROPERTY };
pub(super) const EVENTS: Owners = Owners { kind: EVENT_MAP, column: 1, items: EVENT };

/// All rows of a module.
#[derive(Debug)]
pub(super) struct Rows {
    rows: BTreeMap<u32, Row>,
    pub(super) texts: BTreeMap<u32, String>,
}

impl Rows {
    /// The rows of a loaded module.
    pub(super) fn of(state: &State, module: ModuleId) -> Option<Rows> {
        let known = state.code.modules.get(&module)?;
        let framework = state.code.framework().filter(|framework| *framework != module);
        let named = |module: ModuleId| state.code.modules.get(&module).map(|known| known.assembly_name(module));
        let name = known.assembly_name(module);
        let mut rows = match &known.contents {
            Some(contents) => Rows { rows: contents.rows.clone(), texts: contents.texts.clone() },
            None => Rows { rows: BTreeMap::new(), texts: BTreeMap::new() },
        };
        let mvid = Cell::Id(MVID | module.0 as u128);
        rows.add(MODULE, [0.into(), format!("{name}.dll").as_str().into(), mvid, Cell::Id(0), Cell::Id(0)]);
        let nothing = || Cell::Blob(Vec::new());
        let version = || [(); 4].map(|()| Cell::Number(0)).into_iter();
        let identity = [Cell::Number(SHA1)].into_iter().chain(version());
        let rest = [0.into(), nothing(), name.as_str().into(), "".into()];
        rows.add(ASSEMBLY, identity.chain(rest).collect::<Vec<_>>());
        let framework = framework.and_then(named);
        if let Some(framework) = &framework {
            let rest = [0.into(), nothing(), framework.as_str().into(), "".into(), nothing()];
            rows.add(ASSEMBLY_REFERENCE, version().chain(rest).collect::<Vec<_>>());
        }
        if known.contents.is_none() {
            rows.add_loaded_class(
                framework.is_some(),
                known.called.map_or_else(|| "Class2".to_owned(), |called| called.class.to_owned()),
            );
            rows.add_functions(state, module);
        }
        rows.add_defined_classes(state, module);
        Some(rows)
    }

    fn add(&mut self, kind: u32, cells: impl Into<Arc<[Cell]>>) {
        let token = kind | (self.count(kind) + 1);
        self.rows.insert(token, Row::of(cells));
    }

    /// The class of the functions of a module without contents.
    fn add_loaded_class(&mut self, has_framework: bool, name: String) {
        if has_framework {
            let scope = Cell::Token(ASSEMBLY_REFERENCE | ONLY);
            self.add(TYPE_REFERENCE, [scope, OBJECT.1.into(), OBJECT.0.into()]);
        }
        let lists = || [FIELD | 1, METHOD | 1].map(Cell::Token);
        let [fields, methods] = lists();
        self.add(TYPE, [0.into(), "<Module>".into(), "".into(), Cell::Token(TYPE), fields, methods]);
        let (namespace, name) = name.rsplit_once('.').unwrap_or(("", &name));
        let [fields, methods] = lists();
        let extends = Cell::Token(self.root());
        self.add(TYPE, [PUBLIC_TYPE.into(), name.into(), namespace.into(), extends, fields, methods]);
    }

    /// The methods of a module without contents: those that have been compiled or called.
    fn add_functions(&mut self, state: &State, module: ModuleId) {
        for function in state.code.functions.values().filter(|one| one.module == Some(module)) {
            let unnamed = || format!("Method{:X}", row_of(function.token));
            let name = function.name.map_or_else(unnamed, str::to_owned);
            let row = [
                ADDRESS.into(),
                0.into(),
                PRIVATE_STATIC.into(),
                name.as_str().into(),
                NO_ARGUMENTS[..].into(),
                Cell::Token(PARAMETER | 1),
            ];
            self.rows.insert(function.token, Row::of(row));
        }
    }

    /// Classes that were defined while the program runs, and are not in the module's contents. They have no members.
    fn add_defined_classes(&mut self, state: &State, module: ModuleId) {
        for (token, class) in state.classes_of(module) {
            let Some(class) = class.filter(|_| !self.rows.contains_key(&token)) else { continue };
            let parent = class.parent.and_then(|parent| state.heap.classes.get(&parent));
            let extends = parent
                .filter(|parent| parent.module == Some(module))
                .map_or_else(|| self.root(), |parent| parent.token);
            let name = format!("Class{:X}", row_of(token));
            let [fields, methods] = [FIELD, METHOD].map(|kind| Cell::Token(kind | (self.count(kind) + 1)));
            let row = [PUBLIC_TYPE.into(), name.as_str().into(), "".into(), Cell::Token(extends), fields, methods];
            self.rows.insert(token, Row::of(row));
        }
    }

    /// System.Object, if the module refers to it.
    fn root(&self) -> u32 {
        let is_it = |row: &Row| (row.text(2), row.text(1)) == OBJECT;
        self.of_kind(TYPE_REFERENCE).find(|(_, row)| is_it(row)).map_or(TYPE_REFERENCE, |(token, _)| token)
    }

    /// Every row.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &Row)> {
        self.rows.iter().map(|(token, row)| (*token, row))
    }

    /// The rows of a kind.
    pub(super) fn of_kind(&self, kind: u32) -> impl Iterator<Item = (u32, &Row)> {
        self.rows.range(kind | 1..=kind | ROW).map(|(token, row)| (*token, row))
    }

    /// The tokens of a kind.
    pub(super) fn tokens(&self, kind: u32) -> Vec<u32> {
        self.of_kind(kind).map(|(token, _)| token).collect()
    }

    /// The tokens of the rows with this number or token in a column.
    pub(super) fn tokens_with(&self, kind: u32, column: usize, value: u32) -> Vec<u32> {
        self.of_kind(kind).filter(|(_, row)| row.number(column) == value).map(|(token, _)| token).collect()
    }

    /// The first such row.
    pub(super) fn with(&self, kind: u32, column: usize, value: u32) -> Option<&Row> {
        self.of_kind(kind).find(|(_, row)| row.number(column) == value).map(|(_, row)| row)
    }

    /// A row of a kind, whatever the token's own kind is.
    pub(super) fn row(&self, kind: u32, token: u32) -> Result<&Row, HResult> {
        self.rows.get(&(kind | row_of(token))).ok_or(NO_ROW)
    }

    /// The number of rows of a kind. No kind has holes.
    pub(super) fn count(&self, kind: u32) -> u32 {
        self.rows.range(kind..=kind | ROW).next_back().map_or(0, |(token, _)| row_of(*token))
    }

    /// Whether the row exists.
    pub(super) fn has(&self, token: u32) -> bool {
        match kind_of(token) {
            TEXT => row_of(token) < self.end_of_texts(),
            // These tables have no tokens.
            CONSTANT | EVENT_MAP | PROPERTY_MAP | SEMANTICS | NESTED => false,
            _ => self.rows.contains_key(&token),
        }
    }

    /// Bytes of all user strings; the empty one is there without any other.
    fn end_of_texts(&self) -> u32 {
        let last = self.texts.last_key_value();
        last.map_or(1, |(offset, text)| offset + stored_text(text).len() as u32)
    }

    /// The listed types: all except `<Module>`.
    pub(super) fn listed_types(&self) -> Vec<u32> {
        self.tokens(TYPE).into_iter().filter(|token| *token != NO_TYPE).collect()
    }

    /// The rows that a row owns, whatever the token's kind is; `None` for a missing row.
    pub(super) fn owned(&self, owners: Owners, owner: u32) -> Option<Vec<u32>> {
        let Owners { kind, column, items } = owners;
        let owner = kind | row_of(owner);
        let start = self.rows.get(&owner)?.number(column);
        let next = self.rows.range(owner + 1..=kind | ROW).next().map(|(_, row)| row.number(column));
        let end = next.unwrap_or(items | ROW);
        Some(self.rows.range(start..end.max(start)).map(|(token, _)| *token).collect())
    }

    /// The members of a type. The invalid type is that of members without a type.
    pub(super) fn members(&self, owners: Owners, class: u32) -> Option<Vec<u32>> {
        self.owned(owners, if row_of(class) == 0 { NO_TYPE } else { class })
    }

    /// The properties or events of a type.
    pub(super) fn mapped(&self, owners: Owners, class: u32) -> Vec<u32> {
        let map = self.of_kind(owners.kind).find(|(_, row)| row_of(row.number(0)) == row_of(class));
        map.and_then(|(map, _)| self.owned(owners, map)).unwrap_or_default()
    }

    /// The row that owns another one, whatever the token's kind is.
    pub(super) fn owner(&self, owners: Owners, item: u32) -> u32 {
        let item = owners.items | row_of(item);
        let owner = self.of_kind(owners.kind).take_while(|(_, row)| row.number(owners.column) <= item).last();
        owner.map_or(owners.kind, |(token, _)| token)
    }

    /// The type that owns a member. That of members without a type is returned as an invalid one.
    pub(super) fn class_of(&self, owners: Owners, member: u32) -> u32 {
        let class = self.owner(owners, member);
        if class == NO_TYPE { TYPE } else { class }
    }

    /// The column with the name, of kinds that have names and tokens.
    pub(super) fn column_of_name(kind: u32) -> Option<usize> {
        Some(match kind {
            MODULE | TYPE_REFERENCE | TYPE | FIELD | MEMBER_REFERENCE | EVENT | PROPERTY => 1,
            METHOD => 3,
            PARAMETER => 2,
            MODULE_REFERENCE => 0,
            _ => return None,
        })
    }

    /// The name of a type with its namespace, by its row.
    pub(super) fn type_name(row: &Row) -> String {
        if row.text(2).is_empty() { row.text(1).to_owned() } else { format!("{}.{}", row.text(2), row.text(1)) }
    }

    /// A type by its name, and by the type that contains it.
    pub(super) fn type_called(&self, name: &str, outer: u32) -> Option<u32> {
        let is_there = |token| {
            let nested = self.with(NESTED, 0, token).map(|row| row.number(1));
            if row_of(outer) == 0 { nested.is_none() } else { nested == Some(outer) }
        };
        let mut called = self.of_kind(TYPE).filter(|(_, row)| Rows::type_name(row) == name);
        called.find(|(token, _)| is_there(*token)).map(|(token, _)| token)
    }
}
