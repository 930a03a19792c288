//! Dominators and retained sizes of ten million objects.

use crate::Outcome;
use crate::bench::Bench;
use crate::graphs::{self, Shape};
use crate::table::Row;
use serde_json::json;

/// Memory limit, MiB: for the graph, its construction, and the tree.
const MEMORY_BAR: f64 = 1024.0;

/// Measures both graphs.
pub fn measure(_: &mut Bench) -> Outcome<Vec<Row>> {
    Ok(vec![row(Shape::Local, "a heap's locality", 4.0)?, row(Shape::Uniform, "references to anywhere", 12.0)?])
}

fn row(shape: Shape, about: &str, seconds_bar: f64) -> Outcome<Row> {
    let measured = graphs::in_a_process(shape)?;
    let millions = |count: u64| count as f64 / 1e6;
    let what = format!(
        "dominators and retained sizes, {:.1} million objects, {:.1} million references, {about}",
        millions(measured.objects),
        millions(measured.references)
    );
    let result = format!(
        "{:.2} s ({:.2} s of CPU time); {:.2} s more for the report's findings; peak {:.0} MiB; before that, {:.1} s to build the graph and {:.1} s to infer {} roots",
        measured.dominators.clock,
        measured.dominators.processor,
        measured.findings.clock,
        measured.peak,
        measured.build.clock,
        measured.infer.clock,
        measured.roots
    );
    let met = measured.dominators.clock <= seconds_bar && measured.peak <= MEMORY_BAR;
    Ok(Row::shown(&what, result)
        .against(&format!("{seconds_bar:.0} s and 1 GiB or less"), met)
        .numbers(json!(measured)))
}
