//! Names and contents of the static fields that the copy located.

use super::Making;
use super::resolve::Known;
use crate::statics::StaticAnswer;
use remora_heap::layout::{Shape, Slot, SlotKind};
use remora_heap::{StaticContent, StaticField};
use remora_heap_stream::statics::Place;
use remora_symbols::{Field, TypeNature};

/// Bytes of the object header in front of a boxed value.
const HEAD: u64 = 8;

/// A class with its fields, as its module declares them.
struct Owner {
    of: (u32, u32, Option<u32>),
    known: Known,
    name: String,
    assembly: String,
    fields: Vec<Field>,
}

impl Making<'_> {
    /// All static fields with a name. Without values: only those that can hold objects, because no others were read.
    pub(super) fn statics(&mut self, answers: &[StaticAnswer], has_values: bool) -> Vec<StaticField> {
        let (mut all, mut owner): (Vec<StaticField>, Option<Owner>) = (Vec::new(), None);
        for field in answers {
            if !self.budget.is_left() {
                break;
            }
            let of = (field.module, field.type_token, field.class);
            if owner.as_ref().is_none_or(|owner| owner.of != of) {
                owner = self.owner(of);
            }
            let named = owner.as_ref().and_then(|owner| self.field(owner, field, has_values));
            all.extend(named.filter(|field| has_values || field.content != StaticContent::NotKept));
        }
        all
    }

    fn owner(&mut self, of: (u32, u32, Option<u32>)) -> Option<Owner> {
        let (module, token, class) = of;
        let known = match class {
            Some(class) => self.known.get(class as usize)?.clone(),
            None => Known::Defined { module, token, arguments: Vec::new() },
        };
        let (name, file) = self.modules.whole_name(&known)?;
        let assembly = [".dll", ".exe"].iter().find_map(|end| file.strip_suffix(end)).unwrap_or(&file).to_owned();
        let fields = self.modules.image(module)?.fields(token);
        Some(Owner { of, known, name, assembly, fields })
    }

    fn field(&mut self, owner: &Owner, answer: &StaticAnswer, has_values: bool) -> Option<StaticField> {
        let declared = owner.fields.iter().find(|field| field.token == answer.field)?;
        let arguments = match &owner.known {
            Known::Defined { arguments, .. } => &arguments[..],
            _ => &[],
        };
        let held = declared.of.as_ref().map_or(Known::Unknown, |of| self.modules.known(answer.module, of, arguments));
        let slot = match has_values {
            true => self.slot(&held),
            false => self.slot_alone(&held),
        };
        // Its type cannot be resolved, but it is an object.
        let is_object = slot.kind == SlotKind::UNKNOWN && answer.is_reference;
        let slot = if is_object { Slot { kind: SlotKind::OBJECT, ..slot } } else { slot };
        let content = self.content(&held, &slot, answer.place);
        let (owner, assembly) = (owner.name.clone(), owner.assembly.clone());
        Some(StaticField { owner, assembly, name: declared.name.clone(), slot, content })
    }

    /// A value type with fields is boxed on the heap, and the runtime reports the address inside the box. An enum is a plain number.
    fn content(&mut self, held: &Known, slot: &Slot, place: Place) -> StaticContent {
        let is_enum = matches!(self.modules.nature(held), Some(TypeNature::Enum { .. }))
            || slot
                .layout
                .is_some_and(|at| self.layouts.at(at).is_some_and(|of| matches!(of.shape, Shape::Enum { .. })));
        match place.value {
            _ if slot.kind == SlotKind::VALUE && !is_enum => StaticContent::Box(place.address.wrapping_sub(HEAD)),
            Some(bits) => StaticContent::Bits(bits),
            None => StaticContent::NotKept,
        }
    }
}
