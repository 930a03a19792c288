//! Two graphs of ten million objects, built and measured in a separate process, so that its peak memory is the graph's alone.

mod findings;

use crate::Outcome;
use crate::process::cpu_time;
use clap::ValueEnum;
use fastrand::Rng;
use remora_heap::{Builder, DominatorTree, HeapGraph, Object, TypeIx};
use remora_heap_file::{State, TypeRow, Writer};
use remora_heap_stream::{CLASS, END, FIRST_CLASS, GAP, PLAIN_CLASS, RANGE, distance, written};
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write};
use std::process::Command;
use std::time::Instant;

/// Objects of a graph.
pub const OBJECTS: u64 = 10_000_000;
/// References of an object, on average.
pub const REFERENCES: u64 = 3;
/// Address of the first object.
const BASE: u64 = 0x7f00_0000_0000;
/// Distance between two objects.
const STRIDE: u64 = 64;

/// Classes in a written snapshot.
const CLASSES: u64 = 64;

/// How objects refer to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// As in a heap: every second object has no references, and the others mostly refer to objects allocated at about the same time.
    Local,
    /// Each object refers to three, any of them.
    Uniform,
}

/// The measurements of one graph.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Measured {
    /// Objects.
    pub objects: u64,
    /// References.
    pub references: u64,
    /// Roots, all inferred.
    pub roots: u64,
    /// Time to build the graph, including the generation of its objects.
    pub build: Took,
    /// Time to infer the roots.
    pub infer: Took,
    /// Time for dominators and retained sizes.
    pub dominators: Took,
    /// Time for the automatic findings of a report, including its table of types.
    pub findings: Took,
    /// Peak memory of the process, MiB, over all of this.
    pub peak: f64,
}

/// A duration.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Took {
    /// Seconds of wall-clock time.
    pub clock: f64,
    /// Seconds of CPU time, on all threads.
    pub processor: f64,
}

/// Runs the measurement in a new process of this program, and parses its output.
pub fn in_a_process(shape: Shape) -> Outcome<Measured> {
    let name = format!("{shape:?}").to_lowercase();
    let output = Command::new(std::env::current_exe()?).args(["measure-graph", &name]).output()?;
    if !output.status.success() {
        return Err(format!("the process with the {name} graph ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The main function of that process, for a graph of `objects` objects.
pub fn measure(shape: Shape, objects: u64) -> Outcome<()> {
    let (graph, build) = timed(|| build(shape, objects));
    let mut graph = graph?;
    let (roots, infer) = timed(|| graph.infer_roots() as u64);
    let (tree, dominators) = timed(|| DominatorTree::new(&graph));
    let (kinds, findings) = timed(|| findings::look(&graph, &tree));
    if kinds < 4 {
        return Err("there is something to be found of each kind".into());
    }
    let all: u64 = graph.objects().map(|object| graph.bytes(object)).sum();
    if tree.retained(tree.root()) != all || tree.unreached().is_some() {
        return Err("the root does not retain everything".into());
    }
    let (objects, references) = (graph.object_count() as u64, graph.reference_count() as u64);
    let measured = Measured { objects, references, roots, build, infer, dominators, findings, peak: peak()? };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Took) {
    let used = || cpu_time(std::process::id());
    let (begun, before) = (Instant::now(), used());
    let done = work();
    (done, Took { clock: begun.elapsed().as_secs_f64(), processor: used() - before })
}

fn build(shape: Shape, objects: u64) -> Outcome<HeapGraph> {
    let mut chance = Rng::with_seed(20);
    let mut builder = Builder::new();
    findings::add_types(&mut builder)?;
    for index in 0..objects {
        let type_ix = TypeIx(index as u32 % findings::TYPES);
        let object = Object { address: BASE + index * STRIDE, type_ix, bytes: 24 + 8 * chance.usize(..5) as u64 };
        let count = match shape {
            Shape::Uniform => REFERENCES,
            Shape::Local if chance.usize(..2) == 0 => 0,
            Shape::Local => 1 + chance.usize(..4 * REFERENCES as usize - 1) as u64,
        };
        builder.add_object(object, (0..count).map(|_| BASE + target(shape, index, objects, &mut chance) * STRIDE))?;
    }
    Ok(builder.finish()?)
}

/// Writes a snapshot of `objects` objects with a heap's locality, as a forked copy would send it; returns the number of references.
pub fn write(objects: u64, out: impl Write) -> Outcome<u64> {
    let mut chance = Rng::with_seed(20);
    let mut writer = Writer::create(BufWriter::with_capacity(1 << 20, out))?;
    writer.stream(&written(&[RANGE, 2, BASE, objects * STRIDE]))?;
    for class in 0..CLASSES {
        writer.stream(&written(&[CLASS, class, PLAIN_CLASS, 0x80, class, 0, 0]))?;
    }
    let mut references = 0;
    for index in 0..objects {
        let (address, bytes) = (BASE + index * STRIDE, 24 + 8 * chance.usize(..5) as u64);
        let count = if chance.usize(..2) == 0 { 0 } else { 1 + chance.usize(..4 * REFERENCES as usize - 1) as u64 };
        references += count;
        let mut object = vec![FIRST_CLASS + index % CLASSES, bytes];
        object.extend(
            (0..count).map(|_| distance(address, BASE + target(Shape::Local, index, objects, &mut chance) * STRIDE)),
        );
        object.extend([0, GAP, STRIDE - bytes]);
        writer.stream(&written(&object))?;
    }
    writer.stream(&written(&[END, objects]))?;
    let row =
        |class| TypeRow { name: format!("Bench.Node{class}"), assembly: "Bench".to_owned(), ..TypeRow::default() };
    writer.types(&(0..CLASSES).map(row).collect::<Vec<_>>())?;
    writer.finish(&State { application: "Bench".to_owned(), complete: true, ..State::default() })?;
    Ok(references)
}

fn target(shape: Shape, index: u64, objects: u64, chance: &mut Rng) -> u64 {
    let reach = match chance.usize(..100) {
        _ if shape == Shape::Uniform => objects,
        0..85 => 64,
        85..97 => 16_384,
        _ => objects,
    };
    let low = index.saturating_sub(reach / 2).min(objects - reach);
    low + chance.usize(..reach as usize) as u64
}

/// Peak resident memory of this process, MiB.
fn peak() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    let kibibytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes / 1024.0)
}
