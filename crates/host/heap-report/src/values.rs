//! The content of one object in a snapshot with values: fields or elements, as text and JSON.

use super::strings::of_one;
use crate::Error;
use crate::open::read_file;
use remora_heap::layout::{Layouts, Shape};
use remora_heap::values::{Elements, Inside, Member, Value};
use remora_heap::{Allowance, HeapGraph, ObjectIx, StaticContent, StaticField, TypeFlags, Ways};
use remora_heap_file::{Content, contents, layouts};
use remora_terminal::{Page, counted, grouped, line, titled};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// A slot's value, as JSON. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
pub(crate) struct ValueJson {
    /// As C# writes it; null for unknown values, values with fields, and references except to strings and boxes.
    value: Option<String>,
    /// A reference's target.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    /// The fields of a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<MemberJson>>,
    /// The elements of a tuple.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ValueJson>>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// A field, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct MemberJson {
    name: String,
    r#type: String,
    /// The declaring class, if not the object's own.
    declared_by: Option<String>,
    /// Whether its offset was computed from its declaration, because the runtime reported none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    computed: bool,
    #[serde(flatten)]
    value: ValueJson,
}

/// The elements of an array, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ElementsJson {
    r#type: String,
    count: u64,
    /// Lower bound and length of each dimension.
    dimensions: Vec<(i32, u32)>,
    first: Vec<ValueJson>,
}

/// The content of an object, as JSON.
#[derive(Debug, Default, Serialize)]
pub(crate) struct InsideJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<MemberJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elements: Option<ElementsJson>,
    /// A boxed value.
    #[serde(skip_serializing_if = "Option::is_none")]
    boxed: Option<ValueJson>,
    /// Bytes of the object that the snapshot lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_not_kept: Option<u64>,
}

/// The layouts of a snapshot, and the shown contents of its objects.
pub(crate) struct Values<'a> {
    graph: &'a HeapGraph,
    layouts: Layouts,
    /// Strings as text.
    texts: HashMap<u64, String>,
    /// Boxed values: their bytes after the class pointer.
    boxes: HashMap<u64, Vec<u8>>,
    /// What may still be shown.
    allowance: Allowance,
}

/// An object with its content.
pub(crate) struct Opened {
    inside: Inside,
    not_kept: u64,
}

impl<'a> Values<'a> {
    /// Reads the layouts.
    pub(crate) fn of(file: &Path, graph: &'a HeapGraph) -> Result<Values<'a>, Error> {
        let layouts = read_file(file, layouts)?;
        let allowance = Allowance::new(Allowance::VALUES);
        Ok(Values { graph, layouts, texts: HashMap::new(), boxes: HashMap::new(), allowance })
    }

    /// Reads an object's content; of an array at most `most` elements. `None` for a string, and if the snapshot has no content.
    pub(crate) fn open(&mut self, file: &Path, object: ObjectIx, most: usize) -> Result<Option<Opened>, Error> {
        let (wanted, class) = (self.graph.address(object), self.graph.type_ix(object));
        let mut found = None;
        each(file, |content| {
            if let Content::Values { address, whole, bytes } = content
                && address == wanted
                && found.is_none()
            {
                let inside = self.layouts.inside(class, (bytes, whole), most, &self.allowance);
                found = Some(Opened { inside, not_kept: whole - bytes.len() as u64 });
            }
        })?;
        if let Some(opened) = &found {
            self.follow(file, &opened.inside.values())?;
        }
        Ok(found)
    }

    /// Values of static fields; in a snapshot with values, also the strings and boxes they refer to.
    pub(crate) fn fixed(
        &mut self,
        file: &Path,
        fields: &[&StaticField],
        has_values: bool,
    ) -> Result<Vec<Member>, Error> {
        let mut members: Vec<Member> =
            fields.iter().map(|field| field.member(&self.layouts, &self.allowance)).collect();
        if !has_values {
            return Ok(members);
        }
        let values: Vec<&Value> = members.iter().map(|member| &member.value).collect();
        self.follow(file, &values)?;
        for (member, field) in members.iter_mut().zip(fields) {
            if let StaticContent::Box(address) = field.content
                && let Some(value) = self.in_box(address)
            {
                member.value = value;
            }
        }
        let values: Vec<&Value> = members.iter().map(|member| &member.value).collect();
        self.follow(file, &values)?;
        Ok(members)
    }

    /// The value in a box.
    fn in_box(&self, address: u64) -> Option<Value> {
        let (bytes, target) = (self.boxes.get(&address)?, self.graph.object_at(address)?);
        match self.layouts.inside(self.graph.type_ix(target), (bytes, bytes.len() as u64), 0, &self.allowance) {
            Inside::Boxed(value) => Some(value),
            _ => None,
        }
    }

    /// The field or element by which the first address of each pair refers to the second, where known: from the objects' content if the
    /// snapshot has it, otherwise from their layouts.
    pub(crate) fn ways(
        &self,
        file: &Path,
        pairs: &[(u64, u64)],
        has_values: bool,
    ) -> Result<HashMap<(u64, u64), String>, Error> {
        let mut found = if has_values { self.seen_ways(file, pairs)? } else { HashMap::new() };
        let ways = Ways::new(self.graph, &self.layouts);
        for pair in pairs {
            if let (false, [Some(from), Some(to)]) =
                (found.contains_key(pair), [pair.0, pair.1].map(|address| self.graph.object_at(address)))
                && let Some(way) = ways.between(from, to)
            {
                found.insert(*pair, way);
            }
        }
        Ok(found)
    }

    fn seen_ways(&self, file: &Path, pairs: &[(u64, u64)]) -> Result<HashMap<(u64, u64), String>, Error> {
        let mut ways: HashMap<u64, Vec<u64>> = HashMap::new();
        pairs.iter().for_each(|(from, to)| ways.entry(*from).or_default().push(*to));
        let (mut found, searched) = (HashMap::new(), Allowance::new(Allowance::VALUES));
        each(file, |content| {
            if let Content::Values { address, whole, bytes } = content
                && let Some(targets) = ways.remove(&address)
                && let Some(object) = self.graph.object_at(address)
            {
                let inside = self.layouts.inside(self.graph.type_ix(object), (bytes, whole), usize::MAX, &searched);
                let known = targets.iter().filter_map(|target| Some(((address, *target), inside.way_to(*target)?)));
                found.extend(known);
            }
        })?;
        Ok(found)
    }

    /// Reads the strings and boxes that these values refer to.
    fn follow(&mut self, file: &Path, values: &[&Value]) -> Result<(), Error> {
        let mut addresses = Vec::new();
        values.iter().for_each(|value| references(value, &mut addresses));
        for address in addresses {
            let Some(target) = self.graph.object_at(address) else { continue };
            let class = self.graph.type_ix(target);
            let shape = self.layouts.of(class).and_then(|of| self.layouts.at(of)).map(|layout| &layout.shape);
            if self.graph.type_at(class).flags.0 & TypeFlags::STRING.0 != 0 {
                self.texts.insert(address, String::new());
            } else if matches!(shape, Some(Shape::Value { .. } | Shape::Enum { .. })) {
                self.boxes.insert(address, Vec::new());
            }
        }
        if self.texts.is_empty() && self.boxes.is_empty() {
            return Ok(());
        }
        let (texts, boxes) = (&mut self.texts, &mut self.boxes);
        each(file, |content| match content {
            Content::Text(text) => {
                if let Some(place) = texts.get_mut(&text.address) {
                    *place = of_one(&text);
                }
            }
            Content::Values { address, bytes, .. } => {
                if let Some(place) = boxes.get_mut(&address) {
                    *place = bytes.to_vec();
                }
            }
        })
    }

    /// As JSON.
    pub(crate) fn json(&self, opened: &Opened) -> InsideJson {
        let mut json = InsideJson::default();
        match &opened.inside {
            Inside::Fields(members) => json.fields = Some(self.members_json(members)),
            Inside::Elements(elements) => {
                json.elements = Some(ElementsJson {
                    r#type: elements.of.clone(),
                    count: elements.count,
                    dimensions: elements.dimensions.clone(),
                    first: elements.first.iter().map(|value| self.value_json(value)).collect(),
                });
            }
            Inside::Boxed(value) | Inside::Unknown(value) => json.boxed = Some(self.value_json(value)),
        }
        json.bytes_not_kept = (opened.not_kept > 0).then_some(opened.not_kept);
        json
    }

    pub(crate) fn members_json(&self, members: &[Member]) -> Vec<MemberJson> {
        let members = members.iter().map(|member| MemberJson {
            name: member.name.clone(),
            r#type: member.of.clone(),
            declared_by: member.declared_by.clone(),
            computed: member.is_computed,
            value: self.value_json(&member.value),
        });
        members.collect()
    }

    /// A slot's value, as JSON.
    fn value_json(&self, value: &Value) -> ValueJson {
        let nothing = ValueJson { value: None, address: None, fields: None, items: None, missing: None };
        match value {
            Value::Text(text) => ValueJson { value: Some(text.clone()), ..nothing },
            Value::Null => ValueJson { value: Some("null".to_owned()), ..nothing },
            Value::Reference(address) => ValueJson { value: self.behind(*address), address: Some(*address), ..nothing },
            Value::Tuple(parts) => {
                ValueJson { items: Some(parts.iter().map(|part| self.value_json(part)).collect()), ..nothing }
            }
            Value::Fields(members) => ValueJson { fields: Some(self.members_json(members)), ..nothing },
            Value::Raw { .. } | Value::Cut => ValueJson { missing: Some(missing(value)), ..nothing },
        }
    }

    /// The text of a string or a box.
    fn behind(&self, address: u64) -> Option<String> {
        if let Some(text) = self.texts.get(&address) {
            return self.allowance.take(text.len()).then(|| text.clone());
        }
        match self.in_box(address)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As text.
    pub(crate) fn text(&self, opened: &Opened) -> Page {
        let mut text = match &opened.inside {
            Inside::Fields(members) if members.is_empty() => titled("it has no fields"),
            Inside::Fields(members) => titled("its fields") + self.lines(members, 1),
            Inside::Elements(elements) => self.elements_text(elements),
            Inside::Boxed(value) => titled("the value in it") + self.after("  ", value, 1),
            Inside::Unknown(value) => titled(format!("what is in it: {}", missing(value))),
        };
        if opened.not_kept > 0 {
            text += line(format!("  … and {} that were not kept", counted(opened.not_kept, "byte")));
        }
        text
    }

    fn elements_text(&self, elements: &Elements) -> Page {
        let mut text = titled(format!("its {}", counted(elements.count, "element")));
        for (place, value) in elements.first.iter().enumerate() {
            let indexes: Vec<String> = elements.indexes(place as u64).iter().map(i64::to_string).collect();
            text += self.after(&format!("  [{}] = ", indexes.join(", ")), value, 1);
        }
        let left = elements.count.saturating_sub(elements.first.len() as u64);
        if left > 0 {
            text += line(format!("  … {} (--top shows more)", counted(left, "other")));
        }
        text
    }

    /// Members in lines, indented by `depth`.
    pub(crate) fn lines(&self, members: &[Member], depth: usize) -> Page {
        let mut text = Page::default();
        for member in members {
            let from = member.declared_by.as_deref().map(|class| format!("[{class}] ")).unwrap_or_default();
            let head = format!("{}{from}{} {} = ", "  ".repeat(depth), member.of, member.name);
            text += self.after(&head, &member.value, depth);
        }
        text
    }

    /// A value after its label; a value with fields takes lines of its own.
    fn after(&self, head: &str, value: &Value, depth: usize) -> Page {
        match value {
            Value::Fields(members) => line(head.trim_end()) + self.lines(members, depth + 1),
            value => line(format!("{head}{}", self.short(value))),
        }
    }

    /// A value in one line.
    fn short(&self, value: &Value) -> String {
        match value {
            Value::Text(text) => text.clone(),
            Value::Null => "null".to_owned(),
            Value::Reference(address) => self.reference(*address),
            Value::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.short(part)).collect();
                format!("({})", parts.join(", "))
            }
            Value::Fields(members) => {
                let one = |member: &Member| format!("{} = {}", member.name, self.short(&member.value));
                let members: Vec<String> = members.iter().map(one).collect();
                format!("{{ {} }}", members.join(", "))
            }
            Value::Raw { .. } | Value::Cut => format!("[{}]", missing(value)),
        }
    }

    fn reference(&self, address: u64) -> String {
        let Some(target) = self.graph.object_at(address) else {
            return format!("@{address:#x} (no object of this snapshot)");
        };
        let name = self.graph.shown_type_of(target);
        match self.behind(address) {
            Some(text) if self.texts.contains_key(&address) => format!("{text} @{address:#x}"),
            Some(text) => format!("{text} ({name} @{address:#x})"),
            None => format!("{name} @{address:#x}"),
        }
    }
}

/// Why there is no value.
fn missing(value: &Value) -> String {
    match value {
        Value::Raw { count: Some(count), bytes } => {
            let hexadecimal: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let more = if (bytes.len() as u64) < *count { " …" } else { "" };
            format!("{} bytes, laid out in an unknown way: {}{more}", grouped(*count), hexadecimal.join(" "))
        }
        Value::Raw { count: None, .. } => "laid out in an unknown way".to_owned(),
        _ => "not kept".to_owned(),
    }
}

fn references(value: &Value, into: &mut Vec<u64>) {
    match value {
        Value::Reference(address) => into.push(*address),
        Value::Tuple(parts) => parts.iter().for_each(|part| references(part, into)),
        Value::Fields(members) => members.iter().for_each(|member| references(&member.value, into)),
        _ => {}
    }
}

fn each(file: &Path, visit: impl FnMut(Content<'_>)) -> Result<(), Error> {
    read_file(file, |input| contents(input, visit))
}
