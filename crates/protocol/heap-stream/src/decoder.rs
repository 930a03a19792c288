//! The recorder's side of the stream: decodes bytes, in pieces of any size, into records. The input is not trusted.

use crate::Foreign;
use crate::number::target;
use crate::reader::{Malformed, Reader, Stop};
use crate::{
    ARRAY_CLASS, BROKEN, CLASS, CONTENT, END, FIRST_CLASS, FORM, GAP, LAYOUT, LAYOUT_FIELDS, LENGTHY, MOST_CONTENT,
    MOST_PLACES, MOST_VALUES, PLAIN_CLASS, RANGE, ROOT, UNKNOWN_CLASS, VALUES, WORD,
};

/// Type arguments kept for a class, at most; more are skipped.
const MOST_ARGUMENTS: u64 = 64;
/// Maximum number of classes: twice what the copy's table holds (131,071).
const MOST_CLASSES: u64 = 1 << 18;

/// The runtime's description of a class, in the process of its snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClassFacts {
    /// No description, only an error.
    Unknown {
        /// HRESULT.
        code: u32,
    },
    /// A class or value type.
    Plain {
        /// ModuleID.
        module: u64,
        /// mdTypeDef.
        token: u32,
        /// ClassID of its base class, or 0.
        parent: u64,
        /// ClassIDs of its type arguments.
        arguments: Vec<u64>,
    },
    /// An array.
    Array {
        /// ClassID of the element, or 0.
        element: u64,
        /// CorElementType of the element.
        element_kind: u32,
        /// Dimensions.
        rank: u32,
    },
}

/// The layout of a class's objects, as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Bytes of an object.
    pub bytes: u32,
    /// Number of fields that the class itself declares.
    pub count: u32,
    /// The next fields: token and offset of each.
    pub fields: Vec<(u32, u32)>,
}

/// Receives the records, in the order of the stream. A visitor implements the methods for what it needs.
pub trait HeapVisitor {
    /// A range begins. The following objects are in it.
    fn range(&mut self, _kind: u64, _address: u64, _length: u64) {}
    /// A class. The first has number 0.
    fn class(&mut self, _id: u64, _facts: ClassFacts) {}
    /// An object. Its references follow.
    fn object(&mut self, _address: u64, _class: u32, _size: u64) {}
    /// A reference of the last object.
    fn reference(&mut self, _target: u64) {}
    /// Bytes without an object.
    fn gap(&mut self, _address: u64, _length: u64) {}
    /// The rest of the range, from here on, could not be walked.
    fn broken(&mut self, _address: u64) {}
    /// The content of the last object, a string of `_whole` bytes: at most [`MOST_CONTENT`] of them.
    fn content(&mut self, _whole: u64, _bytes: &[u8]) {}
    /// A root for the object at `_address`; `_detail` depends on its kind.
    fn root(&mut self, _kind: u64, _address: u64, _detail: u64) {}
    /// The values of the last object after its class, `_whole` bytes: at most [`MOST_VALUES`] of them.
    fn values(&mut self, _whole: u64, _bytes: &[u8]) {}
    /// The layout of a class, by its number, or a further part of it.
    fn layout(&mut self, _class: u32, _layout: Layout) {}
    /// The stream is complete, with this many objects.
    fn end(&mut self, _objects: u64) {}
}

/// Reads the stream.
#[derive(Debug, Default)]
pub struct HeapDecoder {
    carry: Vec<u8>,
    /// Address of the next object.
    cursor: u64,
    /// The object whose references are being read.
    object: Option<u64>,
    classes: u64,
    /// Indexed by class number.
    forms: Vec<Option<Form>>,
    ended: bool,
}

/// The common form of a class's objects.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// Bytes of each object; 0 if each object states its own.
    size: u64,
    /// Number of reference slots.
    places: usize,
}

impl HeapDecoder {
    /// Whether the last record has been read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Decodes a piece.
    ///
    /// # Errors
    /// [`Malformed`]: nothing more can be decoded.
    pub fn push(&mut self, bytes: Foreign<&[u8]>, visitor: &mut impl HeapVisitor) -> Result<(), Malformed> {
        let bytes = bytes.unchecked();
        if self.carry.is_empty() {
            let read = self.read(bytes, visitor)?;
            self.carry.extend_from_slice(bytes.get(read..).unwrap_or_default());
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.carry);
        whole.extend_from_slice(bytes);
        let read = self.read(&whole, visitor)?;
        whole.drain(..read);
        self.carry = whole;
        Ok(())
    }

    /// Decodes whole records from the front. Returns how many bytes they took.
    fn read(&mut self, bytes: &[u8], visitor: &mut impl HeapVisitor) -> Result<usize, Malformed> {
        let mut reader = Reader { bytes, at: 0 };
        loop {
            let before = reader.at;
            match self.record(&mut reader, visitor) {
                Ok(()) => {}
                Err(Stop::Short) => return Ok(before),
                Err(Stop::Bad) => return Err(Malformed),
            }
        }
    }

    fn record(&mut self, reader: &mut Reader<'_>, visitor: &mut impl HeapVisitor) -> Result<(), Stop> {
        if let Some(object) = self.object {
            match reader.number()? {
                0 => self.object = None,
                distance => visitor.reference(target(object, distance)),
            }
            return Ok(());
        }
        let head = reader.number()?;
        if self.ended {
            return Err(Stop::Bad);
        }
        match head {
            END => {
                let objects = reader.number()?;
                self.ended = true;
                visitor.end(objects);
            }
            RANGE => {
                let (kind, address, length) = (reader.number()?, reader.number()?, reader.number()?);
                self.cursor = address;
                visitor.range(kind, address, length);
            }
            CLASS => {
                let (id, kind) = (reader.number()?, reader.number()?);
                if kind == LAYOUT {
                    let known = u32::try_from(id).ok().filter(|_| id < self.classes).ok_or(Stop::Bad)?;
                    visitor.layout(known, layout(reader)?);
                    return Ok(());
                }
                let facts = class(kind, reader)?;
                if self.classes == MOST_CLASSES {
                    return Err(Stop::Bad);
                }
                self.classes += 1;
                visitor.class(id, facts);
            }
            GAP => {
                let length = reader.number()?;
                visitor.gap(self.cursor, length);
                self.advance(length)?;
            }
            BROKEN => visitor.broken(reader.number()?),
            ROOT => visitor.root(reader.number()?, reader.number()?, reader.number()?),
            CONTENT => {
                let (whole, bytes) = kept_bytes(reader, MOST_CONTENT)?;
                visitor.content(whole, bytes);
            }
            FORM => {
                let (class, size, places) = (reader.number()?, reader.number()?, reader.number()?);
                let class = usize::try_from(class).ok().filter(|_| class < self.classes).ok_or(Stop::Bad)?;
                let places = usize::try_from(places).ok().filter(|count| *count <= MOST_PLACES).ok_or(Stop::Bad)?;
                self.forms.resize(self.forms.len().max(class + 1), None);
                self.forms[class] = Some(Form { size, places });
            }
            LENGTHY => {
                let head = reader.number()?;
                self.at_length(self.known(head)?, reader, visitor)?;
            }
            VALUES => {
                let (whole, bytes) = kept_bytes(reader, MOST_VALUES)?;
                visitor.values(whole, bytes);
            }
            _ => {
                let class = self.known(head)?;
                match self.forms.get(class as usize).copied().flatten() {
                    Some(form) => self.in_form(class, form, reader, visitor)?,
                    None => self.at_length(class, reader, visitor)?,
                }
            }
        }
        Ok(())
    }

    /// The class of objects with this record number.
    fn known(&self, head: u64) -> Result<u32, Stop> {
        let class = head.checked_sub(FIRST_CLASS).filter(|class| *class < self.classes).ok_or(Stop::Bad)?;
        u32::try_from(class).map_err(|_| Stop::Bad)
    }

    fn at_length(&mut self, class: u32, reader: &mut Reader<'_>, visitor: &mut impl HeapVisitor) -> Result<(), Stop> {
        let size = reader.number()?;
        let address = self.cursor;
        self.advance(size)?;
        self.object = Some(address);
        visitor.object(address, class, size);
        Ok(())
    }

    fn in_form(
        &mut self,
        class: u32,
        form: Form,
        reader: &mut Reader<'_>,
        visitor: &mut impl HeapVisitor,
    ) -> Result<(), Stop> {
        let size = if form.size == 0 { reader.number()? } else { form.size };
        let mut distances = [0; MOST_PLACES];
        // Read all or nothing of it: the rest may not have arrived yet.
        for place in distances.iter_mut().take(form.places) {
            *place = reader.number()?;
        }
        let address = self.cursor;
        self.advance(size)?;
        visitor.object(address, class, size);
        let references = distances.iter().take(form.places).filter(|distance| **distance != 0);
        references.for_each(|distance| visitor.reference(target(address, *distance)));
        Ok(())
    }

    fn advance(&mut self, bytes: u64) -> Result<(), Stop> {
        let aligned = bytes.checked_next_multiple_of(WORD).ok_or(Stop::Bad)?;
        self.cursor = self.cursor.checked_add(aligned).ok_or(Stop::Bad)?;
        Ok(())
    }
}

/// The rest of a class record, after its kind.
pub(crate) fn class(kind: u64, reader: &mut Reader<'_>) -> Result<ClassFacts, Stop> {
    Ok(match kind {
        UNKNOWN_CLASS => ClassFacts::Unknown { code: reader.small()? },
        PLAIN_CLASS => {
            let (module, token, parent, count) =
                (reader.number()?, reader.small()?, reader.number()?, reader.number()?);
            if count > MOST_ARGUMENTS {
                return Err(Stop::Bad);
            }
            let arguments = (0..count).map(|_| reader.number()).collect::<Result<_, _>>()?;
            ClassFacts::Plain { module, token, parent, arguments }
        }
        ARRAY_CLASS => {
            ClassFacts::Array { element: reader.number()?, element_kind: reader.small()?, rank: reader.small()? }
        }
        _ => return Err(Stop::Bad),
    })
}

/// The length of something in an object, and its first bytes, at most `most`.
fn kept_bytes<'a>(reader: &'a mut Reader<'_>, most: u64) -> Result<(u64, &'a [u8]), Stop> {
    let (whole, kept) = (reader.number()?, reader.number()?);
    let kept = usize::try_from(kept).ok().filter(|_| kept <= whole.min(most)).ok_or(Stop::Bad)?;
    Ok((whole, reader.bytes(kept)?))
}

fn layout(reader: &mut Reader<'_>) -> Result<Layout, Stop> {
    let (bytes, count, follow) = (reader.small()?, reader.small()?, reader.number()?);
    if follow > LAYOUT_FIELDS as u64 {
        return Err(Stop::Bad);
    }
    let fields = (0..follow).map(|_| Ok((reader.small()?, reader.small()?))).collect::<Result<_, _>>()?;
    Ok(Layout { bytes, count, fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FROZEN, HANDLE_ROOT, distance, written};

    #[derive(Debug, Default, PartialEq, Eq, Clone)]
    struct Seen(Vec<String>);

    impl HeapVisitor for Seen {
        fn range(&mut self, kind: u64, address: u64, length: u64) {
            self.0.push(format!("range {kind} {address:#x} {length}"));
        }
        fn class(&mut self, id: u64, facts: ClassFacts) {
            self.0.push(format!("class {id:#x} {facts:?}"));
        }
        fn object(&mut self, address: u64, class: u32, size: u64) {
            self.0.push(format!("object {address:#x} {class} {size}"));
        }
        fn reference(&mut self, target: u64) {
            self.0.push(format!("to {target:#x}"));
        }
        fn gap(&mut self, address: u64, length: u64) {
            self.0.push(format!("gap {address:#x} {length}"));
        }
        fn broken(&mut self, address: u64) {
            self.0.push(format!("broken {address:#x}"));
        }
        fn content(&mut self, whole: u64, bytes: &[u8]) {
            self.0.push(format!("content {whole} {bytes:?}"));
        }
        fn root(&mut self, kind: u64, address: u64, detail: u64) {
            self.0.push(format!("root {kind} {address:#x} {detail:#x}"));
        }
        fn values(&mut self, whole: u64, bytes: &[u8]) {
            self.0.push(format!("values {whole} {bytes:?}"));
        }
        fn layout(&mut self, class: u32, layout: Layout) {
            self.0.push(format!("layout {class} {layout:?}"));
        }
        fn end(&mut self, objects: u64) {
            self.0.push(format!("end {objects}"));
        }
    }

    fn stream() -> Vec<u8> {
        let mut numbers = vec![RANGE, FROZEN, 0x1000, 96];
        numbers.extend([CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 1, 0x71]);
        numbers.extend([CLASS, 0x71, ARRAY_CLASS, 0x70, 0x12, 1]);
        numbers.extend([FIRST_CLASS, 22, distance(0x1000, 0x1018), distance(0x1000, 0x1000), 0]);
        numbers.extend([
            FIRST_CLASS + 1,
            24,
            distance(0x1018, 0x1000),
            0,
            CONTENT,
            9,
            3,
            7,
            0,
            1,
            GAP,
            24,
            BROKEN,
            0x1048,
            ROOT,
            HANDLE_ROOT,
            0x1018,
            0x55,
            END,
            2,
        ]);
        written(&numbers)
    }

    #[test]
    fn records_come_out_whole_however_the_stream_was_cut() {
        let mut whole = Seen::default();
        let mut decoder = HeapDecoder::default();
        decoder.push((&stream()).into(), &mut whole).unwrap();
        assert!(decoder.has_ended());
        let objects =
            ["object 0x1000 0 22", "to 0x1018", "to 0x1000", "object 0x1018 1 24", "to 0x1000", "content 9 [7, 0, 1]"];
        assert_eq!(whole.0[3..9], objects);
        assert_eq!(whole.0[9], "gap 0x1030 24");
        assert_eq!(whole.0[11], "root 2 0x1018 0x55");
        for step in [1, 2, 3, 7] {
            let (mut seen, mut decoder) = (Seen::default(), HeapDecoder::default());
            stream().chunks(step).for_each(|piece| decoder.push(piece.into(), &mut seen).unwrap());
            assert_eq!(seen, whole, "in pieces of {step}");
        }
    }

    #[test]
    fn objects_of_a_class_with_a_form_are_reported_without_what_they_have_in_common() {
        let mut numbers = vec![RANGE, 2, 0x1000, 200, CLASS, 0x70, UNKNOWN_CLASS, 0, CLASS, 0x80, UNKNOWN_CLASS, 0];
        numbers.extend([FIRST_CLASS, 32, distance(0x1000, 0x1020), 0, FORM, 0, 32, 2, FORM, 1, 0, 0]);
        numbers.extend([FIRST_CLASS, 0, distance(0x1020, 0x1000), FIRST_CLASS + 1, 26, CONTENT, 4, 2, 7, 9]);
        numbers.extend([LENGTHY, FIRST_CLASS, 40, distance(0x1060, 0x1040), 0]);
        numbers.extend([FIRST_CLASS, distance(0x1088, 0x1000), distance(0x1088, 0x1088), END, 5]);
        let mut whole = Seen::default();
        HeapDecoder::default().push((&written(&numbers)).into(), &mut whole).unwrap();
        let expected = [
            "object 0x1000 0 32",
            "to 0x1020",
            "object 0x1020 0 32",
            "to 0x1000",
            "object 0x1040 1 26",
            "content 4 [7, 9]",
            "object 0x1060 0 40",
            "to 0x1040",
            "object 0x1088 0 32",
            "to 0x1000",
            "to 0x1088",
            "end 5",
        ];
        assert_eq!(whole.0[3..], expected);
        for step in [1, 2, 5] {
            let (mut seen, mut decoder) = (Seen::default(), HeapDecoder::default());
            written(&numbers).chunks(step).for_each(|piece| decoder.push(piece.into(), &mut seen).unwrap());
            assert_eq!(seen, whole, "in pieces of {step}");
        }
    }

    #[test]
    fn values_and_layouts_come_out_as_they_were_reported() {
        let mut seen = Seen::default();
        let class = [CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 0];
        let layout = [CLASS, 0, LAYOUT, 32, 2, 2, 0x0400_0001, 8, 0x0400_0002, 16];
        let object = [FIRST_CLASS, 32, 0, VALUES, 16, 2, 7, 9];
        HeapDecoder::default().push((&written(&[&class[..], &layout, &object].concat())).into(), &mut seen).unwrap();
        let fields = vec![(0x0400_0001, 8), (0x0400_0002, 16)];
        let reported = Layout { bytes: 32, count: 2, fields };
        assert_eq!(
            seen.0[1..],
            [format!("layout 0 {reported:?}"), "object 0x0 0 32".into(), "values 16 [7, 9]".into()]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_nothing_comes_behind_the_end() {
        let refused = |numbers: &[u64]| {
            let mut decoder = HeapDecoder::default();
            decoder.push((&written(numbers)).into(), &mut Seen::default()).is_err()
        };
        assert!(refused(&[FIRST_CLASS, 24]), "a class that was never told");
        assert!(refused(&[FIRST_CLASS - 1]), "no such record");
        assert!(refused(&[FORM, 0, 24, 0]), "of a class that was never told");
        assert!(refused(&[CLASS, 1, UNKNOWN_CLASS, 0, FORM, 0, 24, MOST_PLACES as u64 + 1]));
        assert!(refused(&[LENGTHY, GAP]), "what is no object");
        assert!(refused(&[CLASS, 0, LAYOUT, 24, 0, 0]), "of a class that was never told");
        assert!(refused(&[CLASS, 1, UNKNOWN_CLASS, 0, CLASS, 0, LAYOUT, 24, 0, LAYOUT_FIELDS as u64 + 1]));
        let classes = |count: u64| [CLASS, 1, UNKNOWN_CLASS, 0].repeat(count as usize);
        assert!(!refused(&classes(MOST_CLASSES)) && refused(&classes(MOST_CLASSES + 1)));
        assert!(refused(&[VALUES, 2, 3, 0, 0, 0]), "more than there is");
        assert!(refused(&[VALUES, u64::MAX, MOST_VALUES + 1]), "more than is ever told");
        assert!(refused(&[CONTENT, 2, 3, 0, 0, 0]), "more than there is");
        assert!(refused(&[CONTENT, u64::MAX, MOST_CONTENT + 1]), "more than is ever told");
        assert!(refused(&[CLASS, 1, PLAIN_CLASS, 1, 1, 0, MOST_ARGUMENTS + 1]));
        assert!(refused(&[RANGE, 0, u64::MAX - 7, 8, GAP, 64]));
        assert!(refused(&[END, 0, GAP, 8]));
        let mut decoder = HeapDecoder::default();
        assert!(decoder.push([0xff; 11].as_slice().into(), &mut Seen::default()).is_err());
    }
}
