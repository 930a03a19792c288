//! Object layouts, in a snapshot with values. The boundary types of version 1: frozen, fields are only added.

use crate::rows::{NAME, ROW, json};
use crate::state::shorten;
use crate::{Error, FORMAT, kind};
use remora_chunks::{Fault, HEADER, Next, Unpacked};
use remora_heap::TypeIx;
use remora_heap::layout::{Field, Layout, LayoutIx, Layouts, Shape, Slot, SlotKind, Source};
use serde::{Deserialize, Serialize};
use std::io::Read;

/// Maximum layouts, fields and members read from a file; the rest is ignored.
const MOST_ROWS: usize = 1 << 20;

/// One layout. Its index is its position among all rows of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<u32>,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    family: String,
    /// `class`, `value`, `enum`, `array`; anything else is unknown.
    shape: String,
    #[serde(skip_serializing_if = "is_default")]
    computed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    bytes: u32,
    #[serde(skip_serializing_if = "is_default")]
    rank: u32,
    #[serde(skip_serializing_if = "is_default")]
    is_flags: bool,
    /// An array's element or an enum's underlying type.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<SlotRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<FieldRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<(String, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SlotRow {
    kind: u8,
    #[serde(rename = "type")]
    of: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct FieldRow {
    name: String,
    offset: u32,
    #[serde(flatten)]
    slot: SlotRow,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The rows of all layouts. A layout that is too long is written as unknown.
pub(crate) fn rows(layouts: &Layouts) -> impl Iterator<Item = impl Serialize> {
    layouts.iter().map(|layout| {
        let mut row = Row::of(layout);
        [&mut row.name, &mut row.family].into_iter().for_each(|text| shorten(text, NAME));
        match json(&row).len() <= ROW {
            true => row,
            false => Row {
                class: row.class,
                name: row.name,
                family: row.family,
                shape: "unknown".to_owned(),
                ..Row::default()
            },
        }
    })
}

/// The layouts of a snapshot; none in a snapshot without values. A truncated file has none, since they are at its end.
///
/// # Errors
/// See [`crate::read`].
pub fn layouts(mut input: impl Read) -> Result<Layouts, Error> {
    FORMAT.read_header(&mut input)?;
    let (mut layouts, mut offset, mut unpacked) = (Layouts::default(), HEADER as u64, Unpacked::default());
    loop {
        match FORMAT.next(&mut input, &mut unpacked).map_err(|fault| Error::of_chunk(fault, offset, 0))? {
            Next::Chunk(chunk) => {
                if chunk.kind == kind::LAYOUTS {
                    let rows: Vec<Row> = serde_json::from_slice(&chunk.plain)
                        .map_err(|_| Error::of_chunk(Fault::Damaged("a row of layouts makes no sense"), offset, 0))?;
                    for row in rows {
                        if layouts.len() < MOST_ROWS {
                            layouts.add(row.layout());
                        }
                    }
                }
                offset += chunk.length;
            }
            Next::End | Next::Torn(_) => return Ok(layouts),
        }
    }
}

impl Row {
    fn of(layout: &Layout) -> Row {
        let mut row = Row {
            class: layout.class.map(|class| class.0),
            name: layout.name.clone(),
            family: layout.family.clone(),
            computed: layout.source == Source::Computed,
            ..Row::default()
        };
        match &layout.shape {
            Shape::Unknown => "unknown".clone_into(&mut row.shape),
            Shape::Class { base, fields } => {
                "class".clone_into(&mut row.shape);
                row.base = base.map(|base| base.0);
                row.fields = fields.iter().map(FieldRow::of).collect();
            }
            Shape::Value { bytes, fields } => {
                "value".clone_into(&mut row.shape);
                row.bytes = *bytes;
                row.fields = fields.iter().map(FieldRow::of).collect();
            }
            Shape::Enum { number, is_flags, members } => {
                "enum".clone_into(&mut row.shape);
                row.holds = Some(SlotRow::of(number));
                row.is_flags = *is_flags;
                row.members.clone_from(members);
            }
            Shape::Array { element, rank } => {
                "array".clone_into(&mut row.shape);
                row.holds = Some(SlotRow::of(element));
                row.rank = *rank;
            }
        }
        row
    }

    fn layout(self) -> Layout {
        let fields = self.fields.into_iter().map(FieldRow::field).collect();
        let holds = self.holds.unwrap_or_default().slot();
        let shape = match &*self.shape {
            "class" => Shape::Class { base: self.base.map(LayoutIx), fields },
            "value" => Shape::Value { bytes: self.bytes, fields },
            "enum" => Shape::Enum { number: holds, is_flags: self.is_flags, members: self.members },
            "array" => Shape::Array { element: holds, rank: self.rank },
            _ => Shape::Unknown,
        };
        Layout {
            class: self.class.map(TypeIx),
            name: self.name,
            family: self.family,
            shape,
            source: if self.computed { Source::Computed } else { Source::Reported },
        }
    }
}

impl SlotRow {
    pub(crate) fn of(slot: &Slot) -> SlotRow {
        SlotRow { kind: slot.kind.0, of: slot.of.clone(), layout: slot.layout.map(|layout| layout.0) }
    }

    pub(crate) fn type_name(&mut self) -> &mut String {
        &mut self.of
    }

    pub(crate) fn slot(self) -> Slot {
        Slot { kind: SlotKind(self.kind), of: self.of, layout: self.layout.map(LayoutIx) }
    }
}

impl FieldRow {
    fn of(field: &Field) -> FieldRow {
        FieldRow { name: field.name.clone(), offset: field.offset, slot: SlotRow::of(&field.slot) }
    }

    fn field(self) -> Field {
        Field { name: self.name, offset: self.offset, slot: self.slot.slot() }
    }
}
