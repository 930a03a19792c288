//! Thrown exceptions by type and application method, as text and JSON.

use super::method::{Method, name, place, without_parameters};
use crate::console::{Page, counted, grouped, line};
use remora_profile::{ApplicationRule, Profile, ThrownFrom};
use remora_terminal::Table;
use serde::Serialize;

/// The table; nothing if exceptions were not watched.
pub(crate) fn exceptions(profile: &Profile, rule: &ApplicationRule, top: usize) -> Page {
    let Some(thrown) = thrown(profile) else { return Page::default() };
    let recorded = profile.thrown().len() as u64;
    let mut text = counted(thrown, "exception") + " thrown while they were watched";
    if recorded < thrown {
        text += &format!("; the stacks of {} are known", grouped(recorded));
    }
    let rows = ThrownFrom::all(profile, rule);
    if rows.is_empty() {
        return line(text);
    }
    let mut table = Table::new(&["thrown", "threads", "exception", "application method", "line"]);
    (0..2).for_each(|column| table.align_right(column));
    let (shown, others) = rows.split_at(top.min(rows.len()));
    for row in shown {
        let (method, at) = row.frame.map_or_else(
            || (format!("none; {}", without_parameters(name(profile, row.thrower))), String::new()),
            |frame| (without_parameters(name(profile, frame)).to_owned(), place(profile, frame)),
        );
        let exception = profile.text(row.exception).to_owned();
        table.row([grouped(row.count), row.threads.to_string(), exception, method, at]);
    }
    let more = others.iter().map(|row| row.count).fold(0, u64::saturating_add);
    table.more(others.len(), [grouped(more)], (2, ""));
    line(text) + table.render()
}

/// Exceptions while they were watched, `None` if they were not. An interrupted recording may have more than its last state says.
fn thrown(profile: &Profile) -> Option<u64> {
    let recorded = profile.thrown().len() as u64;
    profile.meta.exceptions.map(|thrown| thrown.max(recorded)).or((recorded > 0).then_some(recorded))
}

/// The same in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ExceptionsJson<'a> {
    /// All while they were watched.
    thrown: u64,
    /// Those whose stack is known.
    recorded: u64,
    /// The most frequent ones.
    by_method: Vec<ThrownJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ThrownJson<'a> {
    exception: &'a str,
    count: u64,
    threads: usize,
    /// The application method nearest to the throw.
    method: Option<Method<'a>>,
    /// The method that threw.
    thrower: Method<'a>,
}

impl<'a> ExceptionsJson<'a> {
    /// `None` if exceptions were not watched.
    pub(crate) fn of(profile: &'a Profile, rule: &ApplicationRule, top: usize) -> Option<ExceptionsJson<'a>> {
        let of_row = |row: &ThrownFrom| ThrownJson {
            exception: profile.text(row.exception),
            count: row.count,
            threads: row.threads,
            method: row.frame.map(|frame| Method::at(profile, frame)),
            thrower: Method::at(profile, row.thrower),
        };
        Some(ExceptionsJson {
            thrown: thrown(profile)?,
            recorded: profile.thrown().len() as u64,
            by_method: ThrownFrom::all(profile, rule).iter().take(top).map(of_row).collect(),
        })
    }
}
