//! The classes that the forked copy described, and their names.

use crate::files::Files;
use crate::id_history::IdHistory;
use crate::methods::Methods;
use crate::names::Names;
use crate::naming_budget::NamingBudget;
use crate::shared_memory::SharedMemory;
use crate::statics::{Described, Statics};
use remora_attach::Program;
use remora_heap_stream::{ClassFacts, HeapVisitor, Layout};
use remora_wire::{Message, TypeKind};
use std::collections::HashMap;

/// The id of the module of [`Classes::of_file`].
pub const ONLY_MODULE: u64 = 0x80;
/// Maximum number of modules read before it is known whether they are needed.
const MOST_AHEAD: usize = 16;

/// The name of a class in heap tracking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// The full name in C# notation, and the file of its assembly.
    As(String, Option<String>),
    /// The name is unknown.
    Unknown,
    /// Ambiguous: the class unloaded, and another one with the same id and shape but a different name was loaded.
    Otherwise,
}

/// The classes that the copy described, and their names. Their numbers begin with 0.
#[derive(Default)]
pub struct Classes {
    methods: Methods,
    pub(crate) names: Names,
    pub(crate) classes: Vec<ClassFacts>,
    pub(crate) by_id: HashMap<u64, u32>,
    pub(crate) modules: HashMap<u64, Option<u32>>,
    pub(crate) id_history: IdHistory,
    pub(crate) layouts: HashMap<u32, Layout>,
    pub(crate) statics: Statics,
    /// The runtime's major version.
    pub(crate) major: Option<u32>,
    are_described: bool,
    /// Modules in the order of their descriptions. `read_ahead` is the number already read ahead.
    named_modules: Vec<u32>,
    read_ahead: usize,
}

impl std::fmt::Debug for Classes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Classes({})", self.classes.len())
    }
}

impl Classes {
    pub(crate) fn new(names: Names, methods: Methods) -> Classes {
        Classes { methods, names, ..Classes::default() }
    }

    /// Those of the process with this program, none of them known yet.
    pub(crate) fn of_process(program: &Program) -> Classes {
        let mut files = Files::of(program.clone());
        files.refresh_maps();
        let methods = Methods::new(files.for_another());
        Classes::new(Names::new(files), methods)
    }

    /// Classes of a heap that no process sends: `path` is the file of its only module, with id [`ONLY_MODULE`]. For tests of what a stream can
    /// do to this crate.
    pub fn of_file(path: &str) -> Classes {
        let mut classes = Classes::new(Names::new(Files::of_ourselves()), Methods::new(Files::of_ourselves()));
        classes.statics = Statics::new(true);
        classes.message(Message::Module { index: 0, path: path.to_owned(), mvid: None });
        classes.message(Message::ModuleId { id: ONLY_MODULE, since: 0, index: Some(0) });
        classes
    }

    /// Reads the next module that names will need, the runtime's own first. Returns false if there is none.
    pub(crate) fn read_ahead(&mut self) -> bool {
        let next = self.named_modules.iter().take(MOST_AHEAD).nth(self.read_ahead);
        let Some(module) = next else { return false };
        // The image is kept. Whether it is readable matters only when it is needed.
        if let Some(image) = self.names.image(*module) {
            self.statics.read_ahead(*module, &image);
        }
        self.read_ahead += 1;
        true
    }

    /// A note about missing names, complete once all names were requested.
    pub fn note(&self) -> Option<String> {
        self.names.files.note()
    }

    /// Number of classes.
    pub fn count(&self) -> u32 {
        self.classes.len() as u32
    }

    /// The runtime's description of a class.
    pub fn facts(&self, class: u32) -> Option<&ClassFacts> {
        self.classes.get(class as usize)
    }

    /// The full name of a class in C# notation, and the file of its assembly; `None` if it cannot be resolved.
    pub fn name(&mut self, class: u32) -> Option<(String, Option<String>)> {
        self.names().type_name(class)
    }

    /// The number of the latest class with this id.
    pub fn number(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// The name of the class with this id and these facts, whenever it was described; unknown once the budget is spent.
    pub fn called(&mut self, id: u64, facts: &ClassFacts, budget: &mut NamingBudget) -> Called {
        if !budget.is_left() {
            return Called::Unknown;
        }
        let alike = self.id_history.alike(id, facts, &self.classes, budget);
        let mut names = alike.into_iter().map(|class| if budget.is_left() { self.name(class) } else { None });
        let Some(first) = names.next() else { return Called::Unknown };
        match names.all(|name| name == first) {
            true => first.map_or(Called::Unknown, |(name, file)| Called::As(name, file)),
            false => Called::Otherwise,
        }
    }

    /// The names, after all classes were described to them.
    pub(crate) fn names(&mut self) -> &mut Names {
        if !self.are_described {
            self.describe();
            self.are_described = true;
        }
        &mut self.names
    }

    /// The methods whose locals hold objects: FunctionIDs and full names, if they resolve.
    pub fn methods(&mut self, budget: &mut NamingBudget) -> Vec<(u64, String)> {
        self.methods.named(budget)
    }

    /// Prepares the questions about static fields, one module a call. Sends them when all classes are known: after the walk. Returns
    /// whether there was anything to do.
    pub(crate) fn ask_on(&mut self, memory: &SharedMemory, is_walked: bool) -> bool {
        let Classes { statics, names, classes, by_id, modules, .. } = self;
        statics.ask_on(Described { names, classes, by_id, modules }, memory, is_walked)
    }

    pub(crate) fn message(&mut self, message: Message) {
        match message {
            Message::Module { index, path, mvid } => {
                self.methods.message(Message::Module { index, path: path.clone(), mvid });
                self.names.module(index, path, mvid);
                self.named_modules.push(index);
            }
            Message::Type { .. } | Message::Method { .. } | Message::FunctionId { .. } => self.methods.message(message),
            Message::ModuleId { id, since, index } => {
                self.modules.insert(id, index);
                self.id_history.module(id, since, index);
            }
            _ => {}
        }
    }

    /// Runs late: a class may come before its arguments, and before the modules' ids.
    fn describe(&mut self) {
        let id_history = &self.id_history;
        let number = |class: u32, id: &u64| id_history.named_by(class, *id).unwrap_or(u32::MAX);
        let kinds: Vec<TypeKind> = (0..)
            .zip(&self.classes)
            .map(|(class, facts)| match facts {
                ClassFacts::Plain { module, token, arguments, .. } => match id_history.module_of(class, *module) {
                    Some(module) => TypeKind::Class {
                        module,
                        token: *token,
                        arguments: arguments.iter().map(|id| number(class, id)).collect(),
                    },
                    None => TypeKind::Unknown,
                },
                ClassFacts::Array { element, element_kind, rank } => TypeKind::Array {
                    element: (*element != 0).then(|| number(class, element)),
                    rank: *rank,
                    element_kind: *element_kind,
                },
                ClassFacts::Unknown { .. } => TypeKind::Unknown,
            })
            .collect();
        for (index, kind) in kinds.into_iter().enumerate() {
            self.names.type_(index as u32, kind);
        }
    }
}

impl HeapVisitor for Classes {
    fn class(&mut self, id: u64, facts: ClassFacts) {
        self.by_id.insert(id, self.count());
        self.id_history.class(self.count(), id, &facts);
        self.classes.push(facts);
    }

    fn layout(&mut self, class: u32, layout: Layout) {
        let known = self.layouts.entry(class).or_default();
        (known.bytes, known.count) = (layout.bytes, layout.count);
        known.fields.extend(layout.fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_classes_of_one_id_were_compared_with_each_other_although_the_budget_for_names_was_spent() {
        let mut classes = Classes::new(Names::new(Files::of_ourselves()), Methods::new(Files::of_ourselves()));
        let facts = |token| ClassFacts::Plain { module: 1, token, parent: 0, arguments: vec![] };
        // Compared with each other, they take hours.
        let count = 500_000;
        (0..count).for_each(|token| classes.class(0x70, facts(token)));
        let mut budget = NamingBudget::new(|| true);
        for token in 0..count {
            assert_eq!(classes.called(0x70, &facts(token), &mut budget), Called::Unknown);
        }
    }

    #[test]
    fn modules_are_read_ahead_in_the_order_in_which_they_are_reported_each_once_and_no_more_than_a_few() {
        let mut classes = Classes::new(Names::new(Files::of_ourselves()), Methods::new(Files::of_ourselves()));
        assert!(!classes.read_ahead(), "none was described");
        for index in 0..MOST_AHEAD as u32 + 4 {
            classes.message(Message::Module { index, path: format!("/nowhere/{index}.dll"), mvid: None });
        }
        let read: Vec<usize> = std::iter::from_fn(|| classes.read_ahead().then_some(classes.read_ahead)).collect();
        assert_eq!(read, (1..=MOST_AHEAD).collect::<Vec<_>>());
    }

    #[test]
    fn how_many_files_were_read_for_questions_is_known_until_these_are_sent() {
        let mut classes = Classes::new(Names::new(Files::of_ourselves()), Methods::new(Files::of_ourselves()));
        for index in 0..3 {
            classes.message(Message::Module { index, path: format!("/nowhere/{index}.dll"), mvid: None });
            classes.message(Message::ModuleId { id: u64::from(index) + 1, since: 0, index: Some(index) });
        }
        let memory = SharedMemory::new(true).expect("a memfd");
        let mut read = Vec::new();
        while classes.ask_on(&memory, false) {
            read.push(classes.statics.files());
        }
        assert_eq!(read, [Some((1, 3)), Some((2, 3)), Some((3, 3))]);
        assert!(classes.ask_on(&memory, true));
        assert_eq!(classes.statics.files(), None);
    }
}
