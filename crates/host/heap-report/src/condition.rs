//! `--fail-if`: conditions on a snapshot that count as failure, such as `retained("MyApp.Cache") > 500MB`.
//!
//! A condition is a measure, an operator and a bound. Measures are `bytes("T")`, `count("T")` and `retained("T")` of a type, by its name or
//! by that without namespaces, and `bytes()` and `count()` of the whole heap. An unknown or ambiguous type is an error. Several conditions need
//! several flags.

use crate::selection::{Owner, select_type};
use remora_heap::tables::{Totals, TypeRow};
use remora_heap_file::Snapshot;
use remora_terminal::size;
use remora_terminal::{counted, grouped};
use std::fmt;

/// A parsed condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its source text.
    text: String,
    measure: Measure,
    /// Its type; the whole heap if none.
    of: Option<String>,
    operator: Operator,
    bound: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
enum Measure {
    Bytes,
    Count,
    Retained,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Longer operators first: each begins with a shorter one.
const OPERATORS: [(&str, Operator); 4] =
    [(">=", Operator::AtLeast), ("<=", Operator::AtMost), (">", Operator::Above), ("<", Operator::Below)];

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Verdict {
    Met,
    NotMet,
    /// The snapshot is incomplete, or objects are of types without names, and these objects could change the result.
    NotProven,
    /// No type, or more than one, is meant.
    NoType,
}

impl Verdict {
    /// For JSON.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// For text, at the beginning of a line.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Verdict::Met => "--fail-if is met",
            Verdict::NotMet => "--fail-if is not met",
            Verdict::NotProven => {
                "--fail-if is not proven, neither way, since this is not all of the heap, or types in it have no names"
            }
            Verdict::NoType => "--fail-if cannot be evaluated",
        }
    }
}

/// The result of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) condition: String,
    pub(crate) value: u64,
    pub(crate) verdict: Verdict,
    is_count: bool,
    /// The type that is meant; `None` for the whole heap.
    pub(crate) of: Option<Owner>,
    /// Why no type is meant.
    pub(crate) no_type: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.no_type {
            return write!(out, "{}: {why}", self.condition);
        }
        let has = match (self.is_count, self.value) {
            (true, count) => counted(count, "object"),
            (false, bytes @ ..1024) => format!("{bytes} B"),
            (false, bytes) => format!("{} ({} B)", size::shown(bytes), grouped(bytes)),
        };
        match &self.of {
            Some(of) => write!(out, "{}: here {has} of {}", self.condition, of.name),
            None => write!(out, "{}: here {has}", self.condition),
        }
    }
}

/// Evaluates every condition.
pub(crate) fn evaluate(conditions: &[Condition], snapshot: &Snapshot, rows: &[TypeRow]) -> Vec<Outcome> {
    conditions.iter().map(|condition| condition.evaluate(snapshot, rows)).collect()
}

/// The rows of types without names: the runtime does not describe them, or their assembly has no file.
pub(crate) fn unnamed<'a>(snapshot: &'a Snapshot, rows: &'a [TypeRow]) -> impl Iterator<Item = &'a TypeRow> {
    rows.iter().filter(|row| {
        let name = &snapshot.graph.type_at(row.type_ix).name;
        name.contains("[unnamed type") || name.starts_with("[unknown")
    })
}

impl Condition {
    fn evaluate(&self, snapshot: &Snapshot, rows: &[TypeRow]) -> Outcome {
        let meant = self.of.as_ref().map(|of| select_type(snapshot, of)).transpose();
        let is_of = |row: &TypeRow, owner: &Owner| {
            let of = snapshot.graph.type_at(row.type_ix);
            of.name == owner.name && of.assembly == owner.assembly
        };
        let value = |meant: &Option<Owner>| {
            let meant = rows.iter().filter(|row| meant.as_ref().is_none_or(|owner| is_of(row, owner)));
            meant.map(|row| self.measured(&row.totals)).fold(0, u64::saturating_add)
        };
        let value = meant.as_ref().map_or(0, value);
        let holds = self.operator.holds(value, self.bound);
        // Objects of types without names can be of the type that is meant.
        let others = unnamed(snapshot, rows).map(|row| self.measured(&row.totals)).fold(value, u64::saturating_add);
        let is_known = self.of.is_none() || self.operator.holds(others, self.bound) == holds;
        let verdict = match (&meant, holds, snapshot.is_complete() && is_known || self.stays(holds)) {
            (Err(_), ..) => Verdict::NoType,
            (_, true, true) => Verdict::Met,
            (_, false, true) => Verdict::NotMet,
            (_, _, false) => Verdict::NotProven,
        };
        let is_count = self.measure == Measure::Count;
        let (of, no_type) = meant.map_or_else(|why| (None, Some(why)), |of| (of, None));
        Outcome { condition: self.text.clone(), value, verdict, is_count, of, no_type }
    }

    fn measured(&self, totals: &Totals) -> u64 {
        match self.measure {
            Measure::Bytes => totals.bytes,
            Measure::Count => totals.count,
            Measure::Retained => totals.retained,
        }
    }

    /// Whether missing objects could not change the result. They can only add to counts and bytes.
    /// They can change retained sizes either way. A missing object may retain more. It may also be a second referrer of an object that
    /// seems to have one.
    fn stays(&self, holds: bool) -> bool {
        let grows_into_it = matches!(self.operator, Operator::Above | Operator::AtLeast);
        self.measure != Measure::Retained && holds == grows_into_it
    }
}

impl Operator {
    fn holds(self, value: u64, bound: u64) -> bool {
        match self {
            Operator::Above => value > bound,
            Operator::AtLeast => value >= bound,
            Operator::Below => value < bound,
            Operator::AtMost => value <= bound,
        }
    }
}

/// Parses a condition, or returns the position of the error.
pub fn parse(text: &str) -> Result<Condition, String> {
    let mut cursor = Cursor { text, at: 0 };
    let measure = cursor.measure()?;
    cursor.symbol("(")?;
    let of = cursor.type_name()?;
    if measure == Measure::Retained && of.is_none() {
        return Err(cursor.expected("a type in quotes (all of the heap is bytes())"));
    }
    cursor.symbol(")")?;
    let operator = cursor.operator()?;
    let bound = cursor.bound(measure)?;
    Ok(Condition { text: text.trim().to_owned(), measure, of, operator, bound })
}

/// A position in the text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The unread text after spaces.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let rest = rest.trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn expected(&mut self, what: &str) -> String {
        let rest = self.rest();
        let column = self.text[..self.at].chars().count() + 1;
        let found = if rest.is_empty() { "the end".to_owned() } else { format!("`{rest}`") };
        format!("at character {column} there is {found}, and {what} is expected")
    }

    fn measure(&mut self) -> Result<Measure, String> {
        let rest = self.rest();
        let word = &rest[..rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len())];
        let measure = word.parse().map_err(|_| self.expected("bytes, count or retained"))?;
        self.at += word.len();
        Ok(measure)
    }

    fn symbol(&mut self, symbol: &str) -> Result<(), String> {
        if !self.rest().starts_with(symbol) {
            return Err(self.expected(&format!("`{symbol}`")));
        }
        self.at += symbol.len();
        Ok(())
    }

    /// A type in single or double quotes: those that the shell leaves. An empty pair of parentheses means all types.
    fn type_name(&mut self) -> Result<Option<String>, String> {
        let rest = self.rest();
        let Some(quote @ ('"' | '\'')) = rest.chars().next() else {
            return if rest.starts_with(')') { Ok(None) } else { Err(self.expected("a type in quotes, or `)`,")) };
        };
        let Some(length) = rest[1..].find(quote) else { return Err(self.expected("a type in quotes that are closed")) };
        let name = &rest[1..=length];
        if name.is_empty() {
            return Err(self.expected("the name of a type"));
        }
        self.at += length + 2;
        Ok(Some(name.to_owned()))
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let rest = self.rest();
        let found = OPERATORS.into_iter().find(|(symbol, _)| rest.starts_with(symbol));
        let (symbol, operator) = found.ok_or_else(|| self.expected("one of > >= < <="))?;
        self.at += symbol.len();
        Ok(operator)
    }

    fn bound(&mut self, measure: Measure) -> Result<u64, String> {
        let rest = self.rest();
        match measure {
            Measure::Count => rest.trim_end().parse().map_err(|_| self.expected("a number of objects")),
            Measure::Bytes | Measure::Retained => {
                size::parse(rest.trim_end()).map_err(|why| format!("{}: {why}", self.expected("a size")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap::{Builder, DominatorTree, Object, RootKind, Type, TypeFlags};
    use remora_heap_file::State;

    /// A cache that retains two texts, and a third that it shares with a user. One type is in two assemblies.
    fn snapshot(complete: bool) -> Snapshot {
        let mut builder = Builder::new();
        let names = [("App.Cache", "App"), ("string", "Core"), ("App.User", "App"), ("App.User", "Other")];
        for (name, assembly) in names {
            let flags = TypeFlags::default();
            builder.add_type(Type { name: name.into(), assembly: assembly.into(), flags }).expect("there is room");
        }
        let mut add = |address, type_ix, bytes, to: &[u64]| {
            let object = Object { address, type_ix: remora_heap::TypeIx(type_ix), bytes };
            builder.add_object(object, to.iter().copied()).expect("there is room");
        };
        add(0x1000, 0, 40, &[0x2000, 0x2100, 0x2200]);
        add(0x1100, 2, 24, &[0x2200]);
        add(0x1200, 3, 26, &[]);
        [0x2000, 0x2100, 0x2200].into_iter().for_each(|address| add(address, 1, 1000, &[]));
        for root in [0x1000, 0x1100, 0x1200] {
            builder.add_root(root, RootKind::Static).expect("there is room");
        }
        Snapshot {
            roots_unnamed: 0,
            statics_left_out: 0,
            statics: Vec::new(),
            graph: builder.finish().expect("there is room"),
            free_bytes: 0,
            free_in: [0; 5],
            state: State { complete, ..State::default() },
            whole: true,
            unknown_chunks: 0,
            torn_bytes: 0,
        }
    }

    fn outcome(text: &str, complete: bool) -> Outcome {
        let snapshot = snapshot(complete);
        let rows = remora_heap::tables::by_type(&snapshot.graph, &DominatorTree::new(&snapshot.graph));
        parse(text).expect(text).evaluate(&snapshot, &rows)
    }

    #[test]
    fn regression_a_condition_passed_while_objects_of_its_type_had_no_name() {
        let mut snapshot = snapshot(true);
        let mut builder = Builder::new();
        for name in ["App.Item", "[unnamed type 0x02000003]"] {
            let (assembly, flags) = ("App".into(), TypeFlags::default());
            builder.add_type(Type { name: name.into(), assembly, flags }).expect("there is room");
        }
        for of in 0..2 {
            let object =
                Object { address: 0x1000 + 0x100 * u64::from(of), type_ix: remora_heap::TypeIx(of), bytes: 24 };
            builder.add_object(object, []).expect("there is room");
            builder.add_root(object.address, RootKind::Static).expect("there is room");
        }
        snapshot.graph = builder.finish().expect("there is room");
        let rows = remora_heap::tables::by_type(&snapshot.graph, &DominatorTree::new(&snapshot.graph));
        let verdict = |text: &str| parse(text).expect(text).evaluate(&snapshot, &rows).verdict;
        assert_eq!(verdict("count(\"App.Item\") > 1"), Verdict::NotProven);
        assert_eq!(verdict("count(\"App.Item\") > 2"), Verdict::NotMet, "not even with the other one");
        assert_eq!(verdict("count(\"App.Item\") < 2"), Verdict::NotProven);
        assert_eq!(verdict("count(\"App.Item\") >= 1"), Verdict::Met, "others can only add to it");
        assert_eq!(verdict("count() > 2"), Verdict::NotMet, "all objects are known");
    }

    #[test]
    fn every_measure_is_that_of_the_graph() {
        let cases = [
            ("bytes(\"string\") > 1", 3000),
            ("count(\"string\") > 1", 3),
            ("retained(\"App.Cache\") > 1", 2040),
            ("retained(\"string\") > 1", 3000),
            ("bytes() > 1", 3090),
            ("count() > 1", 6),
            ("bytes(\"App.User, Other\") > 1", 26),
            ("retained(\"Cache\") > 1", 2040),
        ];
        for (text, value) in cases {
            assert_eq!(outcome(text, true).value, value, "{text}");
        }
    }

    #[test]
    fn a_type_that_is_unknown_or_ambiguous_is_no_pass() {
        for (text, why) in [
            ("count('App.Gone') < 1", "no object of this snapshot is of a type called App.Gone"),
            ("count('App.User') > 1", "App.User is part of the names of 2 types; give one whole with its assembly"),
            ("retained('string[]') > 1", "no object of this snapshot is of a type called string[]"),
            // A part of one name only.
            ("retained('App.Cach') > 1GB", "no object of this snapshot is of a type called App.Cach"),
            ("count('ache') > 0", "no object of this snapshot is of a type called ache"),
        ] {
            for complete in [true, false] {
                let outcome = outcome(text, complete);
                assert_eq!(outcome.verdict, Verdict::NoType, "{text}");
                assert!(outcome.no_type.as_ref().is_some_and(|said| said.starts_with(why)), "{outcome}");
            }
        }
    }

    #[test]
    fn the_result_names_the_type_that_is_meant() {
        let outcome = outcome("retained('Cache') > 1", true);
        assert!(outcome.to_string().ends_with("(2,040 B) of App.Cache"), "{outcome}");
        let unknown = self::outcome("count('ache') > 0", true).to_string();
        assert!(unknown.ends_with("; these have it in their names: App.Cache"), "{unknown}");
    }

    #[test]
    fn operators_and_units_mean_what_they_say() {
        let met = ["> 2999", ">= 3000", "< 3001", "<= 3000", ">2KB", "< 3KiB", "<1GiB", "<= 1MB", "<1 MiB"];
        let not = ["> 3000", ">= 3001", "< 3000", "<= 2999", "> 3KB", "< 2KiB", ">1GB", ">= 1GiB"];
        for (bounds, verdict) in [(&met[..], Verdict::Met), (&not[..], Verdict::NotMet)] {
            for bound in bounds {
                assert_eq!(outcome(&format!("bytes('string') {bound}"), true).verdict, verdict, "{bound}");
            }
        }
    }

    #[test]
    fn part_of_a_heap_proves_what_more_objects_cannot_change() {
        let cases = [
            ("bytes() > 3000", Verdict::Met),
            ("bytes() > 4000", Verdict::NotProven),
            ("count('App.User, App') >= 3", Verdict::NotProven),
            ("count() < 6", Verdict::NotMet),
            ("count() <= 6", Verdict::NotProven),
            ("count() >= 6", Verdict::Met),
            ("retained('App.Cache') < 2000", Verdict::NotProven),
            ("retained('App.Cache') > 2000", Verdict::NotProven),
            ("retained('App.Cache') > 3000", Verdict::NotProven),
        ];
        for (text, verdict) in cases {
            assert_eq!(outcome(text, false).verdict, verdict, "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused_where_it_is_none() {
        let cases = [
            ("", "at character 1 there is the end, and bytes, count or retained is expected"),
            ("size() > 1", "at character 1 there is `size() > 1`, and bytes, count or retained is expected"),
            ("bytes > 1", "at character 7 there is `> 1`, and `(` is expected"),
            ("bytes(App) > 1", "at character 7 there is `App) > 1`, and a type in quotes, or `)`, is expected"),
            (
                "bytes(\"Шоп) > 1",
                "at character 7 there is `\"Шоп) > 1`, and a type in quotes that are closed is expected",
            ),
            ("bytes(\"\") > 1", "at character 7 there is `\"\") > 1`, and the name of a type is expected"),
            ("bytes(\"Шоп\" > 1", "at character 13 there is `> 1`, and `)` is expected"),
            ("bytes(\"A\") = 1", "at character 12 there is `= 1`, and one of > >= < <= is expected"),
            (
                "bytes() >",
                "at character 10 there is the end, and a size is expected: write it as 500MB, 1GiB, or a number of bytes",
            ),
            (
                "bytes() > 1XB",
                "at character 11 there is `1XB`, and a size is expected: write it as 500MB, 1GiB, or a number of bytes",
            ),
            ("count() > 1MB", "at character 11 there is `1MB`, and a number of objects is expected"),
            ("count() > 1 or", "at character 11 there is `1 or`, and a number of objects is expected"),
            (
                "retained() > 1",
                "at character 10 there is `) > 1`, and a type in quotes (all of the heap is bytes()) is expected",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text), Err(message.to_owned()), "{text}");
        }
    }
}
