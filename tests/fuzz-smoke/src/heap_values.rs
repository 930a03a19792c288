//! Hostile layouts of a snapshot's objects, and their values: read through layouts that refer to each other in any way.

use remora_heap::layout::{Field, Layout, LayoutIx, Layouts, Shape, Slot, SlotKind, Source};
use remora_heap::{Allowance, TypeIx};
use remora_heap_file::{State, Writer};

/// Bytes for one layout.
const RECIPE: usize = 8;
/// Maximum layouts, and elements requested.
const LAYOUTS: usize = 32;
const ELEMENTS: usize = 16;

pub(crate) fn heap_values(bytes: &[u8]) -> bool {
    let layouts = made(bytes);
    let file = Writer::create(Vec::new()).and_then(|mut file| {
        file.layouts(&layouts)?;
        file.finish(&State::default())
    });
    let file = file.expect("memory takes everything");
    let again = remora_heap_file::layouts(&file[..]).expect("what was written is read");
    assert_eq!(again, layouts);
    let most = LAYOUTS as u32;
    for class in 0..most {
        let enough = Allowance::new(Allowance::VALUES);
        let inside = layouts.inside(TypeIx(class), (bytes, bytes.len() as u64 * 2), ELEMENTS, &enough);
        assert!(inside.values().len() <= bytes.len().max(ELEMENTS) * 64);
    }
    !layouts.is_empty()
}

/// One layout for each few bytes: its shape, a name, and two fields with kind, offset and layout.
fn made(bytes: &[u8]) -> Layouts {
    let mut layouts = Layouts::default();
    for (index, recipe) in bytes.as_chunks::<RECIPE>().0.iter().take(LAYOUTS).enumerate() {
        let slot = |kind: u8, layout: u8| Slot {
            kind: SlotKind(kind),
            of: "T".to_owned(),
            layout: (layout < 0x80).then_some(LayoutIx(u32::from(layout) % LAYOUTS as u32)),
        };
        let field = |name: &str, at: u8, slot| Field { name: name.to_owned(), offset: u32::from(at), slot };
        let held = [slot(recipe[2], recipe[3]), slot(recipe[5], recipe[6])];
        let names = if recipe[1] & 1 == 0 { ["hasValue", "value"] } else { ["", "Item2"] };
        let fields = [field(names[0], recipe[4], held[0].clone()), field(names[1], recipe[7], held[1].clone())];
        let fields = fields[..usize::from(recipe[1] >> 1 & 1) + 1].to_vec();
        let families = ["System.Nullable`1", "System.ValueTuple`2", "System.DateTime", "System.Decimal", "System.Guid"];
        let shape = match recipe[0] % 5 {
            0 => Shape::Unknown,
            1 => Shape::Class { base: held[0].layout, fields },
            2 => Shape::Value { bytes: u32::from(recipe[1]) % 32, fields },
            3 => Shape::Enum {
                number: held[0].clone(),
                is_flags: recipe[1] & 1 == 0,
                members: vec![("A".to_owned(), u64::from(recipe[4])), ("B".to_owned(), u64::MAX)],
            },
            _ => Shape::Array { element: held[0].clone(), rank: u32::from(recipe[1]) },
        };
        let family = families.get(usize::from(recipe[1]) % 8).copied().unwrap_or_default().to_owned();
        let source = if recipe[1] & 4 == 0 { Source::Reported } else { Source::Computed };
        layouts.add(Layout { class: Some(TypeIx(index as u32)), name: "T".to_owned(), family, shape, source });
    }
    layouts
}

/// A class with a number and a value, the value, an enum, an array of values.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let rows = [
        [1, 3, 0x08, 0xff, 0, 0x11, 1, 8],
        [2, 16 + 3, 0x08, 0xff, 0, 0x0d, 0xff, 8],
        [3, 0, 0x05, 0xff, 1, 0, 0, 0],
        [4, 1, 0x11, 1, 0, 0, 0, 0],
        [2, 8, 0x02, 0xff, 0, 0x08, 0xff, 4],
        [4, 2, 0x0e, 0xff, 0, 0, 0, 0],
    ];
    vec![rows.concat()]
}
