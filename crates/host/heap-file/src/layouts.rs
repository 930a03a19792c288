//! Object layouts, in a snapshot with values. The boundary types of version 1: frozen, fields are only added.

use crate::chunks::{decoded, each_chunk};
use crate::rows::{NAME, ROW, json};
use crate::state::shorten;
use crate::{Error, kind};
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
pub fn layouts(input: impl Read) -> Result<Layouts, Error> {
    let mut layouts = Layouts::default();
    each_chunk(
        input,
        &mut layouts,
        |_| 0,
        |layouts, chunk| {
            if chunk.kind == kind::LAYOUTS {
                let rows: Vec<Row> = decoded(&chunk.plain, "a row of layouts makes no sense")?;
                let room = MOST_ROWS.saturating_sub(layouts.len());
                rows.into_iter().take(room).for_each(|row| _ = layouts.add(row.layout()));
            }
            Ok(())
        },
    )?;
    Ok(layouts)
}

impl Row {
    fn of(layout: &Layout) -> Row {
        let row = Row {
            class: layout.class.map(|class| class.0),
            name: layout.name.clone(),
            family: layout.family.clone(),
            computed: layout.source == Source::Computed,
            ..Row::default()
        };
        let shape = |name: &str| name.to_owned();
        let fields_of = |fields: &[Field]| fields.iter().map(FieldRow::of).collect();
        match &layout.shape {
            Shape::Unknown => Row { shape: shape("unknown"), ..row },
            Shape::Class { base, fields } => {
                Row { shape: shape("class"), base: base.map(|base| base.0), fields: fields_of(fields), ..row }
            }
            Shape::Value { bytes, fields } => {
                Row { shape: shape("value"), bytes: *bytes, fields: fields_of(fields), ..row }
            }
            Shape::Enum { number, is_flags, members } => {
                let (holds, members) = (Some(SlotRow::of(number)), members.clone());
                Row { shape: shape("enum"), holds, is_flags: *is_flags, members, ..row }
            }
            Shape::Array { element, rank } => {
                Row { shape: shape("array"), holds: Some(SlotRow::of(element)), rank: *rank, ..row }
            }
        }
    }

    fn layout(mut self) -> Layout {
        [&mut self.name, &mut self.family].into_iter().for_each(|text| shorten(text, NAME));
        self.members.iter_mut().for_each(|(name, _)| shorten(name, NAME));
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

    pub(crate) fn slot(mut self) -> Slot {
        shorten(&mut self.of, NAME);
        Slot { kind: SlotKind(self.kind), of: self.of, layout: self.layout.map(LayoutIx) }
    }
}

impl FieldRow {
    fn of(field: &Field) -> FieldRow {
        FieldRow { name: field.name.clone(), offset: field.offset, slot: SlotRow::of(&field.slot) }
    }

    fn field(mut self) -> Field {
        shorten(&mut self.name, NAME);
        Field { name: self.name, offset: self.offset, slot: self.slot.slot() }
    }
}
