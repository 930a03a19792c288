//! The outlines of a graph's types, and the field by which one object refers to another: from layouts, without the objects' content.

use crate::allowance::{Allowance, SLOT};
use crate::graph::HeapGraph;
use crate::layout::{LayoutIx, Layouts, Shape, Slot, SlotKind};
use crate::object_ix::ObjectIx;
use crate::outline::{Holds, Outline, ReferenceField, Refers, Types};
use crate::types::{Place, TypeFlags, TypeIx};
use std::collections::HashSet;

/// Maximum depth of base classes and of values in values: a longer chain is no real one.
const DEEPEST: u32 = 64;
/// Maximum bytes of names that are made and compared: a value type may have itself as a field, twice.
const MOST: usize = 64 << 20;

/// The layouts of a snapshot, to find the field of a reference.
pub struct Ways<'a> {
    graph: &'a HeapGraph,
    layouts: &'a Layouts,
    /// The names of all known classes.
    classes: HashSet<&'a str>,
    /// For all references of a command.
    left: Allowance,
}

/// A field, by its offset, while those of a class are gathered.
type Gathered<'a> = (u64, String, &'a Slot);

impl<'a> Ways<'a> {
    /// The ways of a graph.
    pub fn new(graph: &'a HeapGraph, layouts: &'a Layouts) -> Ways<'a> {
        let classes = layouts.iter().filter(|layout| matches!(layout.shape, Shape::Class { .. }));
        let classes = classes.map(|layout| layout.name.as_str()).collect();
        Ways { graph, layouts, classes, left: Allowance::new(MOST) }
    }

    /// The field, or the fields in doubt, or the element by which `from` refers to `to`, as [`Refers::field_of`] writes it.
    pub fn between(&self, from: ObjectIx, to: ObjectIx) -> Option<String> {
        let refers = self.refers(self.graph.type_ix(from))?;
        let targets: Vec<(u32, TypeIx)> =
            self.graph.references(from).map(|target| (target.0, self.graph.type_ix(target))).collect();
        refers.field_of(self, (self.graph.bytes(from), &targets), to.0, &self.left)
    }

    /// The outline of a type. Without `refers` once too many names were made.
    pub fn outline(&self, of: TypeIx) -> Outline {
        Outline {
            name: self.name(of).unwrap_or_default().to_owned(),
            base: self.base(of).map(|base| base.0),
            is_string: self.is_string(of),
            has_references: self.has_references(of),
            refers: self.refers(of).filter(|_| self.left.is_left()),
        }
    }

    fn refers(&self, of: TypeIx) -> Option<Refers> {
        let layout = self.layouts.of(of)?;
        if let Shape::Array { element, rank: 1 } = &self.layouts.at(layout)?.shape {
            return element.kind.is_reference().then_some(Refers::Elements);
        }
        let mut fields = Vec::new();
        self.add_class(layout, DEEPEST, &mut fields)?;
        fields.sort_by_key(|(offset, ..)| *offset);
        let field = |(_, name, slot)| ReferenceField { name, holds: self.holds(slot) };
        Some(Refers::Fields(fields.into_iter().map(field).collect()))
    }

    /// An interface can hold any object: the graph does not have them.
    fn holds(&self, slot: &Slot) -> Holds {
        match slot.kind {
            SlotKind::STRING => Holds::String,
            SlotKind::ARRAY => Holds::Array(slot.of.clone()),
            _ if self.classes.contains(slot.of.as_str()) => Holds::Class(slot.of.clone()),
            _ => Holds::Any,
        }
    }

    /// Adds the reference fields of a class, inherited ones too. `None` if it has unknown fields.
    fn add_class(&self, layout: LayoutIx, depth: u32, fields: &mut Vec<Gathered<'a>>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let Shape::Class { base, fields: own } = &self.layouts.at(layout)?.shape else { return None };
        for field in own {
            self.add(&field.name, field.offset.into(), &field.slot, depth, fields)?;
        }
        base.map_or(Some(()), |base| self.add_class(base, depth, fields))
    }

    fn add(&self, name: &str, offset: u64, slot: &'a Slot, depth: u32, fields: &mut Vec<Gathered<'a>>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.left.take(SLOT + name.len() + slot.of.len()).then_some(())?;
        if slot.kind.is_reference() {
            fields.push((offset, name.to_owned(), slot));
        } else if slot.kind == SlotKind::VALUE {
            match &self.layouts.at(slot.layout?)?.shape {
                Shape::Value { fields: own, .. } => {
                    for field in own {
                        let name = format!("{name}.{}", field.name);
                        self.add(&name, offset + u64::from(field.offset), &field.slot, depth, fields)?;
                    }
                }
                Shape::Enum { .. } => {}
                _ => return None,
            }
        }
        (fields.len() <= Refers::MOST_FIELDS).then_some(())
    }
}

impl Types for Ways<'_> {
    fn name(&self, of: TypeIx) -> Option<&str> {
        Some(self.layouts.at(self.layouts.of(of)?)?.name.as_str())
    }

    fn base(&self, of: TypeIx) -> Option<TypeIx> {
        self.graph.facts(of).base.filter(|base| (base.0 as usize) < self.graph.types().len())
    }

    fn is_string(&self, of: TypeIx) -> bool {
        self.graph.type_at(of).flags.contains(TypeFlags::STRING)
    }

    fn has_references(&self, of: TypeIx) -> bool {
        self.graph.facts(of).array.is_some_and(|array| array.place == Place::Reference)
    }
}
