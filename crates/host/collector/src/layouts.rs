//! Object layouts of a snapshot, from the runtime's class layouts and the fields in metadata.

mod computed;
mod fixed;
mod resolve;

use crate::classes::Classes;
use crate::naming_budget::NamingBudget;
use computed::{Computing, Rules};
use remora_heap::layout::{Field, Layout, LayoutIx, Layouts, Shape, Slot, SlotKind, Source};
use remora_heap::{StaticField, TypeIx};
use remora_heap_stream::ClassFacts;
use remora_symbols::{FieldPlace, FieldType, TypeNature};
use resolve::{Known, Modules};
use std::collections::HashMap;

/// Bytes of an object's header.
const HEAD: u32 = 8;
/// Maximum number of layouts: damaged metadata can nest values endlessly.
const MOST: usize = 1 << 20;
/// Maximum depth of base classes, of values in values, and of arguments: a longer chain is no real one.
const DEEPEST: u32 = 256;

/// Layouts and static fields, resolved with the metadata of the process's modules.
#[derive(Debug, Default)]
pub struct LaidOut {
    /// How objects are laid out.
    pub layouts: Layouts,
    /// Static fields of initialized classes.
    pub statics: Vec<StaticField>,
}

impl Classes {
    /// Layouts and static fields that could be resolved within the budget.
    pub fn laid_out(&mut self, budget: &mut NamingBudget) -> LaidOut {
        let Classes { names, classes, by_id, modules: module_ids, layouts: reported, major, statics, .. } = self;
        let has_values = statics.reads_values;
        let module_of = |id: &u64| module_ids.get(id).copied().flatten();
        let mut making = Making {
            modules: Modules::of(names),
            known: Vec::new(),
            class_of: HashMap::new(),
            reported,
            parents: HashMap::new(),
            computing: Rules::of(*major).into_iter().map(Computing::new).collect(),
            made: HashMap::new(),
            of_classes: HashMap::new(),
            layouts: Layouts::default(),
            budget,
            depth: 0,
        };
        making.meet(classes, by_id, module_of);
        making.compare();
        (0..making.known.len()).for_each(|class| _ = making.of_class(class as u32));
        let statics = making.statics(statics.answers(), has_values);
        LaidOut { layouts: making.layouts, statics }
    }
}

struct Making<'a> {
    modules: Modules<'a>,
    /// The classes, by number.
    known: Vec<Known>,
    class_of: HashMap<Known, u32>,
    reported: &'a HashMap<u32, remora_heap_stream::Layout>,
    parents: HashMap<u32, u32>,
    /// Computed layouts, for each rule set that the runtime may have.
    computing: Vec<Computing>,
    made: HashMap<Known, LayoutIx>,
    /// Layouts of classes that are not the first of their type.
    of_classes: HashMap<u32, LayoutIx>,
    layouts: Layouts,
    budget: &'a mut NamingBudget,
    /// Layouts that are being made: each names its base class, and the values in it.
    depth: u32,
}

impl Making<'_> {
    /// Resolves all classes. Arguments and elements of a class may follow later in the list.
    fn meet(&mut self, classes: &[ClassFacts], by_id: &HashMap<u64, u32>, module_of: impl Fn(&u64) -> Option<u32>) {
        let mut known: Vec<Option<Known>> = vec![None; classes.len()];
        for class in 0..classes.len() {
            self.identify(class, classes, by_id, &module_of, &mut known, DEEPEST);
        }
        self.known = known.into_iter().map(|known| known.unwrap_or(Known::Unknown)).collect();
        for (class, known) in self.known.iter().enumerate() {
            self.class_of.entry(known.clone()).or_insert(class as u32);
        }
        for (class, facts) in classes.iter().enumerate() {
            if let ClassFacts::Plain { parent, .. } = facts
                && let Some(parent) = by_id.get(parent)
            {
                self.parents.insert(class as u32, *parent);
            }
        }
    }

    fn identify(
        &mut self,
        class: usize,
        classes: &[ClassFacts],
        by_id: &HashMap<u64, u32>,
        module_of: &impl Fn(&u64) -> Option<u32>,
        known: &mut Vec<Option<Known>>,
        depth: u32,
    ) -> Known {
        if let Some(Some(known)) = known.get(class) {
            return known.clone();
        }
        let Some(depth) = depth.checked_sub(1).filter(|_| self.budget.is_left()) else { return Known::Unknown };
        // A class cannot be its own argument. And no class is identified twice: 30 arguments with 30 each would take forever.
        set(known, class, Known::Unknown);
        let mut other = |making: &mut Self, id: &u64| match by_id.get(id) {
            Some(class) => making.identify(*class as usize, classes, by_id, module_of, known, depth),
            None => Known::Unknown,
        };
        let made = match classes.get(class) {
            Some(ClassFacts::Plain { module, token, arguments, .. }) => {
                let arguments = arguments.iter().map(|id| other(self, id)).collect();
                match module_of(module) {
                    Some(module) => self.modules.normal(module, *token, arguments),
                    None => Known::Unknown,
                }
            }
            Some(ClassFacts::Array { element, element_kind, rank }) => {
                let element = match (other(self, element), u8::try_from(*element_kind)) {
                    (Known::Unknown, Ok(kind)) if !matches!(kind, 0x11 | 0x12 | 0x1d | 0x14) => Known::Primitive(kind),
                    (element, _) => element,
                };
                Known::array(element, *rank)
            }
            _ => Known::Unknown,
        };
        set(known, class, made.clone());
        made
    }

    /// Compares computed layouts with those from the runtime.
    fn compare(&mut self) {
        for class in 0..self.known.len() as u32 {
            if !self.budget.is_left() {
                return;
            }
            let known = self.known[class as usize].clone();
            let Some((bytes, reported)) = self.reported_value(class, &known) else { continue };
            for computing in &mut self.computing {
                computing.compare(&mut self.modules, &known, bytes, &reported);
            }
        }
    }

    /// Size and fields of a value type as the runtime reports them: offsets count from its own beginning, as seen on 3.1, 8, 9 and 10.
    fn reported_value(&mut self, class: u32, known: &Known) -> Option<(u32, Vec<(u32, u32)>)> {
        let reported = self.reported.get(&class)?;
        matches!(self.modules.nature(known)?, TypeNature::Value).then_some(())?;
        (reported.fields.len() == reported.count as usize).then_some(())?;
        let mut fields = reported.fields.clone();
        fields.sort_unstable();
        Some((reported.bytes, fields))
    }

    /// The computed layout of a value type that the runtime did not report: all trusted rule sets must agree.
    fn computed(&mut self, known: &Known) -> Option<(u32, Vec<(u32, u32)>)> {
        let modules = &mut self.modules;
        let mut all = self.computing.iter_mut().filter_map(|computing| computing.believed(modules, known));
        let first = all.next()??;
        all.all(|other| other.as_ref() == Some(&first)).then_some((first.bytes, first.fields))
    }

    fn of_class(&mut self, class: u32) -> Option<LayoutIx> {
        let known = self.known.get(class as usize)?.clone();
        // Equal types of different load contexts each have their own layout.
        match (self.class_of.get(&known), self.of_classes.get(&class)) {
            (Some(first), _) if *first == class => self.made(&known),
            (_, Some(made)) => Some(*made),
            _ => self.add(&known, Some(class)),
        }
    }

    /// The layout of a type, made on first use.
    fn made(&mut self, known: &Known) -> Option<LayoutIx> {
        if let Some(made) = self.made.get(known) {
            return Some(*made);
        }
        let class = self.class_of.get(known).copied();
        self.add(known, class)
    }

    fn add(&mut self, known: &Known, class: Option<u32>) -> Option<LayoutIx> {
        if self.layouts.len() >= MOST || self.depth >= DEEPEST || !self.budget.is_left() {
            return None;
        }
        let (name, family) = (self.modules.text(known), self.modules.family(known));
        let type_ix = class.map(TypeIx);
        let (shape, source) = (Shape::Unknown, Source::Reported);
        let index = self.layouts.add(Layout { class: type_ix, name, family, shape, source });
        // Before its fields are resolved, because they may name this type again.
        self.made.entry(known.clone()).or_insert(index);
        class.map(|class| self.of_classes.insert(class, index));
        self.depth += 1;
        let (shape, source) = self.shape(known, class);
        self.depth -= 1;
        if let Some(place) = self.layouts.at_mut(index) {
            (place.shape, place.source) = (shape, source);
        }
        Some(index)
    }

    fn shape(&mut self, known: &Known, class: Option<u32>) -> (Shape, Source) {
        let shape = match known {
            Known::Array { element, rank } => {
                let element = self.slot(element);
                Some(Shape::Array { element, rank: *rank })
            }
            Known::Defined { .. } => match self.modules.nature(known) {
                Some(TypeNature::Enum { is_flags }) => self.members(known, is_flags),
                Some(TypeNature::Value) => return self.value(known, class),
                Some(TypeNature::Class) => self.class(known, class),
                _ => None,
            },
            // A boxed primitive.
            Known::Primitive(kind) if !matches!(kind, 0x0e | 0x1c) => {
                let kind = SlotKind(*kind);
                let bytes = kind.bytes().unwrap_or(0);
                let slot = Slot { kind, of: self.modules.text(known), layout: None };
                Some(Shape::Value { bytes, fields: vec![Field { name: String::new(), offset: 0, slot }] })
            }
            Known::Primitive(0x1c) => Some(Shape::Class { base: None, fields: Vec::new() }),
            _ => None,
        };
        (shape.unwrap_or(Shape::Unknown), Source::Reported)
    }

    fn members(&mut self, known: &Known, is_flags: bool) -> Option<Shape> {
        let Known::Defined { module, token, .. } = known else { return None };
        let (mut members, mut number) = (Vec::new(), None);
        for field in self.modules.image(*module)?.fields(*token) {
            match (field.place, field.of) {
                (FieldPlace::Literal { value: Some(value) }, _) => members.push((field.name, value)),
                (FieldPlace::Instance { .. }, Some(FieldType::Primitive(kind))) => number = Some(kind),
                _ => {}
            }
        }
        let number = self.slot(&Known::Primitive(number?));
        Some(Shape::Enum { number, is_flags, members })
    }

    fn value(&mut self, known: &Known, class: Option<u32>) -> (Shape, Source) {
        let reported = class.and_then(|class| self.reported_value(class, known));
        let source = if reported.is_some() { Source::Reported } else { Source::Computed };
        let Some((bytes, places)) = reported.or_else(|| self.computed(known)) else { return (Shape::Unknown, source) };
        let fields = self.fields(known, &places);
        (fields.map_or(Shape::Unknown, |fields| Shape::Value { bytes, fields }), source)
    }

    fn class(&mut self, known: &Known, class: Option<u32>) -> Option<Shape> {
        let class = class?;
        let reported = self.reported.get(&class)?;
        let places: Option<Vec<(u32, u32)>> =
            reported.fields.iter().map(|(token, offset)| Some((*token, offset.checked_sub(HEAD)?))).collect();
        let fields = self.fields(known, &places?)?;
        let base = self.parents.get(&class).copied().and_then(|parent| self.of_class(parent));
        Some(Shape::Class { base, fields })
    }

    /// The fields with these tokens and offsets, in source order.
    fn fields(&mut self, known: &Known, places: &[(u32, u32)]) -> Option<Vec<Field>> {
        let Known::Defined { module, token, arguments } = known else { return None };
        let mut fields = Vec::new();
        for field in self.modules.image(*module)?.fields(*token) {
            if !self.budget.is_left() {
                return None;
            }
            let Some((_, offset)) = places.iter().find(|(token, _)| *token == field.token) else { continue };
            let held = field.of.map_or(Known::Unknown, |of| self.modules.known(*module, &of, arguments));
            fields.push(Field { name: field.name, offset: *offset, slot: self.slot(&held) });
        }
        Some(fields)
    }

    /// The slot for a value of this type.
    fn slot(&mut self, known: &Known) -> Slot {
        let slot = self.slot_alone(known);
        let layout = if slot.kind == SlotKind::VALUE { self.made(known) } else { None };
        Slot { layout, ..slot }
    }

    /// The same without the layout of nested values.
    fn slot_alone(&mut self, known: &Known) -> Slot {
        let kind = match known {
            Known::Primitive(kind) => SlotKind(*kind),
            Known::Array { .. } => SlotKind::ARRAY,
            Known::Pointer(_) => SlotKind::POINTER,
            Known::Unknown | Known::TooLarge => SlotKind::UNKNOWN,
            Known::Defined { .. } => match self.modules.nature(known) {
                Some(TypeNature::Value | TypeNature::Enum { .. }) => SlotKind::VALUE,
                Some(_) => SlotKind::CLASS,
                None => SlotKind::UNKNOWN,
            },
        };
        Slot { kind, of: self.modules.text(known), layout: None }
    }
}

fn set(all: &mut [Option<Known>], class: usize, known: Known) {
    if let Some(place) = all.get_mut(class) {
        *place = Some(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::ONLY_MODULE;
    use remora_heap_stream::HeapVisitor;

    const FIRST: u64 = 0x1000;

    /// Of one module of the C# compiler, these classes: each as the positions of its parent and its arguments.
    fn classes(described: impl Iterator<Item = (u64, Vec<u64>)>) -> Classes {
        let mut classes = Classes::of_file(concat!(env!("CARGO_MANIFEST_DIR"), "/../symbols/fixtures/names.dll"));
        let image = classes.names.image(0).expect("readable");
        let token = image.type_tokens().find(|token| image.nature(*token) == Some(TypeNature::Class)).expect("one");
        for (class, (parent, arguments)) in (0..).zip(described) {
            let arguments = arguments.into_iter().map(|argument| FIRST + argument).collect();
            let facts = ClassFacts::Plain { module: ONLY_MODULE, token, parent: FIRST + parent, arguments };
            classes.class(FIRST + u64::from(class), facts);
            classes.layout(class, remora_heap_stream::Layout { bytes: 24, ..Default::default() });
        }
        classes
    }

    /// Each class was laid out again for each that inherits from it, one call inside the other, and the command overflowed its stack.
    #[test]
    fn regression_classes_that_inherit_from_each_other_in_a_circle_are_laid_out_once() {
        let count = 20_000;
        let mut classes = classes((0..count).map(|class| ((class + 1) % count, Vec::new())));
        let mut budget = NamingBudget::new(|| false);
        let laid_out = classes.laid_out(&mut budget);
        assert_eq!((laid_out.layouts.len() as u64, budget.note()), (count, None));
    }

    /// Each argument was looked at anew for each class that has it: 30 to the power of the depth.
    #[test]
    fn regression_arguments_of_arguments_are_identified_once() {
        let depth = 12;
        let arguments = |class: u64| if class + 1 < depth { vec![class + 1; 30] } else { Vec::new() };
        let mut classes = classes((0..depth).map(|class| (u64::MAX >> 1, arguments(class))));
        let mut budget = NamingBudget::new(|| false);
        assert!(classes.laid_out(&mut budget).layouts.len() > 1);
        assert_eq!(budget.note(), None);
    }
}
