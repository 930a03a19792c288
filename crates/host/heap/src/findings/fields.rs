//! Finds the fields that findings need, from layouts.

use super::values::Wanted;
use crate::layout::{Layout, LayoutIx, Layouts, Shape, SlotKind};
use crate::types::TypeIx;
use crate::values::integer;
use std::collections::HashMap;

/// Reads the wanted fields from objects' bytes: numbers, and references as addresses.
#[derive(Debug, Clone, Default)]
pub struct WantedFields {
    of_type: HashMap<TypeIx, Vec<Place>>,
}

/// A field.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its index in the wanted fields.
    which: usize,
    offset: usize,
    kind: SlotKind,
}

impl WantedFields {
    /// The fields of `wanted` that these layouts have. Of two with the same name, the more derived class's wins.
    pub fn of(layouts: &Layouts, wanted: &[Wanted]) -> WantedFields {
        let (mut fields, mut known) = (WantedFields::default(), HashMap::new());
        for (which, wish) in wanted.iter().enumerate() {
            if let Some((offset, kind)) = place(layouts, &mut known, *wish) {
                fields.of_type.entry(wish.type_ix).or_default().push(Place { which, offset, kind });
            }
        }
        fields
    }

    /// Whether the layouts have none of the fields.
    pub fn is_empty(&self) -> bool {
        self.of_type.is_empty()
    }

    /// Passes each wanted number of an object to `found`, with the field's index. `bytes` are the object's first bytes after the class
    /// pointer.
    /// A field beyond their end is skipped.
    pub fn read(&self, type_ix: TypeIx, bytes: &[u8], mut found: impl FnMut(usize, i64)) {
        for place in self.of_type.get(&type_ix).into_iter().flatten() {
            if let Some(number) = bytes.get(place.offset..).and_then(|bytes| integer(place.kind, bytes)) {
                found(place.which, number);
            }
        }
    }
}

/// The field of this name that a class declares or inherits. Each class is searched once, since all may share a base with very many fields.
fn place(
    layouts: &Layouts,
    known: &mut HashMap<(LayoutIx, &'static str), Option<(usize, SlotKind)>>,
    wish: Wanted,
) -> Option<(usize, SlotKind)> {
    let (mut line, mut next, mut found) = (Vec::new(), layouts.of(wish.type_ix), None);
    while let Some(at) = next {
        if let Some(place) = known.get(&(at, wish.field)) {
            found = *place;
            break;
        }
        // Ends a line of base classes that is a circle.
        known.insert((at, wish.field), None);
        line.push(at);
        let Some(Layout { shape: Shape::Class { base, fields }, .. }) = layouts.at(at) else { break };
        if let Some(field) = fields.iter().find(|field| field.name == wish.field) {
            let is_read = field.slot.kind.is_integer() || field.slot.kind.is_reference();
            found = is_read.then_some((field.offset as usize, field.slot.kind));
            break;
        }
        next = *base;
    }
    known.extend(line.into_iter().map(|at| ((at, wish.field), found)));
    found
}

/// Element size of an array of this type, if these layouts have it.
pub fn place_bytes(layouts: &Layouts, array: TypeIx) -> Option<u32> {
    match &layouts.at(layouts.of(array)?)?.shape {
        Shape::Array { element, .. } => layouts.bytes_of(element),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Field, Layout, LayoutIx, Slot, Source};

    fn slot(kind: u8, layout: Option<LayoutIx>) -> Slot {
        Slot { kind: SlotKind(kind), of: String::new(), layout }
    }

    fn layout(class: u32, shape: Shape) -> Layout {
        let class = Some(TypeIx(class));
        Layout { class, name: String::new(), family: String::new(), shape, source: Source::Reported }
    }

    fn field(name: &str, offset: u32, kind: u8) -> Field {
        Field { name: name.into(), offset, slot: slot(kind, None) }
    }

    #[test]
    fn a_field_is_found_in_what_its_class_derives_from_and_read_with_its_sign() {
        let mut layouts = Layouts::default();
        let own = Shape::Class {
            base: Some(LayoutIx(1)),
            fields: vec![field("b", 12, 0x05), field("r", 0, 0x12), field("v", 0, 0x11)],
        };
        layouts.add(layout(0, own));
        layouts.add(layout(1, Shape::Class { base: Some(LayoutIx(1)), fields: vec![field("a", 8, 0x08)] }));
        let wish = |type_ix, field| Wanted { type_ix: TypeIx(type_ix), field };
        let wanted =
            [wish(0, "a"), wish(0, "b"), wish(0, "v"), wish(0, "none"), wish(7, "a"), wish(1, "a"), wish(0, "r")];
        let fields = WantedFields::of(&layouts, &wanted);
        let read = |type_ix, bytes: &[u8]| {
            let mut all = Vec::new();
            fields.read(TypeIx(type_ix), bytes, |which, number| all.push((which, number)));
            all
        };
        let bytes = [1, 1, 1, 1, 1, 1, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0xfe];
        assert_eq!(read(0, &bytes), [(0, -2), (1, 254), (6, 0x0101_0101_0101_0101)]);
        assert_eq!(read(0, &bytes[..12]), [(0, -2), (6, 0x0101_0101_0101_0101)], "what was not kept is not made up");
        assert_eq!(read(1, &bytes), [(5, -2)]);
        assert_eq!(read(7, &bytes), []);
    }

    #[test]
    fn a_place_of_an_array_of_values_is_as_large_as_their_layout_says() {
        let mut layouts = Layouts::default();
        let array = |of| Shape::Array { element: of, rank: 1 };
        layouts.add(layout(0, Shape::Value { bytes: 40, fields: Vec::new() }));
        layouts.add(layout(1, array(slot(0x11, Some(LayoutIx(0))))));
        layouts.add(layout(2, array(slot(0x11, None))));
        let of = |array| place_bytes(&layouts, TypeIx(array));
        assert_eq!((of(0), of(1), of(2), of(3)), (None, Some(40), None, None));
    }
}
