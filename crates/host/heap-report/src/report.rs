//! `remora heap report`: the content of a snapshot and its dominators, as text or JSON.

use super::condition::{self, Condition, Outcome, Verdict};
use super::fields::Fields;
use super::findings::{FindingsJson, Shown, Waits, sections, subscribers};
use super::free::{self, FreeJson};
use super::origin::origin;
use super::strings::{Strings, StringsJson};
use crate::Error;
use crate::columns::{Columns, sum};
use crate::holders::{Holders, holders};
use crate::in_short::MOST;
use crate::notes::notes;
use crate::roots;
use crate::suspects::{self, SuspectJson, Suspects};
use crate::totals::TotalsJson;
use remora_heap::findings::{Findings, Looked};
use remora_heap::suspects::Suspect;
use remora_heap::tables::{AssemblyRow, Totals, TypeRow, by_assembly, by_type};
use remora_heap::{DominatorTree, HeapGraph, Node, ObjectIx};
use remora_heap_file::Snapshot;
use remora_terminal::duration::show;
use remora_terminal::size::shown;
use remora_terminal::{Page, counted, grouped, line, percent, titled};
use serde::Serialize;
use std::path::Path;

/// A snapshot and data derived from it.
pub struct Report<'a> {
    snapshot: &'a Snapshot,
    tree: DominatorTree,
    rows: Vec<TypeRow>,
    assemblies: Vec<AssemblyRow>,
    findings: Findings,
    suspects: Vec<Suspect>,
    /// If the snapshot has their characters.
    strings: Option<Strings>,
    outcomes: Vec<Outcome>,
}

/// The JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Whether it has every object.
    complete: bool,
    /// Whether it includes garbage, because no GC ran.
    garbage: bool,
    process_id: u32,
    application: String,
    runtime: String,
    taken_unix_nanoseconds: u64,
    /// The pause for the GC, including the fork.
    collection_nanoseconds: Option<u64>,
    /// The fork's part of that.
    fork_nanoseconds: Option<u64>,
    /// The copy's largest observed memory cost.
    extra_memory_bytes: Option<u64>,
    objects: u64,
    bytes: u64,
    references: u64,
    /// Bytes between objects.
    free_bytes: u64,
    /// The part of that in each generation of the GC.
    free_in: FreeJson,
    /// Whether it has all static fields that the runtime could be asked about.
    static_fields: bool,
    /// Roots by kind. No root of kind `inferred` was seen.
    roots: std::collections::BTreeMap<&'static str, u64>,
    types: Vec<TypeJson>,
    assemblies: Vec<AssemblyJson>,
    holders: Vec<HolderJson>,
    /// The answer in one line, as at the end of the text; null if there is none.
    in_short: Option<String>,
    suspects: Vec<String>,
    suspect_details: Vec<SuspectJson>,
    /// The findings.
    findings: FindingsJson,
    notes: Vec<String>,
    /// Duplicate strings; null without `--strings`.
    strings: Option<StringsJson>,
    /// The result of each `--fail-if`.
    conditions: Vec<ConditionJson>,
}

#[derive(Debug, Serialize)]
struct ConditionJson {
    condition: String,
    /// Name and assembly of the type that is meant; null for the whole heap, or if none is.
    r#type: Option<String>,
    assembly: Option<String>,
    /// The snapshot's value, bytes or objects.
    value: u64,
    /// `met`, `not-met`, `not-proven`: objects missing from the snapshot could change it, or `no-type`: none or several are meant.
    outcome: &'static str,
}

#[derive(Debug, Serialize)]
struct TypeJson {
    r#type: String,
    assembly: String,
    #[serde(flatten)]
    totals: TotalsJson,
}

#[derive(Debug, Serialize)]
struct AssemblyJson {
    /// Empty if unknown.
    assembly: String,
    #[serde(flatten)]
    totals: TotalsJson,
}

#[derive(Debug, Serialize)]
struct HolderJson {
    address: u64,
    r#type: String,
    bytes: u64,
    retained: u64,
    retained_count: u64,
    /// The root's kind and details; null if no root was seen.
    held_by: Option<String>,
}

/// The suspects and findings of a snapshot, as in the JSON of its report.
#[derive(Debug, Serialize)]
pub struct Found {
    suspects: Vec<SuspectJson>,
    findings: FindingsJson,
}

impl Found {
    /// Looks for them. `file` is the snapshot's file.
    ///
    /// # Errors
    /// [`Error`].
    pub fn of(file: &Path, snapshot: &Snapshot, tree: &DominatorTree) -> Result<Found, Error> {
        let (graph, state) = (&snapshot.graph, &snapshot.state);
        let fields = Fields::of(file, snapshot)?;
        let found = Findings::new(Looked { graph, tree, rows: &by_type(graph, tree), values: &fields });
        fields.end()?;
        let all = suspects::find(graph, tree);
        let suspects = Suspects { graph, tree, state, subscriptions: &found.subscriptions, all: &all }.json();
        let shown = Shown { findings: &found, graph, bytes: tree.retained(tree.root()), top: 0 };
        Ok(Found { suspects, findings: FindingsJson::of(&shown) })
    }
}

/// The rows of the first table of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Group {
    /// A row for each type.
    Type,
    /// A row for each assembly.
    Assembly,
}

impl Group {
    /// The names to parse.
    pub const NAMES: &[&str] = <Group as strum::VariantNames>::VARIANTS;
}

impl<'a> Report<'a> {
    /// Computes the report and the conditions. `file` is the snapshot's file.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(
        file: &Path,
        snapshot: &'a Snapshot,
        tree: DominatorTree,
        conditions: &[Condition],
    ) -> Result<Report<'a>, Error> {
        let rows = by_type(&snapshot.graph, &tree);
        let outcomes = condition::evaluate(conditions, snapshot, &rows);
        let assemblies = by_assembly(&snapshot.graph, &tree);
        let fields = Fields::of(file, snapshot)?;
        let findings = Findings::new(Looked { graph: &snapshot.graph, tree: &tree, rows: &rows, values: &fields });
        fields.end()?;
        let suspects = suspects::find(&snapshot.graph, &tree);
        let strings = if snapshot.state.has_texts { Some(Strings::of(file)?) } else { None };
        Ok(Report { snapshot, tree, rows, assemblies, findings, suspects, strings, outcomes })
    }

    /// The first condition that holds, with the snapshot's value.
    pub fn condition_met(&self) -> Option<String> {
        let met = self.outcomes.iter().find(|outcome| outcome.verdict == Verdict::Met);
        met.map(Outcome::to_string)
    }

    /// The first condition that the snapshot does not decide, with the snapshot's value.
    pub fn condition_not_proven(&self) -> Option<String> {
        let open = self.outcomes.iter().find(|outcome| outcome.verdict == Verdict::NotProven);
        open.map(Outcome::to_string)
    }

    /// The first condition whose type is unknown or ambiguous, and why.
    pub fn condition_without_type(&self) -> Option<String> {
        let outcome = self.outcomes.iter().find(|outcome| outcome.verdict == Verdict::NoType)?;
        Some(format!("{}: {outcome}", outcome.verdict.words()))
    }

    fn graph(&self) -> &HeapGraph {
        &self.snapshot.graph
    }

    fn bytes(&self) -> u64 {
        self.tree.retained(self.tree.root())
    }

    /// The biggest dominators: objects with no dominator but the root.
    fn holders(&self, top: usize) -> Vec<Node> {
        // Unreached objects have a node above them that is no object.
        let most = self.tree.biggest(self.tree.root(), top + 1).into_iter();
        most.filter(|node| self.tree.object(*node).is_some()).take(top).collect()
    }

    /// As JSON: all types, and `top` dominators.
    pub fn summary(&self, top: usize) -> Summary {
        let (state, graph) = (&self.snapshot.state, self.graph());
        let mut roots = std::collections::BTreeMap::new();
        graph.roots().iter().for_each(|root| *roots.entry(root.kind.name()).or_insert(0) += 1);
        let types = self.rows.iter().map(|row| {
            let known = graph.type_at(row.type_ix);
            TypeJson { r#type: known.name.clone(), assembly: known.assembly.clone(), totals: row.totals.into() }
        });
        let assemblies = self.assemblies.iter();
        let assemblies =
            assemblies.map(|row| AssemblyJson { assembly: row.assembly.clone(), totals: row.totals.into() });
        let conditions = self.outcomes.iter().map(|outcome| ConditionJson {
            condition: outcome.condition.clone(),
            r#type: outcome.of.as_ref().map(|of| of.name.clone()),
            assembly: outcome.of.as_ref().map(|of| of.assembly.clone()),
            value: outcome.value,
            outcome: outcome.verdict.name(),
        });
        let holders = self.holders(top).into_iter().filter_map(|node| {
            let object = self.tree.object(node)?;
            Some(HolderJson {
                address: graph.address(object),
                r#type: graph.shown_type_of(object).into_owned(),
                bytes: graph.bytes(object),
                retained: self.tree.retained(node),
                retained_count: self.tree.retained_count(node),
                held_by: roots::holder(graph, object),
            })
        });
        Summary {
            complete: self.snapshot.is_complete(),
            garbage: state.has_garbage,
            process_id: state.process_id,
            application: state.application.clone(),
            runtime: state.runtime.clone(),
            taken_unix_nanoseconds: state.taken_unix_nanoseconds,
            collection_nanoseconds: state.collection_nanoseconds,
            fork_nanoseconds: state.copy_nanoseconds,
            extra_memory_bytes: state.extra_memory_bytes,
            objects: graph.object_count() as u64,
            bytes: self.bytes(),
            references: graph.reference_count() as u64,
            free_bytes: self.snapshot.free_bytes,
            free_in: self.snapshot.free_in.into(),
            static_fields: state.has_static_fields,
            roots,
            types: types.collect(),
            assemblies: assemblies.collect(),
            holders: holders.collect(),
            in_short: self.in_short(Waits::of(&self.shown(0)).as_ref()),
            suspects: self.suspects().sentences(),
            suspect_details: self.suspects().json(),
            findings: FindingsJson::of(&self.shown(top)),
            notes: self.notes(),
            strings: self.strings.as_ref().map(Strings::json),
            conditions: conditions.collect(),
        }
    }

    /// As text.
    pub fn text(&self, by: Group, top: usize) -> Page {
        let (state, mut text) = (&self.snapshot.state, self.head());
        let waits = Waits::of(&self.shown(top));
        let first = waits.as_ref().filter(|waits| self.come_first(waits));
        text += first.map(|waits| line("") + waits.page.clone()).unwrap_or_default();
        text += self.suspects().text();
        text += subscribers(&self.shown(top));
        match by {
            Group::Type => {
                text += titled("types, by retained size");
                text += self.type_table(top);
            }
            Group::Assembly => {
                text += titled("assemblies, by what would go with the objects of their types");
                text += self.assembly_table(top);
            }
        }
        text += titled("holders: objects that no other object alone keeps");
        text += self.holder_table(top);
        text += self.strings.as_ref().map(|strings| strings.text(top)).unwrap_or_default();
        text += sections(&self.shown(top), waits.as_ref(), first.is_some());
        if state.has_garbage {
            text += titled("No GC ran: these objects include garbage, and objects without a holder may be garbage.");
        } else if let Some(sentence) = roots::sentence(self.graph()) {
            text += titled(sentence);
        }
        for note in self.notes() {
            text += line(format!("note: {note}"));
        }
        for outcome in &self.outcomes {
            text += line(format!("{}: {outcome}", outcome.verdict.words()));
        }
        text + self.in_short(waits.as_ref()).map(|answer| line(format!("in short: {answer}"))).unwrap_or_default()
    }

    /// Those of the snapshot, and that types have no names.
    fn notes(&self) -> Vec<String> {
        let unnamed = condition::unnamed(self.snapshot, &self.rows);
        let unnamed = unnamed.fold(0, |sum: u64, row| sum.saturating_add(row.totals.count));
        let note = || {
            format!(
                "{} objects are of types without names: their assembly was loaded without a file, or .NET does not describe them",
                grouped(unnamed)
            )
        };
        notes(self.snapshot).into_iter().chain((unnamed > 0).then(note)).collect()
    }

    /// Whether pending async methods matter more than what the heap holds.
    fn come_first(&self, waits: &Waits) -> bool {
        waits.are_first(self.suspects.first().map_or(0, |suspect| suspect.retained))
    }

    /// What accumulates and where, or what async methods wait for, or else the type with the largest retained size.
    fn in_short(&self, waits: Option<&Waits>) -> Option<String> {
        let first = waits.filter(|waits| self.come_first(waits)).map(|waits| waits.in_short.clone());
        let answers: Vec<String> = first.into_iter().chain(self.suspects().in_short()).take(MOST).collect();
        if !answers.is_empty() {
            return Some(answers.join("; "));
        }
        let row = self.rows.first()?;
        let (of, part) = (self.graph().shown_type(row.type_ix), percent(row.totals.retained, self.bytes()));
        Some(format!("no suspect; most is in {} × {of} ({part})", grouped(row.totals.count)))
    }

    fn head(&self) -> Page {
        let (state, graph) = (&self.snapshot.state, self.graph());
        let whole = if self.snapshot.is_complete() { "" } else { "NOT all of the heap: " };
        let size = format!(
            "{whole}{} in {}, {}; {}",
            shown(self.bytes()),
            counted(graph.object_count() as u64, "object"),
            counted(graph.reference_count() as u64, "reference"),
            match state.has_garbage {
                true => "garbage included".to_owned(),
                false => format!("{} free between them", shown(self.snapshot.free_bytes)),
            },
        );
        let mut text = line(origin(state)) + line(size);
        if !state.has_garbage {
            text += free::text(self.snapshot, self.bytes());
        }
        if let (Some(collection), Some(copy)) = (state.collection_nanoseconds, state.copy_nanoseconds) {
            let cost =
                state.extra_memory_bytes.map(|bytes| format!("; the copy cost {} of memory at most", shown(bytes)));
            let (collection, copy, cost) = (show(collection), show(copy), cost.unwrap_or_default());
            text += line(format!("paused the application for {collection} (fork: {copy}){cost}"));
        }
        text
    }

    fn type_table(&self, top: usize) -> Page {
        self.totals(["type"], &self.rows, top, |row| (row.totals, self.graph().shown_type(row.type_ix).into_owned()))
    }

    fn assembly_table(&self, top: usize) -> Page {
        self.totals(["assembly"], &self.assemblies, top, |row| {
            let name = if row.assembly.is_empty() { "[not known]" } else { &row.assembly };
            (row.totals, name.to_owned())
        })
    }

    fn totals<T>(&self, of: [&str; 1], rows: &[T], top: usize, row: impl Fn(&T) -> (Totals, String)) -> Page {
        let columns = Columns { numbers: &["retained", "", "own", "objects"], texts: &of };
        let cells = |one: &T| {
            let (Totals { retained, bytes, count, .. }, name) = row(one);
            [shown(retained), percent(retained, self.bytes()), shown(bytes), grouped(count), name]
        };
        // What they retain has no sum: a part of it is in what others retain.
        let together = |others: &[T]| {
            let own = sum(others, |one| row(one).0.bytes);
            vec![String::new(), String::new(), shown(own), grouped(sum(others, |one| row(one).0.count))]
        };
        columns.top_with_sums(rows, top, cells, together).render()
    }

    fn shown(&self, top: usize) -> Shown<'_> {
        Shown { findings: &self.findings, graph: self.graph(), bytes: self.bytes(), top }
    }

    fn suspects(&self) -> Suspects<'_> {
        let subscriptions = &self.findings.subscriptions;
        let (graph, tree, state) = (self.graph(), &self.tree, &self.snapshot.state);
        Suspects { graph, tree, state, subscriptions, all: &self.suspects }
    }

    /// What `remora heap show` should show first: the type that accumulates, if it is the application's; otherwise what holds most.
    pub fn most_wanted(&self) -> Option<String> {
        let graph = self.graph();
        let own = |suspect: &Suspect| {
            let of = suspect.content?.of;
            let known = graph.type_at(of);
            suspects::of_application(&known.assembly, &known.name).then(|| graph.shown_type(of).into_owned())
        };
        let object = |object: ObjectIx| format!("@{:#x}", graph.address(object));
        let held = || Some(object(self.tree.object(*self.holders(1).first()?)?));
        let first = self.suspects.first();
        first.and_then(own).or_else(|| Some(object(*first?.holders.first()?))).or_else(held)
    }

    /// Holders of one type with the same root share a row, without an address: the reader sees each kind of holder once.
    fn holder_table(&self, top: usize) -> Page {
        let columns = Columns { numbers: &["retained", "", "own", "objects kept"], texts: &["object", "held by"] };
        let rows = holders(self.graph(), &self.tree);
        let cells = |row: &Holders| {
            [
                shown(row.retained),
                percent(row.retained, self.bytes()),
                shown(row.own),
                grouped(row.retained_count),
                row.name(self.graph()),
                row.held_by.clone().unwrap_or_default(),
            ]
        };
        // No holder keeps what another one keeps.
        let together = |others: &[Holders]| {
            let retained = sum(others, |row| row.retained);
            let (own, count) = (sum(others, |row| row.own), sum(others, |row| row.retained_count));
            vec![shown(retained), percent(retained, self.bytes()), shown(own), grouped(count)]
        };
        let mut table = columns.top_with_sums(&rows, top, cells, together);
        table.let_last_go_below();
        table.render()
    }
}
