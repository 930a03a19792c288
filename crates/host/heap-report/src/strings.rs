//! Duplicate strings of a snapshot with characters.

use crate::Error;
use crate::columns::{Columns, more};
use crate::open::read_file;
use remora_heap::{Duplicates, Repeated};
use remora_heap_file::{Text, texts};
use remora_terminal::size::shown;
use remora_terminal::{Page, counted, grouped, line, titled};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// Characters shown of a text in a table.
const SHOWN: usize = 60;
/// Characters shown of a selected string.
const SHOWN_OF_ONE: usize = 4096;
/// Maximum texts read for one report.
const MOST_REPEATED: usize = 1000;

/// Strings that share their text.
pub(crate) struct Strings {
    all: Duplicates,
    most: Vec<(Repeated, String)>,
}

/// The JSON output.
#[derive(Debug, Serialize)]
pub(crate) struct StringsJson {
    count: u64,
    bytes: u64,
    different: u64,
    /// Bytes saved if each text existed once.
    wasted: u64,
    /// Strings not compared: too long to be stored whole.
    not_compared: u64,
    /// The texts that waste most, largest first.
    repeated: Vec<RepeatedJson>,
}

#[derive(Debug, Serialize)]
struct RepeatedJson {
    text: String,
    count: u64,
    bytes: u64,
    wasted: u64,
}

impl Strings {
    /// Reads all strings of a snapshot.
    pub(crate) fn of(file: &Path) -> Result<Strings, Error> {
        let mut all = Duplicates::default();
        each(file, |text| all.add(text.address, text.bytes, text.is_whole().then_some(text.utf16)))?;
        let most = all.most(MOST_REPEATED);
        let mut known: HashMap<u64, String> = most.iter().map(|one| (one.address, String::new())).collect();
        each(file, |text| {
            if let Some(place) = known.get_mut(&text.address) {
                *place = text.text();
            }
        })?;
        let most = most.into_iter().map(|one| (one, known.remove(&one.address).unwrap_or_default())).collect();
        Ok(Strings { all, most })
    }

    /// As JSON.
    pub(crate) fn json(&self) -> StringsJson {
        let repeated = self.most.iter().map(|(one, text)| RepeatedJson {
            text: text.clone(),
            count: one.count,
            bytes: one.bytes,
            wasted: one.wasted,
        });
        StringsJson {
            count: self.all.count,
            bytes: self.all.bytes,
            different: self.all.different(),
            wasted: self.all.wasted(),
            not_compared: self.all.passed_over,
            repeated: repeated.collect(),
        }
    }

    /// As text.
    pub(crate) fn text(&self, top: usize) -> Page {
        let mut page = titled(format!(
            "strings: {} of {}, {} different texts; {} would be saved if each were there once",
            counted(self.all.count, "string"),
            shown(self.all.bytes),
            grouped(self.all.different()),
            shown(self.all.wasted()),
        ));
        if !self.most.is_empty() {
            let columns = Columns { numbers: &["wasted", "strings"], texts: &["text"] };
            let row = |(one, text): &(Repeated, String)| [shown(one.wasted), grouped(one.count), quoted(text, SHOWN)];
            page += columns.table(self.most.iter().take(top).map(row)).render();
            page += match self.all.repeated() as usize {
                // Beyond this number no text was read.
                all if top >= MOST_REPEATED => more(all.min(MOST_REPEATED), top),
                all => more(all, top),
            };
        }
        if self.all.passed_over > 0 {
            page += line(format!("{} too long to be compared", counted(self.all.passed_over, "string")));
        }
        page
    }
}

/// The text of one string, if the snapshot has it.
pub(crate) fn text_at(file: &Path, address: u64) -> Result<Option<String>, Error> {
    let mut found = None;
    each(file, |text| {
        if text.address == address {
            found = Some(of_one(&text));
        }
    })?;
    Ok(found)
}

/// The stored part of a text, quoted as in C#.
pub(crate) fn of_one(text: &Text<'_>) -> String {
    let shown = quoted(&text.text(), SHOWN_OF_ONE);
    if text.is_whole() {
        return shown;
    }
    format!("{shown} (the beginning of {} characters)", grouped(text.characters))
}

fn each(file: &Path, visit: impl FnMut(Text<'_>)) -> Result<(), Error> {
    read_file(file, |input| texts(input, visit))
}

/// A text quoted as in C#, in one line.
fn quoted(text: &str, longest: usize) -> String {
    let cut: String = text.chars().take(longest).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    let escaped =
        cut.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    format!("\"{escaped}{more}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_in_one_line_and_no_longer_than_it_may_be() {
        assert_eq!(quoted("a\"b\n", 60), "\"a\\\"b\\n\"");
        assert_eq!(quoted("abcdef", 3), "\"abc…\"");
    }
}
