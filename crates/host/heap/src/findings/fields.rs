//! Where in objects the fields are that findings ask for, by how these are laid out.

use super::values::Wanted;
use crate::layout::{Layouts, Shape, Slot, SlotKind};
use crate::types::TypeIx;
use std::collections::HashMap;

/// No class derives from more others: what seems to goes round in a circle.
const DEEPEST: usize = 256;

/// Reads the numbers of wanted fields out of the bytes of objects.
#[derive(Debug, Clone, Default)]
pub struct WantedFields {
    of_type: HashMap<TypeIx, Vec<Place>>,
}

/// A field.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Which of those that are wanted.
    which: usize,
    offset: usize,
    bytes: usize,
    is_signed: bool,
}

impl WantedFields {
    /// Those of `wanted` that these layouts have. One that is declared twice is that of the more derived class.
    pub fn of(layouts: &Layouts, wanted: &[Wanted]) -> WantedFields {
        let mut fields = WantedFields::default();
        for (which, wish) in wanted.iter().enumerate() {
            if let Some(place) = place(layouts, *wish, which) {
                fields.of_type.entry(wish.type_ix).or_default().push(place);
            }
        }
        fields
    }

    /// Whether none is there.
    pub fn is_empty(&self) -> bool {
        self.of_type.is_empty()
    }

    /// Shows the numbers in an object of a type, whose bytes behind the class begin with these: which field it is, and the number. A field that is
    /// behind their end is passed over.
    pub fn read(&self, type_ix: TypeIx, bytes: &[u8], mut found: impl FnMut(usize, i64)) {
        for place in self.of_type.get(&type_ix).into_iter().flatten() {
            let end = place.offset.saturating_add(place.bytes);
            if let Some(bytes) = bytes.get(place.offset..end) {
                found(place.which, number(bytes, place.is_signed));
            }
        }
    }
}

fn place(layouts: &Layouts, wish: Wanted, which: usize) -> Option<Place> {
    let mut next = layouts.of(wish.type_ix);
    for _ in 0..DEEPEST {
        let Shape::Class { base, fields } = &layouts.at(next?)?.shape else { return None };
        if let Some(field) = fields.iter().find(|field| field.name == wish.field) {
            let (bytes, is_signed) = whole_number(field.slot.kind)?;
            return Some(Place { which, offset: field.offset as usize, bytes, is_signed });
        }
        next = *base;
    }
    None
}

/// Its size, and whether it has a sign; `None` for what is no whole number.
fn whole_number(kind: SlotKind) -> Option<(usize, bool)> {
    Some(match kind.0 {
        0x04 => (1, true),
        0x02 | 0x05 => (1, false),
        0x06 => (2, true),
        0x03 | 0x07 => (2, false),
        0x08 => (4, true),
        0x09 => (4, false),
        0x0a | 0x18 => (8, true),
        0x0b | 0x19 => (8, false),
        _ => return None,
    })
}

/// As a number with a sign: of the largest without one, what does not fit is less than 0.
fn number(bytes: &[u8], is_signed: bool) -> i64 {
    let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let unused = 64 - 8 * bytes.len() as u32;
    if is_signed { (value << unused).cast_signed() >> unused } else { value.cast_signed() }
}

/// What a place of an array of this type takes, where these layouts say it.
pub fn place_bytes(layouts: &Layouts, array: TypeIx) -> Option<u32> {
    let Shape::Array { element, .. } = &layouts.at(layouts.of(array)?)?.shape else { return None };
    let element: &Slot = element;
    layouts.bytes_of(element)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Field, Layout, LayoutIx, Source};

    fn slot(kind: u8, layout: Option<LayoutIx>) -> Slot {
        Slot { kind: SlotKind(kind), of: String::new(), layout }
    }

    fn layout(class: u32, shape: Shape) -> Layout {
        let class = Some(TypeIx(class));
        Layout { class, name: String::new(), family: String::new(), shape, source: Source::Told }
    }

    fn field(name: &str, offset: u32, kind: u8) -> Field {
        Field { name: name.into(), offset, slot: slot(kind, None) }
    }

    #[test]
    fn a_field_is_found_in_what_its_class_derives_from_and_read_with_its_sign() {
        let mut layouts = Layouts::default();
        let own = Shape::Class { base: Some(LayoutIx(1)), fields: vec![field("b", 12, 0x05), field("r", 0, 0x12)] };
        layouts.add(layout(0, own));
        layouts.add(layout(1, Shape::Class { base: Some(LayoutIx(1)), fields: vec![field("a", 8, 0x08)] }));
        let wish = |type_ix, field| Wanted { type_ix: TypeIx(type_ix), field };
        let wanted = [wish(0, "a"), wish(0, "b"), wish(0, "r"), wish(0, "none"), wish(7, "a"), wish(1, "a")];
        let fields = WantedFields::of(&layouts, &wanted);
        let read = |type_ix, bytes: &[u8]| {
            let mut all = Vec::new();
            fields.read(TypeIx(type_ix), bytes, |which, number| all.push((which, number)));
            all
        };
        let bytes = [1, 1, 1, 1, 1, 1, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0xfe];
        assert_eq!(read(0, &bytes), [(0, -2), (1, 254)]);
        assert_eq!(read(0, &bytes[..12]), [(0, -2)], "what was not kept is not made up");
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
