//! The field by which one object refers to another, without the objects' content: from layouts, the references and their types.
//!
//! References are in the order of their fields, but null fields have none. So a reference belongs to a field if all references of the
//! object fit into its fields in order, each by the type of its target. If several fields remain, all are named.

use crate::allowance::{Allowance, SLOT};
use crate::graph::HeapGraph;
use crate::layout::{LayoutIx, Layouts, Shape, Slot, SlotKind};
use crate::object_ix::ObjectIx;
use crate::types::{Place, TypeFlags, TypeIx};
use std::collections::HashSet;

/// More fields than this are not distinguished.
const MOST_FIELDS: usize = 256;
/// So many fields are named, if there is a doubt.
const NAMED: usize = 3;
/// Maximum depth of base classes and of values in values: a longer chain is no real one.
const DEEPEST: u32 = 64;
/// Maximum bytes of names that are made and compared: a value type may have itself as a field, twice.
const MOST: usize = 64 << 20;
/// Bytes of an array with one dimension before its elements.
const ARRAY_HEAD: u64 = 24;
const REFERENCE: u64 = 8;

/// The layouts of a snapshot, to find the field of a reference.
pub struct Ways<'a> {
    graph: &'a HeapGraph,
    layouts: &'a Layouts,
    /// The names of all known classes.
    classes: HashSet<&'a str>,
    /// For all references of a command.
    left: Allowance,
}

impl<'a> Ways<'a> {
    /// The ways of a graph.
    pub fn new(graph: &'a HeapGraph, layouts: &'a Layouts) -> Ways<'a> {
        let classes = layouts.iter().filter(|layout| matches!(layout.shape, Shape::Class { .. }));
        let classes = classes.map(|layout| layout.name.as_str()).collect();
        Ways { graph, layouts, classes, left: Allowance::new(MOST) }
    }

    /// The field, or the fields in doubt, or the element by which `from` refers to `to`: `Next`, `At.Owner`, `first|last`, `[2]`.
    pub fn between(&self, from: ObjectIx, to: ObjectIx) -> Option<String> {
        let targets: Vec<ObjectIx> = self.graph.references(from).collect();
        let layout = self.layouts.of(self.graph.type_ix(from))?;
        if let Shape::Array { element, rank: 1 } = &self.layouts.at(layout)?.shape {
            // Only a full array shows the indexes.
            let is_full = (self.graph.bytes(from).checked_sub(ARRAY_HEAD)?) / REFERENCE == targets.len() as u64;
            let index = targets.iter().position(|target| *target == to)?;
            return (element.kind.is_reference() && is_full).then(|| format!("[{index}]"));
        }
        let mut fields = Vec::new();
        self.add_class(layout, DEEPEST, &mut fields)?;
        fields.sort_by_key(|(offset, ..)| *offset);
        (fields.len() <= MOST_FIELDS && targets.len() <= fields.len()).then_some(())?;
        let meant = self.meant(&targets, &fields, to);
        // Otherwise fields were not compared any more.
        self.left.is_left().then_some(())?;
        (1..=NAMED).contains(&meant.len()).then(|| meant.join("|"))
    }

    /// Adds the reference fields of a class, inherited ones too: offset, name and type. `None` if it has unknown fields.
    fn add_class(&self, layout: LayoutIx, depth: u32, fields: &mut Vec<(u64, String, &'a Slot)>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let Shape::Class { base, fields: own } = &self.layouts.at(layout)?.shape else { return None };
        for field in own {
            self.add(&field.name, field.offset.into(), &field.slot, depth, fields)?;
        }
        base.map_or(Some(()), |base| self.add_class(base, depth, fields))
    }

    fn add(
        &self,
        name: &str,
        offset: u64,
        slot: &'a Slot,
        depth: u32,
        fields: &mut Vec<(u64, String, &'a Slot)>,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.left.take(SLOT + name.len()).then_some(())?;
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
        (fields.len() <= MOST_FIELDS).then_some(())
    }

    /// The names of the fields that may refer to `to`.
    fn meant(&self, targets: &[ObjectIx], fields: &[(u64, String, &Slot)], to: ObjectIx) -> Vec<String> {
        let (rows, columns) = (targets.len(), fields.len());
        let fits = |row: usize, column: usize| self.fits(fields[column].2, targets[row]);
        // Whether the first `row` targets fit into the first `column` fields, and the targets and fields from there on.
        let mut begins = vec![vec![false; columns + 1]; rows + 1];
        let mut ends = begins.clone();
        for column in 0..=columns {
            begins[0][column] = true;
            ends[rows][column] = true;
        }
        for row in 0..rows {
            for column in 0..columns {
                begins[row + 1][column + 1] = begins[row + 1][column] || begins[row][column] && fits(row, column);
                let (row, column) = (rows - 1 - row, columns - 1 - column);
                ends[row][column] = ends[row][column + 1] || ends[row + 1][column + 1] && fits(row, column);
            }
        }
        let may_be = |column: &usize| {
            let is_way = |row: usize| begins[row][*column] && ends[row + 1][*column + 1] && fits(row, *column);
            (0..rows).any(|row| targets[row] == to && is_way(row))
        };
        (0..columns).filter(may_be).map(|column| fields[column].1.clone()).collect()
    }

    /// Whether a field can hold an object. An interface can hold any: the graph does not have them.
    fn fits(&self, slot: &Slot, target: ObjectIx) -> bool {
        if !self.left.take(slot.of.len() + 1) {
            return false;
        }
        let of = self.graph.type_ix(target);
        let array = self.graph.facts(of).array;
        match slot.kind {
            SlotKind::STRING => self.graph.type_at(of).flags.contains(TypeFlags::STRING),
            SlotKind::ARRAY => {
                array.is_some_and(|array| array.place == Place::Reference || self.name(of) == Some(slot.of.as_str()))
            }
            _ => {
                !self.classes.contains(slot.of.as_str())
                    || self.line(of).any(|of| self.name(of) == Some(slot.of.as_str()))
            }
        }
    }

    fn line(&self, of: TypeIx) -> impl Iterator<Item = TypeIx> + '_ {
        let known = |of: &TypeIx| (of.0 as usize) < self.graph.types().len();
        std::iter::successors(Some(of), move |of| self.graph.facts(*of).base.filter(known)).take(DEEPEST as usize)
    }

    fn name(&self, of: TypeIx) -> Option<&str> {
        Some(self.layouts.at(self.layouts.of(of)?)?.name.as_str())
    }
}
