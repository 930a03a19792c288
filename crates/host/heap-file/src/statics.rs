//! Static fields in a snapshot. The boundary types of version 2: frozen, fields are only added.

use crate::layouts::SlotRow;
use crate::rows::{NAME, ROWS_CHUNK};
use crate::state::shorten;
use remora_heap::{StaticContent, StaticField};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::{self, Formatter};

/// One field. One of the last three has its value; none, if values were not requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Row {
    owner: String,
    assembly: String,
    name: String,
    holds: SlotRow,
    /// A reference's target, or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<u64>,
    /// The address of a boxed value.
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    boxed: Option<u64>,
    /// Any other value.
    #[serde(skip_serializing_if = "Option::is_none")]
    bits: Option<u64>,
}

/// The rows of a chunk, at most as many as are written to one. Memory is used only for rows present, whatever the chunk claims.
pub(crate) struct Rows(pub(crate) Vec<StaticField>);

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rows, D::Error> {
        deserializer.deserialize_seq(RowsVisitor)
    }
}

struct RowsVisitor;

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = Rows;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("rows of static fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Rows, A::Error> {
        let mut fields = Vec::new();
        while let Some(row) = rows.next_element::<Row>()? {
            if fields.len() == ROWS_CHUNK {
                return Err(A::Error::custom("more rows than a chunk has"));
            }
            fields.push(row.field());
        }
        Ok(Rows(fields))
    }
}

/// The rows of all fields.
pub(crate) fn rows(fields: &[StaticField]) -> impl Iterator<Item = impl Serialize> {
    fields.iter().map(|field| {
        let mut row = Row::of(field);
        let texts = [&mut row.owner, &mut row.assembly, &mut row.name, row.holds.type_name()];
        texts.into_iter().for_each(|text| shorten(text, NAME));
        row
    })
}

impl Row {
    fn of(field: &StaticField) -> Row {
        let mut row = Row {
            owner: field.owner.clone(),
            assembly: field.assembly.clone(),
            name: field.name.clone(),
            holds: SlotRow::of(&field.slot),
            ..Row::default()
        };
        match field.content {
            StaticContent::Bits(bits) if field.slot.kind.is_reference() => row.target = Some(bits),
            StaticContent::Bits(bits) => row.bits = Some(bits),
            StaticContent::Box(address) => row.boxed = Some(address),
            StaticContent::NotKept => {}
        }
        row
    }

    fn field(mut self) -> StaticField {
        [&mut self.owner, &mut self.assembly, &mut self.name].into_iter().for_each(|text| shorten(text, NAME));
        let content = match (self.target.or(self.bits), self.boxed) {
            (Some(bits), _) => StaticContent::Bits(bits),
            (_, Some(address)) => StaticContent::Box(address),
            _ => StaticContent::NotKept,
        };
        StaticField { owner: self.owner, assembly: self.assembly, name: self.name, slot: self.holds.slot(), content }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap::layout::{LayoutIx, Slot, SlotKind};

    fn unpacked(plain: &[u8]) -> Option<Vec<StaticField>> {
        serde_json::from_slice(plain).ok().map(|Rows(fields)| fields)
    }

    #[test]
    fn static_fields_come_back_as_they_were_written() {
        let field = |kind, content| StaticField {
            owner: "MyApp.Cache<int>".into(),
            assembly: "MyApp".into(),
            name: "entries".into(),
            slot: Slot { kind, of: "T".into(), layout: Some(LayoutIx(3)) },
            content,
        };
        let fields = [
            field(SlotKind::CLASS, StaticContent::Bits(0x7f00_1000)),
            field(SlotKind::CLASS, StaticContent::Bits(0)),
            field(SlotKind(0x08), StaticContent::Bits(7)),
            field(SlotKind::VALUE, StaticContent::Box(0x7f00_2000)),
            field(SlotKind(0x08), StaticContent::NotKept),
        ];
        let chunk = serde_json::to_vec(&rows(&fields).collect::<Vec<_>>()).expect("plain data");
        assert_eq!(unpacked(&chunk).as_deref(), Some(&fields[..]));
        let held: Vec<Option<u64>> = fields.iter().map(StaticField::holds).collect();
        assert_eq!(held, [Some(0x7f00_1000), None, None, Some(0x7f00_2000), None]);
        assert_eq!(unpacked(b"{"), None);
        let many = |rows: usize| format!("[{}]", vec!["{}"; rows].join(","));
        assert_eq!(unpacked(many(ROWS_CHUNK).as_bytes()).map(|fields| fields.len()), Some(ROWS_CHUNK));
        assert_eq!(unpacked(many(ROWS_CHUNK + 1).as_bytes()), None, "no writer puts so many there");
    }
}
