//! Value types whose layout the runtime does not tell, since no class of theirs was met: it follows from their declaration.
//!
//! By the rules of the runtime's loader (`MethodTableBuilder::PlaceInstanceFields` in `vm/methodtablebuilder.cpp`, and
//! `EEClassLayoutInfo::CollectLayoutFieldMetadataThrowing` in `vm/classlayoutinfo.cpp`): in the order of the source where nothing refers to
//! an object and, before .NET 8, nothing inside is laid out by the runtime; else numbers and references by their sizes, the greatest first,
//! then the values. Which rules are whose was seen on 3.1, 8, 9 and 10 (`tests/e2e/tests/heap_values.rs`); of others it is taken what all
//! of them say. None of this is a promise: whatever the runtime does tell is held beside it (`super::Making`), and rules that say otherwise
//! are not believed.

use super::resolve::{Known, Modules};
use remora_symbols::{Field, FieldPlace, Order, TypeNature};
use std::collections::HashMap;

/// Bytes of a reference, and what is at most aligned to.
const WORD: u32 = 8;
/// How deep values may stand in each other.
const MOST_NESTED: u32 = 16;
/// The largest value that is computed, bytes.
const MOST_BYTES: u32 = 1 << 20;

/// A value type as it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Computed {
    pub(crate) bytes: u32,
    align: u32,
    has_references: bool,
    /// Whether its order is that of the source.
    is_sequential: bool,
    /// Who orders the fields.
    order: Order,
    /// Token and place of each field.
    pub(crate) fields: Vec<(u32, u32)>,
}

/// One field that is to be placed.
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

/// In what runtimes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// A value that the runtime has laid out makes it lay out what it stands in, too.
    automatic_spreads: bool,
    /// Values that the runtime places begin at words, whatever they need.
    values_at_words: bool,
}

impl Rules {
    /// Those that may be a runtime's.
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

/// What was computed so far by some rules.
pub(crate) struct Computing {
    rules: Rules,
    known: HashMap<Known, Option<Computed>>,
    /// Orders of fields in which what was computed is not what was told.
    differs: Vec<Order>,
}

impl Computing {
    pub(crate) fn new(rules: Rules) -> Computing {
        Computing { rules, known: HashMap::new(), differs: Vec::new() }
    }

    /// The runtime has told of one: whether these rules say the same.
    pub(crate) fn compare(&mut self, modules: &mut Modules<'_>, of: &Known, bytes: u32, told: &[(u32, u32)]) {
        let Some(computed) = self.value(modules, of) else { return };
        let mut fields = computed.fields.clone();
        fields.sort_unstable();
        if (bytes, told) != (computed.bytes, &fields) && !self.differs.contains(&computed.order) {
            self.differs.push(computed.order);
        }
    }

    /// How a value type lies, unless these rules were found not to hold.
    pub(crate) fn believed(&mut self, modules: &mut Modules<'_>, of: &Known) -> Option<Option<Computed>> {
        let computed = self.value(modules, of);
        let differs = computed.as_ref().is_some_and(|computed| self.differs.contains(&computed.order));
        (!differs).then_some(computed)
    }

    /// How a value type lies; `None` where that does not follow.
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
            Order::Explicit => as_told(&parts, most)?,
            Order::Automatic => by_size(&parts, self.rules.values_at_words),
        };
        let mut align = align;
        let bytes = match declared.repeated {
            Some(count) => {
                let bytes = end.checked_mul(count)?;
                // What one element has not been given apart is taken of all of them.
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

/// Types that the runtime itself makes larger or aligns otherwise.
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

fn as_told(parts: &[Part], most: u32) -> Option<Placed> {
    let (mut end, mut align, mut fields) = (0, 1, Vec::new());
    for part in parts {
        let offset = part.offset?;
        fields.push((part.token, offset));
        end = end.max(offset.checked_add(part.bytes)?);
        align = align.max(part.align.min(most));
    }
    Some((fields, aligned(end, align), align))
}

/// The greatest first, then the values. How much room that takes, and to what it is aligned where it stands in another, goes by its bytes:
/// up to a word the next power of two, beyond that by what is in it (`PlaceInstanceFields`, its end; `MethodTable::GetFieldAlignmentRequirement`
/// in `vm/methodtable.cpp`). Sizes and places were seen so on 3.1, 8, 9 and 10.
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
        // Whatever is no value counts as a word, and be it a byte.
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
