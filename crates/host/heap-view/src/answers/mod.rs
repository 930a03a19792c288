//! Answers to the page: bounded JSON, lists by pages.
//!
//! Answers contain raw names: the page makes text of them, never markup.

mod groups;
mod map;
mod object;
mod query;
mod row;
mod types;

use crate::{About, Error, Index, List};
use query::Query;
use serde::Serialize;
use serde_json::{Value, json};

/// Maximum rows of a list in one answer.
pub const MOST_ROWS: u64 = 500;

/// A part of a list.
#[derive(Debug, Serialize)]
struct Page<T> {
    /// Length of the list.
    total: u64,
    /// Index of the first row.
    from: u64,
    rows: Vec<T>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// No such query, or no such item.
    Unknown,
    /// An invalid parameter.
    Senseless(String),
    /// The index failed.
    Index(Error),
    /// Another failure.
    Failed(String),
}

impl From<Error> for NoAnswer {
    fn from(error: Error) -> NoAnswer {
        NoAnswer::Index(error)
    }
}

/// Answers `question` about the snapshot in `file`, with the parameters in `query` as in the URL.
pub(crate) fn answer(index: &Index, file: &str, question: &str, query: &str) -> Result<Value, NoAnswer> {
    let query = Query::of(query)?;
    let rows = |list: List| Ok(json!(row::page(index, list, query.places()?)?));
    match question {
        "about" => Ok(about(index, file)),
        "map" => Ok(json!(map::map(index, query.id(index)?)?)),
        "children" => rows(index.record(query.id(index)?)?.children),
        "object" => Ok(json!(object::object(index, query.object(index)?)?)),
        "references" => {
            let from = index.record(query.object(index)?)?;
            Ok(json!(row::references(index, &from, query.places()?)?))
        }
        "referrers" => {
            let id = query.object(index)?;
            Ok(json!(row::referrers(index, (id, &index.record(id)?), query.places()?)?))
        }
        "types" => Ok(json!(types::types(index, &query)?)),
        "type" => Ok(json!(types::TypeRow::at(index, query.type_ix(index)?))),
        "referring" => Ok(json!(types::referring(index, query.type_ix(index)?)?)),
        "objects" => rows(index.of_type(&index.types()[query.type_ix(index)?])?),
        "search" => Ok(json!(object::search(index, &query)?)),
        _ => Err(NoAnswer::Unknown),
    }
}

fn about(index: &Index, file: &str) -> Value {
    // Root details are sent with their objects.
    let about = About { root_notes: Default::default(), ..index.about.clone() };
    json!({
        "about": about,
        "file": file,
        "objects": index.objects(),
        "references": index.references(),
        "types": index.types().iter().filter(|known| known.count > 0).count(),
        "all": index.all().0,
    })
}
