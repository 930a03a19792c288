//! Static fields. The reader finds out from files which types have static fields. Only the runtime knows their addresses, and the forked
//! copy can ask it.
//!
//! So the reader writes questions into the shared memory. The copy answers them after its walk, in one piece for some fields of one type.
//! The numbers are encoded as in the stream:
//! ```text
//! question  word 0: ModuleID, or ClassID if no method is given
//!           word 1: mdMethodDef of a method of the type, or 0; in the upper half how many fields follow
//!           a word for each field: mdFieldDef, and in the upper half whether its value may be read
//! answer    1, the number of the question, the number of the first field, and for each field
//!           an HRESULT with the reason; or 0, its address, then 0, or 1 and the bytes from there to the end of their 8-byte word
//! the end   0, how many questions were read
//! ```
//! A type without any answer is not loaded.

use crate::Foreign;
use crate::reader::{Malformed, Reader, Stop};

/// Fields in one answer, at most.
pub const FIELDS_AT_ONCE: usize = 28;

/// The class that declares the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The class with this ClassID.
    Class(u64),
    /// The class that declares a method, if it is loaded.
    OfMethod {
        /// ModuleID.
        module: u64,
        /// mdMethodDef.
        method: u32,
    },
}

/// A field in a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// mdFieldDef.
    pub field: u32,
    /// Whether to read its value; otherwise only its address.
    pub reads: bool,
}

/// The words of a question.
pub fn question(owner: Owner, fields: &[Asked]) -> impl Iterator<Item = u64> {
    let (first, method) = match owner {
        Owner::Class(class) => (class, 0),
        Owner::OfMethod { module, method } => (module, method),
    };
    let head = [first, u64::from(method) | (fields.len() as u64) << 32];
    head.into_iter().chain(fields.iter().map(|asked| u64::from(asked.field) | u64::from(asked.reads) << 32))
}

/// The head of a question, and how many fields follow.
pub fn head(words: [u64; 2]) -> (Owner, u32) {
    let owner = match words[1] as u32 {
        0 => Owner::Class(words[0]),
        method => Owner::OfMethod { module: words[0], method },
    };
    (owner, (words[1] >> 32) as u32)
}

/// A field of a question.
pub fn asked(word: u64) -> Asked {
    Asked { field: word as u32, reads: word >> 32 != 0 }
}

/// The place of a static field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its address.
    pub address: u64,
    /// Its value, if it was to be read.
    pub value: Option<u64>,
}

/// A decoded piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Places of some fields of one question, or the reasons why they have none.
    Fields {
        /// Number of the question, from 0 on.
        question: u64,
        /// Number of the first field in this piece.
        first: u64,
        /// One for each field; an HRESULT if it has no place.
        places: Vec<Result<Place, u32>>,
    },
    /// The last piece, with the number of questions that were read.
    End(u64),
}

/// Reads a piece.
///
/// # Errors
/// [`Malformed`].
pub fn answer(bytes: Foreign<&[u8]>) -> Result<Answer, Malformed> {
    let mut reader = Reader { bytes: bytes.unchecked(), at: 0 };
    read(&mut reader).map_err(|_| Malformed)
}

fn read(reader: &mut Reader<'_>) -> Result<Answer, Stop> {
    match reader.number()? {
        0 => return Ok(Answer::End(reader.number()?)),
        1 => {}
        _ => return Err(Stop::Bad),
    }
    let (question, first, mut places) = (reader.number()?, reader.number()?, Vec::new());
    while !reader.is_at_end() {
        if places.len() == FIELDS_AT_ONCE {
            return Err(Stop::Bad);
        }
        places.push(match u32::try_from(reader.number()?).map_err(|_| Stop::Bad)? {
            0 => {
                let address = reader.number()?;
                let value = (reader.number()? != 0).then(|| reader.number()).transpose()?;
                Ok(Place { address, value })
            }
            code => Err(code),
        });
    }
    Ok(Answer::Fields { question, first, places })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written;

    #[test]
    fn a_question_is_read_as_it_was_put() {
        let fields = [Asked { field: 0x0400_0001, reads: true }, Asked { field: 0x0400_0007, reads: false }];
        for owner in [Owner::Class(0x7fff_0000_1230), Owner::OfMethod { module: 0x7f11, method: 0x0600_0002 }] {
            let words: Vec<u64> = question(owner, &fields).collect();
            assert_eq!(head([words[0], words[1]]), (owner, 2));
            assert_eq!([asked(words[2]), asked(words[3])], fields);
        }
    }

    #[test]
    fn an_answer_tells_places_values_and_why_not() {
        let reported = written(&[1, 5, 28, 0, 0x7f00, 1, 42, 0x8013_1355, 0, 0x7f10, 0]);
        let places = vec![
            Ok(Place { address: 0x7f00, value: Some(42) }),
            Err(0x8013_1355),
            Ok(Place { address: 0x7f10, value: None }),
        ];
        assert_eq!(answer((&reported).into()), Ok(Answer::Fields { question: 5, first: 28, places }));
        assert_eq!(answer((&written(&[0, 9])).into()), Ok(Answer::End(9)));
    }

    #[test]
    fn what_makes_no_sense_is_no_answer() {
        let too_many = [&[1, 0, 0][..], &[1; FIELDS_AT_ONCE + 1]].concat();
        for numbers in
            [&[][..], &[0], &[2, 0, 0], &[1, 0], &[1, 0, 0, 0], &[1, 0, 0, 0, 5, 1], &[1, 0, 0, 1 << 40], &too_many]
        {
            assert_eq!(answer((&written(numbers)).into()), Err(Malformed), "{numbers:?}");
        }
    }
}
