//! An independent reader of pprof files: protobuf's wire format and the published field numbers, sharing nothing with the writer.

use std::collections::BTreeMap;

/// The fields of one message: number, and what stands there.
type Fields<'a> = Vec<(u64, Field<'a>)>;

#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A file with all indexes resolved.
#[derive(Default, Debug)]
pub struct Read {
    pub sample_types: Vec<String>,
    pub default_sample_type: String,
    pub period: String,
    pub time_nanos: u64,
    pub duration_nanos: u64,
    pub comments: Vec<String>,
    /// `file functions,filenames,lines`
    pub mappings: Vec<String>,
    pub samples: Vec<ReadSample>,
}

#[derive(Debug)]
pub struct ReadSample {
    /// `name (file:line) in module`, the leaf first.
    pub stack: Vec<String>,
    pub values: Vec<u64>,
    pub labels: BTreeMap<String, String>,
}

/// Reads an uncompressed file; panics where it breaks the format's rules.
pub fn read(bytes: &[u8]) -> Read {
    let file = fields(bytes);
    let strings: Vec<&str> = all(&file, 6).map(|text| std::str::from_utf8(text).expect("UTF-8")).collect();
    assert_eq!(strings[0], "", "the first text is empty");
    let text = |index: u64| strings[index as usize].to_owned();
    let kind = |message: &[u8]| format!("{}/{}", text(number(&fields(message), 1)), text(number(&fields(message), 2)));
    let mappings = by_id(&file, 3);
    let functions = by_id(&file, 5);
    let locations = by_id(&file, 4);
    let place = |id: u64| {
        let location = &locations[&id];
        let line = fields(all(location, 4).next().expect("a location has a line"));
        let function = &functions[&number(&line, 1)];
        assert_ne!(number(function, 2), number(function, 3), "pprof would shorten the name as if it were C++");
        let module = match number(location, 2) {
            0 => String::new(),
            mapping => format!(" in {}", text(number(&mappings[&mapping], 5))),
        };
        format!("{} ({}:{}){module}", text(number(function, 2)), text(number(function, 4)), number(&line, 2))
    };
    let sample = |message| {
        let sample = fields(message);
        ReadSample {
            stack: numbers(&sample, 1).into_iter().map(place).collect(),
            values: numbers(&sample, 2),
            labels: all(&sample, 3).map(|label| read_label(&fields(label), &text)).collect(),
        }
    };
    let flag = |mapping: &Fields, field| number(mapping, field);
    Read {
        sample_types: all(&file, 1).map(kind).collect(),
        default_sample_type: text(number(&file, 14)),
        period: format!("{} {}", number(&file, 12), all(&file, 11).map(kind).next().expect("a period's type")),
        time_nanos: number(&file, 9),
        duration_nanos: number(&file, 10),
        comments: numbers(&file, 13).into_iter().map(text).collect(),
        mappings: mappings
            .values()
            .map(|mapping| {
                format!("{} {}{}{}", text(number(mapping, 5)), flag(mapping, 7), flag(mapping, 8), flag(mapping, 9))
            })
            .collect(),
        samples: all(&file, 2).map(sample).collect(),
    }
}

fn read_label(label: &Fields, text: &dyn Fn(u64) -> String) -> (String, String) {
    let value = match number(label, 2) {
        0 => number(label, 3).to_string(),
        index => text(index),
    };
    (text(number(label, 1)), value)
}

/// Messages of a kind by their id, which is field 1 and neither 0 nor given twice.
fn by_id<'a>(file: &Fields<'a>, field: u64) -> BTreeMap<u64, Fields<'a>> {
    let mut found = BTreeMap::new();
    for message in all(file, field).map(fields) {
        let id = number(&message, 1);
        assert!(id != 0 && found.insert(id, message).is_none(), "id {id} of field {field}");
    }
    found
}

fn all<'a>(message: &Fields<'a>, wanted: u64) -> impl Iterator<Item = &'a [u8]> {
    message.iter().filter_map(move |(field, value)| match value {
        Field::Bytes(bytes) if *field == wanted => Some(*bytes),
        _ => None,
    })
}

/// A number, 0 if it is absent.
fn number(message: &Fields, wanted: u64) -> u64 {
    let found = message.iter().rev().find_map(|(field, value)| match value {
        Field::Number(number) if *field == wanted => Some(*number),
        _ => None,
    });
    found.unwrap_or(0)
}

/// Repeated numbers, packed.
fn numbers(message: &Fields, wanted: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for mut packed in all(message, wanted) {
        while !packed.is_empty() {
            found.push(varint(&mut packed));
        }
    }
    found
}

fn fields(mut bytes: &[u8]) -> Fields<'_> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content)
            }
            other => panic!("wire type {other} is not used by this format"),
        };
        found.push((key >> 3, value));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number has at most ten bytes")
}
