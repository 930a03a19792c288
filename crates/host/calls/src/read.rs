//! Reads the table of the tracer.

use crate::model::{Allocation, Calls, Cost, LongCall, Losses, Method, MethodIx, Node, NodeIx, Thread, ThreadIx};
use remora_call_table::{Kind, NodeId, Table, Text, Value, ValuesPlace, layout};
use remora_wire::method_trace::{Parameter, TraceValue};
use std::collections::HashMap;

/// Bytes of a name, at most: a hostile table may name each of its methods by the same long text.
const LONGEST_NAME: usize = 1024;
/// Bytes of the texts of a method's parameters, at most.
const LONGEST_PARAMETERS: usize = 4096;

/// The time of the end, on both clocks of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Instant {
    /// The time stamp counter.
    pub ticks: u64,
    /// The monotonic clock, nanoseconds.
    pub monotonic: u64,
}

/// Ticks as nanoseconds.
#[derive(Clone, Copy)]
struct Scale {
    nanoseconds_a_tick: f64,
}

impl Scale {
    fn of(self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanoseconds_a_tick) as u64
    }
}

/// What a node's number means.
#[derive(Clone, Copy)]
enum Leaf {
    Method(MethodIx),
    /// Index of an allocated type.
    Type(usize),
}

/// A node as it is in the table.
struct Raw {
    id: NodeId,
    parent: Option<usize>,
    thread: ThreadIx,
    method: MethodIx,
    calls: u64,
    ticks: u64,
    child_ticks: u64,
    longest: u64,
    exceptions: u64,
    is_active: bool,
}

impl Calls {
    /// Reads `table`, of which a target may have made anything.
    pub fn read(table: &Table<'_>, now: Instant) -> Calls {
        let (started, began) = (table.header(layout::STARTED), table.header(layout::STARTED_MONOTONIC));
        let uses_counter = table.header(layout::TIME_STAMP_COUNTER) != 0;
        let end = if uses_counter { now.ticks } else { now.monotonic };
        let duration = if began == 0 { 0 } else { now.monotonic.saturating_sub(began) };
        let ticks = end.saturating_sub(started).max(1);
        let scale = Scale { nanoseconds_a_tick: if uses_counter { duration as f64 / ticks as f64 } else { 1.0 } };
        let cost = |word| table.header(word).min(1 << 40) as f64 / 256.0 * scale.nanoseconds_a_tick;
        let mut calls = Calls {
            duration,
            cost: Cost { inside: cost(layout::COST_INSIDE), outside: cost(layout::COST_OUTSIDE) },
            losses: losses(table),
            long_from: scale.of(table.header(layout::LONG_TICKS)),
            considered: table.header(layout::CONSIDERED),
            inlining_refused: table.header(layout::INLINING_REFUSED),
            counts_objects: table.header(layout::ALLOCATIONS) != 0,
            has_values: table.header(layout::HAS_VALUES) != 0,
            ..Calls::default()
        };
        let leaves = methods(table, &mut calls);
        let mut raw = nodes(table, &leaves, &mut calls);
        end_active(table, &mut raw, end);
        calls.nodes = corrected(&raw, calls.cost, scale);
        let index: HashMap<NodeId, usize> = raw.iter().enumerate().map(|(index, raw)| (raw.id, index)).collect();
        calls.long = long_calls(table, &index, (started, scale));
        calls
    }
}

fn losses(table: &Table<'_>) -> Losses {
    let on_threads = table.header(layout::LOST_THREADS);
    Losses {
        calls: table.header(layout::LOST).saturating_add(on_threads),
        on_threads,
        long: table.header(layout::LONG_TAKEN).saturating_sub(layout::LONG_CALLS as u64),
        late: table.header(layout::FOUND_LATE),
        unmatched: table.header(layout::UNMATCHED),
        methods: table.header(layout::NOT_HOOKED),
        shared_threads: table.header(layout::SHARED_THREADS),
        damaged: table.header(layout::STRANGE),
        panics: table.header(layout::PANICS),
        objects: table.header(layout::LOST_OBJECTS),
        object_bytes: table.header(layout::LOST_BYTES),
        values_beyond: table.header(layout::VALUES_BEYOND),
        values: table.header(layout::VALUES_LOST),
        values_refused: table.header(layout::VALUES_REFUSED),
    }
}

/// Adds methods and types. Returns what each number means: the records of one method are merged, and those of types with one name.
fn methods(table: &Table<'_>, calls: &mut Calls) -> HashMap<u32, Leaf> {
    let mut known: HashMap<(String, String, u32), MethodIx> = HashMap::new();
    let mut types: HashMap<String, usize> = HashMap::new();
    let mut indexes = HashMap::new();
    let mut paths: HashMap<u32, String> = HashMap::new();
    // The first is the calibration's.
    for (number, method) in table.methods().skip(1) {
        let path =
            || table.module(method.module).map(|module| text(table, module.path, LONGEST_NAME)).unwrap_or_default();
        let module = paths.entry(method.module).or_insert_with(path).clone();
        let name = text(table, method.name, LONGEST_NAME);
        if method.is_type() {
            let index = *types.entry(name.clone()).or_insert(calls.types.len());
            if index == calls.types.len() {
                calls.types.push(name);
            }
            indexes.insert(number.0, Leaf::Type(index));
            continue;
        }
        let index = *known.entry((module.clone(), name.clone(), method.token)).or_insert_with(|| {
            let parameters = text(table, method.parameters, LONGEST_PARAMETERS);
            let parameters = parameters.lines().map(Parameter::of_text).collect();
            calls.methods.push(Method { name, module, token: method.token, lost: 0, parameters });
            MethodIx(calls.methods.len() as u32 - 1)
        });
        let lost = &mut calls.methods[index.0 as usize].lost;
        *lost = lost.saturating_add(method.lost);
        indexes.insert(number.0, Leaf::Method(index));
    }
    indexes
}

fn text(table: &Table<'_>, text: Text, longest: usize) -> String {
    let mut bytes = Vec::new();
    table.text(text, |byte| {
        if bytes.len() < longest {
            bytes.push(byte);
        }
    });
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Adds the threads and what they allocated. Returns their nodes, callers first.
fn nodes(table: &Table<'_>, leaves: &HashMap<u32, Leaf>, calls: &mut Calls) -> Vec<Raw> {
    let mut children: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for (id, node) in table.nodes().filter(|(_, node)| node.parent() != NodeId(0)) {
        children.entry(node.parent()).or_default().push(id);
    }
    let mut found: Vec<Raw> = Vec::new();
    for (_, record) in table.threads() {
        let Some(outermost) = children.remove(&record.root()) else { continue };
        let thread = ThreadIx(calls.threads.len() as u32);
        let (name, length) = record.name();
        let name = String::from_utf8_lossy(name.get(..length).unwrap_or_default()).into_owned();
        calls.threads.push(Thread { id: record.system_id() as u32, name });
        let mut pending: Vec<(Option<usize>, NodeId)> = outermost.into_iter().map(|id| (None, id)).collect();
        // Each node has one parent, and its children are taken out of the map: this ends.
        while let Some((parent, id)) = pending.pop() {
            let Some(node) = table.node(id) else { continue };
            let method = match leaves.get(&node.method()) {
                Some(Leaf::Method(method)) => *method,
                Some(Leaf::Type(ty)) => {
                    let by = parent.map(|parent| NodeIx(parent as u32));
                    let (objects, bytes) = (node.calls(), node.ticks());
                    calls.allocations.push(Allocation { by, thread, ty: *ty, objects, bytes });
                    continue;
                }
                None => {
                    calls.losses.damaged = calls.losses.damaged.saturating_add(1);
                    continue;
                }
            };
            let index = found.len();
            found.push(Raw {
                id,
                parent,
                thread,
                method,
                calls: node.calls(),
                ticks: node.ticks(),
                child_ticks: node.child_ticks(),
                longest: node.longest(),
                exceptions: node.exceptions(),
                is_active: false,
            });
            pending.extend(children.remove(&id).into_iter().flatten().map(|child| (Some(index), child)));
        }
    }
    found
}

/// Counts the time of the calls that have not ended.
fn end_active(table: &Table<'_>, raw: &mut [Raw], end: u64) {
    let index: HashMap<NodeId, usize> = raw.iter().enumerate().map(|(index, raw)| (raw.id, index)).collect();
    let mut visited = vec![false; raw.len()];
    for (_, record) in table.threads() {
        let end = record.ended().unwrap_or(end);
        let mut id = record.current();
        while let (Some(&at), Some(node)) = (index.get(&id), table.node(id)) {
            // A node belongs to one thread: another one that names it would walk its callers again.
            if std::mem::replace(&mut visited[at], true) {
                break;
            }
            if let Some(start) = node.active_since() {
                let ticks = end.saturating_sub(start);
                let active = &mut raw[at];
                active.is_active = true;
                active.ticks = active.ticks.saturating_add(ticks);
                active.longest = active.longest.max(ticks);
                if let Some(parent) = active.parent {
                    raw[parent].child_ticks = raw[parent].child_ticks.saturating_add(ticks);
                }
            }
            id = node.parent();
        }
    }
}

/// Takes the cost of the hooks out. A call's own time has its own cost inside, and that of its callees outside.
fn corrected(raw: &[Raw], cost: Cost, scale: Scale) -> Vec<Node> {
    let mut callee_calls = vec![0_u64; raw.len()];
    for node in raw {
        if let Some(parent) = node.parent {
            callee_calls[parent] = callee_calls[parent].saturating_add(node.calls);
        }
    }
    let mut nodes: Vec<Node> = raw
        .iter()
        .zip(&callee_calls)
        .map(|(raw, callees)| {
            let measured = scale.of(raw.ticks.saturating_sub(raw.child_ticks));
            let hooks = raw.calls as f64 * cost.inside + *callees as f64 * cost.outside;
            let own = measured.saturating_sub(hooks as u64);
            Node {
                parent: raw.parent.map(|parent| NodeIx(parent as u32)),
                thread: raw.thread,
                method: raw.method,
                calls: raw.calls,
                total: own,
                own,
                longest: scale.of(raw.longest).saturating_sub(cost.inside as u64),
                exceptions: raw.exceptions,
                is_active: raw.is_active,
            }
        })
        .collect();
    // Callees come after their callers.
    for index in (0..nodes.len()).rev() {
        let total = nodes[index].total;
        if let Some(parent) = nodes[index].parent {
            let parent = &mut nodes[parent.0 as usize];
            parent.total = parent.total.saturating_add(total);
        }
    }
    nodes
}

fn values(table: &Table<'_>, place: ValuesPlace) -> Vec<(u8, TraceValue)> {
    let mut values = Vec::new();
    table.values(place, |value| values.push((value.position, read(&value))));
    values
}

fn read(value: &Value<'_>) -> TraceValue {
    match value.kind {
        Kind::Bool => TraceValue::Bool(value.bits != 0),
        Kind::Char => TraceValue::Char(value.bits as u16),
        Kind::Signed => TraceValue::Signed(value.bits as i64),
        Kind::Unsigned => TraceValue::Unsigned(value.bits as u64),
        Kind::Float => TraceValue::Float(f64::from_bits(value.bits as u64)),
        Kind::Text => TraceValue::Text(String::from_utf16_lossy(&value.units().collect::<Vec<_>>()), value.length),
        Kind::Null => TraceValue::Null,
        Kind::Wide => TraceValue::Wide(value.bits),
    }
}

fn long_calls(table: &Table<'_>, index: &HashMap<NodeId, usize>, (started, scale): (u64, Scale)) -> Vec<LongCall> {
    // Of a table that nobody has damaged, no two calls have the same words.
    let mut words = layout::VALUE_WORDS;
    let known = |call: remora_call_table::LongCall| {
        words = words.saturating_sub(call.values.words());
        let node = index.get(&NodeId(call.node))?;
        Some(LongCall {
            node: NodeIx(*node as u32),
            start: scale.of(call.start.saturating_sub(started)),
            duration: scale.of(call.ticks),
            threw: call.threw,
            values: if words == 0 { Vec::new() } else { values(table, call.values) },
        })
    };
    table.long_calls().filter_map(known).collect()
}
