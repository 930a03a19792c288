//! Query parameters. Invalid ones are refused, not corrected.

use super::{MOST_ROWS, NoAnswer};
use crate::Index;
use crate::index::Id;
use std::collections::BTreeMap;
use std::ops::Range;

/// Default number of rows.
const ROWS: u64 = 50;
/// Maximum length of a search text, bytes.
const LONGEST: usize = 4096;

/// The part after `?`.
#[derive(Debug, Default)]
pub(super) struct Query {
    fields: BTreeMap<String, String>,
}

impl Query {
    pub(super) fn of(text: &str) -> Result<Query, NoAnswer> {
        let mut fields = BTreeMap::new();
        for field in text.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let value = decoded(value).filter(|value| value.len() <= LONGEST);
            fields.insert(name.to_owned(), value.ok_or_else(|| senseless(name))?);
        }
        Ok(Query { fields })
    }

    /// A parameter's value; empty if missing.
    pub(super) fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// The node of parameter `id`; all of the heap without it.
    pub(super) fn id(&self, index: &Index) -> Result<Id, NoAnswer> {
        if !self.fields.contains_key("id") {
            return Ok(index.all());
        }
        let number = u32::try_from(self.number("id", 0)?).map_err(|_| senseless("id"))?;
        index.id(number).ok_or(NoAnswer::Unknown)
    }

    /// The node of parameter `id`, which must be an object.
    pub(super) fn object(&self, index: &Index) -> Result<Id, NoAnswer> {
        let id = self.id(index)?;
        if u64::from(id.0) < index.objects() { Ok(id) } else { Err(NoAnswer::Unknown) }
    }

    /// The index of the type in parameter `type`.
    pub(super) fn type_ix(&self, index: &Index) -> Result<usize, NoAnswer> {
        let place = self.number("type", u64::MAX)?;
        let known = usize::try_from(place).ok().filter(|place| *place < index.types().len());
        known.ok_or(NoAnswer::Unknown)
    }

    /// The range of parameters `from` and `count`.
    pub(super) fn places(&self) -> Result<Range<u64>, NoAnswer> {
        let from = self.number("from", 0)?;
        let count = self.number("count", ROWS)?;
        if count > MOST_ROWS {
            return Err(NoAnswer::Senseless(format!("count is {MOST_ROWS} at the most")));
        }
        // No list is longer.
        if from > u32::MAX.into() {
            return Err(senseless("from"));
        }
        Ok(from..from + count)
    }

    fn number(&self, name: &str, otherwise: u64) -> Result<u64, NoAnswer> {
        let Some(text) = self.fields.get(name) else { return Ok(otherwise) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or_else(|| senseless(name))
    }
}

fn senseless(name: &str) -> NoAnswer {
    NoAnswer::Senseless(format!("{name} makes no sense"))
}

/// `%41+b` is `A b`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_and_broken_ones_refused() {
        let query = Query::of("text=a%20b+%3Cc%3e%D1%88&empty=&bare").expect("it makes sense");
        assert_eq!((query.text("text"), query.text("empty"), query.text("other")), ("a b <c>ш", "", ""));
        for broken in ["text=%", "text=%4", "text=%zz", "text=%ff", &format!("text={}", "a".repeat(LONGEST + 1))] {
            assert!(matches!(Query::of(broken), Err(NoAnswer::Senseless(_))), "{broken:.20}");
        }
    }

    #[test]
    fn absurd_places_are_refused() {
        let places = |text: &str| Query::of(text).and_then(|query| query.places());
        assert_eq!(places("").expect("it makes sense"), 0..ROWS);
        assert_eq!(places("from=7&count=500").expect("it makes sense"), 7..507);
        assert_eq!(places("from=4294967295").expect("it makes sense").start, u64::from(u32::MAX));
        let absurd = [
            "count=501",
            "count=18446744073709551616",
            "from=4294967296",
            "from=-1",
            "from=+1",
            "from=1e3",
            "from=",
            "count=0x10",
        ];
        for text in absurd {
            assert!(matches!(places(text), Err(NoAnswer::Senseless(_))), "{text}");
        }
    }
}
