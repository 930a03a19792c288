//! Computes the layout of value types from their declaration, if the runtime has loaded no such class to report.
//!
//! It follows the rules of the runtime's loader (`MethodTableBuilder::PlaceInstanceFields` in `vm/methodtablebuilder.cpp`, and
//! `EEClassLayoutInfo::CollectLayoutFieldMetadataThrowing` in `vm/classlayoutinfo.cpp`). Fields are in source order if none refers to an
//! object and, before .NET 8, no nested value has automatic layout. Otherwise numbers and references come first, by size, the largest
//! first; then the values.
//!
//! The rules of each version were seen on 3.1, 8, 9 and 10 (`tests/e2e/tests/heap_values.rs`). On other versions all rule sets must agree.
//! None of this is documented behavior: `super::Making` compares it with every layout that the runtime reports. A rule set is
//! dropped for a layout kind with a difference.

use super::resolve::{Known, Modules};
use remora_symbols::{Field, FieldPlace, Order, TypeNature};
use std::collections::HashMap;

/// Bytes of a reference, and the maximum alignment.
const WORD: u32 = 8;
/// Maximum depth of nested values.
const MOST_NESTED: u32 = 16;
/// Maximum size of a computed value, bytes.
const MOST_BYTES: u32 = 1 << 20;

/// The computed layout of a value type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Computed {
    pub(crate) bytes: u32,
    align: u32,
    has_references: bool,
    /// Whether fields are in source order.
    is_sequential: bool,
    /// The layout kind that orders the fields.
    order: Order,
    /// Token and offset of each field.
    pub(crate) fields: Vec<(u32, u32)>,
}

/// A field to place.
struct Part {
    token: u32,
    bytes: u32,
    align: u32,
    kind: PartKind,
    keeps_order: bool,
    offset: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Number,
    Reference,
    Value { has_references: bool },
}

/// Differences between runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// A nested value with automatic layout makes the outer type automatic, too.
    automatic_spreads: bool,
    /// In automatic layout, nested values begin at word boundaries, whatever alignment they need.
    values_at_words: bool,
}

impl Rules {
    /// The rule sets that may apply to a runtime.
    pub(crate) fn of(major: Option<u32>) -> Vec<Rules> {
        let old = Rules { automatic_spreads: true, values_at_words: true };
        let new = Rules { automatic_spreads: false, values_at_words: false };
        match major {
            Some(..=3) => vec![old],
            Some(8..=10) => vec![new],
            _ => vec![new, old, Rules { automatic_spreads: true, ..new }, Rules { values_at_words: true, ..new }],
        }
    }
}

/// Layouts computed so far with one rule set.
pub(crate) struct Computing {
    rules: Rules,
    known: HashMap<Known, Option<Computed>>,
    /// Layout kinds with a difference between computed and reported layout.
    differs: Vec<Order>,
}

impl Computing {
    pub(crate) fn new(rules: Rules) -> Computing {
        Computing { rules, known: HashMap::new(), differs: Vec::new() }
    }

    /// Compares a layout that the runtime reported with the computed one.
    pub(crate) fn compare(&mut self, modules: &mut Modules<'_>, of: &Known, bytes: u32, reported: &[(u32, u32)]) {
        let Some(computed) = self.value(modules, of) else { return };
        let mut fields = computed.fields.clone();
        fields.sort_unstable();
        if (bytes, reported) != (computed.bytes, &fields) && !self.differs.contains(&computed.order) {
            self.differs.push(computed.order);
        }
    }

    /// The layout of a value type; `None` if the rules failed for its layout kind.
    pub(crate) fn believed(&mut self, modules: &mut Modules<'_>, of: &Known) -> Option<Option<Computed>> {
        let computed = self.value(modules, of);
        let differs = computed.as_ref().is_some_and(|computed| self.differs.contains(&computed.order));
        (!differs).then_some(computed)
    }

    /// The layout of a value type; `None` if it cannot be computed.
    fn value(&mut self, modules: &mut Modules<'_>, of: &Known) -> Option<Computed> {
        self.value_within(modules, of, MOST_NESTED)
    }

    fn value_within(&mut self, modules: &mut Modules<'_>, of: &Known, depth: u32) -> Option<Computed> {
        if let Some(known) = self.known.get(of) {
            return known.clone();
        }
        let computed = self.compute(modules, of, depth.checked_sub(1)?);
        self.known.insert(of.clone(), computed.clone());
        computed
    }

    fn compute(&mut self, modules: &mut Modules<'_>, of: &Known, depth: u32) -> Option<Computed> {
        let Known::Defined { module, token, arguments } = of else { return None };
        if is_special(&modules.family(of)) {
            return None;
        }
        let image = modules.image(*module)?;
        let declared = image.declared_layout(*token)?;
        let mut parts = Vec::new();
        for field in image.fields(*token) {
            if let FieldPlace::Instance { offset } = field.place {
                parts.push(self.part(modules, (*module, arguments), &field, offset, depth)?);
            }
        }
        let has_references = parts.iter().any(|part| match part.kind {
            PartKind::Number => false,
            PartKind::Reference => true,
            PartKind::Value { has_references } => has_references,
        });
        let keeps_order = !has_references && parts.iter().all(|part| part.keeps_order);
        let order = match declared.order {
            Order::Sequential if !keeps_order => Order::Automatic,
            order => order,
        };
        let most = if declared.pack == 0 { WORD } else { declared.pack };
        let (fields, end, align) = match order {
            Order::Sequential => in_order(&parts, most),
            Order::Explicit => as_declared(&parts, most)?,
            Order::Automatic => by_size(&parts, self.rules.values_at_words),
        };
        let mut align = align;
        let bytes = match declared.repeated {
            Some(count) => {
                let bytes = end.checked_mul(count)?;
                // An element aligned to its whole size up to a word: the repeated value then aligns by its own size.
                if order == Order::Automatic && align == end.min(WORD) {
                    align = bytes.min(WORD);
                }
                bytes
            }
            None if order == Order::Automatic => end,
            None => end.max(declared.size),
        };
        let bytes = bytes.max(1);
        let is_sequential = order != Order::Automatic;
        (bytes <= MOST_BYTES).then_some(Computed { bytes, align, has_references, is_sequential, order, fields })
    }

    fn part(
        &mut self,
        modules: &mut Modules<'_>,
        (module, arguments): (u32, &[Known]),
        field: &Field,
        offset: Option<u32>,
        depth: u32,
    ) -> Option<Part> {
        let known = modules.known(module, field.of.as_ref()?, arguments);
        let part = |bytes, align, kind, keeps_order| {
            Some(Part { token: field.token, bytes, align, kind, keeps_order, offset })
        };
        match &known {
            Known::Primitive(kind) => {
                let kind = remora_heap::layout::SlotKind(*kind);
                let reference = if kind.is_reference() { PartKind::Reference } else { PartKind::Number };
                let bytes = kind.bytes()?;
                part(bytes, bytes, reference, true)
            }
            Known::Array { .. } => part(WORD, WORD, PartKind::Reference, true),
            Known::Pointer(_) => part(WORD, WORD, PartKind::Number, true),
            Known::Unknown | Known::TooLarge => None,
            Known::Defined { .. } => match modules.nature(&known)? {
                TypeNature::Class | TypeNature::Interface => part(WORD, WORD, PartKind::Reference, true),
                TypeNature::Enum { .. } => {
                    let bytes = self.value_within(modules, &known, depth)?.bytes;
                    part(bytes, bytes, PartKind::Number, true)
                }
                TypeNature::Value => {
                    let value = self.value_within(modules, &known, depth)?;
                    let kind = PartKind::Value { has_references: value.has_references };
                    part(value.bytes, value.align, kind, value.is_sequential || !self.rules.automatic_spreads)
                }
            },
        }
    }
}

/// Types that the runtime enlarges or aligns specially.
fn is_special(family: &str) -> bool {
    family.starts_with("System.Runtime.Intrinsics.Vector")
        || matches!(family, "System.Numerics.Vector`1" | "System.Int128" | "System.UInt128" | "System.TypedReference")
}

fn aligned(at: u32, to: u32) -> u32 {
    at.next_multiple_of(to.max(1))
}

type Placed = (Vec<(u32, u32)>, u32, u32);

fn in_order(parts: &[Part], most: u32) -> Placed {
    let (mut at, mut align, mut fields) = (0, 1, Vec::new());
    for part in parts {
        let own = part.align.min(most);
        at = aligned(at, own);
        fields.push((part.token, at));
        at = at.saturating_add(part.bytes);
        align = align.max(own);
    }
    (fields, aligned(at, align), align)
}

fn as_declared(parts: &[Part], most: u32) -> Option<Placed> {
    let (mut end, mut align, mut fields) = (0, 1, Vec::new());
    for part in parts {
        let offset = part.offset?;
        fields.push((part.token, offset));
        end = end.max(offset.checked_add(part.bytes)?);
        align = align.max(part.align.min(most));
    }
    Some((fields, aligned(end, align), align))
}

/// Automatic layout: the largest fields first, then the values. Size and alignment inside another value depend on the bytes: up to a word
/// the next power of two, beyond that the alignment of the fields (`PlaceInstanceFields`, its end;
/// `MethodTable::GetFieldAlignmentRequirement` in `vm/methodtable.cpp`). Sizes and offsets were seen so on 3.1, 8, 9 and 10.
fn by_size(parts: &[Part], values_at_words: bool) -> Placed {
    let (mut at, mut most, mut fields) = (0, 1, Vec::new());
    let mut place = |part: &Part, to: u32, counts: u32| {
        at = aligned(at, to);
        fields.push((part.token, at));
        at = at.saturating_add(part.bytes);
        most = most.max(counts);
    };
    for bytes in [8, 4, 2, 1] {
        let of_size = || parts.iter().filter(move |part| part.bytes == bytes);
        // Everything but values counts as a word for the alignment, even a byte.
        of_size().filter(|part| part.kind == PartKind::Reference).for_each(|part| place(part, bytes, WORD));
        of_size().filter(|part| part.kind == PartKind::Number).for_each(|part| place(part, bytes, WORD));
    }
    for part in parts {
        if let PartKind::Value { has_references } = part.kind {
            let to = if has_references || values_at_words { WORD } else { part.align };
            place(part, to, to);
        }
    }
    let bytes = at.max(1);
    let align = if bytes > WORD { most } else { bytes.next_power_of_two() };
    (fields, aligned(bytes, align), align)
}
