//! The values of an object as C# writes them, read from its bytes by its class layout.
//!
//! Bytes and layouts come from files and are untrusted: data that does not fit is reported missing, and nesting is bounded.

mod numbers;
mod times;

use crate::TypeIx;
use crate::allowance::{Allowance, SLOT};
use crate::layout::{Field, Layout, LayoutIx, Layouts, Shape, Slot, SlotKind, Source};
pub(crate) use numbers::integer;
use numbers::{bits, combined, number};

/// Maximum nesting of values.
const MOST_NESTED: u32 = 16;
/// Maximum base classes followed.
const MOST_BASES: u32 = 64;
/// Maximum bytes shown of a value with an unknown layout.
const MOST_RAW: usize = 32;

/// Name suffix of a tuple whose last element holds the rest.
const LONG_TUPLE: &str = "`8";

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// As C# writes it.
    Text(String),
    /// A null reference, or a `Nullable<T>` without a value.
    Null,
    /// A reference to the object at this address.
    Reference(u64),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A value with fields.
    Fields(Vec<Member>),
    /// Bytes with an unknown layout.
    Raw {
        /// Their number; `None` if unknown, too.
        count: Option<u64>,
        /// The first bytes.
        bytes: Vec<u8>,
    },
    /// The value lies beyond the stored part of the object.
    Cut,
}

/// A field and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The field's name.
    pub name: String,
    /// Its type as C# writes it.
    pub of: String,
    /// The declaring class, if not the object's own.
    pub declared_by: Option<String>,
    /// Its value.
    pub value: Value,
    /// Whether its offset was computed from the declaration of a value type, because the runtime reported none.
    pub is_computed: bool,
}

/// The elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements {
    /// The element type.
    pub of: String,
    /// Lower bound and length of each dimension.
    pub dimensions: Vec<(i32, u32)>,
    /// Number of elements.
    pub count: u64,
    /// The first elements.
    pub first: Vec<Value>,
}

impl Elements {
    /// The indexes of the element at `place`.
    pub fn indexes(&self, place: u64) -> Vec<i64> {
        let (mut rest, mut indexes) = (place, Vec::new());
        for (begin, length) in self.dimensions.iter().rev() {
            let length = u64::from(*length).max(1);
            indexes.push(i64::from(*begin) + (rest % length) as i64);
            rest /= length;
        }
        indexes.reverse();
        indexes
    }
}

/// The content of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inside {
    /// An object with fields.
    Fields(Vec<Member>),
    /// An array.
    Elements(Elements),
    /// A boxed value.
    Boxed(Value),
    /// An object with an unknown layout.
    Unknown(Value),
}

/// Bounds for the rest of an object's values.
#[derive(Clone, Copy)]
struct Left<'a> {
    depth: u32,
    allowance: &'a Allowance,
}

impl Left<'_> {
    /// Bounds one level deeper; `None` beyond the limit.
    fn deeper(self) -> Option<Self> {
        self.allowance.take(SLOT).then_some(())?;
        Some(Left { depth: self.depth.checked_sub(1)?, ..self })
    }
}

impl Inside {
    /// The field or element by which the object refers to `target`, among the values here: `Next`, `At.Owner`, `[2]`.
    pub fn way_to(&self, target: u64) -> Option<String> {
        match self {
            Inside::Fields(members) => way_by_fields(members, target),
            Inside::Elements(elements) => elements.first.iter().zip(0..).find_map(|(value, place)| {
                let indexes: Vec<String> = elements.indexes(place).iter().map(i64::to_string).collect();
                Some(format!("[{}]{}", indexes.join(", "), way_by(value, target)?))
            }),
            Inside::Boxed(value) | Inside::Unknown(value) => {
                way_by(value, target).map(|way| way.trim_start_matches('.').to_owned())
            }
        }
    }

    /// All values in it.
    pub fn values(&self) -> Vec<&Value> {
        match self {
            Inside::Fields(members) => members.iter().map(|member| &member.value).collect(),
            Inside::Elements(elements) => elements.first.iter().collect(),
            Inside::Boxed(value) | Inside::Unknown(value) => vec![value],
        }
    }
}

impl Layouts {
    /// The content of an object of a class. `bytes` are the first of the `whole` bytes after the class pointer. Arrays show at most `most`
    /// elements.
    pub fn inside(&self, class: TypeIx, (bytes, whole): (&[u8], u64), most: usize, allowance: &Allowance) -> Inside {
        let unknown = || Inside::Unknown(raw(Some(whole), bytes));
        let left = Left { depth: MOST_NESTED, allowance };
        let Some(index) = self.of(class) else { return unknown() };
        let Some(layout) = self.at(index) else { return unknown() };
        match &layout.shape {
            Shape::Unknown => unknown(),
            Shape::Class { .. } => Inside::Fields(self.members(index, bytes, left)),
            Shape::Value { .. } | Shape::Enum { .. } => {
                let slot = Slot { kind: SlotKind::VALUE, of: layout.name.clone(), layout: Some(index) };
                Inside::Boxed(self.value(&slot, bytes, left))
            }
            Shape::Array { element, rank } => {
                let elements = self.elements(element, *rank, (bytes, whole), (most, left));
                elements.map_or_else(unknown, Inside::Elements)
            }
        }
    }

    /// The value of a slot from its bits; only for slots of up to eight bytes.
    pub fn value_of(&self, slot: &Slot, bits: u64, allowance: &Allowance) -> Value {
        let left = Left { depth: MOST_NESTED, allowance };
        self.value(slot, &bits.to_le_bytes(), left)
    }

    /// The fields of an object: its own class first, then inherited ones.
    fn members(&self, of: LayoutIx, bytes: &[u8], left: Left<'_>) -> Vec<Member> {
        let (mut members, mut next) = (Vec::new(), Some(of));
        for _ in 0..MOST_BASES {
            let Some(Layout { shape: Shape::Class { base, fields }, name, .. }) = next.and_then(|at| self.at(at))
            else {
                break;
            };
            let declared_by = (next != Some(of)).then_some(name.as_str());
            members.extend(fields.iter().map_while(|field| self.member(field, bytes, declared_by, left)));
            next = *base;
        }
        members
    }

    fn member(&self, field: &Field, bytes: &[u8], declared_by: Option<&str>, left: Left<'_>) -> Option<Member> {
        let texts = field.name.len() + field.slot.of.len() + declared_by.map_or(0, str::len);
        left.allowance.take(texts).then_some(())?;
        let value = match bytes.get(field.offset as usize..) {
            Some(bytes) => self.value(&field.slot, bytes, left),
            None => Value::Cut,
        };
        let layout = field.slot.layout.and_then(|at| self.at(at));
        let is_computed = layout.is_some_and(|layout| layout.source == Source::Computed);
        let declared_by = declared_by.map(str::to_owned);
        Some(Member { name: readable(&field.name), of: field.slot.of.clone(), declared_by, value, is_computed })
    }

    /// The value of a slot; `bytes` start with it.
    fn value(&self, slot: &Slot, bytes: &[u8], left: Left<'_>) -> Value {
        let Some(left) = left.deeper() else { return Value::Cut };
        if slot.kind.is_reference() {
            return match bits(bytes, 8) {
                None => Value::Cut,
                Some(0) => Value::Null,
                Some(address) => Value::Reference(address),
            };
        }
        if slot.kind != SlotKind::VALUE {
            return match (slot.kind.bytes(), number(slot.kind, bytes)) {
                (_, Some(text)) => Value::Text(text),
                (Some(_), None) => Value::Cut,
                (None, None) => raw(None, bytes),
            };
        }
        let Some(layout) = slot.layout.and_then(|layout| self.at(layout)) else { return raw(None, bytes) };
        match &layout.shape {
            Shape::Enum { number, is_flags, members } => {
                let value = number.kind.bytes().and_then(|count| bits(bytes, count));
                // Each value is searched among the members, and each of its flags has the name of the enum.
                let texts = members.len() + (layout.name.len() << if *is_flags { 6 } else { 0 });
                value.filter(|_| left.allowance.take(texts)).map_or(Value::Cut, |value| {
                    Value::Text(combined(&layout.name, number.kind, (*is_flags, members), value))
                })
            }
            Shape::Value { bytes: count, fields } => match bytes.get(..*count as usize) {
                Some(bytes) => self.structure(layout, fields, bytes, left),
                None => Value::Cut,
            },
            _ => raw(None, bytes),
        }
    }

    fn structure(&self, layout: &Layout, fields: &[Field], bytes: &[u8], left: Left<'_>) -> Value {
        if !left.allowance.take(fields.len()) {
            return Value::Cut;
        }
        let at = |name: &str| {
            let field = fields.iter().find(|field| field.name == name)?;
            Some((field, bytes.get(field.offset as usize..)?))
        };
        if layout.family == "System.Nullable`1"
            && let (Some((_, has)), Some((field, value))) = (at("hasValue"), at("value"))
        {
            let has = has.first().is_some_and(|has| *has != 0);
            return if has { self.value(&field.slot, value, left) } else { Value::Null };
        }
        if layout.family.starts_with("System.ValueTuple`") {
            let mut parts: Vec<Value> =
                fields.iter().map_while(|field| Some(self.member(field, bytes, None, left)?.value)).collect();
            // The eighth element of a long tuple holds a tuple of the rest. C# writes both as one (System.ValueTuple`8, `TRest`).
            if layout.family.ends_with(LONG_TUPLE)
                && let Some(Value::Tuple(rest)) = parts.last().cloned()
            {
                parts.pop();
                parts.extend(rest);
            }
            return Value::Tuple(parts);
        }
        if let Some(text) = times::shown(&layout.family, bytes) {
            return Value::Text(text);
        }
        match fields {
            // A boxed number.
            [Field { name, slot, .. }] if name.is_empty() => self.value(slot, bytes, left),
            fields => Value::Fields(fields.iter().map_while(|field| self.member(field, bytes, None, left)).collect()),
        }
    }

    /// Elements follow their count, which takes a word. Between the two are lengths and lower bounds of all dimensions, if the array has
    /// several,
    /// or one whose lower bound need not be 0. The runtime calls the latter rank 1, too, but its header is longer.
    fn elements(
        &self,
        element: &Slot,
        rank: u32,
        (bytes, whole): (&[u8], u64),
        (most, left): (usize, Left<'_>),
    ) -> Option<Elements> {
        let (rank, count, size) = (rank as usize, bits(bytes, 4)?, self.bytes_of(element)? as usize);
        let has_bounds = rank > 1 || whole == count.saturating_mul(size as u64).saturating_add(16);
        let at = |index: usize| bits(bytes.get(8 + 4 * index..)?, 4).map(|number| number as u32);
        let (begin, dimensions) = if has_bounds {
            let one = |index| Some((at(rank + index)? as i32, at(index)?));
            (8 + 8 * rank, (0..rank).map(one).collect::<Option<Vec<_>>>()?)
        } else {
            (8, vec![(0, count as u32)])
        };
        let number = (count as usize).min(most);
        let value = |index: usize| match bytes.get(begin + index * size..) {
            Some(bytes) if bytes.len() >= size => self.value(element, bytes, left),
            _ => Value::Cut,
        };
        let mut first = Vec::new();
        for index in 0..number {
            first.push(value(index));
            if first.last() == Some(&Value::Cut) {
                break;
            }
        }
        Some(Elements { of: element.of.clone(), dimensions, count, first })
    }
}

fn way_by_fields(members: &[Member], target: u64) -> Option<String> {
    members.iter().find_map(|member| Some(format!("{}{}", member.name, way_by(&member.value, target)?)))
}

/// The rest of a path within a value; empty if the value is the reference itself.
fn way_by(value: &Value, target: u64) -> Option<String> {
    match value {
        Value::Reference(address) => (*address == target).then(String::new),
        Value::Fields(members) => way_by_fields(members, target).map(|way| format!(".{way}")),
        Value::Tuple(parts) => {
            let mut parts = parts.iter().zip(1..);
            parts.find_map(|(part, number)| Some(format!(".Item{number}{}", way_by(part, target)?)))
        }
        _ => None,
    }
}

/// A backing field gets the name of its property.
pub(crate) fn readable(name: &str) -> String {
    match name.strip_prefix('<').and_then(|rest| rest.strip_suffix(">k__BackingField")) {
        Some(property) => property.to_owned(),
        None => name.to_owned(),
    }
}

fn raw(count: Option<u64>, bytes: &[u8]) -> Value {
    let shown = if count.is_some() { bytes.len().min(MOST_RAW) } else { 0 };
    Value::Raw { count, bytes: bytes[..shown].to_vec() }
}

#[cfg(test)]
mod tests;
